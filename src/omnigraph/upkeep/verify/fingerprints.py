"""64-bit fingerprints of texts, so that millions of ids can be compared in little memory.

Equal texts have equal fingerprints. Different ones almost always differ; whoever finds two alike looks at the texts
before calling it a problem. A random seed per run keeps anybody from choosing texts that collide.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Fingerprints = npt.NDArray[np.uint64]

_SEED = np.uint64(secrets.randbits(64))
_MULTIPLIERS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_WORD = 8
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_WORD)] + [2**64 - 1], np.uint64)


def fingerprints(texts: pa.Array) -> Fingerprints:
    """One number per text. Nulls must have been dropped."""
    texts = texts.cast(pa.large_string()) if texts.type != pa.large_string() else texts
    _, raw_offsets, raw = texts.buffers()
    offsets = np.frombuffer(raw_offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    words = _words(raw)
    lengths = np.diff(offsets)
    found = _mixed(lengths.astype(np.uint64) ^ _SEED)
    active = np.arange(len(texts))
    for step in range(0, int(lengths.max(initial=0)), _WORD):
        active = active[lengths[active] > step]
        left = np.minimum(lengths[active] - step, _WORD)
        found[active] = _mixed(found[active] ^ (words[offsets[active] + step] & _MASKS[left]))
    return found


def _words(raw: Any) -> npt.NDArray[np.uint64]:
    """The eight bytes at every position of a buffer, the last ones filled up with zeros."""
    padded = np.zeros((raw.size if raw is not None else 0) + _WORD, np.uint8)
    if raw is not None:
        padded[: raw.size] = np.frombuffer(raw, np.uint8)
    return np.ndarray((len(padded) - _WORD + 1,), "<u8", padded.data, strides=(1,))


def _mixed(values: Fingerprints) -> Fingerprints:
    """Every bit of the answer depends on every bit of the value (SplitMix64)."""
    values = values + _MULTIPLIERS[0]
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLIERS[1]
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLIERS[2]
    return values ^ (values >> np.uint64(31))
