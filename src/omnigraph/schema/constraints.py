"""The rules for keys, uniqueness, indexes, ranges and checks, against the properties they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from omnigraph.schema.annotations import refuse_kind
from omnigraph.schema.catalog import ENDPOINT_COLUMNS, Check, Property, Range, Scalar
from omnigraph.schema.patterns import PatternChecker
from omnigraph.schema.source import Source
from omnigraph.schema.syntax import CheckSyntax, ColumnRule, ColumnsSyntax, ConstraintSyntax, Name, Owner, RangeSyntax


@dataclass(frozen=True, slots=True)
class Rules:
    """The checked constraints of one type, in canonical order."""

    key: tuple[str, ...] | None
    uniques: tuple[tuple[str, ...], ...]
    indexes: tuple[tuple[str, ...], ...]
    ranges: tuple[Range, ...]
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class ConstraintChecker:
    """Checks the constraints of one node or edge type."""

    owner: Owner
    properties: Mapping[str, Property]
    source: Source
    patterns: PatternChecker

    def check(self, constraints: Iterable[ConstraintSyntax]) -> Rules:
        columns: dict[ColumnRule, set[tuple[str, ...]]] = {"key": set(), "unique": set(), "index": set()}
        ranges: set[Range] = set()
        checks: set[Check] = set()
        for each in constraints:
            match each:
                case ColumnsSyntax():
                    if each.rule == "key" and columns["key"]:
                        problem = "has multiple @key constraints; only one is supported"
                        raise self.source.rule(f"node type {self.owner.name} {problem}", each.at)
                    columns[each.rule].add(self._columns(each))
                case RangeSyntax():
                    ranges.add(self._range(each))
                case CheckSyntax():
                    checks.add(self._check(each))
        return Rules(
            key=next(iter(columns["key"]), None),
            uniques=tuple(sorted(columns["unique"] - columns["key"])),
            indexes=tuple(sorted(columns["index"] - columns["key"])),
            ranges=tuple(sorted(ranges, key=lambda each: (each.property, repr(each.low), repr(each.high)))),
            checks=tuple(sorted(checks, key=lambda each: (each.property, each.pattern))),
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

    def _range(self, each: RangeSyntax) -> Range:
        self._refuse_on_edge("range", each.at)
        column = self._property("range", each.property)
        label = f"{self.owner.name}.{column.name}"
        if not column.type.scalar.is_numeric:
            raise self.source.rule(f"@range on {label} requires a numeric type, got {column.type}", each.at)
        if each.low is not None and each.high is not None and each.low > each.high:
            raise self.source.rule(f"@range on {label} has min ({each.low}) above max ({each.high})", each.at)
        return Range(column.name, _same_kind(each.low, column), _same_kind(each.high, column))

    def _check(self, each: CheckSyntax) -> Check:
        self._refuse_on_edge("check", each.at)
        column = self._property("check", each.property)
        label = f"{self.owner.name}.{column.name}"
        if column.type.scalar is not Scalar.STRING:
            raise self.source.rule(f"@check on {label} requires String type, got {column.type}", each.at)
        self.patterns.check(label, each.pattern, each.at)
        return Check(column.name, each.pattern)

    def _property(self, rule: str, name: Name) -> Property:
        found = self.properties.get(name.text)
        if found is None:
            problem = f"@{rule} on {self.owner.name} references unknown property '{name.text}'"
            raise self.source.rule(problem, name.at)
        return found

    def _refuse_on_edge(self, rule: str, at: int) -> None:
        if self.owner.kind == "edge":
            raise self.source.rule(f"@{rule} constraint is not supported on edges ({self.owner})", at)


def _same_kind(bound: int | float | None, column: Property) -> int | float | None:
    """A bound as the number kind of its column where that loses nothing, so that `0..1` and `0.0..1.0` are one rule."""
    if bound is None:
        return None
    if not column.type.scalar.is_integer:
        return float(bound)
    return int(bound) if bound == int(bound) else bound
