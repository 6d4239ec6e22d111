"""The `return` block with its columns and aggregates, then `order`, `limit` and `offset`.

A search function as the first order key, written out or by the alias of a column that returns it, becomes the rank of
the query. All other keys are values: properties or output columns.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from omnigraph.ids import did_you_mean
from omnigraph.query.check.operands import (
    bare_variable,
    is_plain_scalar,
    is_whole_number,
    known_variable,
    operand,
    properties_of,
    property_ref,
)
from omnigraph.query.check.scope import CheckContext, VariableScope
from omnigraph.query.check.search import score
from omnigraph.query.syntax.tree import (
    AggregateCall,
    Bm25Call,
    EveryProperty,
    Expr,
    Literal,
    NameRef,
    NearestCall,
    OrderItem,
    Projection,
    PropertyAccess,
    ReadBody,
    RrfCall,
    SortDirection,
    TextCall,
    VariableRef,
)
from omnigraph.query.typed import (
    Aggregate,
    Constant,
    Distance,
    Expression,
    FusedScore,
    KeyId,
    NodeId,
    Now,
    Operand,
    OutputColumn,
    ParamRef,
    PropertyRef,
    Rank,
    Score,
    SortKey,
    TextScore,
    written,
)
from omnigraph.schema.catalog import PropertyType, Scalar


def expanded(
    projections: tuple[Projection, ...], context: CheckContext, scope: VariableScope
) -> tuple[Projection, ...]:
    """The projections with ``$x.*`` written out: every property in the order of the catalog, under its own name."""
    found: list[Projection] = []
    for projection in projections:
        star = projection.expr
        found += _spread(star, context, scope) if isinstance(star, EveryProperty) else [projection]
    return tuple(found)


def _spread(star: EveryProperty, context: CheckContext, scope: VariableScope) -> list[Projection]:
    """One projection per property; Blobs are left out, because a query cannot read them."""
    variable = known_variable(star, context, scope).variable
    found = [
        Projection(PropertyAccess(star.variable, name, offset=star.offset), name, True, offset=star.offset)
        for name, declared in properties_of(variable, context).items()
        if declared.type.scalar is not Scalar.BLOB
    ]
    if not found:
        context.fail(f"T25: `${star.variable}.*` is empty: `{variable.type_name}` has no properties to return", star)
    return found


def columns(
    projections: tuple[Projection, ...], context: CheckContext, scope: VariableScope
) -> tuple[OutputColumn, ...]:
    """Check every projection; in an aggregated query also what may stand beside the aggregates."""
    found = tuple(_column(projection, context, scope) for projection in projections)
    _refuse_repeated(projections, found, context)
    if any(isinstance(column.expression, Aggregate) for column in found):
        for projection, column in zip(projections, found, strict=True):
            if not isinstance(column.expression, Aggregate | PropertyRef | NodeId):
                context.fail(
                    "T9: non-aggregate expressions in an aggregate query must be property accesses or variables",
                    projection,
                )
    return found


def _refuse_repeated(
    projections: tuple[Projection, ...], columns: tuple[OutputColumn, ...], context: CheckContext
) -> None:
    """Columns that were written one by one may share a name; those of ``$x.*`` may not, nobody sees it coming."""
    names = Counter(column.name for column in columns)
    for projection in projections:
        if projection.is_spread and names[projection.alias or ""] > 1:
            assert isinstance(projection.expr, PropertyAccess)
            variable = projection.expr.variable
            context.fail(
                f"T25: `${variable}.*` repeats the column `{projection.alias}`",
                projection,
                hint=f"write the properties of one of them out: `${variable}.{projection.alias} as …`",
            )


def _column(projection: Projection, context: CheckContext, scope: VariableScope) -> OutputColumn:
    assert not isinstance(projection.expr, EveryProperty)  # written out by `expanded`
    expression = _expression(projection.expr, context, scope)
    return OutputColumn(projection.alias or column_name(expression), expression)


def _expression(expr: Expr, context: CheckContext, scope: VariableScope) -> Expression:
    if isinstance(expr, AggregateCall):
        return _aggregate(expr, context, scope)
    return _value(expr, context, scope)


def _value(expr: Expr, context: CheckContext, scope: VariableScope) -> Operand:
    match expr:
        case NearestCall() | Bm25Call() | RrfCall():
            return score(expr, context, scope)
        case TextCall():
            context.fail("unsupported projection expression", expr, hint=f"`{expr.function}` is a match clause")
        case NameRef():
            is_distinct = expr.name == "distinct"
            hint = "write `return distinct { … }`" if is_distinct else "an alias can be used in `order` only"
            context.fail("unsupported projection expression", expr, hint=hint)
        case _:
            found = operand(expr, context, scope)
            if found.type.scalar is Scalar.BLOB:
                context.fail("T24: a Blob parameter is not available as a .gq read value", expr)
            return found


def _aggregate(call: AggregateCall, context: CheckContext, scope: VariableScope) -> Aggregate:
    function = call.function
    if isinstance(call.argument, AggregateCall):
        context.fail("aggregates cannot be nested", call.argument)
    if function == "count":
        return _count(call, context, scope)
    argument = _value(call.argument, context, scope)
    _refuse_fused(argument, call, context)
    kind = argument.type
    shown = f"node `{argument.variable.type_name}`" if isinstance(argument, NodeId) else str(kind)
    if function in ("sum", "avg"):
        if not kind.scalar.is_numeric or kind.list:
            context.fail(f"T8: {function} requires numeric type, got {shown}", call)
        scalar = Scalar.F64 if function == "avg" else sum_type(kind.scalar)
        return Aggregate(function, argument, PropertyType(scalar, nullable=True))
    if not is_plain_scalar(kind) or isinstance(argument, NodeId):
        context.fail(f"T8: {function} requires numeric, string, date or bool type, got {shown}", call)
    return Aggregate(function, argument, replace(kind, nullable=True))


def _count(call: AggregateCall, context: CheckContext, scope: VariableScope) -> Aggregate:
    argument: Operand
    if isinstance(call.argument, VariableRef) and context.parameter(call.argument.name) is None:
        argument = bare_variable(call.argument, context, scope, is_counted=True)
    else:
        argument = _value(call.argument, context, scope)
    _refuse_fused(argument, call, context)
    is_countable = isinstance(argument, PropertyRef | NodeId) and is_plain_scalar(argument.type)
    if call.distinct and not is_countable:
        context.fail(
            f"T8: count(distinct …) requires a variable or a property that is no list, got {argument.type}", call
        )
    return Aggregate("count", argument, PropertyType(Scalar.I64), call.distinct)


def _refuse_fused(argument: Operand, call: AggregateCall, context: CheckContext) -> None:
    if isinstance(argument, FusedScore):
        context.fail("T8: rrf depends on the order of the whole result and cannot be aggregated", call.argument)


def sum_type(of: Scalar) -> Scalar:
    """The type of a sum. Integers add up exactly: to U64 if they are, else to I64."""
    if not of.is_integer:
        return Scalar.F64
    return Scalar.U64 if of is Scalar.U64 else Scalar.I64


def column_name(expression: Expression) -> str:
    """The name of a column without an alias."""
    match expression:
        case PropertyRef():
            return written(expression)
        case NodeId(variable=variable):
            return variable.label
        case ParamRef(name=name):
            return name
        case Constant():
            return "literal"
        case Now():
            return "now"
        case KeyId(value=value):
            return column_name(value)
        case Distance():
            return "nearest"
        case TextScore():
            return "bm25"
        case FusedScore():
            return "rrf"
        case Aggregate(argument=argument):
            return column_name(argument)


_SCORE_CALLS = (NearestCall, Bm25Call, RrfCall)
_SCORES = (Distance, TextScore, FusedScore)


@dataclass(frozen=True, slots=True)
class CheckedOrder:
    """What orders a result: a rank, or keys."""

    rank: Rank | None
    keys: tuple[SortKey, ...]


def check_order(
    body: ReadBody, columns: tuple[OutputColumn, ...], context: CheckContext, scope: VariableScope
) -> CheckedOrder:
    """Check all order keys. Keys behind a rank are checked and then dropped: the rank alone orders."""
    checker = _OrderChecker(body, columns, context, scope)
    rank = checker.rank()
    keys = tuple(checker.key(ordering) for ordering in (body.order[1:] if rank else body.order))
    checker.refuse_unranked_fusion(rank)
    return CheckedOrder(rank, () if rank else keys)


class _OrderChecker:
    """The order keys of one query. Of several equal columns the last counts, as in a row of the result."""

    def __init__(
        self, body: ReadBody, columns: tuple[OutputColumn, ...], context: CheckContext, scope: VariableScope
    ) -> None:
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

    def _score(self, ordering: OrderItem) -> Score | None:
        """A key that ranks. An alias ranks unless it asks explicitly for worst first: then it is a plain value."""
        if isinstance(ordering.expr, _SCORE_CALLS):
            return score(ordering.expr, self.context, self.scope)
        if isinstance(ordering.expr, NameRef):
            position = self.positions.get(ordering.expr.name)
            found = self.columns[position].expression if position is not None else None
            worst = SortDirection.DESCENDING if isinstance(found, Distance) else SortDirection.ASCENDING
            if isinstance(found, _SCORES) and ordering.direction is not worst:
                return found
        return None

    def _refuse_aliases(self, orderings: tuple[OrderItem, ...]) -> None:
        for ordering in orderings:
            if isinstance(ordering.expr, NameRef):
                self.context.fail(
                    "T18: alias-based ordering is not supported together with nearest in phase 1", ordering
                )

    def _refuse_late_scores(self, orderings: tuple[OrderItem, ...]) -> None:
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

    def key(self, ordering: OrderItem) -> SortKey:
        found = self._key(ordering)
        if not is_plain_scalar(found.expression.type):
            self.context.fail("unsupported ordering expression", ordering, hint=f"{found.expression.type} has no order")
        return found

    def _key(self, ordering: OrderItem) -> SortKey:
        descending = ordering.direction is SortDirection.DESCENDING
        match ordering.expr:
            case NameRef(name=name):
                position = self.positions.get(name)
                if position is None:
                    known = [f"${each}" if "." in each else each for each in self.positions]  # as an order spells them
                    hint = did_you_mean(name, known)
                    self.context.fail(f"alias '{name}' not found for ordering", ordering, hint=hint)
                return SortKey(self.columns[position].expression, descending, position)
            case PropertyAccess() as access:
                return self._property_key(access, descending)
            case _:
                self.context.fail(
                    "unsupported ordering expression", ordering, hint="order by `$x.property` or by a column's name"
                )

    def _property_key(self, access: PropertyAccess, descending: bool) -> SortKey:
        found = property_ref(access, self.context, self.scope)
        position = self.places.get(found)
        if position is None and (self.is_aggregated or self.body.distinct):
            self.context.fail(
                f"alias '{access.variable}.{access.property}' not found for ordering",
                access,
                hint=f"{'an aggregated' if self.is_aggregated else 'a distinct'} result is ordered by its own columns; "
                "return this property too",
            )
        return SortKey(found, descending, position)

    def refuse_unranked_fusion(self, rank: Rank | None) -> None:
        for projection, column in zip(self.body.projections, self.columns, strict=True):
            if isinstance(column.expression, FusedScore) and (rank is None or rank.score != column.expression):
                self.context.fail("T21: rrf can be returned only when it is also the first order key", projection)


def row_count(written: Literal | VariableRef | None, what: str, context: CheckContext) -> int | ParamRef | None:
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
