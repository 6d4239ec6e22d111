"""Distances between a column of vectors and one vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import InputError


def distances(column: pa.Array, query: Sequence[float] | str | None) -> npt.NDArray[np.float64]:
    """L2 distance of each vector; not-a-number where there is no vector."""
    if isinstance(query, str):
        raise InputError("nearest() with a text needs an embedding provider", hint="pass a vector")
    if query is None:
        return np.full(len(column), np.nan)
    size = column.type.list_size
    values = column.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
    known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    far = np.full(len(column), np.nan)
    given = np.asarray(np.asarray(query, np.float32), np.float64)
    far[known] = np.sqrt(((values.reshape(-1, size) - given) ** 2).sum(axis=1))
    return far
