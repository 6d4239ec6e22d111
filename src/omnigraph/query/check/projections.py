"""The `return` block: columns, their names, and aggregates."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.query.check.operands import operand
from omnigraph.query.check.scope import Context, Scope
from omnigraph.query.check.search import score
from omnigraph.query.syntax.tree import (
    AggregateCall,
    Bm25Call,
    Expr,
    NameRef,
    NearestCall,
    Projection,
    RrfCall,
    TextCall,
)
from omnigraph.query.typed import (
    Aggregate,
    Column,
    Constant,
    Distance,
    Expression,
    FusedScore,
    NodeId,
    Now,
    Operand,
    ParamRef,
    PropertyRef,
    TextScore,
)
from omnigraph.schema.catalog import PropertyType, Scalar


def columns(projections: tuple[Projection, ...], context: Context, scope: Scope) -> tuple[Column, ...]:
    """Check every projection; in an aggregated query also what may stand beside the aggregates."""
    found = tuple(_column(projection, context, scope) for projection in projections)
    if any(isinstance(column.expression, Aggregate) for column in found):
        for projection, column in zip(projections, found, strict=True):
            if not isinstance(column.expression, Aggregate | PropertyRef | NodeId):
                context.fail(
                    "T9: non-aggregate expressions in an aggregate query must be property accesses or variables",
                    projection,
                )
    return found


def _column(projection: Projection, context: Context, scope: Scope) -> Column:
    expression = _expression(projection.expr, context, scope)
    return Column(projection.alias or column_name(expression), expression)


def _expression(expr: Expr, context: Context, scope: Scope) -> Expression:
    if isinstance(expr, AggregateCall):
        return _aggregate(expr, context, scope)
    return _value(expr, context, scope)


def _value(expr: Expr, context: Context, scope: Scope) -> Operand:
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


def _aggregate(call: AggregateCall, context: Context, scope: Scope) -> Aggregate:
    function = call.function
    if isinstance(call.argument, AggregateCall):
        context.fail("aggregates cannot be nested", call.argument)
    argument = _value(call.argument, context, scope)
    if isinstance(argument, FusedScore):
        context.fail("T8: rrf depends on the order of the whole result and cannot be aggregated", call.argument)
    kind = argument.type
    if function == "count":
        return Aggregate(function, argument, PropertyType(Scalar.I64))
    shown = f"node `{argument.variable.type_name}`" if isinstance(argument, NodeId) else str(kind)
    is_number = kind.scalar.is_numeric and not kind.list
    if function in ("sum", "avg"):
        if not is_number:
            context.fail(f"T8: {function} requires numeric type, got {shown}", call)
        return Aggregate(function, argument, PropertyType(Scalar.F64, nullable=True))
    is_string = kind.scalar is Scalar.STRING and not kind.list and not isinstance(argument, NodeId)
    if not (is_number or is_string):
        context.fail(f"T8: {function} requires numeric or string type, got {shown}", call)
    return Aggregate(function, argument, replace(kind, nullable=True))


def column_name(expression: Expression) -> str:
    """The name of a column without an alias."""
    match expression:
        case PropertyRef(variable=variable, property=name):
            return f"{variable.label}.{name}"
        case NodeId(variable=variable):
            return variable.label
        case ParamRef(name=name):
            return name
        case Constant():
            return "literal"
        case Now():
            return "now"
        case Distance():
            return "nearest"
        case TextScore():
            return "bm25"
        case FusedScore():
            return "rrf"
        case Aggregate(argument=argument):
            return column_name(argument)
