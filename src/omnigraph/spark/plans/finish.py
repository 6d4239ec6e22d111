"""Bindings → the columns of the answer: aggregates, distinct, order, offset and limit."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from omnigraph.engine.exact_sums import overflow_message
from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.query.plan import Plan
from omnigraph.query.plan.explain import expression_text
from omnigraph.query.typed import Aggregate, Expression, Operand, SortKey, TypedQuery, Variable
from omnigraph.spark.plans.context import Context
from omnigraph.spark.plans.predicates import as_column, side
from omnigraph.spark.plans.ranked_rows import keep_best, rank_keys
from omnigraph.spark.plans.values import literal
from omnigraph.spark.types import spark_type_of


def finish(context: Context, plan: Plan, frame: DataFrame) -> DataFrame:
    query = plan.query
    names = [context.fresh() for _ in query.columns]
    if plan.rank is not None:
        shown = _by_rank(context, plan, keep_best(context, plan, frame), names)
    elif query.is_aggregated:
        shown = _cut(context, plan, _ordered(query.order, _aggregated(context, plan, frame, names), names))
    elif query.distinct:
        different = frame.select(*_columns(context, plan, names)).distinct()
        shown = _cut(context, plan, _ordered(query.order, different, names))
    else:
        shown = _cut(context, plan, _ordered_bindings(context, plan, frame)).select(*_columns(context, plan, names))
    return shown.toDF(*unique_names([column.name for column in query.columns]))


def _by_rank(context: Context, plan: Plan, frame: DataFrame, names: list[str]) -> DataFrame:
    """Best first, rows of one entity by the ids of the other variables; a group stands where its first row does."""
    query, rank = plan.query, plan.rank
    assert rank is not None
    others = (context.column(variable) for variable in _bound(query) if variable != rank.variable)
    keys = [*rank_keys(context, rank), *others]
    if not query.is_aggregated and not query.distinct:
        ordered = frame.orderBy(*(key.asc_nulls_first() for key in keys))
        return _cut(context, plan, ordered).select(*_columns(context, plan, names))
    place = context.fresh()
    first = F.min(F.struct(*keys)).alias(place)
    if query.is_aggregated:
        grouped = _aggregated(context, plan, frame, names, first)
    else:
        grouped = frame.groupBy(*_columns(context, plan, names)).agg(first)
    return _cut(context, plan, grouped.orderBy(place)).select(*names)


def _columns(context: Context, plan: Plan, names: list[str]) -> list[Column]:
    return [
        _operand(context, column.expression).cast(spark_type_of(column.type)).alias(name)
        for column, name in zip(plan.columns, names, strict=True)
    ]


def _operand(context: Context, expression: Expression) -> Column:
    assert not isinstance(expression, Aggregate)
    return as_column(side(context, expression))


def _aggregated(context: Context, plan: Plan, frame: DataFrame, names: list[str], *more: Column) -> DataFrame:
    """The groups of a result, with more aggregates behind its columns."""
    keys, aggregates = [], list(more)
    for column, name in zip(plan.columns, names, strict=True):
        if isinstance(column.expression, Aggregate):
            found = _aggregate(context, column.expression).cast(spark_type_of(column.type))
            aggregates.append(found.alias(name))
        else:
            keys.append(_operand(context, column.expression).alias(name))
    grouped = frame.groupBy(*keys).agg(*aggregates)
    return grouped if more else grouped.select(*names)


def _aggregate(context: Context, aggregate: Aggregate) -> Column:
    argument: Operand = aggregate.argument
    column = _operand(context, argument)
    match aggregate.function:
        case "count":
            return F.count_distinct(column) if aggregate.distinct else F.count(column)
        case "sum":
            scalar = aggregate.type.scalar
            return _exact_sum(aggregate, column) if scalar.is_integer else F.sum(column.cast("double"))
        case "avg":
            return F.avg(column.cast("double"))
        case "min":
            return F.min(column)
        case _:
            return F.max(column)


def _exact_sum(aggregate: Aggregate, column: Column) -> Column:
    """The sum of integers, or an error in the words of the engine."""
    scalar = aggregate.type.scalar
    bounds = INTEGER_BOUNDS[scalar]
    total = F.sum(column.cast("decimal(38,0)"))
    refusal = F.raise_error(F.lit(overflow_message(expression_text(aggregate), scalar)))
    fits = total.isNull() | total.between(literal(bounds.low), literal(bounds.high))
    return F.when(fits, total).otherwise(refusal)


def _ordered(order: tuple[SortKey, ...], frame: DataFrame, names: list[str]) -> DataFrame:
    """Rows of an answer, by columns of it."""
    if not order:
        return frame
    keys = []
    for key in order:
        assert key.column is not None
        keys.append(_directed(F.col(names[key.column]), key.descending))
    return frame.orderBy(*keys)


def _ordered_bindings(context: Context, plan: Plan, frame: DataFrame) -> DataFrame:
    """Bindings by any expressions; ties by the ids of all variables in the order of their names."""
    query = plan.query
    if not query.order:
        return frame
    keys = [_directed(_operand(context, key.expression), key.descending) for key in query.order]
    return frame.orderBy(*keys, *(context.column(variable).asc_nulls_first() for variable in _bound(query)))


def _bound(query: TypedQuery) -> list[Variable]:
    """All variables of a result in the order of their names."""
    return sorted((*query.match.variables, *query.match.optional_variables), key=lambda variable: variable.name)


def _directed(column: Column, descending: bool) -> Column:
    return column.desc_nulls_last() if descending else column.asc_nulls_first()


def _cut(context: Context, plan: Plan, frame: DataFrame) -> DataFrame:
    skip, limit = context.number(plan.query.offset), context.number(plan.query.limit)
    if skip:
        frame = frame.offset(skip)
    return frame if limit is None else frame.limit(limit)


def unique_names(names: list[str]) -> list[str]:
    """The names of the answer's columns, with ``_2``, ``_3`` … behind those that Spark would take for the same."""
    taken: set[str] = set()
    found = []
    for name in names:
        number, free = 1, name
        while free.lower() in taken:
            number += 1
            free = f"{name}_{number}"
        taken.add(free.lower())
        found.append(free)
    return found
