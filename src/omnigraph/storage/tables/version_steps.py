"""What one version of a table changed: its rows, or only how they lie, are found and are configured.

Other software keeps tables in order with plain Lance: it compacts files, reserves numbers, builds indexes, sets
options, and leaves versions that delete nothing. The name of a transaction proves none of that; the files and the rows
do. Used by writers, recovery and verify, which all meet versions that the graph does not show.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph import limits
from omnigraph.storage.objects.native_libraries import READ_EXCEPTIONS, store_errors
from omnigraph.storage.tables.datasets import is_ours, maker, transaction_of
from omnigraph.storage.tables.lance_types import LanceTable

_REWRITE = "Rewrite"
_UNREADABLE = "unreadable"

#: Operations that this Lance reads without saying which they are.
_NAMED = {"BaseOperation": "ReserveFragments"}

#: What `optimize` commits: fragments that are joined, and indexes.
_UPKEEP = frozenset({_REWRITE, "CreateIndex"})

#: What says of a row which one it is and when it was written.
_IDENTITY = ("_rowid", "_row_created_at_version", "_row_last_updated_at_version")

_SPREAD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
_HALF = np.uint64(32)


def are_ours(handle: LanceTable, above: int) -> bool:
    """Whether writes of this software made all versions of a table above one."""
    return all(is_ours(maker(handle, version)) for version in _above(handle, above))


def are_explained(handle: LanceTable, above: int) -> bool:
    """Whether nothing is lost when nobody ever shows the versions of a table above one: each belongs to a write of this
    software that was not published, or has the rows of the version before it."""
    return all(is_ours(maker(handle, version)) or keeps_rows(handle, version) for version in _above(handle, above))


def are_upkeep(handle: LanceTable, above: int) -> bool:
    """Whether all versions of a table above one are upkeep of this software: the same rows lie elsewhere, or are found
    by an index. Reads no row. Too many versions are not looked at."""
    versions = _above(handle, above)
    if len(versions) > limits.DELTA_TRANSACTIONS:
        return False
    made = (maker(handle, version) for version in reversed(versions))
    return all(each is not None and is_ours(each) and type(each.operation).__name__ in _UPKEEP for each in made)


def _above(handle: LanceTable, version: int) -> range:
    return range(version + 1, handle.version + 1)


class RowStep(Enum):
    """What a version of a table did to the rows of the one before.

    Attributes:
        SAME: nothing; it is maintenance, or nothing at all.
        CHANGED: it wrote rows or columns.
        UNKNOWN: one of the two versions, or what was done, cannot be read.
    """

    SAME = auto()
    CHANGED = auto()
    UNKNOWN = auto()


def row_step(handle: LanceTable, version: int) -> RowStep:
    """What a version of a table did to the rows of the one before.

    A version that names the same files holds the same rows, whatever made it. One with other files has to be a rewrite,
    and every row has to be there with its number and its times.
    """
    try:
        before, after = handle.checkout_version(version - 1), handle.checkout_version(version)
        if before.schema != after.schema:
            return RowStep.CHANGED
        if _files(before) == _files(after):
            return RowStep.SAME
        name = operation_name(after, version)
        if name == _REWRITE and _rows(before, after) == _rows(after, before):
            return RowStep.SAME
        return RowStep.UNKNOWN if name == _UNREADABLE else RowStep.CHANGED
    except READ_EXCEPTIONS:
        return RowStep.UNKNOWN


def keeps_rows(handle: LanceTable, version: int) -> bool:
    """Whether a version of a table has the very rows of the one before."""
    return row_step(handle, version) is RowStep.SAME


def has_same_options(one: LanceTable, other: LanceTable) -> bool:
    """Whether two versions agree in what they say besides their rows: configuration, and metadata of columns."""
    return bool(one.schema.equals(other.schema, check_metadata=True)) and one.config() == other.config()


def stands_as(one: LanceTable, other: LanceTable) -> bool:
    """Whether a change that was made for one version fits another one as well: the same rows in the same places, with
    the same options."""
    return has_same_options(one, other) and _files(one) == _files(other)


def _files(handle: LanceTable) -> dict[int, Any]:
    """All that a version says of its rows: where they lie, which are deleted, their numbers and times."""
    return {fragment.fragment_id: fragment.metadata.to_json() for fragment in handle.get_fragments()}


def operation_name(handle: LanceTable, version: int) -> str:
    """What Lance calls the operation that made a version. The transaction of a compaction that moved the rows of an
    index as well cannot be read by this Lance, which is how it is told from all others."""
    try:
        transaction = transaction_of(handle, version)
    except TypeError:
        return _REWRITE
    except READ_EXCEPTIONS:
        return _UNREADABLE
    name = type(transaction.operation).__name__ if transaction is not None else _UNREADABLE
    return _NAMED.get(name, name)


def _rows(handle: LanceTable, other: LanceTable) -> tuple[int, int]:
    """How many rows lie in files that another version does not have, and a sum over who they are, in any order."""
    known = _files(other)
    fragments = [each for each in handle.get_fragments() if each.metadata.to_json() != known.get(each.fragment_id)]
    count, total = 0, 0
    with store_errors("compare two versions of a table", handle):
        if fragments:
            scanner = handle.scanner(columns=list(_IDENTITY[1:]), with_row_id=True, fragments=fragments)
            for batch in scanner.to_batches():
                count += batch.num_rows
                total += int(_spread(batch).sum(dtype=np.uint64))
    return count, total % 2**64


def _spread(batch: pa.RecordBatch) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """One number for each row, so that equal sums mean equal rows."""
    columns = (batch.column(name).to_numpy(zero_copy_only=False).astype(np.uint64) for name in _IDENTITY)
    mixed = np.zeros(batch.num_rows, np.uint64)
    for column, factor in zip(columns, _SPREAD, strict=True):
        mixed = (mixed ^ column) * factor
        mixed ^= mixed >> _HALF
    return mixed
