"""Vectors → one commit, for the rows that still have the text they were made of.

Computed again on whatever the branch is when the commit comes, like every write; a row that was changed or removed
meanwhile is left out, and the next run sees to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.embed.managed.row_states import ManagedProperty
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.preparation import Prepared, Workspace
from omnigraph.storage.commit.protocol import Committed, Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.tables.row_lookup import find_rows, rows_at
from omnigraph.write.change import Change, Mode
from omnigraph.write.stage_changes import stage_changes, typed_changes


@dataclass(frozen=True, slots=True)
class NewVectors:
    """Rows by id, the texts that they had, and their vectors; null where a row has no text any more."""

    ids: pa.Array
    texts: pa.Array
    vectors: pa.Array


@dataclass(frozen=True, slots=True)
class VectorWriter:
    """Puts vectors into one property of a branch."""

    store: GraphStore
    schemas: SchemaRegistry
    branch: str
    actor: str | None
    target: ManagedProperty

    def put(self, new: NewVectors) -> Committed[int]:
        """Commit them; reports how many rows got theirs."""

        def prepare(workspace: Workspace) -> Prepared[int]:
            schema = self.schemas.of(workspace.snapshot)
            rows = self._rows(workspace, schema.catalog, new)
            if rows is None or not rows.num_rows:
                return Prepared(0)
            change = Change(self.target.type.table_key, rows, Mode.MERGE, reads_rows=True)
            staged = stage_changes(workspace, schema.catalog, typed_changes(schema.catalog, [change]))
            return Prepared(rows.num_rows, staged.tables, made_for=schema.hash)

        write = Write(self.branch, WriterKind.MUTATION, self.actor, prepare, recomputes_reads=True, done="embed")
        return run(self.store, write)

    def _rows(self, workspace: Workspace, catalog: Catalog, new: NewVectors) -> pa.Table | None:
        """The rows as they are now, with their new vectors; None when the property is not what it was."""
        node = catalog.nodes.get(self.target.type.name)
        declared = node.properties.get(self.target.name) if node is not None else None
        if node is None or declared is None or declared.embed != self.target.embed:
            return None
        if declared.type.dimension != self.target.dimension:
            return None
        handle = workspace.readable(node.table_key)
        found = find_rows(handle, new.ids, columns=(self.target.embed.source,))
        places = pc.index_in(found.column("id").combine_chunks(), value_set=new.ids)
        was = new.texts.take(places)
        now = found.column(self.target.embed.source).combine_chunks().cast(pa.string())
        same = pc.or_(pc.equal(was, now).fill_null(False), pc.and_(pc.is_null(was), pc.is_null(now)))
        found, places = found.filter(same), places.filter(same)
        columns = [name for name in table_schema(node).names if name != self.target.name]
        stored = rows_at(handle, np.asarray(found.column("_rowid").to_numpy(), np.uint64), columns)
        return stored.append_column(self.target.name, new.vectors.take(places))
