"""One bounded cache for the whole package: the least recently used entries go first.

Bounded by the number of entries, by their total size, or by both. Safe for several threads. A value is made outside of
the lock, so two threads may make the same value at once; the first one stays.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """A mapping that forgets.

    Args:
        max_entries: how many entries are kept at most; None for any number.
        max_size: how much they may hold together at most, in whatever unit ``size_of`` counts; None for no bound. An
            entry that is larger by itself is not kept.
        size_of: the size of a value, asked once when it is put.

    >>> cache: LruCache[str, int] = LruCache(max_entries=2)
    >>> cache.put("a", 1)
    >>> cache.put("b", 2)
    >>> cache.get("a")
    1
    >>> cache.put("c", 3)
    >>> cache.get("b") is None
    True
    """

    def __init__(
        self, *, max_entries: int | None = None, max_size: int | None = None, size_of: Callable[[V], int] | None = None
    ) -> None:
        self._max_entries = max_entries
        self._max_size = max_size
        self._size_of = size_of
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """The size of all entries together; 0 when nobody counts."""
        return self._size

    def get(self, key: K) -> V | None:
        """The value of a key, which becomes the most recently used one; None when it is not here."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V) -> None:
        """Keep a value as the most recently used one, in place of an older one of the same key."""
        size = 0 if self._size_of is None else self._size_of(value)
        with self._lock:
            self._discard(key)
            self._entries[key] = (value, size)
            self._size += size
            self._evict()

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key; made, and kept, when it is not here."""
        found = self.get(key)
        if found is not None:
            return found
        made = make()
        size = 0 if self._size_of is None else self._size_of(made)
        with self._lock:
            present = self._entries.get(key)
            if present is not None:
                return present[0]
            self._entries[key] = (made, size)
            self._size += size
            self._evict()
        return made

    def discard(self, key: K) -> None:
        """Forget a key, if it is here."""
        with self._lock:
            self._discard(key)

    def discard_if(self, is_outdated: Callable[[K], bool]) -> None:
        """Forget all keys that a test picks out."""
        with self._lock:
            for key in [key for key in self._entries if is_outdated(key)]:
                self._discard(key)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._size = 0

    def _discard(self, key: K) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            self._size -= found[1]

    def _evict(self) -> None:
        while self._entries and self._is_over():
            _, (_, size) = self._entries.popitem(last=False)
            self._size -= size

    def _is_over(self) -> bool:
        if self._max_entries is not None and len(self._entries) > self._max_entries:
            return True
        return self._max_size is not None and self._size > self._max_size
