"""Which small fragments at the end of a table are rewritten together, so that their number stays bounded.

Only looks. `stage_rows.py` folds them into a write, `commit_mirror.py` into a copy of a commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.storage.tables.datasets import has_blobs, is_blob
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import ROW_ADDRESS

#: Fragments with blobs that one write folds at most; the blobs of each are asked for their sizes.
_FOLDED_BLOB_FRAGMENTS = 48

#: What a scan calls a blob that lies outside the table. Its address would be lost if it were copied.
EXTERNAL_KIND = 3


def small_fragments(handle: LanceTable) -> list[Any]:
    """The youngest fragments that may be rewritten together, newest first; none while they are few.

    Blobs are bytes that have to be copied like others. Most of them lie in files of their own, so they are asked for
    their sizes, but only once the rows are few enough.
    """
    fragments = handle.get_fragments()
    if len(fragments) < limits.SMALL_FRAGMENTS:
        return []
    chosen = _rewritable(sorted(fragments, key=lambda fragment: -fragment.fragment_id), {})
    if has_blobs(handle.schema):
        for count in (limits.SMALL_FRAGMENTS, _FOLDED_BLOB_FRAGMENTS):
            chosen = _rewritable(chosen[:count], _blob_bytes(handle, chosen[:count])) if chosen else []
    return chosen


def _rewritable(newest_first: list[Any], blob_bytes: Mapping[int, int]) -> list[Any]:
    """As many of the first of some fragments as may be rewritten together, unless they are too few.

    The last of them has at most some times the rows of those before, so a row is rewritten again only among so many
    more: a number of times that grows with the logarithm of the rows.
    """
    rows = size = count = 0
    for position, fragment in enumerate(newest_first):
        metadata = fragment.metadata
        fits = position == 0 or metadata.num_rows <= limits.FOLD_RATIO * rows
        rows += metadata.num_rows
        size += sum(file.file_size_bytes or 0 for file in metadata.files) + blob_bytes.get(metadata.id, 0)
        if rows > limits.FOLD_ROWS or size > limits.FOLD_BYTES:
            break
        if fits:
            count = position + 1
    return newest_first[:count] if count >= limits.SMALL_FRAGMENTS else []


def _blob_bytes(handle: LanceTable, fragments: list[Any]) -> dict[int, int]:
    """Bytes of the blobs in each fragment; more than may be rewritten where some lie outside the table."""
    names = [field.name for field in handle.schema if is_blob(field)]
    found = dict.fromkeys((fragment.fragment_id for fragment in fragments), 0)
    if not fragments:
        return found
    scanner = handle.scanner(
        columns=names, fragments=fragments, with_row_address=True, blob_handling="blobs_descriptions"
    )
    for batch in scanner.to_batches():
        numbers = np.asarray(batch.column(ROW_ADDRESS), np.uint64) >> np.uint64(32)
        for name in names:
            kind, size = (pc.fill_null(pc.struct_field(batch.column(name), part), 0) for part in ("kind", "size"))
            sizes = np.where(np.asarray(kind) == EXTERNAL_KIND, limits.FOLD_BYTES + 1, np.asarray(size, np.int64))
            for number in np.unique(numbers).tolist():
                found[number] += int(sizes[numbers == number].sum())
    return found
