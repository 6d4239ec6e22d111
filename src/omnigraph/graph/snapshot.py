"""One state of a graph, as users hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from omnigraph.errors import InputError, TypeNotFound
from omnigraph.history.state_at import at_state
from omnigraph.ids import did_you_mean
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.datasets import AS_BYTES


class Snapshot:
    """One consistent state of a graph. It does not change, whatever is committed meanwhile."""

    def __init__(self, store: GraphStore, stored: ManifestSnapshot) -> None:
        self._store = store
        self._stored = stored

    @property
    def branch(self) -> str:
        """The branch it was taken from."""
        return self._stored.branch

    @property
    def version(self) -> int:
        """Manifest version of that branch; grows with every commit."""
        return self._stored.version

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
        """Rows of a type as an Arrow table.

        Example:
            >>> graph.snapshot().arrow("Person", ["handle", "name"]).to_pylist()
            [{'handle': 'ana', 'name': 'Ana'}, {'handle': 'bo', 'name': 'Bo'}]
        """
        if isinstance(columns, str):
            raise InputError(f"columns is a list of names, not the text '{columns}'", hint=f"pass [{columns!r}]")
        pin = self._pin(type_name)
        with at_state(self._stored):
            handle = self._store.table(pin)
        for name in columns or ():
            if (name not in handle.schema.names and not name.startswith("_row")) or list(columns or ()).count(name) > 1:
                raise InputError(f"'{pin.table_key}' has no column '{name}', or it is named twice", column=name)
        with store_errors(f"read '{pin.table_key}'", handle):
            table: pa.Table = handle.to_table(
                columns=list(columns) if columns is not None else None, blob_handling=AS_BYTES
            )
        return table

    def _pin(self, type_name: str) -> Pin:
        keys = [type_name] if ":" in type_name else [f"node:{type_name}", f"edge:{type_name}"]
        pin = next((self._stored.pins[key] for key in keys if key in self._stored.pins), None)
        if pin is None:
            hint = did_you_mean(type_name, [key.partition(":")[2] for key in self._stored.pins])
            raise TypeNotFound(f"type '{type_name}' does not exist at this version", hint=hint, type=type_name)
        return pin

    def __repr__(self) -> str:
        return f"Snapshot(branch={self.branch!r}, version={self.version})"
