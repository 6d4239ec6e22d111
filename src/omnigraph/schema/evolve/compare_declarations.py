"""The steps between two matched schemas, in their fixed order.

Interfaces, nodes, edges; types by name; inside a type its rename, metadata, properties by name, property drops and
constraints; types that go away come last in their kind. A change of a property's type is safe when every stored value
keeps its meaning and every rule on it keeps its answer; all others are refused, because planning never looks at rows,
only at whether a type has some.
Of the constraints only indexes may come and go: they change no answer. How texts are searched may change, because no
row depends on it.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from omnigraph.schema.catalog import (
    ENDPOINT_COLUMNS,
    Annotation,
    EdgeType,
    InterfaceType,
    Literal,
    NodeType,
    Property,
    PropertyType,
    RangeRule,
    Scalar,
)
from omnigraph.schema.evolve.match_declarations import KINDS, Matching, Type, TypePair
from omnigraph.schema.evolve.migration_steps import (
    NEW_REQUIRED,
    TYPE_CHANGE,
    AddIndex,
    AddProperty,
    AddType,
    DropIndex,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    MigrationStep,
    RelaxProperty,
    RenameProperty,
    RenameType,
    TypeKind,
    UnsupportedChange,
    UpdateFulltext,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
    WidenProperty,
    refused,
)
from omnigraph.schema.fulltext import NAME as FULLTEXT
from omnigraph.schema.literals import bounds_text, literal_text
from omnigraph.schema.parse_schema import COLUMN_RULES
from omnigraph.schema.schema_rules import KNOWN_ANNOTATIONS

_WIDER = {Scalar.I32: Scalar.I64, Scalar.U32: Scalar.U64, Scalar.F32: Scalar.F64}


def property_steps(pair: TypePair, mode: DropMode, is_empty: bool) -> Iterator[MigrationStep]:
    """Properties by name, then drops by name."""
    for name, after in pair.after.properties.items():
        if name in pair.properties:
            yield from _kept_property(pair, pair.before.properties[pair.properties[name]], after)
        else:
            yield _added_property(pair, after, is_empty)
    for name in sorted(pair.before.properties.keys() - pair.properties.values()):
        yield DropProperty(pair.kind, pair.after.name, name, mode)


def _added_property(pair: TypePair, new: Property, is_empty: bool) -> MigrationStep:
    if new.type.nullable or new.default is not None or is_empty:
        return AddProperty(pair.kind, pair.after.name, new.name, new.type, _default(new))
    label = f"{pair.after.name}.{new.name}"
    change = f"adding required property '{label}' requires a backfill and"
    return refused(f"{pair.kind}:{label}", change, code=NEW_REQUIRED, remedy="with @default(…) the rows get a value")


def _default(prop: Property) -> Literal | None:
    """The default as it is written, of a property that has one."""
    written = next((each.value for each in prop.annotations if each.name == "default"), None)
    return None if prop.default is None else written


def _kept_property(pair: TypePair, before: Property, after: Property) -> Iterator[MigrationStep]:
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
    if _metadata_of(before) != _metadata_of(after):
        yield UpdatePropertyMetadata(pair.kind, owner, name, _metadata_of(after))
    if _fulltext_of(before) != _fulltext_of(after):
        yield UpdateFulltext(pair.kind, owner, name, _fulltext_of(after))
    if opaque(before.annotations) != opaque(after.annotations):
        yield refused(entity, "changing annotations beyond @description/@instruction")


def _metadata_of(prop: Property) -> tuple[Annotation, ...]:
    return tuple(each for each in prop.annotations if each.name in ("default", "description"))


def _fulltext_of(prop: Property) -> tuple[Annotation, ...]:
    return tuple(each for each in prop.annotations if each.name == FULLTEXT)


def _is_inherited(type_: object, name: str) -> bool:
    return isinstance(type_, NodeType) and name in type_.inherited


def _retyped(pair: TypePair, before: Property, after: Property) -> Iterator[MigrationStep]:
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


def _same_in_both_widths(rule: RangeRule) -> bool:
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
    return tuple(repr(each) for each in annotations if each.name not in KNOWN_ANNOTATIONS)


@dataclass(frozen=True, slots=True, order=True)
class ConstraintRule:
    """One constraint; ``rest`` is what follows the columns, as text."""

    name: str
    columns: tuple[str, ...]
    rest: str = ""

    def __str__(self) -> str:
        return f"@{self.name}({', '.join(self.columns)}{self.rest})"

    def renamed(self, names: Mapping[str, str]) -> ConstraintRule:
        return replace(self, columns=tuple(sorted(names.get(column, column) for column in self.columns)))


def rule_steps(pair: TypePair) -> Iterator[MigrationStep]:
    """Constraints that go, then constraints that come."""
    names = pair.new_names
    before = {rule.renamed(names) for rule in _rules(pair.before)}
    after = _rules(pair.after)
    before_on_properties = {rule.renamed(names) for rule in _on_properties(pair.before)}
    after_on_properties = _on_properties(pair.after)
    yield from _removed_rules(pair, before - after, before_on_properties - after_on_properties)
    yield from _added_rules(pair, after - before, after_on_properties - before_on_properties)


def _removed_rules(
    pair: TypePair, rules: set[ConstraintRule], on_properties: set[ConstraintRule]
) -> Iterator[MigrationStep]:
    owner = pair.after.name
    for column in sorted({rule.columns[0] for rule in on_properties if rule.name != "index"}):
        label = f"{owner}.{column}"
        yield refused(f"{pair.kind}:{label}", f"removing property constraints from '{label}'")
    if any(rule.name != "index" for rule in rules - on_properties):
        yield refused(f"{pair.kind}:{owner}", f"removing constraints from '{owner}'")
    columns = {*pair.after.properties, *(ENDPOINT_COLUMNS if pair.kind == "edge" else ())}
    for rule in sorted(rules):
        if rule.name == "index" and columns.issuperset(rule.columns):
            yield DropIndex(pair.kind, owner, rule.columns)


def _added_rules(
    pair: TypePair, rules: set[ConstraintRule], on_properties: set[ConstraintRule]
) -> Iterator[MigrationStep]:
    owner = pair.after.name
    for rule in sorted(each for each in on_properties if each.name != "index"):
        label = f"{owner}.{rule.columns[0]}"
        yield refused(f"{pair.kind}:{label}", f"adding a property-level @{rule.name} constraint to '{label}'")
    for rule in sorted(rules):
        if rule.name == "index":
            yield AddIndex(pair.kind, owner, rule.columns)
        elif rule not in on_properties:
            yield refused(f"{pair.kind}:{owner}", f"adding constraint '{rule}' to '{owner}'")


def _rules(type_: Type) -> set[ConstraintRule]:
    found = _on_properties(type_)
    if isinstance(type_, InterfaceType):
        return found
    found |= {ConstraintRule("unique", columns) for columns in type_.uniques}
    found |= {ConstraintRule("index", columns) for columns in type_.indexes}
    return found if isinstance(type_, EdgeType) else found | _node_rules(type_)


def _node_rules(node: NodeType) -> set[ConstraintRule]:
    found = {ConstraintRule("range", (each.property,), f", {bounds_text(each)}") for each in node.ranges}
    found |= {ConstraintRule("check", (each.property,), f", {literal_text(each.pattern)}") for each in node.checks}
    return found if node.key is None else found | {ConstraintRule("key", node.key)}


def _on_properties(type_: Type) -> set[ConstraintRule]:
    """The constraints that are written behind a property."""
    return {
        ConstraintRule(each.name, (name,))
        for name, found in type_.properties.items()
        for each in found.annotations
        if each.name in COLUMN_RULES
    }


_METADATA = frozenset({"description", "instruction"})


def steps_between(matching: Matching, mode: DropMode, empty: Container[str] = ()) -> tuple[MigrationStep, ...]:
    """Every step of the change, refused ones included.

    Args:
        empty: table keys of accepted types without rows.
    """
    return tuple(step for kind in KINDS for step in _steps_of_kind(matching, kind, mode, empty))


def _steps_of_kind(
    matching: Matching, kind: TypeKind, mode: DropMode, empty: Container[str]
) -> Iterator[MigrationStep]:
    prefix = f"{kind}:"
    for entity in sorted(each for each in (*matching.pairs, *matching.added) if each.startswith(prefix)):
        if entity in matching.added:
            yield AddType(kind, entity.removeprefix(prefix))
        else:
            yield from _steps_of_type(matching, matching.pairs[entity], mode, empty)
    for entity in sorted(each for each in matching.dropped if each.startswith(prefix)):
        name = entity.removeprefix(prefix)
        yield refused(entity, f"removing interface '{name}'") if kind == "interface" else DropType(kind, name, mode)


def _steps_of_type(
    matching: Matching, pair: TypePair, mode: DropMode, empty: Container[str]
) -> Iterator[MigrationStep]:
    if pair.before.name != pair.after.name:
        yield RenameType(pair.kind, pair.before.name, pair.after.name)
    if not isinstance(pair.before, InterfaceType) and not isinstance(pair.after, InterfaceType):
        yield from _metadata(pair.kind, pair.after.name, pair.before.annotations, pair.after.annotations)
    yield from _header(matching, pair)
    yield from property_steps(pair, mode, _is_empty(matching, pair, empty))
    yield from rule_steps(pair)


def _is_empty(matching: Matching, pair: TypePair, empty: Container[str]) -> bool:
    """Whether no row has the properties of a type; those of an interface are in the tables of its nodes."""
    if pair.kind != "interface":
        return f"{pair.kind}:{pair.before.name}" in empty
    nodes = (each.before for each in matching.pairs.values() if isinstance(each.before, NodeType))
    return all(f"node:{node.name}" in empty for node in nodes if pair.before.name in node.implements)


def _metadata(
    kind: TypeKind, name: str, before: Iterable[Annotation], after: Iterable[Annotation]
) -> Iterator[MigrationStep]:
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
