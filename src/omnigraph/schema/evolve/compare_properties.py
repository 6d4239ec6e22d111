"""The steps for the properties of one type: added, renamed, retyped, described, dropped.

A type change is safe when every stored value keeps its meaning and every rule on it keeps its answer; all others are
refused, because planning never looks at rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace

from omnigraph.schema.annotations import KNOWN
from omnigraph.schema.catalog import Annotation, NodeType, Property, PropertyType, Range, Scalar
from omnigraph.schema.evolve.match import TypePair
from omnigraph.schema.evolve.refusals import NEW_REQUIRED, TYPE_CHANGE, refused
from omnigraph.schema.evolve.steps import (
    AddProperty,
    DropMode,
    DropProperty,
    ExtendEnum,
    RelaxProperty,
    RenameProperty,
    Step,
    UpdatePropertyMetadata,
    WidenProperty,
)

_WIDER = {Scalar.I32: Scalar.I64, Scalar.U32: Scalar.U64, Scalar.F32: Scalar.F64}


def property_steps(pair: TypePair, mode: DropMode) -> Iterator[Step]:
    """Properties by name, then drops by name."""
    for name, after in pair.after.properties.items():
        if name in pair.properties:
            yield from _kept(pair, pair.before.properties[pair.properties[name]], after)
        else:
            yield _added(pair, after)
    for name in sorted(pair.before.properties.keys() - pair.properties.values()):
        yield DropProperty(pair.kind, pair.after.name, name, mode)


def _added(pair: TypePair, new: Property) -> Step:
    if new.type.nullable:
        return AddProperty(pair.kind, pair.after.name, new.name, new.type)
    label = f"{pair.after.name}.{new.name}"
    change = f"adding required property '{label}' requires a backfill and"
    return refused(f"{pair.kind}:{label}", change, code=NEW_REQUIRED)


def _kept(pair: TypePair, before: Property, after: Property) -> Iterator[Step]:
    owner, name = pair.after.name, after.name
    entity = f"{pair.kind}:{owner}.{name}"
    if before.name != name:
        yield RenameProperty(pair.kind, owner, before.name, name)
    if _is_inherited(pair.before, before.name) != _is_inherited(pair.after, name):
        yield refused(entity, f"changing declaration provenance for '{owner}.{name}'")
    if before.type != after.type:
        yield from _retyped(pair, before, after)
    if _embed_changed(pair, before, after):
        remedy = "rebuild the graph so stored vectors and their declared embedding space cannot diverge"
        yield refused(entity, f"changing @embed source or model for '{owner}.{name}'", remedy=remedy)
    if before.description != after.description:
        texts = tuple(each for each in after.annotations if each.name == "description")
        yield UpdatePropertyMetadata(pair.kind, owner, name, texts)
    if opaque(before.annotations) != opaque(after.annotations):
        yield refused(entity, "changing annotations beyond @description/@instruction")


def _is_inherited(type_: object, name: str) -> bool:
    return isinstance(type_, NodeType) and name in type_.inherited


def _retyped(pair: TypePair, before: Property, after: Property) -> Iterator[Step]:
    owner, name = pair.after.name, after.name
    added_values = _added_values(before.type, after.type)
    if added_values:
        yield ExtendEnum(pair.kind, owner, name, added_values)
        return
    is_wider = _WIDER.get(before.type.scalar) is after.type.scalar and not before.type.list
    scalar = after.type.scalar if is_wider else before.type.scalar
    nullable = before.type.nullable or after.type.nullable
    is_safe = replace(before.type, scalar=scalar, nullable=nullable) == after.type
    if not is_safe or (is_wider and not _keeps_meaning(pair, before)):
        change = f"changing property type for '{owner}.{name}'"
        yield refused(f"{pair.kind}:{owner}.{name}", change, code=TYPE_CHANGE)
        return
    if is_wider:
        yield WidenProperty(pair.kind, owner, name, before.type, after.type)
    if nullable != before.type.nullable:
        yield RelaxProperty(pair.kind, owner, name)


def _added_values(before: PropertyType, after: PropertyType) -> tuple[str, ...]:
    """The new values of an enum that lost none and changed in nothing else; empty for every other change."""
    if before.enum_values is None or after.enum_values is None:
        return ()
    if replace(before, enum_values=after.enum_values) != after or set(before.enum_values) - set(after.enum_values):
        return ()
    return tuple(value for value in after.enum_values if value not in before.enum_values)


def _keeps_meaning(pair: TypePair, before: Property) -> bool:
    """Whether a wider column leaves ids and ranges alone.

    The text of a float differs between the widths, so a key would give other ids; a bound such as 0.1 is rounded to
    the width of its column, so a row at the bound could fall out of its range.
    """
    if before.type.scalar is not Scalar.F32 or not isinstance(pair.before, NodeType):
        return True
    if before.name in (pair.before.key or ()):
        return False
    return all(_same_in_both_widths(rule) for rule in pair.before.ranges if rule.property == before.name)


def _same_in_both_widths(rule: Range) -> bool:
    return all(_is_f32(bound) for bound in (rule.low, rule.high) if bound is not None)


def _is_f32(bound: int | float) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", bound))[0] == bound)
    except OverflowError:
        return False


def _embed_changed(pair: TypePair, before: Property, after: Property) -> bool:
    if before.embed is None or after.embed is None:
        return before.embed is not after.embed
    source = pair.new_names.get(before.embed.source)
    return (source, before.embed.model) != (after.embed.source, after.embed.model)


def opaque(annotations: Iterable[Annotation]) -> tuple[str, ...]:
    """The annotations that the language gives no meaning to, as text: Python takes ``true`` and ``1`` for equal."""
    return tuple(repr(each) for each in annotations if each.name not in KNOWN)
