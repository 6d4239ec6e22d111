"""`order`, `limit` and `offset`.

A search function as the first key, written out or by the alias of a column that returns it, becomes the rank of the
query. All other keys are values: properties or output columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.query.check.compatible import is_plain_scalar, is_whole_number
from omnigraph.query.check.operands import property_ref
from omnigraph.query.check.scope import Context, Scope
from omnigraph.query.check.search import score
from omnigraph.query.syntax.tree import (
    Bm25Call,
    Direction,
    Literal,
    NameRef,
    NearestCall,
    Ordering,
    PropertyAccess,
    ReadBody,
    RrfCall,
    VariableRef,
)
from omnigraph.query.typed import (
    Aggregate,
    Column,
    Distance,
    FusedScore,
    OrderKey,
    ParamRef,
    Rank,
    Score,
    TextScore,
)

_SCORE_CALLS = (NearestCall, Bm25Call, RrfCall)
_SCORES = (Distance, TextScore, FusedScore)


@dataclass(frozen=True, slots=True)
class Order:
    rank: Rank | None
    keys: tuple[OrderKey, ...]


def order(body: ReadBody, columns: tuple[Column, ...], context: Context, scope: Scope) -> Order:
    """Check all order keys. Keys behind a rank are checked and then dropped: the rank alone orders."""
    checker = _Checker(body, columns, context, scope)
    rank = checker.rank()
    keys = tuple(checker.key(ordering) for ordering in (body.order[1:] if rank else body.order))
    checker.refuse_unranked_fusion(rank)
    return Order(rank, () if rank else keys)


class _Checker:
    """The order keys of one query. Of several equal columns the last counts, as in a row of the result."""

    def __init__(self, body: ReadBody, columns: tuple[Column, ...], context: Context, scope: Scope) -> None:
        self.body = body
        self.columns = columns
        self.context = context
        self.scope = scope
        self.positions = {column.name: position for position, column in enumerate(columns)}
        self.places = {column.expression: position for position, column in enumerate(columns)}
        self.is_aggregated = any(isinstance(column.expression, Aggregate) for column in columns)

    def rank(self) -> Rank | None:
        """The rank by the first key, if that is a score; with the rules on ``limit`` and on further keys."""
        found = self._score(self.body.order[0]) if self.body.order else None
        if found is None:
            self._refuse_late_scores(self.body.order)
            return None
        first = self.body.order[0]
        if self.body.limit is None and isinstance(found, Distance):
            self.context.fail("T17: nearest ordering requires a limit clause", first)
        if self.body.limit is None and isinstance(found, FusedScore):
            self.context.fail("T21: rrf ordering requires a limit clause", first)
        if isinstance(found, Distance):
            self._refuse_aliases(self.body.order[1:])
        self._refuse_late_scores(self.body.order[1:])
        field = found.first.field if isinstance(found, FusedScore) else found.field
        known = self.scope.find(field.variable.label)
        if known is not None and known.nullable:
            self.context.fail(
                f"variable `${field.variable.label}` is bound by an `optional` block; a ranked variable must be bound",
                first,
            )
        return Rank(found, field.variable)

    def _score(self, ordering: Ordering) -> Score | None:
        """A key that ranks. An alias ranks unless it asks explicitly for worst first: then it is a plain value."""
        if isinstance(ordering.expr, _SCORE_CALLS):
            return score(ordering.expr, self.context, self.scope)
        if isinstance(ordering.expr, NameRef):
            position = self.positions.get(ordering.expr.name)
            found = self.columns[position].expression if position is not None else None
            worst = Direction.DESCENDING if isinstance(found, Distance) else Direction.ASCENDING
            if isinstance(found, _SCORES) and ordering.direction is not worst:
                return found
        return None

    def _refuse_aliases(self, orderings: tuple[Ordering, ...]) -> None:
        for ordering in orderings:
            if isinstance(ordering.expr, NameRef):
                self.context.fail(
                    "T18: alias-based ordering is not supported together with nearest in phase 1", ordering
                )

    def _refuse_late_scores(self, orderings: tuple[Ordering, ...]) -> None:
        late = next((ordering for ordering in orderings if isinstance(ordering.expr, _SCORE_CALLS)), None)
        if late is None:
            return
        if isinstance(late.expr, NearestCall):
            if self.body.limit is None:
                self.context.fail("T17: nearest ordering requires a limit clause", late)
            self._refuse_aliases(orderings)
        self.context.fail(
            "unsupported ordering expression", late, hint="nearest, bm25 and rrf must be the first order key"
        )

    def key(self, ordering: Ordering) -> OrderKey:
        found = self._key(ordering)
        if not is_plain_scalar(found.expression.type):
            self.context.fail("unsupported ordering expression", ordering, hint=f"{found.expression.type} has no order")
        return found

    def _key(self, ordering: Ordering) -> OrderKey:
        descending = ordering.direction is Direction.DESCENDING
        match ordering.expr:
            case NameRef(name=name):
                position = self.positions.get(name)
                if position is None:
                    self.context.fail(f"alias '{name}' not found for ordering", ordering)
                return OrderKey(self.columns[position].expression, descending, position)
            case PropertyAccess() as access:
                return self._property_key(access, descending)
            case _:
                self.context.fail(
                    "unsupported ordering expression", ordering, hint="order by `$x.property` or by a column's name"
                )

    def _property_key(self, access: PropertyAccess, descending: bool) -> OrderKey:
        found = property_ref(access, self.context, self.scope)
        position = self.places.get(found)
        if position is None and (self.is_aggregated or self.body.distinct):
            self.context.fail(
                f"alias '{access.variable}.{access.property}' not found for ordering",
                access,
                hint=f"{'an aggregated' if self.is_aggregated else 'a distinct'} result is ordered by its own columns; "
                "return this property too",
            )
        return OrderKey(found, descending, position)

    def refuse_unranked_fusion(self, rank: Rank | None) -> None:
        for projection, column in zip(self.body.projections, self.columns, strict=True):
            if isinstance(column.expression, FusedScore) and (rank is None or rank.score != column.expression):
                self.context.fail("T21: rrf can be returned only when it is also the first order key", projection)


def row_count(written: Literal | VariableRef | None, what: str, context: Context) -> int | ParamRef | None:
    """``limit`` or ``offset``: a number, or an integer parameter that is not null and not negative."""
    if written is None:
        return None
    if isinstance(written, Literal):
        assert isinstance(written.value, int)  # the parser takes nothing else
        return written.value
    found = context.parameter(written.name)
    if found is None:
        context.fail(f"variable `${written.name}` must be a declared query parameter", written)
    if not is_whole_number(found.type) or found.type.nullable:
        context.fail(
            f"{what} parameter `${written.name}` must be an integer that is not nullable, got {found.type}", written
        )
    context.require_at_least(found.name, 0)
    return found
