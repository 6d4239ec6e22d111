"""Insert, update and delete statements against the schema.

A `where` is a condition as in `match`, about one row whose columns are bare words. What a `match` block finds for an
update or a delete is found by a read: the one that returns the ids of the changed variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from omnigraph.ids import did_you_mean
from omnigraph.query.check.conditions import predicate
from omnigraph.query.check.match_clause import match_block
from omnigraph.query.check.operands import UNDECLARED, property_hint, row_column
from omnigraph.query.check.property_values import PropertyTarget, assigned_value, where_value
from omnigraph.query.check.scope import CheckContext, RowColumn, VariableScope, WrittenRow
from omnigraph.query.syntax import tree
from omnigraph.query.typed import (
    Assignment,
    DeleteEdge,
    DeleteNode,
    Entity,
    ForMatched,
    InsertEdge,
    InsertNode,
    MatchBlock,
    MutationValue,
    Operator,
    OutputColumn,
    PropertyRef,
    RowCondition,
    RowStatement,
    RowTest,
    Statement,
    TypedQuery,
    UpdateEdge,
    UpdateNode,
    Variable,
    Where,
)
from omnigraph.schema.catalog import SOURCE_COLUMN, TARGET_COLUMN, Catalog, EdgeType, NodeType, PropertyType, Scalar

_ID_TYPE = PropertyType(Scalar.STRING)
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_ENDS = ("from", "to")

_Typewise: TypeAlias = tree.Insert | tree.Update | tree.Delete


def statements(body: tree.WriteBody, name: str, context: CheckContext) -> tuple[Statement, ...]:
    """Check all statements of a write; first that it does not both build and delete."""
    every = [
        each
        for statement in body.statements
        for each in (statement.changes if isinstance(statement, tree.MatchChange) else (statement,))
    ]
    deletes = [each for each in every if isinstance(each, tree.Delete | tree.DeleteFound)]
    if deletes and len(deletes) < len(every):
        context.fail(
            f"mutation '{name}' on the same query mixes inserts/updates and deletes; split into separate mutations: "
            "(1) inserts and updates, then (2) deletes.",
            deletes[0],
        )
    return tuple(
        _for_matched(statement, name, context)
        if isinstance(statement, tree.MatchChange)
        else _statement(statement, context)
        for statement in body.statements
    )


def _statement(statement: _Typewise, context: CheckContext) -> Statement:
    node = context.catalog.nodes.get(statement.type_name)
    edge = context.catalog.edges.get(statement.type_name)
    if node is not None:  # a node type wins over an edge type of the same name
        return _node_statement(statement, node, context)
    if edge is not None:
        return _edge_statement(statement, edge, context)
    hint = did_you_mean(statement.type_name, [*context.catalog.nodes, *context.catalog.edges])
    context.fail(f"T10: unknown node/edge type `{statement.type_name}`", statement, hint=hint)


def _node_statement(statement: _Typewise, node: NodeType, context: CheckContext) -> Statement:
    row = _node_row(node)
    match statement:
        case tree.Insert():
            assigned = _assignments(statement.assignments, node.name, _properties(node), context)
            _require_properties(statement, node, assigned, context)
            return InsertNode(node.name, tuple(assigned.values()))
        case tree.Update():
            values = _node_update(statement.assignments, node, context)
            return UpdateNode(node.name, values, _where(statement.where, row, context))
        case tree.Delete():
            return DeleteNode(node.name, _where(statement.where, row, context))


def _edge_statement(statement: _Typewise, edge: EdgeType, context: CheckContext) -> Statement:
    row = _edge_row(edge, context.catalog)
    match statement:
        case tree.Insert():
            return _insert_edge(statement, edge, row, context)
        case tree.Update():
            values = _edge_update(statement.assignments, edge, context)
            return UpdateEdge(edge.name, values, _where(statement.where, row, context))
        case tree.Delete():
            return DeleteEdge(edge.name, _where(statement.where, row, context))


def _insert_edge(statement: tree.Insert, edge: EdgeType, row: WrittenRow, context: CheckContext) -> InsertEdge:
    columns = {**_properties(edge), **{end: row.columns[end] for end in _ENDS}}
    assigned = _assignments(statement.assignments, edge.name, columns, context)
    ends: list[MutationValue] = []
    for end in _ENDS:
        if end not in assigned:
            context.fail(f"T12: insert for `{edge.name}` must provide required endpoint `{end}`", statement)
        ends.append(assigned.pop(end).value)
    _require_properties(statement, edge, assigned, context)
    return InsertEdge(edge.name, ends[0], ends[1], tuple(assigned.values()))


def _node_update(
    written: tuple[tree.PropertyAssignment, ...], node: NodeType, context: CheckContext
) -> tuple[Assignment, ...]:
    for assignment in written:
        if assignment.property in (node.key or ()):
            context.fail(
                f"cannot update @key property '{assignment.property}' — delete and re-insert instead", assignment
            )
    return tuple(_assignments(written, node.name, _properties(node), context).values())


def _edge_update(
    written: tuple[tree.PropertyAssignment, ...], edge: EdgeType, context: CheckContext
) -> tuple[Assignment, ...]:
    for assignment in written:
        if assignment.property in _ENDS:
            context.fail(
                f"T16: cannot update end `{assignment.property}` of edge `{edge.name}` — delete and re-insert instead",
                assignment,
            )
    return tuple(_assignments(written, edge.name, _properties(edge), context).values())


def _properties(type_: NodeType | EdgeType) -> dict[str, RowColumn]:
    return {name: RowColumn(name, declared.type) for name, declared in type_.properties.items()}


def _node_row(node: NodeType) -> WrittenRow:
    columns = {**_properties(node), "id": RowColumn("id", _ID_TYPE, _key(node))}
    return WrittenRow(_row_variable(Entity.NODE, node.name), columns)


def _edge_row(edge: EdgeType, catalog: Catalog) -> WrittenRow:
    columns = {
        **_properties(edge),
        "id": RowColumn("id", _ID_TYPE),
        "from": RowColumn(SOURCE_COLUMN, _ID_TYPE, _key(catalog.nodes[edge.source])),
        "to": RowColumn(TARGET_COLUMN, _ID_TYPE, _key(catalog.nodes[edge.target])),
    }
    return WrittenRow(_row_variable(Entity.EDGE, edge.name), columns)


def _row_variable(entity: Entity, type_name: str) -> Variable:
    return Variable("row#", "row", entity, type_name)


def _key(node: NodeType) -> PropertyType | None:
    """The type of the key that ids are the text of; None for several properties, for text and without a key."""
    kind = node.properties[node.key[0]].type if node.key is not None and len(node.key) == 1 else None
    return None if kind is None or kind.scalar is Scalar.STRING else kind


def _assignments(
    written: tuple[tree.PropertyAssignment, ...], owner: str, columns: Mapping[str, RowColumn], context: CheckContext
) -> dict[str, Assignment]:
    found: dict[str, Assignment] = {}
    for assignment in written:
        name = assignment.property
        if name in found:
            context.fail(f"T13: duplicate assignment for property `{name}`", assignment)
        if name not in columns:
            hint = property_hint(name, columns)
            context.fail(f"T11: type `{owner}` has no property `{name}`", assignment, hint=hint)
        kind = columns[name].type
        target = PropertyTarget(owner, name, kind, UNDECLARED, columns[name].key)
        found[name] = Assignment(name, assigned_value(assignment.value, target, context), kind)
    return found


def _require_properties(
    statement: tree.Insert, type_: NodeType | EdgeType, assigned: Mapping[str, Assignment], context: CheckContext
) -> None:
    """Every property that cannot be null is assigned, has a default, or is embedded from one that is assigned."""
    for name, declared in type_.properties.items():
        if declared.type.nullable or name in assigned or declared.default is not None:
            continue
        if declared.embed is not None and declared.embed.source in assigned:
            continue
        alternative = f" or @embed source `{declared.embed.source}`" if declared.embed is not None else ""
        context.fail(
            f"T12: insert for `{statement.type_name}` must provide non-nullable property `{name}`{alternative}",
            statement,
        )


def _where(condition: tree.Condition, row: WrittenRow, context: CheckContext) -> Where:
    match condition:
        case tree.Comparison(op=op, left=tree.NameRef() as name, right=right) if op in _COMPARISONS and isinstance(
            right, tree.Literal | tree.ListLiteral | tree.VariableRef | tree.NowCall
        ):
            return _row_test(name, op, right, row, context)
    return RowCondition(row.variable, predicate(condition, context, VariableScope(context, row=row)))


def _row_test(name: tree.NameRef, op: str, value: tree.Value, row: WrittenRow, context: CheckContext) -> RowTest:
    column = row_column(name, row, context)
    key = row.key_behind(column.property) if op in ("=", "!=") else None
    target = PropertyTarget(row.variable.type_name, name.name, column.type, UNDECLARED, key)
    return RowTest(column.property, Operator(op), where_value(value, target, context), column.type)


def _for_matched(statement: tree.MatchChange, name: str, context: CheckContext) -> ForMatched:
    scope = VariableScope(context)
    block = match_block(statement.match, context, scope)
    return ForMatched(tuple(_found_change(change, name, block, scope, context) for change in statement.changes))


def _found_change(
    change: tree.UpdateFound | tree.DeleteFound,
    name: str,
    block: MatchBlock,
    scope: VariableScope,
    context: CheckContext,
) -> RowStatement:
    variable = _found_variable(change.variable, scope, context)
    ids = OutputColumn("id", PropertyRef(variable, "id", replace(_ID_TYPE, nullable=True)))
    where = TypedQuery(name, context.parameters, block, (ids,), distinct=True)
    type_name = variable.type_name
    is_node = variable.entity is Entity.NODE
    if isinstance(change, tree.DeleteFound):
        return DeleteNode(type_name, where) if is_node else DeleteEdge(type_name, where)
    if is_node:
        return UpdateNode(type_name, _node_update(change.assignments, context.catalog.nodes[type_name], context), where)
    return UpdateEdge(type_name, _edge_update(change.assignments, context.catalog.edges[type_name], context), where)


def _found_variable(ref: tree.VariableRef, scope: VariableScope, context: CheckContext) -> Variable:
    found = scope.find(ref.name)
    if found is None:
        hint = "a `match` block finds nodes and edges; name an edge as in `$a $e:edge $b`"
        context.fail(f"variable `${ref.name}` is not bound", ref, hint=hint)
    if context.parameter(ref.name) is not None:
        context.fail(f"`${ref.name}` is a parameter here; give the variable of the `match` block another name", ref)
    return found.variable
