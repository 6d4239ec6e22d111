"""Predicates as boolean Spark columns, in the same three-valued logic as the engine's."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from omnigraph.query.typed import (
    AllOf,
    AnyOf,
    Compare,
    Constant,
    Distance,
    FusedScore,
    IsIn,
    IsNull,
    KeyId,
    NodeId,
    Not,
    Now,
    Operand,
    Operator,
    ParamRef,
    Predicate,
    PropertyRef,
    TextMatch,
    TextScore,
    Variable,
)
from omnigraph.schema.arrow import arrow_type
from omnigraph.schema.catalog import Scalar
from omnigraph.spark.plans.context import Context
from omnigraph.spark.plans.values import Fixed, Side, Varying, compare, literal
from omnigraph.spark.pushdown import PushedFilters
from omnigraph.storage.tables import filters as storage_filters

#: Comparisons that the storage can make too. It does not know instants.
_PUSHED = {Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE}
_UNPUSHED_SCALARS = {Scalar.DATETIME, Scalar.BLOB, Scalar.VECTOR}


def all_true(context: Context, predicates: tuple[Predicate, ...]) -> Column | None:
    """One condition for several; None when there are none."""
    return reduce(and_, [truth(context, each) for each in predicates]) if predicates else None


def passing(context: Context, frame: DataFrame, predicates: tuple[Predicate, ...]) -> DataFrame:
    condition = all_true(context, predicates)
    return frame if condition is None else frame.where(condition)


def nodes(context: Context, variable: Variable, predicates: tuple[Predicate, ...]) -> DataFrame:
    """The rows of a variable that pass predicates about it."""
    return passing(context, context.nodes(variable, pushed_filters(context, predicates)), predicates)


def side(context: Context, operand: Operand) -> Side:
    match operand:
        case PropertyRef():
            return Varying(context.column(operand.variable, operand.property), operand.type.scalar)
        case NodeId():
            return Varying(context.column(operand.variable), Scalar.STRING)
        case ParamRef() | Constant() | Now() | KeyId():
            return Fixed(context.value(operand))
        case Distance() | TextScore():
            return Varying(context.column(operand.field.variable, operand), Scalar.F64)
        case FusedScore():
            return Varying(context.column(operand.first.field.variable, operand), Scalar.F64)


def as_column(operand: Side) -> Column:
    return operand.column if isinstance(operand, Varying) else literal(operand.value)


def truth(context: Context, predicate: Predicate) -> Column:
    match predicate:
        case Compare():
            return _compare(context, predicate)
        case IsIn():
            return _is_in(context, predicate)
        case IsNull():
            if isinstance(predicate.operand, Variable):
                return context.column(predicate.operand).isNull()
            return as_column(side(context, predicate.operand)).isNull()
        case Not():
            return ~truth(context, predicate.part)
        case AllOf():
            return reduce(and_, [truth(context, part) for part in predicate.parts])
        case AnyOf():
            return reduce(or_, [truth(context, part) for part in predicate.parts])
        case TextMatch():
            return context.column(predicate.field.variable, predicate)


def _compare(context: Context, predicate: Compare) -> Column:
    left, right = side(context, predicate.left), side(context, predicate.right)
    match predicate.operator:
        case Operator.LIST_CONTAINS:
            return _list_contains(left, right)
        case Operator.TEXT_CONTAINS:
            return F.contains(_text(left), _text(right))
        case Operator.STARTS_WITH:
            return F.startswith(_text(left), _text(right))
    return compare(predicate.operator, left, right)


def _text(operand: Side) -> Column:
    return as_column(operand).cast("string")


def _list_contains(lists: Side, wanted: Side) -> Column:
    """Membership; unknown where the list or the wanted value is null. Null elements never match."""
    if isinstance(wanted, Fixed) and wanted.value is None:
        return _unknown()
    if isinstance(lists, Fixed):
        if lists.value is None:
            return _unknown()
        tests = [compare(Operator.EQ, wanted, Fixed(each)) for each in lists.value if each is not None]
        none = F.when(as_column(wanted).isNotNull(), F.lit(False))
        return reduce(or_, tests, none)
    scalar = lists.scalar
    found = F.exists(lists.column, lambda each: compare(Operator.EQ, Varying(each, scalar), wanted))
    known = lists.column.isNotNull() & as_column(wanted).isNotNull()
    return F.when(known, F.coalesce(found, F.lit(False)))


def _is_in(context: Context, predicate: IsIn) -> Column:
    operand = side(context, predicate.operand)
    if isinstance(predicate.choices, tuple):
        choices = [side(context, choice) for choice in predicate.choices]
    else:
        chosen = side(context, predicate.choices)
        if not isinstance(chosen, Fixed) or chosen.value is None:
            return _unknown()
        choices = [Fixed(each) for each in chosen.value]
    choices = [each for each in choices if not (isinstance(each, Fixed) and each.value is None)]
    if isinstance(operand, Fixed) and operand.value is None:
        return _unknown()
    texts = [each.value for each in choices if isinstance(each, Fixed) and isinstance(each.value, str)]
    if isinstance(operand, Varying) and choices and len(texts) == len(choices):
        return operand.column.isin(texts)
    none = F.when(as_column(operand).isNotNull(), F.lit(False))
    return reduce(or_, [compare(Operator.EQ, operand, choice) for choice in choices], none)


def _unknown() -> Column:
    return F.lit(None).cast("boolean")


def pushed_filters(context: Context, predicates: tuple[Predicate, ...]) -> PushedFilters:
    """What the storage can test while it reads a variable's table; the predicates are tested again after it."""
    found = []
    for predicate in predicates:
        if not isinstance(predicate, Compare) or predicate.operator not in _PUSHED:
            continue
        left, right = predicate.left, predicate.right
        if not isinstance(left, PropertyRef) or isinstance(right, PropertyRef | NodeId):
            continue
        if left.type.list or left.type.scalar in _UNPUSHED_SCALARS:
            continue
        known = side(context, right)
        if not isinstance(known, Fixed) or known.value is None:
            continue
        made = storage_filters.compare(left.property, arrow_type(left.type), predicate.operator.value, known.value)
        if made is None:
            return PushedFilters(empty=True)
        found.append(made)
    return PushedFilters(tuple(found))
