"""The query language once more, as slowly and plainly as its definition reads.

Takes a typed query and a graph as Python lists, and tries every assignment of the variables. Nothing in here knows the
engine. What the definition leaves open is decided here as follows:

* the ids that break ties are taken in the order of the variables' unique names, anonymous ones included;
* equal distances and equal scores are ordered by id, also where the k nearest are cut off; k is the limit plus the
  offset;
* scores are those among all rows of the type, whatever else selects;
* a ranked variable is ranked before traversals when it is the first of its connected pattern, else among the matches;
* only tests and filters select before a ranking; negations and optional parts come after it;
* an F32 property makes its comparison happen at 32 bits, whatever is on the other side.

Out of reach: texts given to `nearest`, and `now()` as a column. Text search is `texts.py`.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeAlias

from omnigraph.errors import SumOverflow
from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.query import typed as t
from omnigraph.query.typed.walk import variables_in_predicate
from omnigraph.schema.catalog import Catalog, PropertyType, Scalar
from omnigraph.tokenizer import Tokenizer
from tests.oracle import texts

Row: TypeAlias = dict[str, Any]
Assignment: TypeAlias = dict[str, Row | None]  # by the unique name of the variable
Truth: TypeAlias = bool | None

MOST_ASSIGNMENTS = 20_000


class OutOfReach(Exception):
    """The query asks for something this evaluator does not know."""


class TooMany(Exception):
    """The query has more assignments than a comparison is worth."""


@dataclass(frozen=True)
class GraphData:
    """Rows by type. Nodes hold ``id``, edges ``id``, ``src`` and ``dst``; properties are Python values or None."""

    catalog: Catalog
    nodes: Mapping[str, list[Row]]
    edges: Mapping[str, list[Row]]


@dataclass(frozen=True)
class Answer:
    """All rows before offset and limit, in order, as JSON values.

    Attributes:
        order: ``total``: exactly this order; ``keys``: any order that agrees with ``keys``; ``none``: any order.
        scores: columns that hold distances or fused scores; these agree when five digits behind the point do.
    """

    columns: list[str]
    rows: list[tuple[Any, ...]]
    order: str = "none"
    keys: list[tuple[Any, ...]] = field(default_factory=list)
    offset: int = 0
    limit: int | None = None
    scores: frozenset[str] = frozenset()

    @property
    def window(self) -> slice:
        return slice(self.offset, None if self.limit is None else self.offset + self.limit)

    def expected(self) -> list[Row]:
        """One right answer."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows[self.window]]

    def complaint(self, actual: list[Row]) -> str | None:
        """What is wrong with an answer, or None."""
        expected = self.expected()
        if len(actual) != len(expected):
            return f"{len(actual)} rows instead of {len(expected)}"
        if any(list(row) != list(dict.fromkeys(self.columns)) for row in actual):
            return f"columns {list(actual[0])} instead of {self.columns}"
        if self.order == "total":
            pairs = zip(map(self._comparable, actual), map(self._comparable, expected), strict=True)
            wrong = next((place for place, (one, other) in enumerate(pairs) if one != other), None)
            return None if wrong is None else f"row {wrong} is {actual[wrong]} instead of {expected[wrong]}"
        every = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        surplus = Counter(map(self._comparable, actual)) - Counter(map(self._comparable, every))
        if surplus:
            strangers = [row for row in actual if self._comparable(row) in surplus]
            return f"rows that should not be there, or not so often: {strangers}"
        return self._key_complaint(actual, every) if self.order == "keys" else None

    def _key_complaint(self, actual: list[Row], every: list[Row]) -> str | None:
        """Equal rows have equal keys, because the keys are columns."""
        key_of = {self._comparable(row): key for row, key in zip(every, self.keys, strict=True)}
        for place, (row, key) in enumerate(zip(actual, self.keys[self.window], strict=True)):
            found = key_of[self._comparable(row)]
            if found != key:
                return f"row {place} has the key {found} instead of {key}: {row}"
        return None

    def _comparable(self, row: Row) -> Any:
        return _frozen({
            name: round(value, 5) if name in self.scores and value is not None else value
            for name, value in row.items()
        })  # fmt: skip


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple((name, _frozen(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(_frozen(each) for each in value)
    return (type(value).__name__, value)  # True is not 1, and 1 is not 1.0


def evaluate(query: t.TypedQuery, data: GraphData, params: Mapping[str, Any], now: datetime) -> Answer:
    """Every row the query has on this graph."""
    return _Evaluation(query, data, params, now).answer()


class _Evaluation:
    def __init__(self, query: t.TypedQuery, data: GraphData, params: Mapping[str, Any], now: datetime) -> None:
        self.query = query
        self.data = data
        self.params = params
        self.now = now
        self.limit = self._count(query.limit)
        self.offset = self._count(query.offset) or 0
        self._distances: dict[tuple[str, bool, str], dict[str, int]] = {}
        self._fused: dict[str, float] = {}
        self._scores: dict[tuple[str, str, str], dict[str, float | None]] = {}
        self._tried = 0

    def _count(self, written: int | t.ParamRef | None) -> int | None:
        return self.params[written.name] if isinstance(written, t.ParamRef) else written

    # From assignments to rows.

    def answer(self) -> Answer:
        query = self.query
        found = list(self.solve(query.match, {}))
        order = "none"
        if query.rank is not None:
            found, order = self.ranked(found, query.rank)
        elif not query.is_aggregated and not query.distinct and query.order:
            found, order = self.ordered(found), "total"
        names = [column.name for column in query.columns]
        raw = self.groups(found) if query.is_aggregated else [self.projected(each) for each in found]
        if query.distinct:
            raw = list({_frozen(row): row for row in raw}.values())  # where the first of its equals was
        keys: list[tuple[Any, ...]] = []
        if query.order and order == "none":
            raw = self.sorted_by_columns(raw)
            keys, order = [tuple(row[key.column or 0] for key in query.order) for row in raw], "keys"
        rows = [tuple(shown(value, c.type) for value, c in zip(row, query.columns, strict=True)) for row in raw]
        scores = frozenset(column.name for column in query.columns if _is_score(column.expression))
        return Answer(names, rows, order, keys, self.offset, self.limit, scores)

    def projected(self, assignment: Assignment) -> tuple[Any, ...]:
        return tuple(self.value(column.expression, assignment) for column in self.query.columns)

    def groups(self, found: list[Assignment]) -> list[tuple[Any, ...]]:
        keys = self.query.group_keys
        members: dict[Any, list[Assignment]] = {} if keys else {(): []}
        for assignment in found:
            key = tuple(_frozen(self.value(column.expression, assignment)) for column in keys)
            members.setdefault(key, []).append(assignment)
        return [tuple(self.of_group(column.expression, group) for column in self.query.columns)
                for group in members.values()]  # fmt: skip

    def of_group(self, expression: t.Expression, group: list[Assignment]) -> Any:
        if not isinstance(expression, t.Aggregate):
            return self.value(expression, group[0])
        values = [self.value(expression.argument, each) for each in group]
        values = [value for value in values if value is not None]
        if expression.distinct:
            values = list(dict.fromkeys(values))
        match expression.function:
            case "count":
                return len(values)
            case "sum":
                return added_up(values, expression.type.scalar) if values else None
            case "avg":
                return sum(values) / len(values) if values else None
            case "min":
                return min(values, default=None)
            case "max":
                return max(values, default=None)
        raise OutOfReach(expression.function)

    def ordered(self, found: list[Assignment]) -> list[Assignment]:
        found = sorted(found, key=_ids)
        for key in reversed(self.query.order):
            values = {id(each): _nulls_first(self.value(key.expression, each)) for each in found}
            found = sorted(found, key=lambda each: values[id(each)], reverse=key.descending)
        return found

    def sorted_by_columns(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        for key in reversed(self.query.order):
            rows = sorted(rows, key=lambda row: _nulls_first(row[key.column or 0]), reverse=key.descending)
        return rows

    # Ranking.

    def ranked(self, found: list[Assignment], rank: t.Rank) -> tuple[list[Assignment], str]:
        name, wanted = rank.variable.name, None if self.limit is None else self.limit + self.offset
        if self.leads(rank.variable):
            tests = [p for p in self.query.match.predicates if variables_in_predicate(p) == {rank.variable}]
            rows = [row for row in self.rows_of(rank.variable) if self.all_true(tests, {name: row})]
        else:
            bound = [row for each in found if (row := each[name]) is not None]
            rows = list({row["id"]: row for row in bound}.values())
        ids = self.entities(rank.score, name, rows, wanted)
        place = {identity: position for position, identity in enumerate(ids)}
        kept = [each for each in found if each[name]["id"] in place]  # type: ignore[index]
        kept.sort(key=lambda each: (place[each[name]["id"]], _ids(each)))  # type: ignore[index]
        return kept, "total"

    def leads(self, variable: t.Variable) -> bool:
        together = {variable.name}
        for _ in self.query.match.traversals:
            for each in self.query.match.traversals:
                if {each.left.name, each.right.name} & together:
                    together |= {each.left.name, each.right.name}
        return next(each for each in self.query.match.variables if each.name in together) == variable

    def entities(self, score: t.Score, name: str, rows: list[Row], wanted: int | None) -> list[str]:
        """Ids, best first."""
        if not isinstance(score, t.FusedScore):
            return self.arm(score, name, rows, wanted)
        k = self.value(score.k, {})
        if k is None:
            raise OutOfReach("k is null")
        for arm in (self.arm(score.first, name, rows, wanted), self.arm(score.second, name, rows, wanted)):
            for place, identity in enumerate(arm):
                self._fused[identity] = self._fused.get(identity, 0.0) + 1 / (k + place + 1)
        return sorted(self._fused, key=lambda identity: -self._fused[identity])[:wanted]

    def arm(self, score: t.Distance | t.TextScore, name: str, rows: list[Row], wanted: int | None) -> list[str]:
        if isinstance(score, t.TextScore):  # never cut: rows at any rank count in a fusion
            scored = [(self.value(score, {name: row}), row["id"]) for row in rows]
            return [identity for _, identity in sorted((-found, each) for found, each in scored if found is not None)]
        near = [(self.value(score, {name: row}), row["id"]) for row in rows]
        return [identity for distance, identity in sorted(pair for pair in near if pair[0] is not None)][:wanted]

    # Matching.

    def rows_of(self, variable: t.Variable) -> list[Row]:
        rows = self.data.nodes if variable.entity is t.Entity.NODE else self.data.edges
        return rows[variable.type_name]

    def solve(self, block: t.MatchBlock, given: Assignment) -> Iterator[Assignment]:
        """Every extension of an assignment that satisfies the block."""
        late_names = set(block.optional_variables)
        late = [each for each in block.predicates if variables_in_predicate(each) & late_names]
        early: list[t.Predicate | t.Traversal] = [each for each in block.predicates if each not in late]
        for bound in self.bind(list(block.variables), [*block.traversals, *early], given):
            for extended in self.with_optionals(block.optionals, bound):
                if self.all_true(late, extended) and not self.any_negated(block.negations, extended):
                    yield extended

    def bind(
        self, variables: list[t.Variable], checks: list[t.Predicate | t.Traversal], given: Assignment
    ) -> Iterator[Assignment]:
        ready = [each for each in checks if _names(each) <= given.keys()]
        waiting = [each for each in checks if each not in ready]
        if not self.all_true(ready, given):
            return
        if not variables:
            assert not waiting, waiting
            yield given
            return
        for row in self.rows_of(variables[0]):
            self._tried += 1
            if self._tried > 10 * MOST_ASSIGNMENTS:
                raise TooMany
            yield from self.bind(variables[1:], waiting, {**given, variables[0].name: row})

    def with_optionals(self, optionals: tuple[t.OptionalBlock, ...], given: Assignment) -> Iterator[Assignment]:
        if not optionals:
            yield given
            return
        block = optionals[0].block
        nothing = dict.fromkeys((v.name for v in (*block.variables, *block.optional_variables)), None)
        for found in list(self.solve(block, given)) or [{**given, **nothing}]:
            yield from self.with_optionals(optionals[1:], found)

    def any_negated(self, negations: tuple[t.NegatedBlock, ...], given: Assignment) -> bool:
        return any(next(self.solve(each.block, given), None) is not None for each in negations)

    def all_true(self, checks: Iterable[t.Predicate | t.Traversal], assignment: Assignment) -> bool:
        return all(
            self.connects(each, assignment) if isinstance(each, t.Traversal) else self.truth(each, assignment) is True
            for each in checks
        )

    def connects(self, step: t.Traversal, assignment: Assignment) -> bool:
        left, right = assignment[step.left.name], assignment[step.right.name]
        if left is None or right is None:
            return False
        if step.edge is not None:
            edge = assignment[step.edge.name]
            return edge is not None and (edge["src"], edge["dst"]) in self.ways(step, left["id"], right["id"])
        declared = self.data.catalog.edges[step.edge_type]
        if declared.source != declared.target:
            ends = {(edge["src"], edge["dst"]) for edge in self.data.edges[step.edge_type]}
            return step.min_hops == 1 and bool(ends & self.ways(step, left["id"], right["id"]))
        distance = self.distances(step, left["id"]).get(right["id"])
        if distance is None:
            return False
        again = distance + 1 if self.has_loop(step.edge_type, right["id"]) else 0
        return any(hop > 0 and step.min_hops <= hop <= step.max_hops for hop in (distance, again))

    def ways(self, step: t.Traversal, left: str, right: str) -> set[tuple[str, str]]:
        """Source and target of an edge that would do."""
        match step.reading:
            case t.EdgeReading.FORWARD:
                return {(left, right)}
            case t.EdgeReading.REVERSE:
                return {(right, left)}
            case t.EdgeReading.UNDIRECTED:
                return {(left, right), (right, left)}

    def distances(self, step: t.Traversal, start: str) -> dict[str, int]:
        """Breadth-first from one node over edges of one type between nodes of one type."""
        undirected = step.reading is t.EdgeReading.UNDIRECTED
        known = self._distances.get((step.edge_type, undirected, start))
        if known is not None:
            return known
        found = {start: 0}
        frontier = [start]
        while frontier:
            reached = []
            for edge in self.data.edges[step.edge_type]:
                for here, there in ((edge["src"], edge["dst"]), (edge["dst"], edge["src"]))[: 1 + undirected]:
                    if here in frontier and there not in found and there not in reached:
                        reached.append(there)
            found.update(dict.fromkeys(reached, found[frontier[0]] + 1))
            frontier = reached
        self._distances[step.edge_type, undirected, start] = found
        return found

    def has_loop(self, edge_type: str, node: str) -> bool:
        return any(edge["src"] == node == edge["dst"] for edge in self.data.edges[edge_type])

    # Conditions: true, false, or None for unknown.

    def truth(self, predicate: t.Predicate, assignment: Assignment) -> Truth:
        match predicate:
            case t.Compare():
                return self.compared(predicate, assignment)
            case t.IsIn():
                return self.is_in(predicate, assignment)
            case t.IsNull(operand=t.Variable() as variable):
                return assignment[variable.name] is None
            case t.IsNull(operand=operand):
                return self.value(operand, assignment) is None  # type: ignore[arg-type]
            case t.TextMatch():
                return self.text_matches(predicate, assignment)
            case t.Not():
                inner = self.truth(predicate.part, assignment)
                return None if inner is None else not inner
            case t.AllOf():
                parts = [self.truth(part, assignment) for part in predicate.parts]
                return False if False in parts else None if None in parts else True
            case t.AnyOf():
                parts = [self.truth(part, assignment) for part in predicate.parts]
                return True if True in parts else None if None in parts else False

    def compared(self, test: t.Compare, assignment: Assignment) -> Truth:
        left, right = self.value(test.left, assignment), self.value(test.right, assignment)
        if left is None or right is None:
            return None
        if _is_narrow(test.left) or _is_narrow(test.right):
            left, right = _narrowed(left), _narrowed(right)
        return _OPERATORS[test.operator](left, right)

    def is_in(self, test: t.IsIn, assignment: Assignment) -> Truth:
        operand = self.value(test.operand, assignment)
        if isinstance(test.choices, tuple):
            choices = [(each, self.value(each, assignment)) for each in test.choices]
        else:
            values = self.value(test.choices, assignment)
            if values is None:
                return None
            choices = [(test.choices, value) for value in values]
        if operand is None:
            return None
        return any(
            _narrowed(value) == _narrowed(operand)
            if _is_narrow(choice) or _is_narrow(test.operand)
            else value == operand
            for choice, value in choices
            if value is not None
        )

    def text_matches(self, test: t.TextMatch, assignment: Assignment) -> Truth:
        text, query = self.value(test.field, assignment), self.value(test.query, assignment)
        if text is None or query is None:
            return None
        edits = 2 if test.max_edits is None else self.value(test.max_edits, assignment)
        return texts.matches(test.function, text, query, edits, self.tokenizer(test.field))

    def tokenizer(self, field: t.PropertyRef) -> Tokenizer:
        return self.data.catalog.nodes[field.variable.type_name].properties[field.property].tokenizer

    # Values.

    def value(self, expression: t.Expression, assignment: Assignment) -> Any:
        match expression:
            case t.PropertyRef():
                row = assignment[expression.variable.name]
                return None if row is None else row[expression.property]
            case t.NodeId():
                row = assignment[expression.variable.name]
                return None if row is None else row["id"]
            case t.ParamRef():
                return self.params[expression.name]
            case t.Constant():
                return expression.value
            case t.Now():
                return self.now
            case t.Distance():
                return self.distance(expression, assignment)
            case t.TextScore():
                return self.text_score(expression, assignment)
            case t.FusedScore():
                row = assignment[expression.first.field.variable.name]
                return None if row is None else self._fused.get(row["id"])
        raise OutOfReach(str(expression))

    def distance(self, score: t.Distance, assignment: Assignment) -> float | None:
        if isinstance(score.query, t.TextVector):
            raise OutOfReach("a text given to nearest")
        vector, query = self.value(score.field, assignment), self.value(score.query, assignment)
        if vector is None or query is None:
            return None
        return math.sqrt(sum((a - b) ** 2 for a, b in zip(vector, query, strict=True)))

    def text_score(self, score: t.TextScore, assignment: Assignment) -> float | None:
        row, query = assignment[score.field.variable.name], self.value(score.query, assignment)
        if row is None or query is None:
            return None
        key = (score.field.variable.type_name, score.field.property, query)
        if key not in self._scores:
            every = self.rows_of(score.field.variable)
            column = [each[score.field.property] for each in every]
            found = texts.bm25(column, query, self.tokenizer(score.field))
            self._scores[key] = dict(zip((each["id"] for each in every), found, strict=True))
        return self._scores[key][row["id"]]


_OPERATORS: dict[t.Operator, Callable[[Any, Any], bool]] = {
    t.Operator.EQ: lambda a, b: a == b,
    t.Operator.NE: lambda a, b: a != b,
    t.Operator.LT: lambda a, b: a < b,
    t.Operator.LE: lambda a, b: a <= b,
    t.Operator.GT: lambda a, b: a > b,
    t.Operator.GE: lambda a, b: a >= b,
    t.Operator.LIST_CONTAINS: lambda items, item: any(each is not None and each == item for each in items),
    t.Operator.TEXT_CONTAINS: lambda text, part: part in text,
    t.Operator.STARTS_WITH: lambda text, part: text.startswith(part),
}


def added_up(values: list[Any], scalar: Scalar) -> int | float:
    """A sum of integers is exact, or refused when its type cannot hold it."""
    total = sum(values)
    if scalar is Scalar.F64:
        return float(total)
    if total not in INTEGER_BOUNDS[scalar]:
        raise SumOverflow(f"sum exceeds {scalar}")
    return int(total)


def _is_score(expression: t.Expression) -> bool:
    inner = expression.argument if isinstance(expression, t.Aggregate) else expression
    return isinstance(inner, t.Distance | t.TextScore | t.FusedScore)


def _names(check: t.Predicate | t.Traversal) -> set[str]:
    if isinstance(check, t.Traversal):
        return {each.name for each in (check.left, check.right, check.edge) if each is not None}
    return {variable.name for variable in variables_in_predicate(check)}


def _ids(assignment: Assignment) -> list[tuple[bool, Any]]:
    return [_nulls_first(None if row is None else row["id"]) for _, row in sorted(assignment.items())]


def _nulls_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, 0 if value is None else value)


def _is_narrow(operand: t.Expression) -> bool:
    return isinstance(operand, t.PropertyRef) and operand.type.scalar is Scalar.F32


def _narrowed(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_narrowed(each) for each in value]
    return None if value is None else narrow(value)


def narrow(value: float) -> float:
    """The nearest float of 32 bits."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def shown(value: Any, kind: PropertyType) -> Any:
    """A value as JSON shows it."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, list | tuple):
        return [shown(each, kind) for each in value]
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z".rjust(24, "0")
    if isinstance(value, date):
        return value.isoformat()
    if kind.scalar in (Scalar.F32, Scalar.VECTOR):
        return narrow(value)
    return float(value) if kind.scalar is Scalar.F64 else value
