"""A `.gq` write from text to commit: parse, then check, bind and run on the state that it is committed on.

Each statement sees what the ones before it did: `PendingRows` lays the rows of one type over the stored ones. When the
state moves before the commit, everything is computed again, never patched: an update or delete means the rows at the
time of its commit. A mutation holds no stale input of its caller, so a moved table is no conflict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import ids, limits
from omnigraph.errors import MissingValue, TypeNotFound
from omnigraph.lru import LruCache
from omnigraph.query import bind_params, check_write, parse_queries
from omnigraph.query.typed import (
    Assignment,
    DeleteEdge,
    DeleteNode,
    InsertEdge,
    InsertNode,
    MutationValue,
    Statement,
    TypedMutation,
    UpdateNode,
)
from omnigraph.schema.arrow import canonical_text, table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Prepared, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.storage.objects.user_files import text_of
from omnigraph.storage.tables.filters import ColumnFilter, equals
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import find_rows, select_rows
from omnigraph.write.change import Change, Mode
from omnigraph.write.row_rules import with_ids
from omnigraph.write.stage_changes import stage_changes, typed_changes
from omnigraph.write.stored_values import MutationValues, column

_ENDPOINT = PropertyType(Scalar.STRING)

#: Writes that were checked last, by text, name and hash of the schema; agents send the same text again and again.
_CHECKED: LruCache[tuple[str, str | None, str], TypedMutation] = LruCache(max_entries=64)
_CHECKED_CHARACTERS = 65_536


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What a mutation did.

    Attributes:
        commit: None when no row matched and so nothing changed.
        affected_nodes, affected_edges: an insert counts one, an update the rows it matched, deletes the distinct rows
            that the whole query removed, cascaded edges included.
    """

    commit: Commit | None
    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor: str | None

    def __repr__(self) -> str:
        changed = f"{self.affected_nodes} nodes, {self.affected_edges} edges"
        return f"MutationResult({self.query_name!r} on {self.branch}: {changed}; {_commit_id(self.commit)})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that every interface shows."""
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor,
            "commit": self.commit.to_dict() if self.commit else None,
        }


@dataclass(frozen=True, slots=True)
class MutationRequest:
    """A mutation as a caller asks for it; the fields are those of `omnigraph.Graph.mutate`."""

    source: str | Path
    name: str | None
    params: Mapping[str, object] | None
    branch: str
    actor: str | None
    if_commit: str | None


def _commit_id(commit: Commit | None) -> str:
    return f"commit {commit.id}" if commit is not None else "no commit"


def mutate(store: GraphStore, schemas: SchemaRegistry, request: MutationRequest) -> MutationResult:
    """Run a named write of a `.gq` text as one commit.

    Raises:
        PreconditionFailed: ``if_commit`` is not the head.
    """
    text, file = text_of(request.source, ".gq")
    mutation = _Mutation(schemas, text, file, request.name, request.params, _this_millisecond())
    done = run(
        store,
        Write(
            request.branch,
            WriterKind.MUTATION,
            request.actor,
            mutation.prepare,
            if_commit=request.if_commit,
            recomputes_reads=True,
        ),
    )
    return MutationResult(
        commit=done.commit,
        branch=request.branch,
        query_name=done.report.query_name,
        affected_nodes=done.report.nodes,
        affected_edges=done.report.edges,
        actor=request.actor,
    )


def _this_millisecond() -> datetime:
    moment = ids.now()
    return moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)


@dataclass(frozen=True, slots=True)
class _Affected:
    query_name: str
    nodes: int
    edges: int


@dataclass(frozen=True, slots=True)
class _Mutation:
    """The text of a write with the values of its caller.

    Attributes:
        now: the instant of ``now()``, the same for every attempt.
    """

    schemas: SchemaRegistry
    text: str
    file: str | None
    name: str | None
    params: Mapping[str, object] | None
    now: datetime

    def prepare(self, workspace: Workspace) -> Prepared[_Affected]:
        schema = self.schemas.of(workspace.snapshot)
        mutation = self._checked(schema)
        values = MutationValues(bind_params(mutation, self.params), self.now)
        pending = PendingMutation(workspace, schema.catalog, values)
        for statement in mutation.statements:
            pending.run(statement)
        staged = stage_changes(workspace, schema.catalog, typed_changes(schema.catalog, pending.changes()))
        return Prepared(_Affected(mutation.name, pending.nodes, pending.edges), staged.tables, made_for=schema.hash)

    def _checked(self, schema: CompiledSchema) -> TypedMutation:
        key = (self.text, self.name, schema.hash)
        found = _CHECKED.get(key)
        if found is None:
            found = check_write(parse_queries(self.text, self.file).find(self.name), schema.catalog)
            if len(self.text) <= _CHECKED_CHARACTERS:
                _CHECKED.put(key, found)
        return found


