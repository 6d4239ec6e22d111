"""Texts → 64-bit numbers, so that rules about many keys shuffle numbers instead of texts.

The numbers depend on a secret of the job: nobody can make an input whose keys collide. Equal numbers are only a reason
to look at the texts; different numbers prove that the texts differ.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]

_WORD = 8
_LONG = 512  # longer texts are rare; each is hashed on its own
_LOW = np.array([(1 << (8 * count)) - 1 for count in range(_WORD)], np.uint64)


def hash_texts(texts: Any, secret: int, space: int) -> Hashes:
    """One number per text.

    Args:
        texts: a string array without nulls.
        secret: of the job.
        space: texts of different spaces have nothing to do with each other.
    """
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    array = array.cast(pa.large_string())
    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    lengths = np.diff(offsets)
    data = array.buffers()[2]
    with np.errstate(over="ignore"):
        hashes = _start(lengths, secret, space)
        if data is not None and len(array):
            _mix_words(hashes, data, offsets[:-1], lengths)
        hashes = _finish(hashes)
    for row in np.flatnonzero(lengths > _LONG).tolist():
        key = secret.to_bytes(8, "little") + space.to_bytes(8, "little")
        digest = hashlib.blake2b(array[row].as_buffer(), digest_size=8, key=key).digest()
        hashes[row] = int.from_bytes(digest, "little")
    return hashes.view(np.int64)


def _start(lengths: npt.NDArray[np.int64], secret: int, space: int) -> _Words:
    seed = np.uint64((secret ^ (space * 0x9E3779B97F4A7C15)) & 0xFFFFFFFFFFFFFFFF)
    return _stir(lengths.astype(np.uint64) ^ seed)


def _stir(words: _Words) -> _Words:
    words = (words ^ (words >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return words ^ (words >> np.uint64(29))


def _finish(words: _Words) -> _Words:
    return _stir(_stir(words) * np.uint64(0x94D049BB133111EB))


def _mix_words(hashes: _Words, data: Any, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
    padded = np.concatenate([np.frombuffer(data, np.uint8), np.zeros(_WORD, np.uint8)])
    words = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded.data, strides=(1,))
    rows = np.flatnonzero(lengths <= _LONG)
    at, left = starts[rows], lengths[rows]
    while len(rows):
        active = left > 0
        if not active.all():
            rows, at, left = rows[active], at[active], left[active]
            if not len(rows):
                return
        word = words[at]
        partial = left < _WORD
        if partial.any():
            word[partial] &= _LOW[left[partial]]
        hashes[rows] = _stir(hashes[rows] * np.uint64(0xBF58476D1CE4E5B9) ^ word)
        at, left = at + _WORD, left - _WORD
