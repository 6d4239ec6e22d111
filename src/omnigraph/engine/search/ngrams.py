"""Columns of texts as streams of n-grams: every run of so many characters of a text is a token.

Characters are numbered, and an n-gram is a shorter one and a character, so that different n-grams are told apart by
integers. What Lance makes of a character it is asked once: its filters look at one character at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.tables.text_tokens import SEPARATOR, folded
from omnigraph.tokenizer import NGrams, Tokenizer

_Numbers = npt.NDArray[np.int32]


def ngrams_of(texts: pa.Array, number: Callable[[str], int], tokenizer: Tokenizer) -> tuple[_Numbers, _Numbers]:
    """The n-grams of texts without nulls, in the order of Lance: the number of each, and the text that it is in."""
    assert tokenizer.ngrams is not None
    sizes = np.asarray(pc.utf8_length(texts).to_numpy(zero_copy_only=False), np.int64)
    text = np.repeat(np.arange(len(texts), dtype=np.int32), sizes)
    left = np.repeat(np.cumsum(sizes), sizes) - np.arange(len(text))
    codes = _codes(_characters(texts), left, number, tokenizer, tokenizer.ngrams)
    begins, lengths = np.nonzero(codes >= 0)
    return codes[begins, lengths], text[begins]


def contains(texts: pa.Array, part: str, tokenizer: Tokenizer) -> npt.NDArray[np.bool_]:
    """Which texts hold another one, all of them folded. The separator counts as a blank."""
    if len(texts) == 0:
        return np.zeros(0, np.bool_)
    plain = pc.replace_substring(texts, SEPARATOR, " ")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(plain)], pa.int32()), plain), SEPARATOR)
    every = pc.split_pattern(pa.array([folded(joined[0].as_py(), tokenizer)]), SEPARATOR).values
    wanted = folded(part.replace(SEPARATOR, " "), tokenizer)
    return np.asarray(pc.match_substring(every, wanted).to_numpy(zero_copy_only=False), np.bool_)


def _characters(texts: pa.Array) -> npt.NDArray[np.uint32]:
    """The characters of all texts, one after the other."""
    whole = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "")[0].as_py()
    return np.frombuffer(whole.encode("utf-32-le"), np.uint32)


def _codes(
    points: npt.NDArray[np.uint32],
    left: npt.NDArray[np.int64],
    number: Callable[[str], int],
    tokenizer: Tokenizer,
    ngrams: NGrams,
) -> _Numbers:
    """The n-grams that begin at each character, from short to long, -1 where the text ends before."""
    there = np.zeros(int(points.max(initial=0)) + 1, np.bool_)
    there[points] = True
    known = np.flatnonzero(there)
    character = (np.cumsum(there) - 1)[points]
    meanings = _meanings(known, tokenizer)
    found = np.full((len(points), ngrams.high - ngrams.low + 1), -1, np.int32)
    begins, code, tokens = np.arange(len(points)), character, meanings
    for size in range(1, ngrams.high + 1):
        if size > 1:
            goes_on = left[begins] >= size
            begins = begins[goes_on]
            following = character[begins + size - 1]
            pairs = pa.array(code[goes_on] * len(known) + following).dictionary_encode()
            code = np.asarray(pairs.indices.to_numpy(zero_copy_only=False), np.int64)
            shorter, last = np.divmod(pairs.dictionary.to_numpy(), len(known))
            tokens = pc.binary_join_element_wise(tokens.take(pa.array(shorter)), meanings.take(pa.array(last)), "")
        if size >= ngrams.low:
            numbers = np.array([number(token) for token in tokens.to_pylist()], np.int32)
            found[begins, size - ngrams.low] = numbers[code]
    return found


def _meanings(points: npt.NDArray[np.int64], tokenizer: Tokenizer) -> pa.Array:
    """What each of some different characters becomes."""
    others = points[points != ord(SEPARATOR)]
    text = SEPARATOR.join(map(chr, others.tolist()))
    meaning = dict(zip(others.tolist(), folded(text, tokenizer).split(SEPARATOR), strict=False))
    return pa.array([meaning.get(point, SEPARATOR) for point in points.tolist()], pa.string())
