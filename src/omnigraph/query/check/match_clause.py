"""Match clauses, in source order, to a `MatchBlock`.

A traversal finds its direction from what is known when it is reached, by one rule for every block, negated or not.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph.ids import did_you_mean
from omnigraph.query.check.conditions import predicate
from omnigraph.query.check.property_values import PropertyTarget, tested_value
from omnigraph.query.check.scope import ANONYMOUS, CheckContext, VariableScope
from omnigraph.query.syntax import tree
from omnigraph.query.typed import (
    Compare,
    EdgeReading,
    Entity,
    MatchBlock,
    NegatedBlock,
    Operator,
    OptionalBlock,
    Predicate,
    PropertyRef,
    Traversal,
    Variable,
)
from omnigraph.query.typed.walk import conjuncts, outer_variables
from omnigraph.schema.catalog import EdgeType


def match_block(clauses: Sequence[tree.Clause], context: CheckContext, scope: VariableScope) -> MatchBlock:
    """Check the clauses of one block and collect what they say. ``scope`` holds the new variables afterwards."""
    traversals: list[Traversal] = []
    predicates: list[Predicate] = []
    optionals: list[OptionalBlock] = []
    negations: list[NegatedBlock] = []
    for clause in clauses:
        match clause:
            case tree.NodePattern():
                predicates.extend(_binding(clause, context, scope))
            case tree.EdgePattern():
                traversals.append(_traversal(clause, context, scope))
            case tree.FilterClause():
                predicates.extend(conjuncts(predicate(clause.condition, context, scope)))
            case tree.NotClause():
                negations.append(_negation(clause, context, scope))
            case tree.OptionalClause():
                optionals.append(_optional(clause, context, scope))
    return MatchBlock(tuple(scope.introduced), tuple(traversals), tuple(predicates), tuple(optionals), tuple(negations))


def _binding(binding: tree.NodePattern, context: CheckContext, scope: VariableScope) -> list[Predicate]:
    node_type = context.catalog.nodes.get(binding.type_name)
    if node_type is None:
        hint = did_you_mean(binding.type_name, context.catalog.nodes)
        context.fail(f"T1: unknown node type `{binding.type_name}`", binding, hint=hint)
    variable = _node(binding.variable, binding.type_name, binding, context, scope)
    if variable.type_name != binding.type_name:
        context.fail(
            f"variable `${binding.variable}` already bound to type `{variable.type_name}`, "
            f"cannot rebind to `{binding.type_name}`",
            binding,
        )
    found: list[Predicate] = []
    for test in binding.tests:
        declared = node_type.properties.get(test.property)
        if declared is None:
            hint = did_you_mean(test.property, node_type.properties)
            if test.property == "id":
                hint = f"test an id beside the binding: `${binding.variable}.id = …`"
            context.fail(f"T2: type `{binding.type_name}` has no property `{test.property}`", test, hint=hint)
        value = tested_value(test.value, PropertyTarget(binding.type_name, test.property, declared.type), context)
        operator = Operator.LIST_CONTAINS if declared.type.list else Operator.EQ
        found.append(Compare(operator, PropertyRef(variable, test.property, declared.type), value))
    return found


def _node(label: str, type_name: str, at: tree.SyntaxNode, context: CheckContext, scope: VariableScope) -> Variable:
    """The node variable of that name, introduced with the given type if it is new."""
    found = _known_node(label, at, context, scope)
    return found if found is not None else scope.introduce(label, Entity.NODE, type_name)


def _known_node(label: str, at: tree.SyntaxNode, context: CheckContext, scope: VariableScope) -> Variable | None:
    found = scope.find(label) if label != ANONYMOUS else None
    if found is None:
        return None
    if found.variable.entity is Entity.EDGE:
        context.fail(f"T23: `${label}` is an edge variable and cannot stand for a node", at)
    if found.optional_here:
        context.fail(
            f"variable `${label}` is bound by an `optional` block and may be null here", at,
            hint="move this clause into the `optional` block or into another one",
        )  # fmt: skip
    return found.variable


def _traversal(clause: tree.EdgePattern, context: CheckContext, scope: VariableScope) -> Traversal:
    edge_type = context.edge(clause.edge_word)
    if edge_type is None:
        hint = _operator_hint(clause.edge_word) or did_you_mean(clause.edge_word, map(_as_word, context.catalog.edges))
        context.fail(f"T4: unknown edge type `{clause.edge_word}`", clause, hint=hint)
    low, high = _hops(clause, context)
    if clause.undirected and edge_type.source != edge_type.target:
        context.fail(
            f"T22: undirected traversal `<{clause.edge_word}>` requires a same-endpoint-type edge, "
            f"but `{_signature(edge_type)}` connects different types",
            clause,
        )
    left, right, reading = _ends(clause, edge_type, context, scope)
    edge = _edge_variable(clause, edge_type, context, scope)
    reading = EdgeReading.UNDIRECTED if clause.undirected else reading
    return Traversal(edge_type.name, left, right, reading, low, high, edge)


def _as_word(edge: str) -> str:
    """The name of an edge type as queries usually spell it; case does not matter."""
    return edge[:1].lower() + edge[1:]


def _operator_hint(word: str) -> str | None:
    if word in ("in", "is", "contains", "starts_with"):
        return f"between two lone variables `{word}` is an edge; for the operator put a property on the left"
    return None


def _hops(clause: tree.EdgePattern, context: CheckContext) -> tuple[int, int]:
    if clause.hops is None:
        return 1, 1
    low, high = clause.hops.low, clause.hops.high
    if low < 1:
        context.fail("T15: traversal min hop bound must be >= 1", clause.hops)
    if high is None:
        context.fail("T15: unbounded traversal is disabled; use bounded traversal {min,max}", clause.hops)
    if high < low:
        context.fail(f"T15: invalid traversal bounds {{{low},{high}}}; max must be >= min", clause.hops)
    if clause.edge_variable is not None and clause.edge_variable.name != ANONYMOUS and (low, high) != (1, 1):
        context.fail(
            f"T23: edge variable `${clause.edge_variable.name}` needs exactly one hop; "
            f"remove the bounds {{{low},{high}}} or the variable",
            clause.hops,
        )
    return low, high


def _ends(
    clause: tree.EdgePattern, edge: EdgeType, context: CheckContext, scope: VariableScope
) -> tuple[Variable, Variable, EdgeReading]:
    """Both ends with their types, and which way round the edge is read."""
    left = _known_node(clause.left.name, clause.left, context, scope)
    right = _known_node(clause.right.name, clause.right, context, scope)
    if left is not None:
        reading = _reading(left, edge.source, edge.target, clause.left, edge, context)
    elif right is not None:
        reading = _reading(right, edge.target, edge.source, clause.right, edge, context)
    else:
        reading = EdgeReading.FORWARD
    expected = (edge.source, edge.target) if reading is EdgeReading.FORWARD else (edge.target, edge.source)
    left = left or scope.introduce(clause.left.name, Entity.NODE, expected[0])
    right = _node(clause.right.name, expected[1], clause.right, context, scope)
    if right.type_name != expected[1]:
        context.fail(
            f"T5: variable `${clause.right.name}` has type `{right.type_name}` "
            f"but edge `{edge.name}` expects `{expected[1]}`",
            clause.right,
        )
    return left, right, reading


def _reading(
    known: Variable, forward: str, reverse: str, at: tree.VariableRef, edge: EdgeType, context: CheckContext
) -> EdgeReading:
    """Forward if the known end has the type of that end of the edge, reverse if it has the type of the other one."""
    if known.type_name == forward:
        return EdgeReading.FORWARD
    if known.type_name == reverse:
        return EdgeReading.REVERSE
    context.fail(
        f"T5: variable `${at.name}` has type `{known.type_name}`, "
        f"which is not an endpoint of edge `{_signature(edge)}`",
        at,
    )


def _signature(edge: EdgeType) -> str:
    return f"{edge.name}: {edge.source} -> {edge.target}"


def _edge_variable(
    clause: tree.EdgePattern, edge: EdgeType, context: CheckContext, scope: VariableScope
) -> Variable | None:
    ref = clause.edge_variable
    if ref is None or ref.name == ANONYMOUS:
        return None
    if scope.find(ref.name) is not None:
        context.fail(f"T23: edge variable `${ref.name}` needs a name that is not yet bound", ref)
    return scope.introduce(ref.name, Entity.EDGE, edge.name)


def _negation(clause: tree.NotClause, context: CheckContext, scope: VariableScope) -> NegatedBlock:
    inner = VariableScope(context, scope, is_local=True)
    block = match_block(clause.clauses, context, inner)
    if not inner.mentions_outer:
        context.fail("T9: negation block must reference at least one outer-bound variable", clause)
    return NegatedBlock(block, outer_variables(block))


def _optional(clause: tree.OptionalClause, context: CheckContext, scope: VariableScope) -> OptionalBlock:
    inner = VariableScope(context, scope)
    block = match_block(clause.clauses, context, inner)
    if not inner.mentions_outer:
        context.fail("optional block must reference at least one outer-bound variable", clause)
    scope.adopt_optional(inner)
    return OptionalBlock(block, outer_variables(block))
