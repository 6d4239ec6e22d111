"""ULIDs: unique, in order within a process, one by one and column-wise alike."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from omnigraph import ids

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _number(ulid: str) -> int:
    value = 0
    for character in ulid:
        value = value * 32 + _ALPHABET.index(character)
    return value


def test_ids_are_ulids_of_the_present() -> None:
    before = time.time_ns() // 1_000_000
    made = [ids.new_ulid(), *ids.new_ulids(3).to_pylist()]
    after = time.time_ns() // 1_000_000
    assert all(map(ids.is_ulid, made))
    assert all(before <= _number(each) >> 80 <= after for each in made)


def test_ids_of_a_process_grow_however_they_are_made() -> None:
    made: list[str] = []
    for count in (0, 1, 5, 1_000):
        made += [ids.new_ulid(), *ids.new_ulids(count).to_pylist()]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_a_column_carries_over_all_its_digits() -> None:
    ulids = ids._Ulids()
    ulids._last = (2**48 - 1 << 80) + 2**40 - 3  # the next numbers cross the middle
    kept, ids._ulids = ids._ulids, ulids
    try:
        made = [_number(each) for each in ids.new_ulids(5).to_pylist()]
    finally:
        ids._ulids = kept
    first = (2**48 - 1 << 80) + 2**40 - 2
    assert made == list(range(first, first + 5))


def test_threads_make_different_ids() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = [each for part in threads.map(lambda _: ids.new_ulids(500).to_pylist(), range(40)) for each in part]
    assert len(set(made)) == 20_000


FORKS = """
import os
from omnigraph import ids

for _ in range(20):
    ids.new_ulid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ids.new_ulid().encode())
        os._exit(0)
    own = ids.new_ulid()
    os.waitpid(child, 0)
    print(own, os.read(reading, 26).decode())
"""


def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    pairs = [line.split() for line in done.stdout.splitlines()]
    assert len(pairs) == 20
    assert all(ids.is_ulid(own) and ids.is_ulid(theirs) and own[10:] != theirs[10:] for own, theirs in pairs)
