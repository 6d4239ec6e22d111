"""Which words of a vocabulary are within a number of edits of a word: one character inserted, left out or replaced.

Myers' bit-parallel algorithm, one step per character for all words of a length at once. A word that was found near one
pattern is not measured against the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

#: Characters of a pattern that fit into the bits of a number; tokens are shorter.
_LONGEST = 63


def within(
    words: pa.Array, patterns: Sequence[str], edits: int, check: Callable[[], None] = lambda: None
) -> npt.NDArray[np.bool_]:
    """Which words are at most so many edits away from one of some patterns; ``check`` is called now and then."""
    near = np.asarray(pc.is_in(words, value_set=pa.array(patterns, pa.string())).to_numpy(zero_copy_only=False))
    measured = [pattern for pattern in patterns if len(pattern) <= _LONGEST] if edits else []
    if not measured:
        return near
    near = near.copy()
    lengths = np.asarray(pc.utf8_length(words).to_numpy(zero_copy_only=False), np.int64)
    reach = {length + edit for length in set(map(len, measured)) for edit in range(-edits, edits + 1)}
    for length in sorted(reach & set(np.unique(lengths).tolist())):
        rest = np.flatnonzero((lengths == length) & ~near)
        text = "".join(words.take(pa.array(rest)).to_pylist())
        characters = np.frombuffer(text.encode("utf-32-le"), np.uint32).reshape(len(rest), length)
        for pattern in measured:
            check()
            if len(rest) and abs(len(pattern) - length) <= edits:
                found = _distances(characters, pattern) <= edits
                near[rest[found]] = True
                rest, characters = rest[~found], characters[~found]
    return near


def _distances(words: npt.NDArray[np.uint32], pattern: str) -> npt.NDArray[np.int64]:
    """The number of edits between each row of characters and the pattern."""
    size = len(pattern)
    masks: dict[int, int] = {}
    for place, character in enumerate(pattern):
        masks[ord(character)] = masks.get(ord(character), 0) | 1 << place
    known = np.array(sorted(masks), np.uint32)
    bits = np.array([masks[each] for each in known.tolist()], np.uint64)
    every, last, one = np.uint64((1 << size) - 1), np.uint64(1 << (size - 1)), np.uint64(1)
    plus, minus = np.full(len(words), every), np.zeros(len(words), np.uint64)
    distance = np.full(len(words), size, np.int64)
    for column in words.T:
        where = np.minimum(np.searchsorted(known, column), len(known) - 1)
        equal = np.where(known[where] == column, bits[where], np.uint64(0))
        vertical = equal | minus
        horizontal = (((equal & plus) + plus) ^ plus) | equal
        up = minus | ~(horizontal | plus)
        down = plus & horizontal
        distance += (up & last) != 0
        distance -= (down & last) != 0
        up, down = (up << one) | one, down << one
        plus = (down | ~(vertical | up)) & every
        minus = up & vertical & every
    return distance
