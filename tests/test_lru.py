"""The one bounded cache: what it keeps, what goes first, and that threads do not hurt it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from omnigraph.lru import LruCache


def test_the_entry_that_was_not_used_for_longest_goes_first() -> None:
    cache: LruCache[str, int] = LruCache(max_entries=2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    assert len(cache) == 2


def test_sizes_are_added_up_and_bounded() -> None:
    cache: LruCache[str, bytes] = LruCache(max_size=10, size_of=len)
    cache.put("a", b"1234")
    cache.put("b", b"1234")
    cache.put("a", b"12345")
    assert cache.size == 9
    cache.put("c", b"123")
    assert cache.get("b") is None and cache.size == 8
    cache.put("large", b"x" * 11)
    assert len(cache) == 0 and cache.size == 0


def test_an_entry_can_be_forgotten() -> None:
    cache: LruCache[str, bytes] = LruCache(max_entries=9, size_of=len)
    cache.put("a", b"1")
    cache.put("b", b"22")
    cache.discard("a")
    cache.discard("nobody")
    assert cache.get("a") is None and cache.size == 2
    cache.clear()
    assert len(cache) == 0 and cache.size == 0


def test_a_value_is_made_once_and_then_kept() -> None:
    cache: LruCache[int, object] = LruCache(max_entries=4)
    first = cache.get_or_make(1, object)
    assert cache.get_or_make(1, object) is first


def test_threads_share_a_cache() -> None:
    cache: LruCache[int, bytes] = LruCache(max_entries=8, max_size=64, size_of=len)

    def use(number: int) -> bool:
        key = number % 16
        return cache.get_or_make(key, lambda: bytes([key]) * key)[:1] in (b"", bytes([key]))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(4_000)))
    assert len(cache) <= 8 and cache.size <= 64
