"""What a typed query returns, reads and writes, for lint and for clients that show or guard operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from omnigraph.query.typed import (
    Column,
    DeleteEdge,
    DeleteNode,
    Entity,
    InsertEdge,
    TypedMutation,
    TypedQuery,
)
from omnigraph.query.typed.walk import blocks_of
from omnigraph.schema.catalog import Catalog, Scalar

_KINDS = {
    Scalar.STRING: "string",
    Scalar.BOOL: "bool",
    Scalar.I32: "int",
    Scalar.U32: "int",
    Scalar.I64: "bigint",
    Scalar.U64: "bigint",
    Scalar.F32: "float",
    Scalar.F64: "float",
    Scalar.DATE: "date",
    Scalar.DATETIME: "datetime",
    Scalar.BLOB: "blob",
    Scalar.VECTOR: "vector",
}


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One output column under the key it has in a row."""

    name: str
    kind: str
    nullable: bool
    item_kind: str | None = None
    vector_dim: int | None = None

    def to_dict(self) -> dict[str, object]:
        found: dict[str, object] = {"name": self.name, "kind": self.kind, "nullable": self.nullable}
        if self.item_kind is not None:
            found["item_kind"] = self.item_kind
        if self.vector_dim is not None:
            found["vector_dim"] = self.vector_dim
        return found


@dataclass(frozen=True, slots=True, order=True)
class TypeUse:
    """A node or edge type that a query touches."""

    kind: str
    type_name: str

    def to_dict(self) -> dict[str, object]:
        return {"kind": self.kind, "type_name": self.type_name}


@dataclass(frozen=True, slots=True)
class Operation:
    """What a query returns, and which types and properties it reads and writes."""

    result: tuple[ResultColumn, ...]
    reads: tuple[TypeUse, ...]
    writes: tuple[TypeUse, ...]

    def to_dict(self) -> dict[str, object]:
        return {
            "result": [column.to_dict() for column in self.result],
            "reads": [use.to_dict() for use in self.reads],
            "writes": [use.to_dict() for use in self.writes],
        }


def describe(query: TypedQuery | TypedMutation, catalog: Catalog) -> Operation:
    """Columns and touched types of a checked query; type lists are sorted, edges before nodes."""
    if isinstance(query, TypedQuery):
        return Operation(tuple(map(_result_column, query.columns)), _sorted(_query_reads(query, catalog)), ())
    reads, writes = _mutation_uses(query, catalog)
    return Operation((), _sorted(reads), _sorted(writes))


def _result_column(column: Column) -> ResultColumn:
    kind = column.type
    if kind.list:
        return ResultColumn(column.name, "list", kind.nullable, item_kind=_KINDS[kind.scalar])
    return ResultColumn(column.name, _KINDS[kind.scalar], kind.nullable, vector_dim=kind.dimension)


def _query_reads(query: TypedQuery, catalog: Catalog) -> set[TypeUse]:
    found: set[TypeUse] = set()
    for block in blocks_of(query.match):
        for variable in block.variables:
            if variable.entity is Entity.NODE:
                found.add(_node(variable.type_name))
        for traversal in block.traversals:
            found |= _edge_with_ends(traversal.edge_type, catalog)
    return found


def _mutation_uses(mutation: TypedMutation, catalog: Catalog) -> tuple[set[TypeUse], set[TypeUse]]:
    reads: set[TypeUse] = set()
    writes: set[TypeUse] = set()
    for statement in mutation.statements:
        if isinstance(statement, InsertEdge | DeleteEdge):
            writes.add(_edge(statement.type_name))
        else:
            writes.add(_node(statement.type_name))
        if isinstance(statement, InsertEdge):
            reads |= _edge_with_ends(statement.type_name, catalog)
        if isinstance(statement, DeleteNode):
            writes |= {
                _edge(edge.name) for edge in catalog.edges.values() if statement.type_name in (edge.source, edge.target)
            }
    return reads | writes, writes


def _edge_with_ends(type_name: str, catalog: Catalog) -> set[TypeUse]:
    edge = catalog.edges[type_name]
    return {_edge(edge.name), _node(edge.source), _node(edge.target)}


def _node(type_name: str) -> TypeUse:
    return TypeUse("node", type_name)


def _edge(type_name: str) -> TypeUse:
    return TypeUse("edge", type_name)


def _sorted(uses: Iterable[TypeUse]) -> tuple[TypeUse, ...]:
    return tuple(sorted(uses))
