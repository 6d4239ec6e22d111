"""Insert, update and delete statements against the schema."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.ids import did_you_mean
from omnigraph.query.check.property_values import PropertyTarget, assigned_value, where_value
from omnigraph.query.check.scope import CheckContext
from omnigraph.query.syntax import tree
from omnigraph.query.typed import (
    Assignment,
    DeleteEdge,
    DeleteNode,
    InsertEdge,
    InsertNode,
    MutationValue,
    Operator,
    RowTest,
    Statement,
    UpdateNode,
)
from omnigraph.schema.catalog import SOURCE_COLUMN, TARGET_COLUMN, EdgeType, NodeType, Property, PropertyType, Scalar

_ENDPOINT_COLUMNS = {"from": SOURCE_COLUMN, "to": TARGET_COLUMN}
_ENDPOINT_TYPE = PropertyType(Scalar.STRING)
_UNDECLARED = "T14: mutation variable `${}` must be a declared query parameter"


def statements(body: tree.WriteBody, name: str, context: CheckContext) -> tuple[Statement, ...]:
    """Check all statements of a write; first that it does not both build and delete."""
    deletes = [statement for statement in body.statements if isinstance(statement, tree.Delete)]
    if deletes and len(deletes) < len(body.statements):
        context.fail(
            f"mutation '{name}' on the same query mixes inserts/updates and deletes; split into separate mutations: "
            "(1) inserts and updates, then (2) deletes.",
            deletes[0],
        )
    return tuple(_statement(statement, context) for statement in body.statements)


def _statement(statement: tree.Statement, context: CheckContext) -> Statement:
    node = context.catalog.nodes.get(statement.type_name)
    edge = context.catalog.edges.get(statement.type_name)
    if node is not None:  # a node type wins over an edge type of the same name
        return _node_statement(statement, node, context)
    if edge is not None:
        return _edge_statement(statement, edge, context)
    hint = did_you_mean(statement.type_name, [*context.catalog.nodes, *context.catalog.edges])
    context.fail(f"T10: unknown node/edge type `{statement.type_name}`", statement, hint=hint)


def _node_statement(statement: tree.Statement, node: NodeType, context: CheckContext) -> Statement:
    match statement:
        case tree.Insert():
            assigned = _assignments(statement.assignments, node.name, node.properties, context)
            _require_properties(statement, node.properties, assigned, context)
            return InsertNode(node.name, tuple(assigned.values()))
        case tree.Update():
            for assignment in statement.assignments:
                if assignment.property in (node.key or ()):
                    context.fail(
                        f"cannot update @key property '{assignment.property}' — delete and re-insert instead",
                        assignment,
                    )
            assigned = _assignments(statement.assignments, node.name, node.properties, context)
            where = _where(statement.where, node.name, node.properties, context)
            return UpdateNode(node.name, tuple(assigned.values()), where)
        case tree.Delete():
            return DeleteNode(node.name, _where(statement.where, node.name, node.properties, context))


def _edge_statement(statement: tree.Statement, edge: EdgeType, context: CheckContext) -> Statement:
    match statement:
        case tree.Insert():
            return _insert_edge(statement, edge, context)
        case tree.Update():
            context.fail(f"T16: update mutation for edge type `{edge.name}` is not supported", statement)
        case tree.Delete():
            return DeleteEdge(edge.name, _where(statement.where, edge.name, _with_endpoints(edge), context))


def _insert_edge(statement: tree.Insert, edge: EdgeType, context: CheckContext) -> InsertEdge:
    assigned = _assignments(statement.assignments, edge.name, _with_endpoints(edge), context)
    ends: list[MutationValue] = []
    for end in _ENDPOINT_COLUMNS:
        if end not in assigned:
            context.fail(f"T12: insert for `{edge.name}` must provide required endpoint `{end}`", statement)
        ends.append(assigned.pop(end).value)
    _require_properties(statement, edge.properties, assigned, context)
    return InsertEdge(edge.name, ends[0], ends[1], tuple(assigned.values()))


def _with_endpoints(edge: EdgeType) -> dict[str, Property]:
    ends = {end: Property(end, _ENDPOINT_TYPE) for end in _ENDPOINT_COLUMNS}
    return {**edge.properties, **ends}


def _assignments(
    written: tuple[tree.PropertyAssignment, ...], owner: str, properties: Mapping[str, Property], context: CheckContext
) -> dict[str, Assignment]:
    found: dict[str, Assignment] = {}
    for assignment in written:
        name = assignment.property
        if name in found:
            context.fail(f"T13: duplicate assignment for property `{name}`", assignment)
        kind = _property_type(assignment, owner, properties, context)
        value = assigned_value(assignment.value, PropertyTarget(owner, name, kind, _UNDECLARED), context)
        found[name] = Assignment(name, value, kind)
    return found


def _property_type(
    at: tree.PropertyAssignment | tree.WhereClause,
    owner: str,
    properties: Mapping[str, Property],
    context: CheckContext,
) -> PropertyType:
    if at.property not in properties:
        hint = did_you_mean(at.property, properties)
        context.fail(f"T11: type `{owner}` has no property `{at.property}`", at, hint=hint)
    return properties[at.property].type


def _require_properties(
    statement: tree.Insert,
    properties: Mapping[str, Property],
    assigned: Mapping[str, Assignment],
    context: CheckContext,
) -> None:
    """Every property that cannot be null is assigned, or embedded from one that is."""
    for name, declared in properties.items():
        if declared.type.nullable or name in assigned:
            continue
        if declared.embed is not None and declared.embed.source in assigned:
            continue
        alternative = f" or @embed source `{declared.embed.source}`" if declared.embed is not None else ""
        context.fail(
            f"T12: insert for `{statement.type_name}` must provide non-nullable property `{name}`{alternative}",
            statement,
        )


def _where(where: tree.WhereClause, owner: str, properties: Mapping[str, Property], context: CheckContext) -> RowTest:
    kind = _property_type(where, owner, properties, context)
    value = where_value(where.value, PropertyTarget(owner, where.property, kind, _UNDECLARED), context)
    is_endpoint = properties[where.property].type is _ENDPOINT_TYPE
    column = _ENDPOINT_COLUMNS[where.property] if is_endpoint else where.property
    return RowTest(column, Operator(where.op), value, kind)
