"""A `.gq` write from text to commit: parse, then check, bind and run on the state that it is committed on.

Each statement sees what the ones before it did: `PendingRows` lays the rows of one type over the stored ones. When the
state moves before the commit, everything is computed again, never patched: an update or delete means the rows at the
time of its commit. A mutation holds no stale input of its caller, so a moved table is no conflict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

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
    ForMatched,
    InsertEdge,
    InsertNode,
    MutationValue,
    RowCondition,
    RowStatement,
    RowTest,
    Statement,
    TypedMutation,
    TypedQuery,
    UpdateEdge,
    UpdateNode,
)
from omnigraph.query.typed.walk import tables_of
from omnigraph.read_budget import ReadBudget
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Prepared, Workspace
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.storage.objects.user_text import text_of
from omnigraph.storage.tables.filters import ColumnFilter, one_of
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import find_rows, select_rows
from omnigraph.write.change import Change, Mode
from omnigraph.write.mutation_result import MutationRequest, MutationResult
from omnigraph.write.row_rules import with_ids
from omnigraph.write.stage_changes import StagedChanges, stage_changes, typed_changes
from omnigraph.write.stored_values import MutationValues, by_id, column, named_id

_ENDPOINT = PropertyType(Scalar.STRING)

#: The rows that a statement is about: a test on them, or their ids.
_Chosen: TypeAlias = ColumnFilter | pa.Array

#: Writes that were checked last, by text, name and hash of the schema; agents send the same text again and again.
_CHECKED: LruCache[tuple[str, str | None, str], TypedMutation] = LruCache(max_entries=64)
_CHECKED_CHARACTERS = 65_536


def mutation_of(schemas: SchemaRegistry, request: MutationRequest) -> Mutation:
    """The write that a caller asks for, as a function of a state."""
    text, file = text_of(request.source, ".gq")
    return Mutation(schemas, text, file, request.name, request.params, _this_millisecond(), request.budget)


def result_of(request: MutationRequest, commit: Commit | None, affected: Affected) -> MutationResult:
    return MutationResult(
        commit=commit,
        branch=request.branch,
        query_name=affected.query_name,
        affected_nodes=affected.nodes,
        affected_edges=affected.edges,
        actor=request.actor,
    )


def _this_millisecond() -> datetime:
    moment = ids.now()
    return moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)


@dataclass(frozen=True, slots=True)
class Affected:
    """What a mutation does to one state, and the changes that do it.

    Attributes:
        reads: tables whose rows decide what it does: those of its conditions, and of the edges that go with a node.
    """

    query_name: str
    nodes: int
    edges: int
    staged: StagedChanges
    reads: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reach:
    """What a mutation looks at before it changes rows.

    Attributes:
        tables: keys of tables of which any row may decide what it does.
        rows: table keys and ids of single rows that do.
    """

    tables: frozenset[str]
    rows: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class MutationDraft:
    """What a mutation does to one state, before any rule of the schema is checked.

    Attributes:
        changes: one for each type that is different then.
    """

    query_name: str
    nodes: int
    edges: int
    changes: list[Change]
    reads: frozenset[str]
    reach: Reach
    schema: CompiledSchema


@dataclass(frozen=True, slots=True)
class Mutation:
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
    budget: ReadBudget

    def prepare(self, workspace: Workspace) -> Prepared[Affected]:
        draft = self.draft(workspace)
        catalog = draft.schema.catalog
        staged = stage_changes(workspace, catalog, typed_changes(catalog, draft.changes))
        affected = Affected(draft.query_name, draft.nodes, draft.edges, staged, draft.reads)
        return Prepared(affected, staged.tables, made_for=draft.schema.hash)

    def draft(self, workspace: Workspace) -> MutationDraft:
        """Run the statements on a state."""
        schema = self.schemas.of(workspace.snapshot)
        mutation = self._checked(self.schemas.of(workspace.store.named(workspace.snapshot)))
        values = MutationValues(bind_params(mutation, self.params), self.now, self.budget)
        pending = PendingMutation(workspace, schema.catalog, values)
        for statement in mutation.statements:
            self.budget.check()
            pending.run(statement)
        reads = read_by(schema.catalog, mutation)
        reach = _reach(schema.catalog, mutation, values) if reads else Reach(frozenset(), frozenset())
        return MutationDraft(mutation.name, pending.nodes, pending.edges, pending.changes(), reads, reach, schema)

    @property
    def query_name(self) -> str:
        """The name of the query, of a text that was accepted once."""
        return parse_queries(self.text, self.file).find(self.name).name

    def _checked(self, schema: CompiledSchema) -> TypedMutation:
        key = (self.text, self.name, schema.hash)
        found = _CHECKED.get(key)
        if found is None:
            found = check_write(parse_queries(self.text, self.file).find(self.name), schema.catalog)
            if len(self.text) <= _CHECKED_CHARACTERS:
                _CHECKED.put(key, found)
        return found


def read_by(catalog: Catalog, mutation: TypedMutation) -> frozenset[str]:
    """The tables that a write looks at before it changes rows."""
    found: set[str] = set()
    if all(isinstance(statement, InsertNode | InsertEdge) for statement in mutation.statements):
        return frozenset()
    for change in mutation.changes:
        if isinstance(change, InsertNode | InsertEdge):
            continue
        is_node = isinstance(change, UpdateNode | DeleteNode)
        found.add(f"{'node' if is_node else 'edge'}:{change.type_name}")
        if isinstance(change, DeleteNode):
            found.update(edge.table_key for edge in catalog.edges_at(change.type_name))
        if isinstance(change.where, TypedQuery):
            found |= tables_of(change.where.match)
    return frozenset(found)


def _reach(catalog: Catalog, mutation: TypedMutation, values: MutationValues) -> Reach:
    """The same as `read_by`, but a row that is named by its key is one row."""
    tables: set[str] = set()
    rows: set[tuple[str, str]] = set()
    for change in mutation.changes:
        if isinstance(change, InsertNode | InsertEdge):
            continue
        is_node = isinstance(change, UpdateNode | DeleteNode)
        type_ = (catalog.nodes if is_node else catalog.edges)[change.type_name]
        filter_ = values.filter(change.where) if isinstance(change.where, RowTest) else None
        named = named_id(type_, filter_) if filter_ is not None else None
        if named is not None:
            rows.add((type_.table_key, named))
        elif filter_ is not None or not isinstance(change.where, RowTest):
            tables.add(type_.table_key)
        if isinstance(change, DeleteNode):
            tables.update(edge.table_key for edge in catalog.edges_at(change.type_name))
        if isinstance(change.where, TypedQuery):
            tables |= tables_of(change.where.match)
    return Reach(frozenset(tables), frozenset(rows))


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
            case ForMatched(changes=changes):
                for change, chosen in zip(changes, [self._chosen(each) for each in changes], strict=True):
                    self._change(change, chosen)
            case _:
                self._change(statement, self._chosen(statement))

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

    def _chosen(self, statement: RowStatement) -> _Chosen | None:
        """The rows that an update or a delete is about, as things stand; None for none."""
        where = statement.where
        if isinstance(where, RowTest):
            return self._values.filter(where)
        if isinstance(where, RowCondition):
            ids = self._rows(self._type_of(statement)).passing(where, self._values)
        else:
            from omnigraph.write.found_rows import ids_of_pattern  # brings the engine along

            pending = {key: rows.state() for key, rows in self._rows_of.items() if rows.is_changed}
            ids = ids_of_pattern(self._workspace, self._catalog, pending, where, self._values)
        return ids if len(ids) else None

    def _type_of(self, statement: RowStatement) -> NodeType | EdgeType:
        is_node = isinstance(statement, UpdateNode | DeleteNode)
        return (self._catalog.nodes if is_node else self._catalog.edges)[statement.type_name]

    def _change(self, statement: RowStatement, chosen: _Chosen | None) -> None:
        type_ = self._type_of(statement)
        match statement:
            case UpdateNode() | UpdateEdge():
                stored = self._stored(statement.assignments)
                if chosen is None:
                    return
                assigned = {name: column(type_.properties[name].type, [value]) for name, value in stored.items()}
                count = self._rows(type_).update(chosen, assigned)
                if isinstance(statement, UpdateNode):
                    self.nodes += count
                else:
                    self.edges += count
            case DeleteNode() if chosen is not None:
                self._delete_nodes(type_, chosen)
            case DeleteEdge() if chosen is not None:
                self.edges += len(self._rows(type_).remove(chosen))

    def _delete_nodes(self, type_: NodeType | EdgeType, chosen: _Chosen) -> None:
        """Nodes go with every edge of any type that touches them."""
        gone = self._rows(type_).remove(chosen)
        self.nodes += len(gone)
        for edge in self._catalog.edges.values():
            if len(gone) == 0 or edge.table_key not in self._workspace.snapshot.pins:
                continue
            for end, node in (("src", edge.source), ("dst", edge.target)):
                if node == type_.name:
                    self.edges += self._rows(edge).remove_touching(end, gone)

    def _row(self, type_: NodeType | EdgeType, assignments: Sequence[Assignment]) -> dict[str, Any]:
        """The stored values of a new row, with defaults. An embedded vector must be assigned: nothing embeds here."""
        defaults = {name: each.default for name, each in type_.properties.items() if each.default is not None}
        row = defaults | self._stored(assignments)
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
        """Put one row of stored values; what is not there is null. A row with the same key is replaced as a whole."""
        self._inserted.append(values)

    def passing(self, condition: RowCondition, values: MutationValues) -> pa.Array:
        """Ids of the rows that satisfy a condition, as they are now."""
        from omnigraph.write.found_rows import ids_that_pass, rows_that_pass  # brings the engine along

        self._gather()
        stored = ids_that_pass(self._handle, self.type, condition, values)
        stored = stored.filter(pc.invert(pc.is_in(stored, value_set=_ids(self._rows))))
        return pa.concat_arrays([stored, _ids(rows_that_pass(self._rows, condition, values))])

    @property
    def is_changed(self) -> bool:
        return bool(self._inserted) or self._rows.num_rows > 0 or len(self._removed) > 0

    def state(self) -> tuple[pa.Table, pa.Array]:
        """Rows in their image so far, each id once, and the ids that are gone."""
        self._gather()
        return self._rows, self._removed

    def update(self, chosen: _Chosen, values: Mapping[str, pa.Array]) -> int:
        """Give every chosen row new values, one-element arrays by column; returns how many there are."""
        self._gather()
        filter_ = chosen if isinstance(chosen, ColumnFilter) else one_of("id", chosen)
        matching = _matching(self._rows, filter_)
        stored = self._stored(self._schema.names, filter_)
        stored = stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=_ids(self._rows))))
        if stored.num_rows:
            self._replaces_stored = True
        touched = pa.concat_tables([self._rows.filter(matching), stored])
        first = pa.repeat(0, touched.num_rows)
        for name, value in values.items():
            position = self._schema.get_field_index(name)
            touched = touched.set_column(position, self._schema.field(position), value.take(first))
        self._rows = pa.concat_tables([self._rows.filter(pc.invert(matching)), touched])
        return int(touched.num_rows)

    def remove(self, chosen: _Chosen) -> pa.Array:
        """Remove every chosen row; returns the ids of those that were still there."""
        return self._forget(_ids(self._stored(["id"], chosen)) if isinstance(chosen, ColumnFilter) else chosen)

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
        found = select_rows(self._handle, columns, by_id(self.type, filter_), limits.MUTATION_BYTES).select(columns)
        return found.cast(pa.schema([self._schema.field(name) for name in columns]))

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
    positions = pa.arange(0, rows.num_rows)
    numbered = pa.table({filter_.column: rows.column(filter_.column), _POSITION: positions})
    passing = numbered.filter(filter_.expression).column(_POSITION)
    return pc.is_in(positions, value_set=passing.combine_chunks())


def _last_of_each_id(rows: pa.Table) -> pa.Table:
    ids = _ids(rows)
    if len(pc.unique(ids)) == len(ids):
        return rows
    positions = pa.table({"id": ids, "row": pa.arange(0, len(ids))})
    last = positions.group_by("id").aggregate([("row", "max")]).column("row_max")
    return rows.take(last.combine_chunks().sort())


def _ids(rows: pa.Table) -> pa.Array:
    return rows.column("id").combine_chunks()