class PendingMutation:
    """Runs the statements of a mutation, in order; each sees what the ones before it did.

    Nothing is written and no rule of the schema is checked here: the changes that come out go the way of every write.

    Attributes:
        nodes, edges: affected rows. An insert is one, an update all rows it matched, and a removed row counts once
            however many statements or cascades removed it.
    """

    def __init__(self, workspace: Workspace, catalog: Catalog, values: MutationValues) -> None:
        self.nodes = 0
        self.edges = 0
        self._workspace = workspace
        self._catalog = catalog
        self._values = values
        self._rows_of: dict[str, PendingRows] = {}

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
                    self.edges += len(self._rows(self._catalog.edges[statement.type_name]).remove(filter_))

    def changes(self) -> list[Change]:
        """One change for each type that is different now, each row in its final image."""
        changes = (rows.change() for rows in self._rows_of.values())
        return [change for change in changes if change is not None]

    def _insert_node(self, statement: InsertNode) -> None:
        node = self._catalog.nodes[statement.type_name]
        self._rows(node).insert(self._row(node, statement.assignments))
        self.nodes += 1

    def _insert_edge(self, statement: InsertEdge) -> None:
        edge = self._catalog.edges[statement.type_name]
        row = self._row(edge, statement.assignments)
        row["src"] = self._endpoint(edge, "from", statement.source)
        row["dst"] = self._endpoint(edge, "to", statement.target)
        self._rows(edge).insert(row)
        self.edges += 1

    def _update(self, statement: UpdateNode) -> None:
        node = self._catalog.nodes[statement.type_name]
        stored = self._stored(statement.assignments)
        filter_ = self._values.filter(statement.where)
        if filter_ is not None:
            assigned = {name: column(node.properties[name].type, [value]) for name, value in stored.items()}
            self.nodes += self._rows(node).update(filter_, assigned)

    def _delete_node(self, statement: DeleteNode) -> None:
        """Nodes go with every edge of any type that touches them."""
        filter_ = self._values.filter(statement.where)
        if filter_ is None:
            return
        gone = self._rows(self._catalog.nodes[statement.type_name]).remove(filter_)
        self.nodes += len(gone)
        for edge in self._catalog.edges.values():
            if len(gone) == 0 or edge.table_key not in self._workspace.snapshot.pins:
                continue
            for end, node in (("src", edge.source), ("dst", edge.target)):
                if node == statement.type_name:
                    self.edges += self._rows(edge).remove_touching(end, gone)

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

    def _rows(self, type_: NodeType | EdgeType) -> PendingRows:
        key = type_.table_key
        if key not in self._rows_of:
            snapshot = self._workspace.snapshot
            if key not in snapshot.pins:
                raise TypeNotFound(f"type '{type_.name}' does not exist on branch '{snapshot.branch}'", type=type_.name)
            self._rows_of[key] = PendingRows(type_, self._workspace.readable(key))
        return self._rows_of[key]


_TEXT = PropertyType(Scalar.STRING)
_POSITION = "#"  # no property can be called so


