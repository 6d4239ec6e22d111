"""Vectors made of nothing but the text, the same everywhere: for tests, examples and fixtures.

The seed is FNV-1a of the UTF-8 text in 64 bits. Each component is the next number of xorshift64 over 2^64, rounded to
32 bits, and mapped from 0…1 to -1…1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omnigraph.embed.vector_rules import Vectors, normalised

_OFFSET, _PRIME = 14695981039346656037, 1099511628211
_WORD = (1 << 64) - 1


def mock_vectors(texts: Sequence[str], dimension: int) -> Vectors:
    """One vector of length one for each text."""
    state = np.array([_fnv1a(text.encode()) for text in texts], np.uint64)
    values = np.empty((len(texts), dimension), np.float32)
    for component in range(dimension):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        ratio = (state.astype(np.float64) / 2.0**64).astype(np.float32)
        values[:, component] = ratio * np.float32(2) - np.float32(1)
    return normalised(values)


def _fnv1a(data: bytes) -> int:
    value = _OFFSET
    for byte in data:
        value = ((value ^ byte) * _PRIME) & _WORD
    return value
