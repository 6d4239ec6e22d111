"""Expressions that denote one value, and which types go together in comparisons and assignments.

Properties, variables, parameters, literals and `now()`. Search scores are in `search.py`, aggregates in
`return_clause.py`; `operand` refuses both. Nullability never matters for types here; an enum is a String.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph.ids import did_you_mean
from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.query.check.scope import CheckContext, ScopedVariable, VariableScope
from omnigraph.query.syntax.tree import (
    AggregateCall,
    Bm25Call,
    Expr,
    ListLiteral,
    Literal,
    LiteralKind,
    NameRef,
    NearestCall,
    NowCall,
    PropertyAccess,
    RrfCall,
    TextCall,
    VariableRef,
)
from omnigraph.query.temporal import parse_date, parse_datetime
from omnigraph.query.typed import (
    Atom,
    Constant,
    Entity,
    NodeId,
    Now,
    Operand,
    ParamRef,
    PropertyRef,
)
from omnigraph.schema.catalog import PropertyType, Scalar


def compatible(one: PropertyType, other: PropertyType) -> bool:
    """Both lists or both not, and the same scalar or both numeric. Vectors must agree in dimension."""
    return one.list == other.list and one.dimension == other.dimension and _comparable(one.scalar, other.scalar)


def element_type(of: PropertyType) -> PropertyType:
    """The type of a list's elements."""
    return replace(of, list=False)


def is_plain_scalar(kind: PropertyType) -> bool:
    """Neither list nor vector nor Blob: something that compares."""
    return not kind.list and kind.scalar not in (Scalar.VECTOR, Scalar.BLOB)


def is_text(kind: PropertyType) -> bool:
    return kind.scalar is Scalar.STRING and not kind.list


def is_whole_number(kind: PropertyType) -> bool:
    return kind.scalar.is_integer and not kind.list


def assignable(value: PropertyType, target: PropertyType) -> bool:
    """Whether a value of one type may be stored in a property of another; ranges and lengths are checked later."""
    if target.scalar is Scalar.VECTOR and value.list:
        return value.scalar.is_numeric
    if value.list != target.list or value.dimension != target.dimension:
        return False
    if target.scalar is Scalar.BLOB:
        return value.scalar in (Scalar.BLOB, Scalar.STRING)
    if target.scalar.is_integer:
        return value.scalar.is_integer
    return _comparable(value.scalar, target.scalar)


def is_null(operand: Operand) -> bool:
    return isinstance(operand, Constant) and operand.value is None


def shown_type(operand: Operand) -> str:
    """The type of an operand in a message."""
    return "null" if is_null(operand) else str(operand.type)


def _comparable(one: Scalar, other: Scalar) -> bool:
    return one is other or (one.is_numeric and other.is_numeric)


_LITERAL_SCALARS = {
    LiteralKind.STRING: Scalar.STRING,
    LiteralKind.INTEGER: Scalar.I64,
    LiteralKind.FLOAT: Scalar.F64,
    LiteralKind.BOOLEAN: Scalar.BOOL,
    LiteralKind.DATE: Scalar.DATE,
    LiteralKind.DATETIME: Scalar.DATETIME,
    LiteralKind.NULL: Scalar.STRING,
}


def operand(expr: Expr, context: CheckContext, scope: VariableScope) -> Operand:
    """The value an expression stands for in a condition, a column or an aggregate."""
    match expr:
        case PropertyAccess():
            return property_ref(expr, context, scope)
        case VariableRef():
            return bare_variable(expr, context, scope)
        case Literal() | ListLiteral():
            return constant(expr, context)
        case NowCall():
            return Now()
        case NameRef():
            context.fail(
                f"name `{expr.name}` is not a value here",
                expr,
                hint=f"write `${expr.name}` for a variable, quotes for a text",
            )
        case NearestCall() | Bm25Call() | RrfCall() | TextCall() | AggregateCall():
            context.fail(f"`{_function_name(expr)}` cannot be used as a value here", expr)


def _function_name(call: NearestCall | Bm25Call | RrfCall | TextCall | AggregateCall) -> str:
    if isinstance(call, TextCall | AggregateCall):
        return call.function
    return {NearestCall: "nearest", Bm25Call: "bm25", RrfCall: "rrf"}[type(call)]