class PendingRows:
    """Pending changes of one type.

    Args:
        handle: the table as it is stored.
    """

    def __init__(self, type_: NodeType | EdgeType, handle: LanceTable) -> None:
        self.type = type_
        self._handle = handle
        self._schema = table_schema(type_)
        self._inserted: list[Mapping[str, Any]] = []
        self._rows = self._schema.empty_table()  # final images, each id once
        self._removed = pa.array([], pa.string())
        self._replaces_stored = False

    def insert(self, values: Mapping[str, Any]) -> None:
        """Put one row of stored values; what is not named is null. A row with the same key is replaced as a whole."""
        self._inserted.append(values)

    def update(self, filter_: ColumnFilter, values: Mapping[str, pa.Array]) -> int:
        """Give every matching row new values, one-element arrays by column; returns how many there are."""
        self._gather()
        matching = _matching(self._rows, filter_)
        stored = self._stored(self._schema.names, filter_)
        stored = stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=_ids(self._rows))))
        if stored.num_rows:
            self._replaces_stored = True
        touched = pa.concat_tables([self._rows.filter(matching), stored])
        first = pa.array(np.zeros(touched.num_rows, np.int8))
        for name, value in values.items():
            position = self._schema.get_field_index(name)
            touched = touched.set_column(position, self._schema.field(position), value.take(first))
        self._rows = pa.concat_tables([self._rows.filter(pc.invert(matching)), touched])
        return int(touched.num_rows)

    def remove(self, filter_: ColumnFilter) -> pa.Array:
        """Remove every matching row; returns the ids of those that were still there."""
        return self._forget(_ids(self._stored(["id"], filter_)))

    def remove_touching(self, end: str, nodes: pa.Array) -> int:
        """Remove every edge that has one of the nodes at this end; returns how many were still there."""
        return len(self._forget(_ids(find_rows(self._handle, nodes, end, ("id",)))))

    def change(self) -> Change | None:
        """What is to be written; None when nothing happened."""
        self._gather()
        key = self.type.table_key
        if len(self._removed):
            return Change(key, remove=self._removed, reads_rows=True)
        if self._rows.num_rows == 0:
            return None
        if isinstance(self.type, NodeType) and self.type.key:
            return Change(key, self._rows, Mode.MERGE, reads_rows=self._replaces_stored, has_ids=True)
        if self._replaces_stored:
            return Change(key, self._rows, Mode.MERGE, reads_rows=True, has_ids=True)
        return Change(key, self._rows, Mode.APPEND, has_ids=True, fresh_ids=True)

    def _stored(self, columns: list[str], filter_: ColumnFilter) -> pa.Table:
        filter_ = self._by_id(filter_)
        found = select_rows(self._handle, columns, filter_, limits.MUTATION_BYTES).select(columns)
        return found.cast(pa.schema([self._schema.field(name) for name in columns]))

    def _by_id(self, filter_: ColumnFilter) -> ColumnFilter:
        """Looking up a key goes through the index on id."""
        key = self.type.key if isinstance(self.type, NodeType) else None
        if filter_.equal_to is None or key != (filter_.column,):
            return filter_
        text = canonical_text(pa.repeat(filter_.equal_to, 1), self.type.properties[filter_.column].type)
        return ColumnFilter("id", equals("id", text[0].as_py()))

    def _gather(self) -> None:
        """Turn the inserts since the last look into rows."""
        if not self._inserted:
            return
        names = self._schema.names[1:]
        properties = self.type.properties
        columns = {
            name: column(
                properties[name].type if name in properties else _TEXT, [values.get(name) for values in self._inserted]
            )
            for name in names
        }
        self._inserted = []
        ids, is_fresh = with_ids(self.type, pa.table(columns), None)
        rows = pa.table([ids, *columns.values()], schema=self._schema)
        self._rows = pa.concat_tables([self._rows, rows])
        if not is_fresh:
            self._rows = _last_of_each_id(self._rows)

    def _forget(self, ids: pa.Array) -> pa.Array:
        gone = pc.unique(ids)
        gone = gone.filter(pc.invert(pc.is_in(gone, value_set=self._removed)))
        self._removed = pa.concat_arrays([self._removed, gone])
        return gone


def _matching(rows: pa.Table, filter_: ColumnFilter) -> pa.Array:
    """Which rows pass, as a mask."""
    mask = np.zeros(rows.num_rows, bool)
    numbered = pa.table({filter_.column: rows.column(filter_.column), _POSITION: pa.array(np.arange(rows.num_rows))})
    mask[numbered.filter(filter_.expression).column(_POSITION).to_numpy()] = True
    return pa.array(mask)


def _last_of_each_id(rows: pa.Table) -> pa.Table:
    ids = _ids(rows)
    if len(pc.unique(ids)) == len(ids):
        return rows
    positions = pa.table({"id": ids, "row": pa.array(np.arange(len(ids)))})
    last = positions.group_by("id").aggregate([("row", "max")]).column("row_max")
    return rows.take(last.combine_chunks().sort())


def _ids(rows: pa.Table) -> pa.Array:
    return rows.column("id").combine_chunks()
