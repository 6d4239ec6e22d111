"""64-bit hashes of whole Arrow string columns, so that many texts are compared or shuffled as numbers.

Equal texts have equal hashes under one seed. Equal hashes are only a reason to look at the texts. A secret seed keeps
anybody from choosing texts that collide.

Written here because no library hashes an Arrow string column without a Python object per row: Arrow has no hash kernel,
xxhash takes one value a call, and pandas hashes an array of Python objects. This one reads the Arrow buffers, eight
bytes of every text at a time, and mixes them with the finalizer of SplitMix64. Texts of more than `_LONG` bytes are
rare; each goes through keyed BLAKE2, so that one long text does not cost a pass over the column per word.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TextHashes = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]

_WORD = 8
_LONG = 512
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD)] + [2**64 - 1], np.uint64)
_GOLDEN = 0x9E3779B97F4A7C15
_MIX = (np.uint64(_GOLDEN), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def hash_texts(texts: pa.Array | pa.ChunkedArray, secret: int, space: int = 0) -> TextHashes:
    """One number per text.

    Args:
        texts: a string column without nulls.
        secret: any 64 bits.
        space: hashes of different spaces have nothing to do with each other.
    """
    column = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    column = column.cast(pa.large_string())
    if len(column) == 0:
        return np.zeros(0, np.int64)
    seed = (secret ^ (space * _GOLDEN)) & (2**64 - 1)
    _, raw_offsets, raw = column.buffers()
    offsets = np.frombuffer(raw_offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    lengths = np.diff(offsets)
    hashes = _mixed(lengths.astype(np.uint64) ^ np.uint64(seed))
    words = _words(raw)
    rows = np.flatnonzero(lengths <= _LONG)
    for done in range(0, int(lengths[rows].max(initial=0)), _WORD):
        rows = rows[lengths[rows] > done]
        left = np.minimum(lengths[rows] - done, _WORD)
        hashes[rows] = _mixed(hashes[rows] ^ (words[offsets[rows] + done] & _MASKS[left]))
    for row in np.flatnonzero(lengths > _LONG).tolist():
        digest = hashlib.blake2b(column[row].as_buffer(), digest_size=_WORD, key=seed.to_bytes(_WORD, "little"))
        hashes[row] = int.from_bytes(digest.digest(), "little")
    return hashes.view(np.int64)


def combined(*columns: TextHashes) -> TextHashes:
    """One number for several numbers of each row; their order counts."""
    found = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        found = _mixed(found ^ column.view(np.uint64))
    return found.view(np.int64)


def _words(raw: Any) -> _Words:
    """The eight bytes at every position of a buffer, the last ones filled up with zeros."""
    size = raw.size if raw is not None else 0
    padded = np.zeros(size + _WORD, np.uint8)
    if raw is not None:
        padded[:size] = np.frombuffer(raw, np.uint8)
    return np.ndarray((size + 1,), "<u8", padded.data, strides=(1,))


def _mixed(values: _Words) -> _Words:
    """Every bit of the answer depends on every bit of the value (SplitMix64)."""
    values = values + _MIX[0]
    values = (values ^ (values >> np.uint64(30))) * _MIX[1]
    values = (values ^ (values >> np.uint64(27))) * _MIX[2]
    return values ^ (values >> np.uint64(31))