def property_ref(access: PropertyAccess, context: CheckContext, scope: VariableScope) -> PropertyRef:
    """``$x.p`` of a bound node or edge. Blobs are not readable."""
    found = scope.find(access.variable)
    if found is None:
        context.fail(f"T6: variable `${access.variable}` is not bound", access, hint=_order_hint(access, context))
    kind = _property_type(access, found, context)
    if kind.scalar is Scalar.BLOB:
        context.fail(
            f"T24: Blob property `${access.variable}.{access.property}` is not available as a .gq read value; "
            "Blob values require a dedicated API",
            access,
        )
    return PropertyRef(found.variable, access.property, replace(kind, nullable=True) if found.nullable else kind)


def _property_type(access: PropertyAccess, found: ScopedVariable, context: CheckContext) -> PropertyType:
    type_name = found.variable.type_name
    if found.variable.entity is Entity.NODE:
        properties, owner = context.catalog.nodes[type_name].properties, f"type `{type_name}`"
    else:
        properties, owner = context.catalog.edges[type_name].properties, f"edge `{type_name}`"
    if access.property not in properties:
        hint = did_you_mean(access.property, properties)
        context.fail(f"T6: {owner} has no property `{access.property}`", access, hint=hint)
    return properties[access.property].type


def _order_hint(access: PropertyAccess, context: CheckContext) -> str | None:
    if context.parameter(access.variable) is not None:
        return "it is a parameter; parameters have no properties"
    return "clauses are read in order: introduce the variable above"


def bare_variable(ref: VariableRef, context: CheckContext, scope: VariableScope) -> ParamRef | NodeId:
    """``$x`` alone: the parameter of that name, else the id of the node."""
    param = context.parameter(ref.name)
    if param is not None:
        return param
    found = scope.find(ref.name)
    if found is None:
        context.fail(f"variable `${ref.name}` is not bound", ref)
    if found.variable.entity is Entity.EDGE:
        context.fail(f"T23: edge variable `${ref.name}` cannot be used on its own; use one of its properties", ref)
    return NodeId(found.variable, PropertyType(Scalar.STRING, nullable=found.nullable))


def constant(literal: Literal | ListLiteral, context: CheckContext) -> Constant:
    """The value and the type of a literal. A list has the type of its first element; an empty one is ``[String]``."""
    if isinstance(literal, Literal):
        is_null = literal.kind is LiteralKind.NULL
        kind = PropertyType(_scalar_of(literal), nullable=is_null)
        return Constant(_literal_value(literal, context), kind)
    values: list[Atom] = []
    element: PropertyType | None = None
    for item in literal.items:
        if isinstance(item, ListLiteral):
            context.fail("nested list literals are not supported", item)
        if not isinstance(item, Literal):
            context.fail("a list holds literals only, except behind `in`", item)
        if item.kind is LiteralKind.NULL:
            context.fail("list literals cannot hold null", item)
        found = PropertyType(_scalar_of(item))
        element = element or found
        if not compatible(element, found):
            context.fail("list literal elements must share a compatible scalar type", item)
        if found.scalar is Scalar.F64:
            element = found  # one float makes a list of floats
        values.append(_literal_value(item, context))
    return Constant(tuple(values), replace(element or PropertyType(Scalar.STRING), list=True))


def _scalar_of(literal: Literal) -> Scalar:
    """An integer that only an unsigned type can hold is one."""
    scalar = _LITERAL_SCALARS[literal.kind]
    is_unsigned = scalar is Scalar.I64 and isinstance(literal.value, int) and literal.value > INTEGER_BOUNDS["I64"].high
    return Scalar.U64 if is_unsigned else scalar


def _literal_value(literal: Literal, context: CheckContext) -> Atom:
    try:
        if literal.kind is LiteralKind.DATE:
            return parse_date(str(literal.value))
        if literal.kind is LiteralKind.DATETIME:
            return parse_datetime(str(literal.value))
    except ValueError as refused:
        context.fail(str(refused), literal)
    return literal.value
