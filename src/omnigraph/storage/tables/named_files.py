"""All files that one version of a table needs, by the names of `table_layout`: its layout, and its transaction."""

from __future__ import annotations

from omnigraph.errors import CorruptGraph, HistoricalVersionReclaimed
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.tables.datasets import Session, Tables, TableVersion, version_file
from omnigraph.storage.tables.table_layout import directory_of, table_layout
from omnigraph.storage.tables.version_addresses import transaction_file


class NamedFiles:
    """Looks up what versions of tables need. A version never changes, so each is read once."""

    def __init__(self, tables: Tables, objects: ObjectStore) -> None:
        self._tables = tables
        self._objects = objects
        self._session: Session = tables.new_session()
        self._known: dict[tuple[str, str | None, int], frozenset[str]] = {}

    def of(self, table: TableVersion) -> frozenset[str]:
        """What a version needs, as paths below the graph root.

        Raises:
            HistoricalVersionReclaimed: there is no such version.
            CorruptGraph: it cannot be read.
        """
        key = (table.location, table.branch, table.version)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._read(table)
        return known

    def _read(self, table: TableVersion) -> frozenset[str]:
        files = table_layout(table, self._tables.fresh(table, self._session)).files
        root = directory_of(table.location, table.branch)
        content = self._objects.read(f"{root}/{version_file(table.version)}")
        if content is None:
            raise HistoricalVersionReclaimed(
                f"version {table.version} of table {table.location} is no longer stored", version=table.version
            )
        made_by = transaction_file(content)
        return files if made_by is None else files | {f"{root}/_transactions/{made_by}"}

    def read_or_nothing(self, table: TableVersion) -> frozenset[str]:
        """The same for a version that nobody needs any more: what cannot be told is not told."""
        try:
            return self.of(table)
        except (HistoricalVersionReclaimed, CorruptGraph):
            return frozenset()
