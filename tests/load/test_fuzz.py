"""Whatever the bytes are: rows, or violations with typed errors, in bounded time."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import OmniGraphError
from omnigraph.write.load.parse_lines import Parsed
from tests.language.load.fixtures import refusals
from tests.load.reading import parse
from tests.load.test_fast_is_exact import POOLS
from tests.support.small_graphs import people, rows_of

SIGNS = [
    b'{"type":"All","data":{',
    b'{"edge":"Link",',
    b'"from":',
    b'"k":',
    b"}",
    b"]",
    b"[",
    b"\n",
    b"\r\n",
    b'"',
    b"\\",
]
SIGNS += [b"\\u00", b"null", b"1e9", b"-", b",", b":", b"\xef\xbb\xbf", b"\0", b"\xc3", b'"id":', b"0" * 50, b" "]
SIGNS += [value.encode("utf-8", "surrogatepass") for values in POOLS.values() for value in values]
SEEDS = [refusal.line.encode() for refusal in refusals()]


def holds(parsed: Parsed) -> bool:
    """Every violation is typed and placed."""
    return all(
        issubclass(type(each.error), OmniGraphError) and each.error.code != "internal" and each.line >= 1
        for each in parsed.violations
    )


@given(st.lists(st.sampled_from(SIGNS) | st.binary(max_size=5), max_size=40))
def test_pieces_of_records_in_any_order_are_refused_or_taken(pieces: list[bytes]) -> None:
    assert holds(parse(b"".join(pieces), most=10_000))


@given(seed=st.integers(0, 2**32))
def test_damaged_records_are_refused_or_taken(seed: int) -> None:
    chance = random.Random(seed)
    lines = [bytearray(chance.choice(SEEDS)) for _ in range(10)]
    for line in lines:
        for _ in range(chance.randint(0, 4)):
            at = chance.randrange(len(line) + 1)
            line[at : at + chance.randint(0, 3)] = chance.choice(SIGNS)
    assert holds(parse(b"\n".join(lines), most=10_000))


UNITS = [
    b"{",
    b"[",
    b'"',
    b"\\",
    b"\0",
    b"\xff",
    b'{"type":"All"}',
    b"\n",
    b"{}\n",
    b'{"a":',
    b"[{",
    b"1",
    b'\\"',
    b"}\n",
]
UNITS += [b'{"type":"All","data":{"k":"a","k":', b'{"type":"All","data":{"k":"a"}}\n', b'{"edge":"Link","from":"a"}\n']


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_sixty_four_kilobytes_of_anything_take_less_than_a_second(unit: bytes) -> None:
    data = (unit * (65_536 // len(unit) + 1))[:65_536]
    best = min(_seconds(data) for _ in range(3))
    assert best < 1.0


def _seconds(data: bytes) -> float:
    began = time.process_time()
    assert holds(parse(data, most=limits.LOAD_MAX_REJECTS + 1))
    return time.process_time() - began


@settings(max_examples=15)
@given(data=st.binary(max_size=300))
def test_a_load_of_random_bytes_changes_nothing(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = _graph(tmp_path_factory)
    (folder / "in.jsonl").write_bytes(data)
    with og.open(folder / "g") as graph:
        try:
            assert graph.load(folder / "in.jsonl", "append").total == 0
        except OmniGraphError as error:
            assert error.code != "internal"
        assert set(rows_of(graph, "Person")) == {"ann"}


_FOLDERS: list[Path] = []


def _graph(factory: pytest.TempPathFactory) -> Path:
    if not _FOLDERS:
        _FOLDERS.append(factory.mktemp("fuzz"))
        people(_FOLDERS[0] / "g", "ann").close()
    return _FOLDERS[0]


@pytest.mark.torture
@given(st.lists(st.sampled_from(SIGNS) | st.binary(max_size=8), max_size=400))
def test_long_pieces_of_records_are_refused_or_taken(pieces: list[bytes]) -> None:
    assert holds(parse(b"".join(pieces), most=10_000))
