"""Expressions that denote one value, and which types go together in comparisons and assignments.

Properties, variables, parameters, literals and `now()`. Search scores are in `search.py`, aggregates in
`return_clause.py`; `operand` refuses both. Nullability never matters for types here; an enum is a String.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date

from omnigraph.ids import closest, did_you_mean
from omnigraph.integers import INTEGER_BOUNDS
from omnigraph.query.check.scope import CheckContext, ScopedVariable, VariableScope, WrittenRow
from omnigraph.query.syntax.tree import (
    AggregateCall,
    Bm25Call,
    EveryProperty,
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
from omnigraph.query.temporal import FORMS, parse_date, parse_datetime
from omnigraph.query.typed import (
    END_WORDS,
    Atom,
    Constant,
    Entity,
    KeyId,
    NodeId,
    Now,
    Operand,
    ParamRef,
    PropertyRef,
    Variable,
)
from omnigraph.schema.catalog import Property, PropertyType, Scalar

UNDECLARED = "T14: mutation variable `${}` must be a declared query parameter"


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


#: What every row has beside its properties is text that is never null.
_ID = "id"
_ROW_TEXT = PropertyType(Scalar.STRING)

_TEMPORAL_WORDS = {Scalar.DATE: "date", Scalar.DATETIME: "datetime"}
_LONGEST_TEMPORAL = 40


def temporal_hint(kind: PropertyType, value: Operand) -> str | None:
    """How to write a date or an instant that was given as a text, or a date where an instant is needed."""
    word = _TEMPORAL_WORDS.get(kind.scalar)
    if word is None:
        return None
    if isinstance(value, ParamRef) and value.type.scalar is Scalar.STRING:
        return f"declare the parameter as `${value.name}: {kind.scalar}`"
    if isinstance(value, Constant) and isinstance(value.value, str | date):
        text = str(value.value)
        return f'write {word}("{text if len(text) <= _LONGEST_TEMPORAL else "…"}")'
    return None


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
        case NameRef() if scope.row is not None:
            return row_column(expr, scope.row, context)
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
    """``$x.p`` of a bound node or edge, also its ``id``, and ``from`` and ``to`` of an edge. Blobs are not readable."""
    found = known_variable(access, context, scope)
    kind = _property_type(access, found, context)
    if kind.scalar is Scalar.BLOB:
        context.fail(
            f"T24: Blob property `${access.variable}.{access.property}` is not available as a .gq read value; "
            "Blob values require a dedicated API",
            access,
        )
    column = END_WORDS.get(access.property) if kind is _ROW_TEXT else None
    kind = replace(kind, nullable=True) if found.nullable else kind
    return PropertyRef(found.variable, column or access.property, kind)


def known_variable(
    access: PropertyAccess | EveryProperty, context: CheckContext, scope: VariableScope
) -> ScopedVariable:
    """The variable in front of the dot."""
    found = scope.find(access.variable)
    if found is None:
        hint = _order_hint(access, context, scope)
        context.fail(f"T6: variable `${access.variable}` is not bound", access, hint=hint)
    return found


def _property_type(access: PropertyAccess, found: ScopedVariable, context: CheckContext) -> PropertyType:
    properties = properties_of(found.variable, context)
    if access.property in properties:
        return properties[access.property].type
    is_node, type_name = found.variable.entity is Entity.NODE, found.variable.type_name
    words = (_ID,) if is_node else (_ID, *END_WORDS)
    if access.property in words:
        return _ROW_TEXT
    owner = f"type `{type_name}`" if is_node else f"edge `{type_name}`"
    hint = property_hint(access.property, [*properties, *words])
    context.fail(f"T6: {owner} has no property `{access.property}`", access, hint=hint)


def property_hint(name: str, known: Iterable[str]) -> str | None:
    """What was meant by a property that is not there. In schemas and tables the ends of an edge have other names."""
    known = list(known)
    end = next((word for word, column in END_WORDS.items() if column == name), None)
    return f"did you mean '{end}'?" if end in known else did_you_mean(name, known)


def properties_of(variable: Variable, context: CheckContext) -> Mapping[str, Property]:
    """The declared properties of a variable's type."""
    types = context.catalog.nodes if variable.entity is Entity.NODE else context.catalog.edges
    return types[variable.type_name].properties


def row_column(name: NameRef, row: WrittenRow, context: CheckContext) -> PropertyRef:
    """A bare word in a ``where``: a property of the row, its id or an end."""
    found = row.columns.get(name.name)
    if found is None:
        hint = property_hint(name.name, row.columns)
        context.fail(f"T11: type `{row.variable.type_name}` has no property `{name.name}`", name, hint=hint)
    if found.type.scalar is Scalar.BLOB:
        context.fail(f"T11: blob property `{name.name}` cannot be used in WHERE predicates", name)
    return PropertyRef(row.variable, found.name, found.type)


def as_id(value: Operand, beside: Operand, scope: VariableScope) -> Operand:
    """A value as it compares with an id beside it: the value of a key becomes the id that is made of it."""
    key = scope.row.key_behind(beside.property) if scope.row and isinstance(beside, PropertyRef) else None
    if key is None or not isinstance(value, ParamRef | Constant | Now):
        return value
    return key_id(value, key)


def key_id(value: ParamRef | Constant | Now, key: PropertyType) -> ParamRef | Constant | Now | KeyId:
    """The id for the value of a key; the value itself when it is text, or does not fit the key."""
    if value.type.scalar is Scalar.STRING or not assignable(element_type(value.type), key):
        return value
    return KeyId(value, key, PropertyType(Scalar.STRING, nullable=value.type.nullable, list=value.type.list))


def _order_hint(access: PropertyAccess | EveryProperty, context: CheckContext, scope: VariableScope) -> str:
    name = access.variable
    if scope.row is not None and isinstance(access, PropertyAccess):
        return f"in `where` a property is a bare word: `{access.property}`"
    if context.parameter(name) is not None:
        return "it is a parameter; parameters have no properties"
    close = closest(name, scope.labels)
    return f"did you mean `${close}`?" if close else "clauses are read in order: introduce the variable above"


def bare_variable(
    ref: VariableRef, context: CheckContext, scope: VariableScope, *, is_counted: bool = False
) -> ParamRef | NodeId:
    """``$x`` alone: the parameter of that name, else the id of the node. Edges can only be counted."""
    param = context.parameter(ref.name)
    if param is not None:
        return param
    found = scope.find(ref.name)
    if found is None and scope.row is not None:
        context.fail(UNDECLARED.format(ref.name), ref)
    if found is None:
        close = closest(ref.name, [*scope.labels, *(parameter.name for parameter in context.parameters)])
        hint = f"did you mean `${close}`?" if close else "bind it in `match`, or declare it as a parameter"
        context.fail(f"variable `${ref.name}` is not bound", ref, hint=hint)
    if found.variable.entity is Entity.EDGE and not is_counted:
        context.fail(
            f"T23: edge variable `${ref.name}` cannot be used on its own; use one of its properties",
            ref,
            hint=f"its id is `${ref.name}.id`, its ends are `${ref.name}.from` and `${ref.name}.to`",
        )
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
        form = FORMS[_LITERAL_SCALARS[literal.kind]]
        context.fail(str(refused), literal, hint=f'write {literal.kind.value}("{form}")')
    return literal.value
