"""Fingerprints of texts: equal for equal texts, different for all others that anybody will meet."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.upkeep.verify.fingerprints import fingerprints


@given(st.lists(st.text(max_size=40)), st.data())
def test_texts_have_the_same_fingerprint_exactly_when_they_are_equal(texts: list[str], data: st.DataObject) -> None:
    found = fingerprints(pa.array(texts, pa.string())).tolist()
    assert len(set(found)) == len(set(texts))
    assert len(dict(zip(texts, found, strict=True))) == len(set(zip(texts, found, strict=True)))
    start = data.draw(st.integers(0, len(texts)))
    assert fingerprints(pa.array(texts, pa.string()).slice(start)).tolist() == found[start:]


def test_many_close_texts_have_as_many_fingerprints() -> None:
    numbers = pa.array(np.arange(200_000)).cast(pa.string())
    assert len(np.unique(fingerprints(numbers))) == 200_000


def test_zero_bytes_and_lengths_count() -> None:
    texts = ["", "\0", "\0\0", "a", "a\0", "a" * 8, "a" * 8 + "\0", "a" * 16, "b" * 100_000, "b" * 99_999]
    assert len(set(fingerprints(pa.array(texts)).tolist())) == len(texts)
