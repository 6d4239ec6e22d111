"""The rules for annotations on types and on properties: which may stand where, how often, and with what value."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.schema.catalog import Annotation, Embed, Property, PropertyType, Scalar
from omnigraph.schema.parse_rules import COLUMN_RULES
from omnigraph.schema.source import Source
from omnigraph.schema.syntax import AnnotationSyntax, Owner, PropertySyntax

SYSTEM_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)

# Every annotation that means something; any other name is kept as it is and has no effect.
KNOWN = frozenset({*COLUMN_RULES, "embed", "description", "instruction", "rename_from"})

_ON_PROPERTIES = frozenset({*COLUMN_RULES, "embed"})
_BODY_ONLY = frozenset({"range", "check"})


def in_canonical_order(annotations: Iterable[AnnotationSyntax]) -> tuple[Annotation, ...]:
    """By name, then by value; the order in the text carries no meaning."""
    return tuple(sorted((each.value for each in annotations), key=_order))


def _order(annotation: Annotation) -> tuple[str, str, str]:
    return annotation.name, repr(annotation.value), repr(annotation.keywords)


def type_texts(
    owner: Owner, annotations: tuple[AnnotationSyntax, ...], source: Source
) -> tuple[str | None, str | None]:
    """Check the annotations in a type header and return its description and instruction."""
    for each in annotations:
        if each.name in _ON_PROPERTIES and owner.kind == "node":
            where = f"is only supported on node properties or as body constraint ({owner})"
            raise source.rule(f"@{each.name} {where}", each.at)
        if each.name in _ON_PROPERTIES:
            raise source.rule(f"@{each.name} is not supported on edges ({owner})", each.at)
        _refuse_body_only(each, str(owner), source)
    _check_rename(str(owner), annotations, source)
    return (
        _text("description", str(owner), annotations, source),
        _text("instruction", str(owner), annotations, source),
    )


def checked_property(owner: Owner, syntax: PropertySyntax, source: Source) -> Property:
    """Check a property together with its own annotations; the other properties of its type are not needed yet."""
    if syntax.name in SYSTEM_COLUMNS:
        raise source.rule(
            f"property name '{syntax.name}' is reserved for a virtual storage system column",
            syntax.at,
            hint="choose another name",
        )
    label = f"{owner.name}.{syntax.name}"
    target = f"property {label}"
    seen: set[str] = set()
    for each in syntax.annotations:
        if each.name == "instruction":
            raise source.rule(f"@instruction is only supported on node and edge types ({target})", each.at)
        _refuse_body_only(each, target, source)
        if each.name in _ON_PROPERTIES:
            if each.name in seen:
                raise source.rule(f"{target} declares @{each.name} multiple times", each.at)
            _check_placement(owner, label, syntax.type, each, source)
            seen.add(each.name)
    _check_rename(target, syntax.annotations, source)
    return Property(
        name=syntax.name,
        type=syntax.type,
        annotations=in_canonical_order(syntax.annotations),
        embed=_embed(label, syntax, source),
        description=_text("description", target, syntax.annotations, source),
    )


def refuse_kind(rule: str, label: str, type_: PropertyType, at: int, source: Source) -> None:
    """Refuse a list, blob or vector under a rule that cannot hold for it."""
    if type_.list:
        raise source.rule(f"@{rule} is not supported on list property {label}", at)
    if type_.scalar is Scalar.BLOB:
        raise source.rule(f"@{rule} is not supported on blob property {label}", at)
    if type_.scalar is Scalar.VECTOR and rule in ("key", "unique"):
        raise source.rule(f"@{rule} is not supported on vector property {label}", at)


def _check_placement(owner: Owner, label: str, type_: PropertyType, each: AnnotationSyntax, source: Source) -> None:
    if owner.kind == "edge" and each.name in ("key", "embed"):
        raise source.rule(f"@{each.name} is not supported on edge properties (edge {label})", each.at)
    refuse_kind(each.name, label, type_, each.at, source)


def _refuse_body_only(each: AnnotationSyntax, target: str, source: Source) -> None:
    if each.name in _BODY_ONLY:
        raise source.rule(f"@{each.name} is only supported as body constraint of a node ({target})", each.at)


def _text(name: str, target: str, annotations: tuple[AnnotationSyntax, ...], source: Source) -> str | None:
    """The value of an annotation that holds one text and stands at most once."""
    found = [each for each in annotations if each.name == name]
    if len(found) > 1:
        raise source.rule(f"{target} declares @{name} multiple times", found[1].at)
    if not found:
        return None
    value = found[0].value.value
    if not isinstance(value, str) or not value.strip():
        raise source.rule(f"@{name} on {target} requires a non-empty value", found[0].at)
    return value


def _check_rename(target: str, annotations: tuple[AnnotationSyntax, ...], source: Source) -> None:
    found = [each for each in annotations if each.name == "rename_from"]
    if len(found) > 1:
        raise source.rule(f"{target} declares @rename_from multiple times", found[1].at)
    for each in found:
        value = each.value.value
        if not isinstance(value, str) or not value.strip():
            raise source.rule(f"@rename_from on {target} requires exactly one non-empty positional value", each.at)
        if each.value.keywords:
            raise source.rule(f"@rename_from on {target} does not accept keyword arguments", each.at)


def _embed(label: str, syntax: PropertySyntax, source: Source) -> Embed | None:
    each = next((each for each in syntax.annotations if each.name == "embed"), None)
    if each is None:
        return None
    if syntax.type.scalar is not Scalar.VECTOR:
        raise source.rule(f"@embed is only supported on vector properties ({label})", each.at)
    origin = each.value.value
    if not isinstance(origin, str):
        raise source.rule(f"@embed on {label} requires a source property name", each.at)
    if not origin.strip():
        raise source.rule(f"@embed on {label} requires a non-empty source property name", each.at)
    for keyword, value in each.value.keywords:
        if keyword != "model":
            problem = f"has unknown argument '{keyword}=' (only 'model' is supported)"
            raise source.rule(f"@embed on {label} {problem}", each.at)
        if not isinstance(value, str) or not value.strip():
            raise source.rule(f"@embed on {label} requires a non-empty string for 'model='", each.at)
    model = dict(each.value.keywords).get("model")
    return Embed(origin, str(model) if model is not None else None)
