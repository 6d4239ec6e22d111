"""What queries keep in memory between each other: rows and topologies, bounded in bytes, shared by a whole process.

Entries are keyed by the table version they belong to. A missing entry is derived from the nearest older one of the
same lineage where that is cheaper than reading.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from omnigraph import limits

_T = TypeVar("_T")


class Cache:
    """Least recently used entries go first when the budget is exceeded."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._entries: OrderedDict[Any, Any] = OrderedDict()
        self._newest: dict[Any, Any] = {}  # lineage → key of the entry that was used last
        self._sizes: dict[Any, int] = {}  # as measured last
        self._total = 0
        self._used: set[Any] = set()  # keys of entries that may have grown since they were measured
        self._lock = threading.Lock()
        self._building: dict[Any, threading.Lock] = {}

    def get(self, lineage: Any, version: Any, make: Callable[[Any | None], _T]) -> _T:
        """The entry of a version; ``make`` gets the last used entry of the lineage, if any, to derive it from."""
        key = (lineage, version)
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                self._newest[lineage] = key
                self._used.add(key)
                return self._entries[key]  # type: ignore[no-any-return]
            building = self._building.setdefault(key, threading.Lock())
        with building:
            with self._lock:
                if key in self._entries:
                    return self._entries[key]  # type: ignore[no-any-return]
                previous = self._entries.get(self._newest.get(lineage))
            made = make(previous)
            with self._lock:
                self._entries[key] = made
                self._newest[lineage] = key
                self._used.add(key)
                self._building.pop(key, None)
            self.trim()
            return made

    def trim(self) -> None:
        """Drop the oldest entries until the rest fits. Called after growth; only entries in use can have grown."""
        with self._lock:
            for key in self._used & self._entries.keys():
                size = self._entries[key].nbytes
                self._total += size - self._sizes.get(key, 0)
                self._sizes[key] = size
            self._used.clear()
            while self._total > self._budget and len(self._entries) > 1:
                key, _ = self._entries.popitem(last=False)
                self._total -= self._sizes.pop(key, 0)
                if self._newest.get(key[0]) == key:
                    del self._newest[key[0]]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._newest.clear()
            self._sizes.clear()
            self._used.clear()
            self._total = 0


SHARED = Cache(limits.engine_cache_bytes())
