"""Runs the statements of a mutation, in order, on the state it will be committed on.

Each statement sees what the ones before it did (`overlay.py`). Nothing is written and no rule of the schema is checked
here: the changes that come out go the way of every write, see `commit.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnigraph.errors import MissingValue, TypeNotFound
from omnigraph.query.typed import (
    Assignment,
    DeleteEdge,
    DeleteNode,
    InsertEdge,
    InsertNode,
    MutationValue,
    Statement,
    UpdateNode,
)
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.storage.commit.workspace import Workspace
from omnigraph.write.change import Change
from omnigraph.write.overlay import Overlay
from omnigraph.write.values import Values, column

_ENDPOINT = PropertyType(Scalar.STRING)


class Pending:
    """What the statements so far did.

    Attributes:
        nodes, edges: affected rows. An insert is one, an update all rows it matched, and a removed row counts once
            however many statements or cascades removed it.
    """

    def __init__(self, workspace: Workspace, catalog: Catalog, values: Values) -> None:
        self.nodes = 0
        self.edges = 0
        self._workspace = workspace
        self._catalog = catalog
        self._values = values
        self._overlays: dict[str, Overlay] = {}

    def run(self, statement: Statement) -> None:
        match statement:
            case InsertNode():
                self._insert_node(statement)
            case InsertEdge():
                self._insert_edge(statement)
            case UpdateNode():
                self._update(statement)
            case DeleteNode():
                self._delete_node(statement)
            case DeleteEdge():
                filter_ = self._values.filter(statement.where)
                if filter_ is not None:
                    self.edges += len(self._overlay(self._catalog.edges[statement.type_name]).remove(filter_))

    def changes(self) -> list[Change]:
        """One change for each type that is different now, each row in its final image."""
        changes = (overlay.change() for overlay in self._overlays.values())
        return [change for change in changes if change is not None]

    def _insert_node(self, statement: InsertNode) -> None:
        node = self._catalog.nodes[statement.type_name]
        self._overlay(node).insert(self._row(node, statement.assignments))
        self.nodes += 1

    def _insert_edge(self, statement: InsertEdge) -> None:
        edge = self._catalog.edges[statement.type_name]
        row = self._row(edge, statement.assignments)
        row["src"] = self._endpoint(edge, "from", statement.source)
        row["dst"] = self._endpoint(edge, "to", statement.target)
        self._overlay(edge).insert(row)
        self.edges += 1

    def _update(self, statement: UpdateNode) -> None:
        node = self._catalog.nodes[statement.type_name]
        stored = self._stored(statement.assignments)
        filter_ = self._values.filter(statement.where)
        if filter_ is not None:
            assigned = {name: column(node.properties[name].type, [value]) for name, value in stored.items()}
            self.nodes += self._overlay(node).update(filter_, assigned)

    def _delete_node(self, statement: DeleteNode) -> None:
        """Nodes go with every edge of any type that touches them."""
        filter_ = self._values.filter(statement.where)
        if filter_ is None:
            return
        gone = self._overlay(self._catalog.nodes[statement.type_name]).remove(filter_)
        self.nodes += len(gone)
        for edge in self._catalog.edges.values():
            if len(gone) == 0 or edge.table_key not in self._workspace.snapshot.pins:
                continue
            for end, node in (("src", edge.source), ("dst", edge.target)):
                if node == statement.type_name:
                    self.edges += self._overlay(edge).remove_touching(end, gone)

    def _row(self, type_: NodeType | EdgeType, assignments: Sequence[Assignment]) -> dict[str, Any]:
        """The stored values of a new row. An embedded vector must be assigned too: nothing embeds on write."""
        row = self._stored(assignments)
        for name, declared in type_.properties.items():
            if not declared.type.nullable and name not in row:
                raise MissingValue(
                    f"missing required property '{name}'",
                    hint="assign the vector, nothing is embedded here" if declared.embed else None,
                    type=type_.name,
                    property=name,
                )
        return row

    def _stored(self, assignments: Sequence[Assignment]) -> dict[str, Any]:
        return {each.property: self._values.stored(each.property, each.type, each.value) for each in assignments}

    def _endpoint(self, edge: EdgeType, end: str, value: MutationValue) -> Any:
        found = self._values.of(value)
        if found is None:
            raise MissingValue(f"edge {edge.name} has a null '{end}'", type=edge.name, property=end)
        return self._values.stored(end, _ENDPOINT, value)

    def _overlay(self, type_: NodeType | EdgeType) -> Overlay:
        key = type_.table_key
        if key not in self._overlays:
            snapshot = self._workspace.snapshot
            if key not in snapshot.pins:
                raise TypeNotFound(f"type '{type_.name}' does not exist on branch '{snapshot.branch}'", type=type_.name)
            self._overlays[key] = Overlay(type_, self._workspace.readable(key))
        return self._overlays[key]
