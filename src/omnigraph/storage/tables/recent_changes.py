"""What recent commits of this process did to the rows of their tables, for readers in the same process.

A commit has its rows at hand; opening the files it just wrote costs more than everything else that a reader does to
follow it. Only small commits are kept, and only the newest ones: whoever finds nothing here compares the two versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph import limits
from omnigraph.lru import LruCache
from omnigraph.storage.metadata.manifest import Pin, table_version_of
from omnigraph.storage.objects.native_libraries import READ_EXCEPTIONS
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import RowIds, row_ids_in_metadata

if TYPE_CHECKING:
    from omnigraph.storage.tables.stage_rows import PendingChange


@dataclass(frozen=True, slots=True)
class TableChange:
    """Rows that differ between two versions of a table, by stable row id.

    Attributes:
        added_row_ids: rows that are new or rewritten, each once.
        added: columns of those rows that are at hand.
        lost_row_ids: rows of the older version that are gone.
        fragments: ids of the fragments that hold exactly those rows in this order; None when ``added`` has all columns.
        rewritten: how many of the added rows the older version may have; they come first.
        nbytes: of the columns at hand.
    """

    added_row_ids: RowIds
    added: pa.Table
    lost_row_ids: RowIds
    fragments: tuple[int, ...] | None
    rewritten: int
    nbytes: int


def _committed(pending: PendingChange, handle: LanceTable) -> TableChange | None:
    """The change as it became the newest version; None when that does not tell where the new rows lie."""
    new = pending.put.num_rows - len(pending.replaced)
    row_ids = pending.replaced
    if new:
        found = _newest_row_ids(handle)
        if found is None or len(found) != new:
            return None
        row_ids = np.concatenate([row_ids, found])
    return TableChange(row_ids, pending.put, pending.removed, None, len(pending.replaced), pending.put.nbytes)


def _newest_row_ids(handle: LanceTable) -> RowIds | None:
    """Row ids of the fragment that was added last. Asked after a commit, which nothing may fail any more."""
    try:
        newest = max(handle.get_fragments(), key=lambda fragment: fragment.fragment_id)
    except READ_EXCEPTIONS:
        return None
    return row_ids_in_metadata(newest.metadata)


class RecentChanges:
    """What the newest commits did to the tables of one graph."""

    def __init__(self) -> None:
        self._kept: LruCache[TableVersion, tuple[TableVersion, TableChange]] = LruCache(max_entries=limits.KEPT_EFFECTS)

    def keep(self, pin: Pin, base: Pin, pending: PendingChange | None, handle: LanceTable) -> None:
        """Remember what the commit from one version to the next did. A version without an origin cannot be told from
        another one of its number, so nothing is kept of it."""
        change = _committed(pending, handle) if pending is not None and pin.origin is not None else None
        if change is not None:
            self._kept.put(table_version_of(pin), (table_version_of(base), change))

    def between(self, older: Pin, newer: Pin) -> list[TableChange] | None:
        """What happened from one version to a newer one, oldest first; None when not all of it is known."""
        steps: list[TableChange] = []
        version, wanted = table_version_of(newer), table_version_of(older)
        while version != wanted:
            found = self._kept.get(version)
            if found is None:
                return None
            version, change = found
            steps.append(change)
        return steps[::-1]
