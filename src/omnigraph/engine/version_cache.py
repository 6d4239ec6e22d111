"""What queries keep in memory between each other: rows and topologies, bounded in bytes, shared by a whole process.

Entries are keyed by the table version they belong to. A missing entry is derived from the nearest older one of the
same lineage where that is cheaper than reading. Versions share most of their arrays, so bytes are counted per array;
what else an entry keeps alive is bounded by the number of versions of a lineage.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol, TypeVar

from omnigraph import limits
from omnigraph.errors import QueryCancelled, QueryTimeout
from omnigraph.read_budget import UNBOUNDED, ReadBudget

#: Versions of one table, or of one topology, that are kept: the newest, and those somebody travels to. Each keeps about
#: 20 kB alive besides its rows.
_MAX_VERSIONS = 32

#: An entry that was derived from another one shares most of its arrays; only so many of them are worth measuring.
_DERIVED = 8


#: Long work that was stopped on the way is kept for who asks next, so many of it.
_MAX_BEGUN = 2


class CacheEntry(Protocol):
    """Something to keep."""

    @property
    def is_derived(self) -> bool:
        """Whether it shares nearly everything with an older entry."""

    def parts(self) -> Iterator[tuple[object, int]]:
        """What it holds in memory, and the bytes of each; a part may belong to other entries too."""


_T = TypeVar("_T", bound=CacheEntry)
_Made = TypeVar("_Made")


class VersionCache:
    """Least recently used entries go first when the budget is exceeded."""

    def __init__(self, budget: int, max_versions: int = _MAX_VERSIONS) -> None:
        self._budget = budget
        self._max_versions = max_versions
        self._entries: OrderedDict[Any, Any] = OrderedDict()
        self._lineages: dict[Any, OrderedDict[Any, None]] = {}  # lineage → keys of its entries, the last used is last
        self._parts = _Parts()
        self._derived = 0  # entries made from others since the last measurement
        self._used: set[Any] = set()  # keys of entries that may have grown since they were measured
        self._lock = threading.Lock()
        self._building: dict[Any, threading.Lock] = {}
        self._begun: OrderedDict[Any, Generator[None, None, Any]] = OrderedDict()

    @property
    def nbytes(self) -> int:
        """Bytes held by all entries, as measured last."""
        return self._parts.total

    def get(self, lineage: Any, version: Any, make: Callable[[Any | None], _T], budget: ReadBudget = UNBOUNDED) -> _T:
        """The entry of a version; ``make`` gets the last used entry of the lineage, if any, to derive it from.

        Args:
            budget: how long to wait while another thread makes it.
        """
        key = (lineage, version)
        with self._lock:
            if key in self._entries:
                self._touch(key)
                return self._entries[key]  # type: ignore[no-any-return]
            building = self._building.setdefault(key, threading.Lock())
        with budget.locked(building):
            with self._lock:
                if key in self._entries:
                    return self._entries[key]  # type: ignore[no-any-return]
                previous = self._last_used(lineage)
            try:
                made = make(previous)
            finally:
                with self._lock:
                    self._building.pop(key, None)
            with self._lock:
                self._entries[key] = made
                self._touch(key)
                self._forget_old_versions(lineage)
                self._derived = self._derived + 1 if made.is_derived else _DERIVED
                measures = self._derived >= _DERIVED
            if measures:
                self.trim()
            return made

    def finish(self, key: Any, begin: Callable[[], Generator[None, None, _Made]], budget: ReadBudget) -> _Made:
        """The outcome of long work that pauses now and then. When it is stopped in a pause, who asks next goes on."""
        with self._lock:
            work = self._begun.pop(key, None)
        work = begin() if work is None else work
        try:
            while True:
                budget.check()
                next(work)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        except (QueryTimeout, QueryCancelled):
            with self._lock:
                self._begun[key] = work
                while len(self._begun) > _MAX_BEGUN:
                    self._begun.popitem(last=False)
            raise

    def has(self, lineage: Any, version: Any) -> bool:
        """Whether an entry is there, or one of its lineage that it may be derived from."""
        with self._lock:
            return (lineage, version) in self._entries or lineage in self._lineages

    def trim(self) -> None:
        """Drop the oldest entries until the rest fits. Called after growth; only entries in use can have grown."""
        with self._lock:
            for key in self._used & self._entries.keys():
                self._parts.hold(key, self._entries[key])
            self._used.clear()
            self._derived = 0
            while self._parts.total > self._budget and len(self._entries) > 1:
                self._forget(next(iter(self._entries)))

    def _touch(self, key: Any) -> None:
        self._entries.move_to_end(key)
        versions = self._lineages.setdefault(key[0], OrderedDict())
        versions[key] = None
        versions.move_to_end(key)
        self._used.add(key)

    def _last_used(self, lineage: Any) -> Any | None:
        versions = self._lineages.get(lineage)
        return self._entries[next(reversed(versions))] if versions else None

    def _forget_old_versions(self, lineage: Any) -> None:
        versions = self._lineages[lineage]
        while len(versions) > self._max_versions:
            self._forget(next(iter(versions)))

    def _forget(self, key: Any) -> None:
        del self._entries[key]
        self._parts.release(key)
        versions = self._lineages[key[0]]
        del versions[key]
        if not versions:
            del self._lineages[key[0]]

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._lineages.clear()
            self._used.clear()
            self._begun.clear()
            self._parts = _Parts()


class _Parts:
    """The arrays behind entries, each counted once however many entries hold it."""

    def __init__(self) -> None:
        self.total = 0
        self._of: dict[Any, dict[int, object]] = {}  # holds the objects too, so that nobody else gets their number
        self._known: dict[int, list[int]] = {}  # number → holders, bytes

    def hold(self, key: Any, entry: CacheEntry) -> None:
        """Measure an entry, again if it is known."""
        now = {}
        for part, size in entry.parts():
            number = id(part)
            if number in now:
                continue
            now[number] = part
            known = self._known.setdefault(number, [0, 0])
            known[0] += 1
            self.total += size - known[1]
            known[1] = size
        self.release(key)
        self._of[key] = now

    def release(self, key: Any) -> None:
        for number in self._of.pop(key, {}):
            known = self._known[number]
            known[0] -= 1
            if known[0] == 0:
                self.total -= known[1]
                del self._known[number]


SHARED = VersionCache(limits.engine_cache_bytes())
