"""Groups rows and aggregates them. Nulls form a group of their own and are skipped by aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.position_deltas import Positions

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Groups:
    """Which group each row belongs to, and one row of each group as its example."""

    of: Positions
    examples: Positions

    @property
    def count(self) -> int:
        return len(self.examples)


def group(keys: list[pa.Array], length: int) -> Groups:
    """Rows with equal keys. Without keys there is one group, also when there are no rows."""
    if not keys:
        return Groups(np.zeros(length, np.int64), np.zeros(1, np.int64))
    code = codes_of(keys[0])
    for key in keys[1:]:
        inner = codes_of(key)
        _, code = np.unique(code * (int(inner.max(initial=0)) + 1) + inner, return_inverse=True)
    _, examples, of = np.unique(code, return_index=True, return_inverse=True)
    return Groups(of.reshape(-1), examples)


def codes_of(key: pa.Array) -> Positions:
    """Equal numbers for equal values; null has its own."""
    if pa.types.is_date64(key.type):
        key = key.view(pa.int64())
    if pa.types.is_floating(key.type):
        key = pc.add(key, pa.scalar(0.0, key.type))  # minus zero equals zero
    if pa.types.is_nested(key.type):
        if pa.types.is_date64(key.type.value_type):
            key = key.cast(pa.list_(pa.int64()))  # as Python values they would lose the time of day
        key = pa.array([None if value is None else repr(value) for value in key.to_pylist()], pa.string())
    encoded = key.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)


def count(groups: Groups, valid: npt.NDArray[np.bool_], weights: Numbers | None = None) -> pa.Array:
    """How many valid rows each group has; with weights, how many they stand for."""
    return pa.array(_tally(groups, valid, weights, None), pa.int64())


def count_distinct(groups: Groups, codes: Positions, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """How many different codes each group has among its valid rows."""
    width = int(codes.max(initial=0)) + 1
    pairs = np.unique(groups.of[valid] * width + codes[valid])
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
