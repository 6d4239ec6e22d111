"""Groups rows and aggregates them. Nulls form a group of their own and are skipped by aggregates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.pieces import slices
from omnigraph.engine.position_deltas import Positions
from omnigraph.read_budget import PIECE_ROWS, UNBOUNDED, ReadBudget
from omnigraph.text_hash import hash_texts

Numbers = npt.NDArray[Any]

#: More rows than this are grouped in parts when somebody may stop it.
_LONG = 4 * PIECE_ROWS


@dataclass(frozen=True, slots=True)
class Groups:
    """Which group each row belongs to, and one row of each group as its example."""

    of: Positions
    examples: Positions

    @property
    def count(self) -> int:
        return len(self.examples)


def group(keys: list[pa.Array], length: int, budget: ReadBudget = UNBOUNDED) -> Groups:
    """Rows with equal keys. Without keys there is one group, also when there are no rows."""
    if not keys:
        return Groups(np.zeros(length, np.int64), np.zeros(1, np.int64))
    code = codes_of(keys[0], budget)
    for key in keys[1:]:
        inner = codes_of(key, budget)
        code = _numbered(code * (int(inner.max(initial=0)) + 1) + inner, budget)
    if budget.can_stop and length > _LONG:
        return Groups(code, _first_of_each(code))
    _, examples, of = np.unique(code, return_index=True, return_inverse=True)
    return Groups(of.reshape(-1), examples)


def codes_of(key: pa.Array, budget: ReadBudget = UNBOUNDED) -> Positions:
    """Equal numbers for equal values; null has its own."""
    if pa.types.is_date64(key.type):
        key = key.view(pa.int64())
    if pa.types.is_floating(key.type):
        key = pc.add(key, pa.scalar(0.0, key.type))  # minus zero equals zero
    if pa.types.is_nested(key.type):
        if pa.types.is_date64(key.type.value_type):
            key = key.cast(pa.list_(pa.int64()))  # as Python values they would lose the time of day
        texts = []
        for piece in slices(len(key)):
            budget.check()
            part = key.slice(piece.start, piece.stop - piece.start)
            texts.append(pa.array([None if value is None else repr(value) for value in part.to_pylist()], pa.string()))
        key = pa.concat_arrays(texts) if texts else pa.nulls(0, pa.string())
    if budget.can_stop and len(key) > _LONG:
        return _codes_in_parts(key, budget)
    return _codes(key)


def _codes(key: pa.Array) -> Positions:
    encoded = key.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def _codes_in_parts(key: pa.Array, budget: ReadBudget) -> Positions:
    """The same, for values with equal hashes at a time."""
    hashes = np.empty(len(key), np.int64)
    for piece in slices(len(key)):
        budget.check()
        hashes[piece] = _hashed(key.take(pa.array(np.arange(piece.start, piece.stop))))
    codes, first = np.empty(len(key), np.int64), 0
    for rows in _alike(hashes, budget):
        found = _codes(key.take(pa.array(rows)))
        codes[rows] = found + first
        first += int(found.max()) + 1
    return _renumbered(codes, _first_of_each(codes), budget)  # as they come


def _hashed(values: pa.Array) -> Positions:
    """Equal numbers for equal values, mostly different ones for different values."""
    if pa.types.is_string(values.type):
        return hash_texts(values.fill_null(""), 0)
    if pa.types.is_floating(values.type):
        floats = np.array(values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False), np.float64)
        floats[np.isnan(floats)] = np.nan
        return _mixed(floats.view(np.int64))
    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    return _mixed(whole.fill_null(False if pa.types.is_boolean(whole.type) else 0).to_numpy(False).astype(np.int64))


def _numbered(numbers: Positions, budget: ReadBudget) -> Positions:
    """Equal numbers for equal ones, from zero on, larger for larger ones."""
    if not budget.can_stop or len(numbers) <= _LONG:
        return np.unique(numbers, return_inverse=True)[1].reshape(-1)
    codes, different, first = np.empty(len(numbers), np.int64), [], 0
    for rows in _alike(_mixed(numbers), budget):
        found, codes_here = np.unique(numbers[rows], return_inverse=True)
        codes[rows] = codes_here.reshape(-1) + first
        different.append(found)
        first += len(found)
    return _renumbered(codes, np.concatenate(different), budget)


def _first_of_each(codes: Positions) -> Positions:
    """The first row of each code; every code occurs."""
    first = np.empty(int(codes.max()) + 1, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def _renumbered(codes: Positions, places: Positions, budget: ReadBudget) -> Positions:
    """Codes numbered in the order of their places."""
    number = np.empty(len(places), np.int64)
    number[np.argsort(places)] = np.arange(len(places))
    for piece in slices(len(codes)):
        budget.check()
        codes[piece] = number[codes[piece]]
    return codes


def _mixed(numbers: Positions) -> Positions:
    """Numbers whose lowest bits are different when they are."""
    return (numbers.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)).view(np.int64)


def _alike(hashes: Positions, budget: ReadBudget) -> Iterator[Positions]:
    """Rows in parts; equal hashes are in one part, ascending."""
    budget.check()
    part = (hashes % (len(hashes) // PIECE_ROWS + 1)).astype(np.uint16)
    budget.check()
    order = np.argsort(part, kind="stable")
    begin = 0
    for end in np.cumsum(np.bincount(part)).tolist():
        budget.check()
        if end > begin:
            yield order[begin:end]
        begin = end


def count(groups: Groups, valid: npt.NDArray[np.bool_], weights: Numbers | None = None) -> pa.Array:
    """How many valid rows each group has; with weights, how many they stand for."""
    return pa.array(_tally(groups, valid, weights, None), pa.int64())


def count_distinct(
    groups: Groups, codes: Positions, valid: npt.NDArray[np.bool_], budget: ReadBudget = UNBOUNDED
) -> pa.Array:
    """How many different codes each group has among its valid rows."""
    width = int(codes.max(initial=0)) + 1
    pairs = groups.of[valid] * width + codes[valid]
    if budget.can_stop and len(pairs) > _LONG:
        pairs = np.concatenate([np.unique(pairs[rows]) for rows in _alike(_mixed(pairs), budget)])
    else:
        pairs = np.unique(pairs)
    return pa.array(np.bincount(pairs // width, minlength=groups.count), pa.int64())


def added(groups: Groups, amounts: Numbers) -> Numbers:
    """Integers of 64 bits added up in each group."""
    sums = np.zeros(groups.count, np.int64)
    np.add.at(sums, groups.of, amounts)
    return sums


def total(groups: Groups, values: pa.Array, weights: Numbers | None = None) -> pa.Array:
    """Sum as a float; null for a group without values."""
    valid, numbers = _floats(values)
    sums = _tally(groups, valid, weights, numbers)
    return _unless_empty(sums, _tally(groups, valid, None, None))


def mean(groups: Groups, values: pa.Array, weights: Numbers | None = None) -> pa.Array:
    valid, numbers = _floats(values)
    counts = _tally(groups, valid, weights, None)
    sums = _tally(groups, valid, weights, numbers)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _unless_empty(sums / counts, counts)


def extreme(groups: Groups, values: pa.Array, *, largest: bool) -> pa.Array:
    """Smallest or largest value, in the type of the column; null for a group without values."""
    if len(values) == 0:
        return pa.nulls(groups.count, values.type)
    ranks = pc.rank(values, sort_keys=[("", "ascending", "at_end")], tiebreaker="first")
    ranks = np.asarray(ranks.to_numpy(zero_copy_only=False), np.int64)
    valid = np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False), np.bool_)
    best = np.full(groups.count, -1 if largest else len(values) + 1, np.int64)
    (np.maximum if largest else np.minimum).at(best, groups.of[valid], ranks[valid])
    row_of_rank = np.empty(len(values) + 2, np.int64)
    row_of_rank[ranks] = np.arange(len(values))
    empty = (best < 1) | (best > len(values))
    return values.take(pa.array(row_of_rank[np.where(empty, 1, best)], mask=empty))


def _tally(groups: Groups, valid: npt.NDArray[np.bool_], weights: Numbers | None, numbers: Numbers | None) -> Numbers:
    if weights is None and numbers is None:
        return np.bincount(groups.of[valid], minlength=groups.count)
    amount: Numbers = np.ones(len(valid)) if numbers is None else numbers
    if weights is not None and numbers is None:
        return added(groups, weights * valid)
    amount = amount if weights is None else amount * weights
    return np.bincount(groups.of[valid], weights=amount[valid], minlength=groups.count)


def _floats(values: pa.Array) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    valid = np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False), np.bool_)
    return valid, np.asarray(values.cast(pa.float64(), safe=False).fill_null(0.0).to_numpy(), np.float64)


def _unless_empty(numbers: Numbers, counts: Numbers) -> pa.Array:
    return pa.array(np.asarray(numbers, np.float64), mask=counts == 0)
