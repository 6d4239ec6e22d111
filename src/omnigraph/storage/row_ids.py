"""Stable row ids as the metadata of a fragment holds them: no file is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from lance.fragment import RowIdSequence

from omnigraph.storage.faults import READ_EXCEPTIONS

RowIds = npt.NDArray[np.uint64]


def row_ids_in_metadata(meta: Any) -> RowIds | None:
    """Row ids of all places of a fragment, if its metadata holds them in the usual form."""
    try:
        sequence: Any = RowIdSequence.from_inline_metadata(meta.row_id_meta)
        row_ids = np.asarray(sequence.to_pyarrow().to_numpy(), np.uint64)
    except READ_EXCEPTIONS:
        return None
    return row_ids if len(row_ids) == meta.physical_rows else None
