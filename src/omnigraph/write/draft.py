"""A write that is made step by step: each step sees those before it, and all of them become one commit or none.

A step is checked and staged like a write of its own, on the state that the steps before it left
(`storage/commit/draft_state.py`); one that breaks a rule leaves no trace. The commit is computed anew from what the
steps did to the rows, on the state that the branch has then. It is refused when a table that was read has other rows
than at the beginning; rows that were only put are put into whatever is there, and every rule is checked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidRow, MissingValue, OmniGraphError, RowNotFound, TypeNotFound
from omnigraph.ids import did_you_mean
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import ENDPOINT_COLUMNS, Catalog, EdgeType, NodeType
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit import draft_state
from omnigraph.storage.commit.preparation import Prepared, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import find_rows, locate, rows_at
from omnigraph.write.arrow_rows import GIVEN
from omnigraph.write.change import Change, Mode, Resolved, id_column, last_of_each_id
from omnigraph.write.load.stored_matches import ids_by_ends, is_known_by_ends
from omnigraph.write.mutate import mutation_of, result_of
from omnigraph.write.mutation_result import MutationRequest, MutationResult
from omnigraph.write.row_rules import cast_column, named_ends, with_ids
from omnigraph.write.stage_changes import (
    StagedChanges,
    TypedChange,
    WriteResult,
    row_numbers,
    stage_changes,
    typed_changes,
)


class Draft:
    """The steps of one write over one state of a branch.

    Attributes:
        base: the state that the branch had at the beginning.
        state: the same with all steps so far; a snapshot like any other, but nobody else has it.
        schema: of both.
    """

    def __init__(self, store: GraphStore, schemas: SchemaRegistry, branch: str) -> None:
        self._store = store
        self._schemas = schemas
        self.base: ManifestSnapshot = store.snapshot(branch)
        self.state = self.base
        self.schema: CompiledSchema = schemas.of(self.base)
        self._named = schemas.of(store.named(self.base)).catalog
        self._steps: dict[str, _Steps] = {}
        self._read: set[str] = set()
        self._made: list[Pin] = []

    @property
    def catalog(self) -> Catalog:
        return self.schema.catalog

    def note_read(self, table_keys: Iterable[str]) -> None:
        """Make the commit depend on tables: their rows must be those of the beginning."""
        self._read.update(table_keys)

    def insert(self, type_name: str, rows: pa.Table) -> list[str]:
        """Put rows whose ids do not exist; returns their ids in the order of the rows."""
        type_ = self.type_named(type_name)
        staged = self._apply([Change(type_.table_key, rows)])
        ids: list[str] = id_column(staged.resolved[type_.table_key].rows).to_pylist()
        return ids

    def update(self, type_name: str, rows: pa.Table) -> int:
        """Give rows that exist new values for what they give; returns how many rows there are.

        Raises:
            RowNotFound: a row does not exist.
        """
        type_ = self.type_named(type_name)
        given = named_ends(type_, rows)
        self._read.add(type_.table_key)
        handle = self._workspace.readable(type_.table_key)
        ids = _ids_of(type_, given, handle)
        if ids.null_count:
            row = pc.index(pc.is_valid(ids), False).as_py()
            source, target = (given.column(name)[row] for name in ENDPOINT_COLUMNS)
            raise RowNotFound(f"{type_.name} from '{source}' to '{target}' does not exist", type=type_.name)
        found = locate(handle, ids)
        places = pc.index_in(ids, value_set=found.ids)
        if places.null_count:
            missing = ids.filter(pc.is_null(places))[0].as_py()
            raise RowNotFound(f"{type_.name} '{missing}' does not exist", type=type_.name, id=missing)
        if len(found.ids) < len(ids):
            twice = next(each["values"] for each in ids.value_counts().to_pylist() if each["counts"] > 1)
            raise InvalidRow(f"{type_.name} '{twice}' is given twice", hint="update each row once", type=type_.name)
        named = [name for name in given.column_names if not name.startswith(GIVEN)]
        partly = [name for name in named if f"{GIVEN}{name}" in given.column_names]
        other = [name for name in table_schema(type_).names if name not in named]
        stored = rows_at(handle, found.row_ids[places.to_numpy()], [*other, *partly])
        whole = {name: given.column(name) for name in named} | {name: stored.column(name) for name in other}
        for name in partly:
            old = stored.column(name)
            new = cast_column(given.column(name), type_.properties[name].type, old.type, name)
            whole[name] = pc.if_else(given.column(f"{GIVEN}{name}"), new, old)
        self._apply([Change(type_.table_key, pa.table(whole), Mode.MERGE, reads_rows=True)])
        return int(rows.num_rows)

    def delete(self, type_name: str, rows: pa.Table) -> int:
        """Remove rows, nodes with every edge that touches them; returns how many rows of the type there were."""
        type_ = self.type_named(type_name)
        handle = self._workspace.readable(type_.table_key)
        ids = _ids_of(type_, named_ends(type_, rows), handle)
        gone = id_column(find_rows(handle, pc.unique(ids).drop_null()))
        changes = [Change(type_.table_key, remove=gone, reads_rows=True)]
        for edge in self.catalog.edges_at(type_.name):
            handle = self._workspace.readable(edge.table_key)
            ends = [column for column, node in edge.endpoints if node == type_.name]
            found = [id_column(find_rows(handle, gone, end, ("id",))) for end in ends]
            changes.append(Change(edge.table_key, remove=pc.unique(pa.concat_arrays(found)), reads_rows=True))
        self._read.update(change.table_key for change in changes)
        self._apply(changes)
        return len(gone)

    def mutate(self, request: MutationRequest) -> MutationResult:
        """Run a write query. What it depends on is what a mutation of its own would compute again, so here the tables
        that it updates and removes from must be those of the beginning."""
        with self._refusals_are_reads():
            affected = mutation_of(self._schemas, request).prepare(self._workspace).report
        self._show(affected.staged)
        self._read.update(affected.reads)
        return result_of(request, None, affected)

    def commit(self, actor: str | None, message: str | None) -> WriteResult:
        """All steps as one commit; none when nothing changed.

        Raises:
            ConflictError: a table that was read has other rows now, or a row that was inserted exists.
        """
        if not self._steps:
            return WriteResult(None, {}, {})
        write = Write(
            self.base.branch,
            WriterKind.MUTATION,
            actor,
            self._prepare,
            base=self.base,
            schema=self.schema.hash,
            reads=frozenset(self._read),
            message=message,
        )
        done = run(self._store, write)
        return WriteResult(done.commit, done.report.put, done.report.removed)

    def forget(self) -> None:
        """Let go of the files that only this draft refers to."""
        draft_state.forget(self._store, self._made)

    @property
    def _workspace(self) -> Workspace:
        return Workspace(self._store, self.state)

    def type_named(self, name: str) -> NodeType | EdgeType:
        found = self._named.nodes.get(name) or self._named.edges.get(name)
        if found is None:
            known = [*self._named.nodes, *self._named.edges]
            raise TypeNotFound(f"there is no type '{name}'", hint=did_you_mean(name, known), type=name)
        return found

    def _apply(self, changes: Sequence[Change]) -> StagedChanges:
        with self._refusals_are_reads():
            with row_numbers(changes):
                typed = typed_changes(self.catalog, changes)
            staged = stage_changes(self._workspace, self.catalog, typed)
        self._show(staged)
        return staged

    @contextmanager
    def _refusals_are_reads(self) -> Iterator[None]:
        """A block that catches the refusal of a step has learnt something of the rows that refused it."""
        try:
            yield
        except OmniGraphError:
            self._read.update(self.base.pins)
            raise

    def _show(self, staged: StagedChanges) -> None:
        """Make the changes of a step part of the state."""
        self._store.permit(staged.tables)
        self.state = draft_state.with_changes(self._store, self.state, staged.tables)
        self._made += [self.state.pins[key] for key in staged.tables]
        for key in staged.tables:
            steps = self._steps.setdefault(key, _Steps())
            steps.add(staged.resolved[key])
            if steps.read_rows:
                self._read.add(key)

    def _prepare(self, workspace: Workspace) -> Prepared[StagedChanges]:
        changes = [steps.together() for steps in self._steps.values()]
        staged = stage_changes(workspace, self.catalog, changes)
        return Prepared(staged, staged.tables, made_for=self.schema.hash)


@dataclass(slots=True)
class _Steps:
    """What the steps of a draft did to one table, in their order."""

    _done: list[Resolved] = field(default_factory=list)

    def add(self, step: Resolved) -> None:
        self._done.append(step)

    @property
    def read_rows(self) -> bool:
        """Whether the steps mean what they did only on the rows that they met. Rows that must be new and rows that may
        replace others are two wishes, and one change has one."""
        return any(step.change.reads_rows for step in self._done) or len({step.change.mode for step in self._done}) > 1

    def together(self) -> TypedChange:
        """All of them as one change: of each id only what happened last."""
        events, offset = [], 0
        for step in self._done:
            put, removed = id_column(step.rows), id_column(step.removed)
            events.append(pa.table({"id": put, "row": pa.arange(offset, offset + len(put))}))
            events.append(pa.table({"id": removed, "row": pa.nulls(len(removed), pa.int64())}))
            offset += len(put)
        last = last_of_each_id(pa.concat_tables(events))
        rows = pa.concat_tables([step.rows for step in self._done]).take(last.column("row").drop_null())
        gone = id_column(last.filter(pc.is_null(last.column("row"))))
        first = self._done[0]
        mode = first.change.mode if not self.read_rows else Mode.MERGE
        put_rows = rows if rows.num_rows else None
        change = Change(first.type.table_key, put_rows, mode, gone if len(gone) else None, conformed=True)
        return TypedChange(first.type, change, rows, fresh_ids=False)


def _ids_of(type_: NodeType | EdgeType, rows: pa.Table, handle: LanceTable) -> pa.Array:
    """Ids of rows that are named by their key, or by ``id``. An edge of which two nodes have one may be named by its
    ends, and has no id where there is none."""
    if isinstance(type_, EdgeType) and is_known_by_ends(type_) and _names_ends_only(rows):
        return ids_by_ends(handle, type_, rows)
    key = (type_.key if isinstance(type_, NodeType) else None) or ()
    if key and all(name in rows.column_names for name in key):
        schema = table_schema(type_)
        typed = [
            cast_column(rows.column(name), type_.properties[name].type, schema.field(name).type, name) for name in key
        ]
        ids, _ = with_ids(type_, pa.table(typed, names=list(key)), None)
    elif "id" in rows.column_names:
        ids = rows.column("id").combine_chunks().cast(pa.string())
    else:
        wanted = " and ".join(f"'{name}'" for name in key or ("id",))
        raise MissingValue(f"rows of {type_.name} are named by {wanted}, which is missing", type=type_.name)
    if ids.null_count:
        raise MissingValue(f"a row of {type_.name} has a null {' or '.join(key) or 'id'}", type=type_.name)
    return ids


def _names_ends_only(rows: pa.Table) -> bool:
    return "id" not in rows.column_names and set(ENDPOINT_COLUMNS) <= set(rows.column_names)
