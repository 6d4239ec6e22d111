"""One state of a graph, as users hold it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph import given
from omnigraph.errors import BlobNotFound, InputError, NotABlob, RowNotFound, TypeNotFound
from omnigraph.history.state_at import at_state
from omnigraph.ids import did_you_mean
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.holds import Hold
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin, table_version_of
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.datasets import is_blob
from omnigraph.storage.tables.table_scan import whole_table, whole_table_in_pieces

if TYPE_CHECKING:
    from omnigraph.graph.blob_value import Blob
    from omnigraph.storage.tables.lance_types import LanceTable
    from omnigraph.storage.tables.pinned_dataset import PinnedDataset


class Snapshot:
    """One consistent state of a graph. It does not change, whatever is committed meanwhile. Cleanups leave it alone as
    long as this object is there."""

    def __init__(self, store: GraphStore, stored: ManifestSnapshot, hold: Hold | None = None) -> None:
        self._store = store
        self._stored = stored
        end = hold.release if hold is not None else store.begin_read(stored, "snapshot")
        if end is not None:
            ended = weakref.finalize(self, end)
            ended.atexit = store.location.is_local  # elsewhere a lease expires, and nobody waits for a store at the end

    @property
    def branch(self) -> str:
        """The branch it was taken from."""
        return self._stored.branch

    @property
    def version(self) -> int:
        """Manifest version of that branch; grows with every commit."""
        return self._stored.version

    @property
    def commit_id(self) -> str:
        """The newest commit of this state.

        Example:
            >>> graph.snapshot().commit_id == graph.commits.head().id
            True
        """
        return commit_log.head_id(self._store.tables, self._stored)

    @property
    def tables(self) -> Mapping[str, Pin]:
        """Every table by ``node:<Type>`` or ``edge:<Type>``, with version, branch and row count.

        Example:
            >>> {key: table.row_count for key, table in graph.snapshot().tables.items()}
            {'edge:Follows': 1, 'node:Person': 2}
        """
        return self._stored.pins

    def count(self, type_name: str) -> int:
        """Rows of a type; free, the manifest knows it.

        Example:
            >>> graph.snapshot().count("Person")
            2
        """
        return self._pin(type_name).row_count

    def arrow(self, type_name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a type as an Arrow table, as they are stored: DateTime is ``date64`` with the time of day, which
        ``column.cast(pa.int64()).cast(pa.timestamp("ms", "UTC"))`` makes a timestamp.

        Example:
            >>> graph.snapshot().arrow("Person", ["handle", "name"]).to_pylist()
            [{'handle': 'ana', 'name': 'Ana'}, {'handle': 'bo', 'name': 'Bo'}]
        """
        key, handle, known = self._columns_of(type_name, columns)
        with store_errors(f"read '{key}'", handle):
            return whole_table(handle, known)

    def reader(self, type_name: str, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The same rows one batch after the other, for types that do not fit into memory.

        Example:
            >>> sum(batch.num_rows for batch in graph.snapshot().reader("Person", ["handle"]))
            2
        """
        key, handle, known = self._columns_of(type_name, columns)
        with store_errors(f"read '{key}'", handle):
            return whole_table_in_pieces(handle, known)

    def blob(self, type_name: str, id: str | int, property: str) -> Blob:
        """The bytes of a `Blob` property of one row; see `Graph.blob`.

        Example:
            >>> graph.snapshot().blob("Person", "ana", "photo").read()
            b'pixels'
        """
        from omnigraph.graph.blob_value import Blob
        from omnigraph.storage.tables.blob_cells import NO_ROW, NULL, blob_cell

        pin, name = self._pin(type_name), given.text(property, "a property")
        row_id = str(given.whole_number(id, "an id")) if not isinstance(id, str) else id
        with at_state(self._stored):
            handle = self._store.table(pin)
            if name not in handle.schema.names or not is_blob(handle.schema.field(name)):
                blobs = [field.name for field in handle.schema if is_blob(field)]
                raise NotABlob(
                    f"'{pin.table_key}' has no Blob property '{name}'",
                    hint=did_you_mean(name, blobs)
                    or (f"its Blobs: {', '.join(blobs)}" if blobs else "it has no Blobs"),
                    property=name,
                )
            content = blob_cell(handle, name, row_id)
        where = {"type": pin.table_key, "id": row_id}
        if content is NO_ROW:
            raise RowNotFound(f"'{pin.table_key}' has no row with the id '{row_id}'", **where)
        if content is NULL:
            raise BlobNotFound(f"'{name}' of '{pin.table_key}' '{row_id}' is null", **where, property=name)
        return Blob(self, (pin.table_key.partition(":")[2], row_id, name), content)

    def dataset(self, type_name: str) -> PinnedDataset:
        """Rows of a type as a dataset of Lance at this state, for DuckDB, Polars or DataFusion to query in place.

        It is a `lance.LanceDataset`, and so a `pyarrow.dataset.Dataset`. It only reads: whatever would write to the
        table or move to another version raises `ReadOnly`. docs/sql.md shows SQL over a graph.

        Example:
            >>> graph.snapshot().dataset("Person").to_table(columns=["name"], filter="handle = 'bo'").to_pylist()
            [{'name': 'Bo'}]
        """
        pin = self._pin(type_name)
        with at_state(self._stored):
            self._store.table(pin)  # says clearly when it is gone
        return self._store.tables.pinned(table_version_of(pin))

    def _columns_of(self, type_name: str, columns: Sequence[str] | None) -> tuple[str, LanceTable, list[str] | None]:
        """The key and the table of a type, and the columns of it that are asked for."""
        if isinstance(columns, str):
            raise InputError(f"columns is a list of names, not the text '{columns}'", hint=f"pass [{columns!r}]")
        columns = None if columns is None else given.texts(columns, "columns")
        pin = self._pin(type_name)
        with at_state(self._stored):
            handle = self._store.table(pin)
        for position, name in enumerate(columns or ()):
            if name not in handle.schema.names and not name.startswith("_row"):
                hint = did_you_mean(name, handle.schema.names)
                raise InputError(f"'{pin.table_key}' has no column '{name}'", hint=hint, column=name)
            if columns and name in columns[:position]:
                raise InputError(f"column '{name}' is named twice", column=name)
        return pin.table_key, handle, columns

    def _pin(self, type_name: str) -> Pin:
        return pin_named(self._stored.pins, type_name)

    def __repr__(self) -> str:
        return f"Snapshot(branch={self.branch!r}, version={self.version})"


def pin_named(pins: Mapping[str, Pin], type_name: str) -> Pin:
    """The table of a type, by its name or its table key.

    Raises:
        TypeNotFound: there is none among them.
    """
    type_name = given.text(type_name, "a type")
    keys = [type_name] if ":" in type_name else [f"node:{type_name}", f"edge:{type_name}"]
    pin = next((pins[key] for key in keys if key in pins), None)
    if pin is None:
        hint = did_you_mean(type_name, [key.partition(":")[2] for key in pins])
        raise TypeNotFound(f"type '{type_name}' does not exist at this version", hint=hint, type=type_name)
    return pin
