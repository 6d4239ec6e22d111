"""The rules for annotations and constraints of one type: which may stand where, how often, and with what value.

Keys, uniqueness, indexes, ranges and checks are tested against the properties they name. The regular expression of a
`@check` is compiled with the engine that later runs it: writes use RE2 through pyarrow, in linear time, without
look-around and back-references. A pattern that RE2 does not take is refused here, so that no schema holds a rule that
fails at the first row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from omnigraph.schema.catalog import (
    ENDPOINT_COLUMNS,
    Annotation,
    CheckRule,
    Embed,
    Property,
    PropertyType,
    RangeRule,
    Scalar,
)
from omnigraph.schema.default_values import default_of
from omnigraph.schema.fulltext import NAME as FULLTEXT
from omnigraph.schema.fulltext import tokenizer_of
from omnigraph.schema.parse_schema import COLUMN_RULES, CONSTRAINTS
from omnigraph.schema.scanner import SchemaText
from omnigraph.schema.syntax import (
    AnnotationSyntax,
    CheckSyntax,
    ColumnRule,
    ColumnsSyntax,
    ConstraintSyntax,
    Name,
    Owner,
    PropertySyntax,
    RangeSyntax,
)

# Compiling costs time that grows with counted repetitions and Unicode classes, so one schema gets a budget. A thousand
# plain patterns or thirty names of up to eighty Unicode letters fit; the whole budget takes one to three seconds.
_BUDGET = 2_000_000
_UNICODE_CLASS_COST = 400
_MOST_REPEATS = 1000  # RE2 refuses more

_COUNT = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}")
_UNICODE_CLASS = re.compile(r"\\[pP]")
_SHOWN = 80


class PatternChecker:
    """Checks the patterns of one schema; each distinct pattern is compiled once."""

    def __init__(self, source: SchemaText) -> None:
        self._source = source
        self._good: set[str] = set()
        self._spent = 0

    def check(self, label: str, pattern: str, at: int) -> None:
        """Refuse a pattern that cannot be used; ``label`` is the property, as ``Person.email``."""
        if pattern in self._good:
            return
        self._spent += _cost(pattern)
        problem = "it is too large" if self._spent > _BUDGET else _compile_problem(pattern)
        if problem is not None:
            shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}…"
            raise self._source.rule(
                f"@check on {label} has invalid regex '{shown}': {problem}",
                at,
                hint="look-around and back-references do not exist here",
            )
        self._good.add(pattern)


def is_match(pattern: str, text: str) -> bool:
    """Whether a text passes a ``@check``."""
    import pyarrow as pa  # only schemas with a @check pay for the import
    import pyarrow.compute as pc

    return bool(pc.match_substring_regex(pa.array([text]), pattern)[0].as_py())


@lru_cache(maxsize=1024)
def _compile_problem(pattern: str) -> str | None:
    import pyarrow as pa

    try:
        is_match(pattern, "")
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")[: 2 * _SHOWN]
    return None


def _cost(pattern: str) -> int:
    counts = [max(1, int(high or low)) for low, high in _COUNT.findall(pattern)]
    classes = len(_UNICODE_CLASS.findall(pattern))
    nested = min(math.prod(counts[:4]), _MOST_REPEATS)  # repetitions may stand inside each other
    return len(pattern) // 2 * max(1, sum(counts)) + _UNICODE_CLASS_COST * classes * nested


SYSTEM_COLUMNS = frozenset(
    {"_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"}
)

# Every annotation that means something; any other name is kept as it is and has no effect.
KNOWN_ANNOTATIONS = frozenset(
    {*COLUMN_RULES, "embed", "default", FULLTEXT, "description", "instruction", "rename_from"}
)

# What may have been meant by another name: also the words that stand elsewhere.
ANNOTATION_WORDS = frozenset({*KNOWN_ANNOTATIONS, *CONSTRAINTS, "card"})

_ON_PROPERTIES = frozenset({*COLUMN_RULES, "embed"})
_BODY_ONLY = frozenset({"range", "check"})


def in_canonical_order(annotations: Iterable[AnnotationSyntax]) -> tuple[Annotation, ...]:
    """By name, then by value; the order in the text carries no meaning."""
    return tuple(sorted((each.value for each in annotations), key=_order))


def _order(annotation: Annotation) -> tuple[str, str, str]:
    return annotation.name, repr(annotation.value), repr(annotation.keywords)


def type_texts(
    owner: Owner, annotations: tuple[AnnotationSyntax, ...], source: SchemaText
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


def checked_property(owner: Owner, syntax: PropertySyntax, source: SchemaText) -> Property:
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
    annotations = in_canonical_order(syntax.annotations)
    return Property(
        name=syntax.name,
        type=syntax.type,
        annotations=annotations,
        embed=_embed(label, syntax, source),
        description=_text("description", target, syntax.annotations, source),
        default=default_of(syntax.type, annotations),
        tokenizer=tokenizer_of(syntax.type, annotations),
    )


def refuse_kind(rule: str, label: str, type_: PropertyType, at: int, source: SchemaText) -> None:
    """Refuse a list, blob or vector under a rule that cannot hold for it."""
    if type_.list:
        raise source.rule(f"@{rule} is not supported on list property {label}", at)
    if type_.scalar is Scalar.BLOB:
        raise source.rule(f"@{rule} is not supported on blob property {label}", at)
    if type_.scalar is Scalar.VECTOR and rule in ("key", "unique"):
        raise source.rule(f"@{rule} is not supported on vector property {label}", at)


def _check_placement(owner: Owner, label: str, type_: PropertyType, each: AnnotationSyntax, source: SchemaText) -> None:
    if owner.kind == "edge" and each.name in ("key", "embed"):
        raise source.rule(f"@{each.name} is not supported on edge properties (edge {label})", each.at)
    refuse_kind(each.name, label, type_, each.at, source)


def _refuse_body_only(each: AnnotationSyntax, target: str, source: SchemaText) -> None:
    if each.name in _BODY_ONLY:
        raise source.rule(f"@{each.name} is only supported as body constraint of a node ({target})", each.at)


def _text(name: str, target: str, annotations: tuple[AnnotationSyntax, ...], source: SchemaText) -> str | None:
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


def _check_rename(target: str, annotations: tuple[AnnotationSyntax, ...], source: SchemaText) -> None:
    found = [each for each in annotations if each.name == "rename_from"]
    if len(found) > 1:
        raise source.rule(f"{target} declares @rename_from multiple times", found[1].at)
    for each in found:
        value = each.value.value
        if not isinstance(value, str) or not value.strip():
            raise source.rule(f"@rename_from on {target} requires exactly one non-empty positional value", each.at)
        if each.value.keywords:
            raise source.rule(f"@rename_from on {target} does not accept keyword arguments", each.at)


def _embed(label: str, syntax: PropertySyntax, source: SchemaText) -> Embed | None:
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


@dataclass(frozen=True, slots=True)
class TypeConstraints:
    """The checked constraints of one type, in canonical order."""

    key: tuple[str, ...] | None
    uniques: tuple[tuple[str, ...], ...]
    indexes: tuple[tuple[str, ...], ...]
    ranges: tuple[RangeRule, ...]
    checks: tuple[CheckRule, ...]
    restated: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConstraintChecker:
    """Checks the constraints of one node or edge type."""

    owner: Owner
    properties: Mapping[str, Property]
    source: SchemaText
    patterns: PatternChecker

    def check(self, constraints: Iterable[ConstraintSyntax]) -> TypeConstraints:
        columns: dict[ColumnRule, set[tuple[str, ...]]] = {"key": set(), "unique": set(), "index": set()}
        ranges: dict[RangeRule, RangeRule] = {}
        checks: set[CheckRule] = set()
        for each in constraints:
            match each:
                case ColumnsSyntax():
                    if each.rule == "key" and columns["key"]:
                        problem = "has multiple @key constraints; only one is supported"
                        raise self.source.rule(f"node type {self.owner.name} {problem}", each.at)
                    columns[each.rule].add(self._columns(each))
                case RangeSyntax():
                    rule = self._range(each)
                    ranges[rule] = max(rule, ranges.get(rule, rule), key=lambda each: repr(each.written))
                case CheckSyntax():
                    checks.add(self._check(each))
        return TypeConstraints(
            key=next(iter(columns["key"]), None),
            uniques=tuple(sorted(columns["unique"] - columns["key"])),
            indexes=tuple(sorted(columns["index"] - columns["key"])),
            ranges=tuple(sorted(ranges.values(), key=lambda each: (each.property, repr(each.low), repr(each.high)))),
            checks=tuple(sorted(checks, key=lambda each: (each.property, each.pattern))),
            restated=tuple(rule for rule in ("index", "unique") if columns[rule] & columns["key"]),
        )

    def _columns(self, each: ColumnsSyntax) -> tuple[str, ...]:
        if each.rule == "key":
            self._refuse_on_edge("key", each.at)
        names = sorted(column.text for column in each.columns)
        repeated = next((name for name, after in pairwise(names) if name == after), None)
        if repeated is not None:
            raise self.source.rule(f"@{each.rule} on {self.owner.name} names property '{repeated}' twice", each.at)
        for column in each.columns:
            if self.owner.kind == "edge" and column.text in ENDPOINT_COLUMNS:
                continue
            self._check_column(each.rule, self._property(each.rule, column), column.at)
        return tuple(names)

    def _check_column(self, rule: ColumnRule, column: Property, at: int) -> None:
        label = f"{self.owner.name}.{column.name}"
        if not (rule == "index" and column.type.list):  # @index(a_list) is accepted and builds nothing
            refuse_kind(rule, label, column.type, at, self.source)
        if rule == "key" and column.type.nullable:
            raise self.source.rule(f"@key property {label} cannot be nullable", at)

    def _range(self, each: RangeSyntax) -> RangeRule:
        self._refuse_on_edge("range", each.at)
        column = self._property("range", each.property)
        label = f"{self.owner.name}.{column.name}"
        if not column.type.scalar.is_numeric:
            raise self.source.rule(f"@range on {label} requires a numeric type, got {column.type}", each.at)
        if each.low is not None and each.high is not None and each.low > each.high:
            raise self.source.rule(f"@range on {label} has min ({each.low}) above max ({each.high})", each.at)
        return range_rule(column, each.low, each.high)

    def _check(self, each: CheckSyntax) -> CheckRule:
        self._refuse_on_edge("check", each.at)
        column = self._property("check", each.property)
        label = f"{self.owner.name}.{column.name}"
        if column.type.scalar is not Scalar.STRING:
            raise self.source.rule(f"@check on {label} requires String type, got {column.type}", each.at)
        self.patterns.check(label, each.pattern, each.at)
        return CheckRule(column.name, each.pattern)

    def _property(self, rule: str, name: Name) -> Property:
        found = self.properties.get(name.text)
        if found is None:
            problem = f"@{rule} on {self.owner.name} references unknown property '{name.text}'"
            raise self.source.rule(problem, name.at)
        return found

    def _refuse_on_edge(self, rule: str, at: int) -> None:
        if self.owner.kind == "edge":
            raise self.source.rule(f"@{rule} constraint is not supported on edges ({self.owner})", at)


def range_rule(column: Property, low: int | float | None, high: int | float | None) -> RangeRule:
    """The rule that bounds give, so that `0..1` and `0.0..1.0` are one rule."""
    bounds = _same_kind(low, column), _same_kind(high, column)
    return RangeRule(column.name, *bounds, written=None if repr(bounds) == repr((low, high)) else (low, high))


def _same_kind(bound: int | float | None, column: Property) -> int | float | None:
    """A bound as the number kind of its column where that loses nothing."""
    if bound is None:
        return None
    if not column.type.scalar.is_integer:
        return float(bound)
    return int(bound) if bound == int(bound) else bound
