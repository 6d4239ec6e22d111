"""Hashes of texts: equal for equal texts, different for all others that anybody will meet."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.text_hash import hash_texts

SECRET = 0x0123456789ABCDEF


@given(st.lists(st.text(max_size=40)), st.data())
def test_texts_have_the_same_hash_exactly_when_they_are_equal(texts: list[str], data: st.DataObject) -> None:
    found = hash_texts(pa.array(texts, pa.string()), SECRET).tolist()
    assert len(set(found)) == len(set(texts))
    assert len(dict(zip(texts, found, strict=True))) == len(set(zip(texts, found, strict=True)))
    start = data.draw(st.integers(0, len(texts)))
    assert hash_texts(pa.array(texts, pa.string()).slice(start), SECRET).tolist() == found[start:]


def test_many_close_texts_have_as_many_hashes() -> None:
    numbers = pa.array(np.arange(200_000)).cast(pa.string())
    assert len(np.unique(hash_texts(numbers, SECRET))) == 200_000


def test_zero_bytes_and_lengths_count() -> None:
    texts = ["", "\0", "\0\0", "a", "a\0", "a" * 8, "a" * 8 + "\0", "a" * 16, "b" * 100_000, "b" * 99_999]
    assert len(set(hash_texts(pa.array(texts), SECRET).tolist())) == len(texts)


def test_hashes_depend_on_the_text_the_secret_and_the_space_alone() -> None:
    texts = ["", "a", "b", "a\0", "aa", "é", "x" * 600, "x" * 601, "12345678", "123456789", *map(str, range(5000))]
    hashes = hash_texts(pa.array(texts), 7, 1)
    assert len(set(hashes.tolist())) == len(texts)
    assert (hash_texts(pa.array(["-", *texts]).slice(1), 7, 1) == hashes).all()
    assert (hash_texts(pa.chunked_array([texts[:9], texts[9:]]), 7, 1) == hashes).all()
    assert not np.isin(hash_texts(pa.array(texts), 7, 2), hashes).any()
    assert not np.isin(hash_texts(pa.array(texts), 8, 1), hashes).any()
    assert len(hash_texts(pa.array([], pa.string()), 7, 1)) == 0
