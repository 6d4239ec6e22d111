"""The digest of a column depends on its values alone, and on each of them."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.storage.tables import stage_rows

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "string": (pa.string(), st.text(max_size=5)),
    "large string": (pa.large_string(), st.text(max_size=5)),
    "binary": (pa.binary(), st.binary(max_size=5)),
    "bool": (pa.bool_(), st.booleans()),
    "i32": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "u64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "f32": (pa.float32(), st.floats(width=32)),
    "f64": (pa.float64(), st.floats()),
    "date": (pa.date32(), st.dates()),
    "list of strings": (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=3), max_size=3)),
    "list of bools": (pa.list_(pa.bool_()), st.lists(st.none() | st.booleans(), max_size=9)),
    "vector": (pa.list_(pa.float32(), 2), st.lists(st.floats(width=32), min_size=2, max_size=2)),
    "struct": (pa.struct([("a", pa.int8()), ("b", pa.string())]), st.fixed_dictionaries({"b": st.text(max_size=2)})),
}


def digest(*pieces: pa.Array) -> str:
    column = stage_rows.ColumnDigest()
    for piece in pieces:
        column.add(piece)
    return column.hex()


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_pieces_offsets_and_layout_change_nothing(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    rows = data.draw(st.lists(st.none() | values, max_size=12))
    whole = pa.array(rows, type_)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    edges = [0, *cuts, len(rows)]
    pieces = [whole.slice(start, stop - start) for start, stop in pairwise(edges)]
    around = pa.concat_arrays([pa.array([None], type_), whole, pa.array([None, None], type_)]).slice(1, len(rows))
    assert digest(*pieces) == digest(around) == digest(pa.array(rows, type_)) == digest(whole)


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_another_value_null_or_order_is_another_digest(name: str, data: st.DataObject) -> None:
    type_, values = TYPES[name]
    rows = [data.draw(st.lists(st.none() | values, max_size=6)) for _ in range(2)]
    arrays = [pa.array(each, type_) for each in rows]
    same = arrays[0].equals(arrays[1]) or repr(rows[0]) == repr(rows[1])  # NaN equals nothing; -0.0 equals 0.0
    if repr(rows[0]) == repr(rows[1]):
        assert digest(arrays[0]) == digest(arrays[1])
    elif not same:
        assert digest(arrays[0]) != digest(arrays[1])


@given(rows=st.lists(st.none() | st.sampled_from(["a", "bb", ""]), max_size=9))
def test_a_dictionary_and_a_view_have_the_digest_of_their_values(rows: list[str | None]) -> None:
    plain = pa.array(rows, pa.string())
    assert digest(plain) == digest(plain.dictionary_encode()) == digest(plain.cast(pa.string_view()))


def test_bytes_under_nulls_are_not_values() -> None:
    masked = pa.array([b"ab", b"XY", b"c"]).buffers()
    with_garbage = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(b"\x05"), masked[1], masked[2]])
    assert with_garbage.to_pylist() == [b"ab", None, b"c"]
    assert digest(with_garbage) == digest(pa.array([b"ab", None, b"c"]))
    numbers = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\x01"), pa.py_buffer(struct.pack("<ii", 1, 99))])
    assert digest(numbers) == digest(pa.array([1, None], pa.int32()))


def test_lengths_and_places_of_nulls_count() -> None:
    assert digest(pa.array(["ab", "c"])) != digest(pa.array(["a", "bc"]))
    assert digest(pa.array([["a"], ["b"]])) != digest(pa.array([["a", "b"], []], pa.list_(pa.string())))
    assert digest(pa.array([None, 1])) != digest(pa.array([1, None]))
    assert digest(pa.array([None, ""])) != digest(pa.array(["", None]))
    assert digest(pa.array([0.0])) != digest(pa.array([-0.0]))


def test_the_digest_of_a_known_column_never_changes() -> None:
    """Digests are stored: another way to compute them needs another name."""
    columns = [pa.array(["Ann", None, ""]), pa.array([[1, None], None, []], pa.list_(pa.int32())), pa.array([True] * 3)]
    rows = pa.record_batch(columns, ["a", "b", "c"])
    assert stage_rows.text_of(stage_rows.of_batches([rows])) == "xxh3:cf510251887efa0b637378ec034e0f3ef73172ac53a304ad"


def test_a_text_of_another_function_or_width_is_no_digest() -> None:
    text = stage_rows.text_of([stage_rows.ColumnDigest(), stage_rows.ColumnDigest()])
    assert stage_rows.columns_of(text, 2) == [digest(), digest()]
    assert stage_rows.columns_of(text, 3) is None
    assert stage_rows.columns_of(text.replace("xxh3", "crc9"), 2) is None
    assert stage_rows.columns_of(None, 2) is None


def test_a_blob_has_the_digest_of_its_bytes() -> None:
    blobs = lance.blob_array([b"hello", None, b""])
    assert digest(blobs) == digest(pa.array([b"hello", None, b""], pa.large_binary()))
