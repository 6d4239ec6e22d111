"""Search: text conditions and the scores `nearest`, `bm25` and `rrf`.

Fields are properties of node variables; what is searched for is a literal or a parameter, so it is known before any row
is read.
"""

from __future__ import annotations

from omnigraph.query.check.operands import is_null, is_text, is_whole_number, operand, property_ref, shown_type
from omnigraph.query.check.scope import CheckContext, VariableScope
from omnigraph.query.syntax.tree import Bm25Call, Expr, NearestCall, PropertyAccess, RrfCall, ScoreCall, TextCall
from omnigraph.query.typed import (
    Constant,
    Distance,
    Entity,
    FusedScore,
    Operand,
    ParamRef,
    PropertyRef,
    Score,
    TextMatch,
    TextScore,
    TextVector,
)
from omnigraph.schema.catalog import PropertyType, Scalar

DEFAULT_RRF_K = 60

_TEXT_RULES = {"search": "T19", "fuzzy": "T19", "match_text": "T20", "bm25": "T20"}


def text_match(call: TextCall, context: CheckContext, scope: VariableScope) -> TextMatch:
    """``search``, ``fuzzy`` or ``match_text`` as a condition."""
    field = _text_field(call.function, call.field, context, scope)
    query = _text_query(call.function, call.query, context, scope)
    edits = None
    if call.max_edits is not None:
        edits = _bounded_integer(call.max_edits, "T19: fuzzy max_edits", 0, context, scope)
    owner = context.catalog.nodes[field.variable.type_name]
    return TextMatch(call.function, field, query, edits, owner.properties[field.property].tokenizer)


def score(call: ScoreCall, context: CheckContext, scope: VariableScope) -> Score:
    """The typed form of a ranking function."""
    if isinstance(call, RrfCall):
        return _fused(call, context, scope)
    return _single_score(call, context, scope)


def _single_score(call: NearestCall | Bm25Call, context: CheckContext, scope: VariableScope) -> Distance | TextScore:
    if isinstance(call, NearestCall):
        field = _node_property("nearest", call.target, context, scope)
        return Distance(field, _vector_query(call, field, context, scope))
    return TextScore(_text_field("bm25", call.field, context, scope), _text_query("bm25", call.query, context, scope))


def _fused(call: RrfCall, context: CheckContext, scope: VariableScope) -> FusedScore:
    first = _single_score(call.first, context, scope)
    second = _single_score(call.second, context, scope)
    if first.field.variable != second.field.variable:
        labels = f"`${first.field.variable.label}` and `${second.field.variable.label}`"
        context.fail(f"T21: rrf rankings must be on the same variable, got {labels}", call.second)
    k: ParamRef | Constant = Constant(DEFAULT_RRF_K, PropertyType(Scalar.I64))
    if call.k is not None:
        k = _bounded_integer(call.k, "T21: rrf k", 1, context, scope)
    return FusedScore(first, second, k)


def _node_property(function: str, field: Expr, context: CheckContext, scope: VariableScope) -> PropertyRef:
    """The searched property, on a node."""
    rule = _TEXT_RULES.get(function, "T15")
    if not isinstance(field, PropertyAccess):
        context.fail(f"{rule}: {function} field must be a property of a node variable such as `$x.text`", field)
    found = scope.find(field.variable)
    if found is not None and found.variable.entity is Entity.EDGE:
        context.fail(
            f"T23: edge variable `${field.variable}` cannot be searched; {function} needs a property of a node", field
        )
    return property_ref(field, context, scope)


def _text_field(function: str, field: Expr, context: CheckContext, scope: VariableScope) -> PropertyRef:
    found = _node_property(function, field, context, scope)
    if not is_text(found.type):
        context.fail(f"{_TEXT_RULES[function]}: {function} field must be String, got {found.type}", field)
    return found


def _text_query(function: str, query: Expr, context: CheckContext, scope: VariableScope) -> ParamRef | Constant:
    rule = _TEXT_RULES[function]
    found = operand(query, context, scope)
    if not is_text(found.type) or is_null(found):
        context.fail(f"{rule}: {function} query must be String, got {shown_type(found)}", query)
    return _known_early(f"{rule}: {function} query", query, found, context)


def _vector_query(
    call: NearestCall, field: PropertyRef, context: CheckContext, scope: VariableScope
) -> ParamRef | Constant | TextVector:
    label = f"${field.variable.label}.{field.property}"
    if field.type.scalar is not Scalar.VECTOR:
        context.fail(f"T15: nearest requires a Vector property, but `{label}` has type {field.type}", call.target)
    found = operand(call.query, context, scope)
    size = _dimension(found)
    if size is not None and size != field.type.dimension:
        context.fail(
            f"T15: nearest query has {size} dimensions but `{label}` is Vector({field.type.dimension})", call.query
        )
    if size is None and (not is_text(found.type) or is_null(found)):
        context.fail(
            f"T15: nearest query must be Vector({field.type.dimension}) or String, got {shown_type(found)}", call.query
        )
    known = _known_early("T15: nearest query", call.query, found, context)
    return known if size is not None else context.text_vector(field, known)


def _dimension(query: Operand) -> int | None:
    """The length of a vector or of a literal list of numbers."""
    if isinstance(query, Constant) and isinstance(query.value, tuple):
        return len(query.value) if query.type.scalar.is_numeric else None
    return query.type.dimension


def _bounded_integer(
    expr: Expr, what: str, bound: int, context: CheckContext, scope: VariableScope
) -> ParamRef | Constant:
    """An integer literal or parameter that must not be below a bound; a parameter's value is checked when bound."""
    found = operand(expr, context, scope)
    if not is_whole_number(found.type):
        context.fail(f"{what} must be an integer, got {shown_type(found)}", expr)
    found = _known_early(what, expr, found, context)
    if isinstance(found, ParamRef):
        context.require_at_least(found.name, bound)
    elif isinstance(found.value, int) and found.value < bound:
        context.fail(f"{what} must be greater than {bound - 1}" if bound else f"{what} must not be negative", expr)
    return found


def _known_early(what: str, expr: Expr, found: Operand, context: CheckContext) -> ParamRef | Constant:
    if not isinstance(found, ParamRef | Constant):
        context.fail(f"{what} must be a literal or a parameter", expr)
    return found
