"""Values against properties: the tests of a binding, the assignments and the `where` of a mutation.

A literal that does not fit is T3, a parameter or `now()` that does not fit is T7. What only the value of a parameter
can tell (ranges, enum members, lengths, null) is checked when the query runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from omnigraph.query.check.operands import assignable, compatible, constant, element_type, key_id, temporal_hint
from omnigraph.query.check.scope import CheckContext
from omnigraph.query.syntax.tree import ListLiteral, Literal, LiteralKind, NowCall, Value, VariableRef
from omnigraph.query.typed import Constant, MutationValue, Now, ParamRef
from omnigraph.schema.catalog import PropertyType, Scalar


@dataclass(frozen=True, slots=True)
class PropertyTarget:
    """The property a value is meant for, and the rule for a variable that is no parameter.

    Attributes:
        key: for an id that may also be given as the value of the key it is made of, the type of that key.
    """

    owner: str
    property: str
    type: PropertyType
    undeclared: str = "variable `${}` must be a declared query parameter"
    key: PropertyType | None = None


def tested_value(value: Value, target: PropertyTarget, context: CheckContext) -> MutationValue:
    """The value of ``property: value`` in a binding: equality, or membership in a list property."""
    kind = target.type
    if kind.scalar is Scalar.BLOB:
        context.fail(f"T3: blob property `{target.owner}.{target.property}` cannot be used in match patterns", value)
    found = _resolve(value, target, context)
    if kind.scalar is Scalar.VECTOR:
        _check_vector_length(value, found, target, context)
        context.fail(f"T3: vector property `{target.owner}.{target.property}` cannot be used in match patterns", value)
    if kind.list and found.type.list:
        context.fail(
            f"T3: list equality is not supported for property `{target.property}`; "
            "use a scalar value to test for membership",
            value,
        )
    if kind.list and isinstance(value, Literal):
        if value.kind is LiteralKind.NULL or not compatible(element_type(kind), found.type):
            _refuse_literal(f"[{kind.scalar}] but membership match got", value, found, target, context)
        return found
    _require_comparable(value, found, element_type(kind), target, context)
    return found


def where_value(value: Value, target: PropertyTarget, context: CheckContext) -> MutationValue:
    """The value of a ``where`` that is one comparison."""
    kind = target.type
    if kind.scalar is Scalar.BLOB:
        context.fail(f"T11: blob property `{target.property}` cannot be used in WHERE predicates", value)
    if kind.list or kind.scalar is Scalar.VECTOR:
        context.fail(f"T7: property `{target.property}` has type {kind}, which WHERE predicates cannot compare", value)
    found = _resolve(value, target, context)
    _require_comparable(value, found, kind, target, context)
    return found


def assigned_value(value: Value, target: PropertyTarget, context: CheckContext) -> MutationValue:
    """The value of an assignment."""
    kind = target.type
    found = _resolve(value, target, context)
    if isinstance(value, Literal) and value.kind is LiteralKind.NULL:
        if not kind.nullable:
            _refuse_literal(f"{kind} but got", value, found, target, context)
        return Constant(None, kind)
    if kind.scalar is Scalar.VECTOR:
        _check_vector_length(value, found, target, context)
    if isinstance(value, ListLiteral) and not value.items and kind.list:
        return Constant((), kind)
    is_literal_blob = kind.scalar is Scalar.BLOB and isinstance(value, Literal)
    if is_literal_blob or not assignable(found.type, kind):
        _refuse(value, found, target, context)
    _check_enum(value, target, context)
    return found


def _resolve(value: Value, target: PropertyTarget, context: CheckContext) -> MutationValue:
    found = _given(value, target, context)
    return found if target.key is None else key_id(found, target.key)


def _given(value: Value, target: PropertyTarget, context: CheckContext) -> ParamRef | Constant | Now:
    match value:
        case NowCall():
            return Now()
        case VariableRef():
            found = context.parameter(value.name)
            if found is None:
                context.fail(target.undeclared.format(value.name), value)
            return found
        case Literal() | ListLiteral():
            return constant(value, context)


def _require_comparable(
    value: Value, found: MutationValue, kind: PropertyType, target: PropertyTarget, context: CheckContext
) -> None:
    if isinstance(value, Literal) and value.kind is LiteralKind.NULL:
        hint = "a test against null never matches; write a condition with `is null`"
        _refuse_literal(f"{target.type} but got", value, found, target, context, hint)
    if not compatible(kind, found.type):
        _refuse(value, found, target, context)
    _check_enum(value, target, context)


def _check_vector_length(value: Value, found: MutationValue, target: PropertyTarget, context: CheckContext) -> None:
    if isinstance(value, ListLiteral):
        if len(value.items) != target.type.dimension:
            context.fail(
                f"T3: property `{target.property}` has type {target.type} "
                f"but got vector literal with {len(value.items)} elements",
                value,
            )
    elif isinstance(found, ParamRef) and found.type.dimension not in (None, target.type.dimension):
        _refuse(value, found, target, context)


def _check_enum(value: Value, target: PropertyTarget, context: CheckContext) -> None:
    """A literal outside of the enum can never be right; the value of a parameter is not known yet."""
    allowed = target.type.enum_values
    if allowed is not None and isinstance(value, Literal) and value.value not in allowed:
        context.fail(
            f"T3: property `{target.property}` expects one of [{', '.join(allowed)}], got '{value.value}'", value
        )


def _refuse(value: Value, found: MutationValue, target: PropertyTarget, context: CheckContext) -> NoReturn:
    if isinstance(value, Literal | ListLiteral):
        _refuse_literal(f"{target.type} but got", value, found, target, context, temporal_hint(target.type, found))
    context.fail(
        f"T7: cannot assign/compare {found.type} with {target.type} for property `{target.property}`",
        value,
        hint=temporal_hint(target.type, found),
    )


def _refuse_literal(
    middle: str,
    value: Value,
    found: MutationValue,
    target: PropertyTarget,
    context: CheckContext,
    hint: str | None = None,
) -> NoReturn:
    got = "null" if isinstance(found, Constant) and found.value is None else str(found.type)
    context.fail(f"T3: property `{target.property}` has type {middle} {got}", value, hint=hint)
