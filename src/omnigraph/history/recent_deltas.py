"""The comparisons that a process made last, so that the next page of a large block need not make them again.

States never change, so what was found stays true. Only ids and places are kept, no rows, and no more of them than a
fixed number; nothing breaks when one is forgotten.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from omnigraph import limits
from omnigraph.lru import LruCache
from omnigraph.storage.delta import OrderedChanges, table_delta
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Pin, table_version_of
from omnigraph.storage.tables.datasets import Tables

#: Changes of recent comparisons that a process keeps the ids of, so that the next page of a block finds them at hand.
#: One takes about 60 bytes.
_RECENT_CHANGES = 2_000_000


_Key = tuple[tuple[object, ...] | None, tuple[object, ...] | None, tuple[str, ...]]


class RecentDeltas:
    """Recent comparisons of one graph, shared by its threads."""

    def __init__(self) -> None:
        self._known: LruCache[_Key, OrderedChanges] = LruCache(
            max_entries=limits.OPEN_TABLES, max_size=_RECENT_CHANGES, size_of=len
        )

    def changes(self, store: GraphStore, before: Pin | None, after: Pin | None, ops: tuple[str, ...]) -> OrderedChanges:
        """What changed between two states of a table, in the order of the ids."""
        key = (_place(before), _place(after), ops)
        found = self._known.get(key)
        if found is None:
            found = table_delta(store.tables, before, after).ordered(ops)
            if _is_unmistakable(before) and _is_unmistakable(after):
                self._known.put(key, found)
        return found


_of_graphs: WeakKeyDictionary[Tables, RecentDeltas] = WeakKeyDictionary()
_lock = threading.Lock()


def recent_deltas(store: GraphStore) -> RecentDeltas:
    """The comparisons of a graph; they go with it."""
    with _lock:
        return _of_graphs.setdefault(store.tables, RecentDeltas())


def _place(pin: Pin | None) -> tuple[object, ...] | None:
    return None if pin is None else (table_version_of(pin), pin.row_count)


def _is_unmistakable(pin: Pin | None) -> bool:
    """Whether a pin means the same version for ever: numbers of a branch that is made again repeat."""
    return pin is None or pin.branch is None or pin.origin is not None
