"""Filters: comparisons, membership, null tests and text functions, joined by `and` and `or`."""

from __future__ import annotations

from omnigraph.query.check.operands import (
    as_id,
    compatible,
    element_type,
    is_null,
    is_plain_scalar,
    is_text,
    operand,
    shown_type,
    temporal_hint,
)
from omnigraph.query.check.scope import CheckContext, VariableScope
from omnigraph.query.check.search import text_match
from omnigraph.query.syntax import tree
from omnigraph.query.typed import (
    AllOf,
    AnyOf,
    Compare,
    Constant,
    IsIn,
    IsNull,
    KeyId,
    NodeId,
    Not,
    Operand,
    Operator,
    ParamRef,
    Predicate,
    TextMatch,
)
from omnigraph.schema.catalog import PropertyType, Scalar

_TRUE = Constant(True, PropertyType(Scalar.BOOL))
_FALSE = Constant(False, PropertyType(Scalar.BOOL))


def predicate(condition: tree.Condition, context: CheckContext, scope: VariableScope) -> Predicate:
    """The typed form of a condition."""
    match condition:
        case tree.Disjunction(parts=parts):
            return AnyOf(tuple(predicate(part, context, scope) for part in parts))
        case tree.Conjunction(parts=parts):
            return AllOf(tuple(predicate(part, context, scope) for part in parts))
        case tree.Negation(part=part):
            return Not(predicate(part, context, scope))
        case tree.TextCall():
            return text_match(condition, context, scope)
        case tree.Membership():
            return _membership(condition, context, scope)
        case tree.NullTest():
            return _null_test(condition, context, scope)
        case tree.Comparison():
            return _comparison(condition, context, scope)


def _comparison(test: tree.Comparison, context: CheckContext, scope: VariableScope) -> Predicate:
    if isinstance(test.left, tree.TextCall):
        return _text_comparison(test, test.left, test.right, context, scope)
    if isinstance(test.right, tree.TextCall):
        return _text_comparison(test, test.right, test.left, context, scope)
    left, right = operand(test.left, context, scope), operand(test.right, context, scope)
    for side, expr in ((left, test.left), (right, test.right)):
        _refuse_incomparable(side, expr, context)
    if test.op in ("=", "!="):
        left, right = as_id(left, right, scope), as_id(right, left, scope)
    if test.op == "contains":
        return _contains(test, left, right, context)
    if test.op == "starts_with":
        if not (is_text(left.type) and is_text(right.type)):
            context.fail(f"T7: starts_with requires String operands, got {left.type} and {right.type}", test)
        return Compare(Operator.STARTS_WITH, left, right)
    _require_comparable_scalars(test, left, right, context)
    return Compare(Operator(test.op), left, right)


def _refuse_incomparable(side: Operand, expr: tree.Expr, context: CheckContext) -> None:
    if isinstance(side, NodeId):
        context.fail(
            f"T7: variable `${side.variable.label}` is a node and cannot be compared; compare a key property",
            expr,
            hint=f"its id is `${side.variable.label}.id`",
        )
    if is_null(side):
        context.fail("T7: a comparison with null never matches", expr, hint="write `is null` or `is not null`")


def _require_comparable_scalars(
    at: tree.SyntaxNode, left: Operand, right: Operand, context: CheckContext, operator: str = "comparison"
) -> None:
    for kind in (left.type, right.type):
        if kind.list:
            context.fail(f"T7: {operator} is not supported for list type {kind}; use contains", at)
        if not is_plain_scalar(kind):
            context.fail(f"T7: {operator} is not supported for type {kind}", at)
    if not compatible(left.type, right.type):
        hint = temporal_hint(left.type, right) or temporal_hint(right.type, left)
        context.fail(f"T7: cannot compare {left.type} with {right.type}", at, hint=hint)


def _contains(test: tree.Comparison, left: Operand, right: Operand, context: CheckContext) -> Predicate:
    if left.type.list:
        element = element_type(left.type)
        if not is_plain_scalar(right.type) or not compatible(element, right.type):
            context.fail(f"T7: contains on {left.type} requires a {element.scalar} operand, got {right.type}", test)
        return Compare(Operator.LIST_CONTAINS, left, right)
    if not is_text(left.type):
        context.fail(f"T7: contains requires a list or a String on the left, got {left.type}", test)
    if not is_text(right.type):
        context.fail(f"T7: contains on String requires a String operand, got {right.type}", test)
    return Compare(Operator.TEXT_CONTAINS, left, right)


def _text_comparison(
    test: tree.Comparison, call: tree.TextCall, other: tree.Expr, context: CheckContext, scope: VariableScope
) -> Predicate:
    """``search(…) = flag``: true and false decide at once, a flag known later becomes both cases."""
    found = text_match(call, context, scope)
    if test.op not in ("=", "!=") or isinstance(other, tree.TextCall):
        context.fail(f"T7: {call.function} gives true or false and takes no `{test.op}` here", test)
    flag = operand(other, context, scope)
    if is_null(flag) or flag.type.list or flag.type.scalar is not Scalar.BOOL:
        context.fail(f"T7: cannot compare Bool with {shown_type(flag)}", test)
    matches: Predicate = Not(found) if test.op == "!=" else found
    if flag == _TRUE:
        return matches
    opposite: TextMatch | Not = found if test.op == "!=" else Not(found)
    if flag == _FALSE:
        return opposite
    when_true = AllOf((matches, Compare(Operator.EQ, flag, _TRUE)))
    return AnyOf((when_true, AllOf((opposite, Compare(Operator.EQ, flag, _FALSE)))))


def _membership(test: tree.Membership, context: CheckContext, scope: VariableScope) -> Predicate:
    left = operand(test.operand, context, scope)
    _refuse_incomparable(left, test.operand, context)
    if isinstance(test.choices, tree.ListLiteral):
        _require_comparable_scalars(test, left, left, context, "in")
        found: Predicate = IsIn(left, _choices(test.choices, left, context, scope))
    else:
        right = as_id(operand(test.choices, context, scope), left, scope)
        if not right.type.list:
            context.fail(f"T7: in requires a list on the right, got {shown_type(right)}", test.choices)
        _require_comparable_scalars(test, left, _element(right), context, "in")
        if isinstance(right, ParamRef | KeyId):
            found = IsIn(left, right)
        else:
            found = Compare(Operator.LIST_CONTAINS, right, left)
    return Not(found) if test.negated else found


def _choices(
    choices: tree.ListLiteral, left: Operand, context: CheckContext, scope: VariableScope
) -> tuple[Operand, ...]:
    found = []
    for item in choices.items:
        if isinstance(item, tree.ListLiteral):
            context.fail("nested list literals are not supported", item)
        choice = as_id(operand(item, context, scope), left, scope)
        if is_null(choice):
            context.fail("list literals cannot hold null", item, hint="add `or … is null`")
        _refuse_incomparable(choice, item, context)
        _require_comparable_scalars(item, left, choice, context, "in")
        found.append(choice)
    return tuple(found)


def _element(of: Operand) -> Operand:
    """Stands for any element of a list in a message about types."""
    return Constant("", element_type(of.type))


def _null_test(test: tree.NullTest, context: CheckContext, scope: VariableScope) -> Predicate:
    """A lone variable is asked for its row, so nodes and edges of an ``optional`` block can be tested."""
    expr = test.operand
    row = scope.find(expr.name) if isinstance(expr, tree.VariableRef) and not context.parameter(expr.name) else None
    found = IsNull(row.variable if row is not None else operand(expr, context, scope))
    return Not(found) if test.negated else found
