"""The steps between two matched schemas, in their fixed order.

Interfaces, nodes, edges; types by name; inside a type its rename, metadata, properties by name, property drops and
constraints; types that go away come last in their kind. Properties and constraints have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from omnigraph.schema.catalog import Annotation, EdgeType, InterfaceType, NodeType
from omnigraph.schema.evolve.compare_properties import opaque, property_steps
from omnigraph.schema.evolve.compare_rules import rule_steps
from omnigraph.schema.evolve.match import KINDS, Matching, TypePair
from omnigraph.schema.evolve.refusals import refused
from omnigraph.schema.evolve.steps import (
    AddType,
    DropMode,
    DropType,
    RenameType,
    Step,
    TypeKind,
    UnsupportedChange,
    UpdateTypeMetadata,
)

_METADATA = frozenset({"description", "instruction"})


def steps_between(matching: Matching, mode: DropMode) -> tuple[Step, ...]:
    """Every step of the change, refused ones included."""
    return tuple(step for kind in KINDS for step in _steps_of_kind(matching, kind, mode))


def _steps_of_kind(matching: Matching, kind: TypeKind, mode: DropMode) -> Iterator[Step]:
    prefix = f"{kind}:"
    for entity in sorted(each for each in (*matching.pairs, *matching.added) if each.startswith(prefix)):
        if entity in matching.added:
            yield AddType(kind, entity.removeprefix(prefix))
        else:
            yield from _steps_of_type(matching, matching.pairs[entity], mode)
    for entity in sorted(each for each in matching.dropped if each.startswith(prefix)):
        name = entity.removeprefix(prefix)
        yield refused(entity, f"removing interface '{name}'") if kind == "interface" else DropType(kind, name, mode)


def _steps_of_type(matching: Matching, pair: TypePair, mode: DropMode) -> Iterator[Step]:
    if pair.before.name != pair.after.name:
        yield RenameType(pair.kind, pair.before.name, pair.after.name)
    if not isinstance(pair.before, InterfaceType) and not isinstance(pair.after, InterfaceType):
        yield from _metadata(pair.kind, pair.after.name, pair.before.annotations, pair.after.annotations)
    yield from _header(matching, pair)
    yield from property_steps(pair, mode)
    yield from rule_steps(pair)


def _metadata(kind: TypeKind, name: str, before: Iterable[Annotation], after: Iterable[Annotation]) -> Iterator[Step]:
    texts = tuple(each for each in after if each.name in _METADATA)
    if texts != tuple(each for each in before if each.name in _METADATA):
        yield UpdateTypeMetadata(kind, name, texts)
    if opaque(before) != opaque(after):
        yield refused(f"{kind}:{name}", "changing annotations beyond @description/@instruction")


def _header(matching: Matching, pair: TypePair) -> Iterator[UnsupportedChange]:
    """What the first line of a declaration says besides its name."""
    before, after = pair.before, pair.after
    entity = f"{pair.kind}:{after.name}"
    if isinstance(before, NodeType) and isinstance(after, NodeType):
        implements = _accepted_names(matching, "interface", after.implements)
        if before.implements != tuple(sorted(implements)):
            yield refused(entity, f"changing implemented interfaces on node '{after.name}'")
    if isinstance(before, EdgeType) and isinstance(after, EdgeType):
        if (before.source, before.target) != _accepted_names(matching, "node", (after.source, after.target)):
            yield refused(entity, f"changing edge endpoints on '{after.name}'")
        if before.cardinality != after.cardinality:
            yield refused(entity, f"changing cardinality on edge '{after.name}'")


def _accepted_names(matching: Matching, kind: TypeKind, names: Iterable[str]) -> tuple[str, ...]:
    """The accepted names of types; a new type keeps its own behind a sign that no name holds."""
    return tuple(matching.accepted_name(kind, name) or f"+{name}" for name in names)
