"""Ids in the small fragments of tables, each read at most once per process.

A data file never changes and its name is unique in the world, so the ids in it are kept under its name: those of a
write from the moment it is staged, others when they are first looked for. Rows that were deleted since count too. So
this tells where an id can not be, and never that it is somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.lru import LruCache
from omnigraph.storage.tables.lance_types import LanceTable

ID = "id"


def id_columns() -> LruCache[str, pa.ChunkedArray]:
    """An empty cache of id columns by the name of their data file."""
    return LruCache(max_entries=limits.KNOWN_ID_FRAGMENTS, max_size=limits.KNOWN_ID_BYTES, size_of=_size)


def _size(ids: pa.ChunkedArray) -> int:
    return int(ids.get_total_buffer_size())


_kept = id_columns()


def note(fragments: Sequence[Any], rows: pa.Table) -> None:
    """Rows were written as these fragments."""
    if len(fragments) == 1 and rows.num_rows <= limits.SMALL_FRAGMENT_ROWS:
        _keep(_file(fragments[0]), rows.column(ID))


def fragments_to_search(handle: LanceTable, wanted: pa.Array) -> list[Any] | None:
    """The fragments that may hold a row with one of these ids; None when it may be any of them."""
    if len(wanted) > limits.SMALL_FRAGMENT_ROWS:
        return None
    every = handle.get_fragments()
    held: dict[int, pa.ChunkedArray] = {}
    unread: dict[int, tuple[str, Any]] = {}
    for fragment in every:
        metadata = fragment.metadata
        if metadata.physical_rows <= limits.SMALL_FRAGMENT_ROWS:
            known = _known(metadata)
            if known is None:
                unread[metadata.id] = (_live_name(metadata), fragment)
            else:
                held[metadata.id] = known
    held |= _read(handle, unread)
    ruled_out = _without(held, wanted)
    return [fragment for fragment in every if fragment.fragment_id not in ruled_out] if ruled_out else None


def _without(held: dict[int, pa.ChunkedArray], wanted: pa.Array) -> set[int]:
    """Those that hold none of the wanted ids. Most look-ups are for new ids, so all are asked at once first."""
    chunks = [chunk for ids in held.values() for chunk in ids.chunks]
    if not _any_in(pa.chunked_array(chunks, pa.string()), wanted):
        return set(held)
    return {number for number, ids in held.items() if not _any_in(ids, wanted)}


def _any_in(ids: pa.ChunkedArray, wanted: pa.Array) -> bool:
    return bool(pc.any(pc.is_in(ids, value_set=wanted)).as_py())


def _known(metadata: Any) -> pa.ChunkedArray | None:
    ids = _kept.get(_file(metadata))
    return ids if ids is not None or metadata.deletion_file is None else _kept.get(_live_name(metadata))


def _read(handle: LanceTable, unread: dict[int, tuple[str, Any]]) -> dict[int, pa.ChunkedArray]:
    """The ids in some fragments by their number; all are read in one go."""
    if not unread:
        return {}
    fragments = [fragment for _, fragment in unread.values()]
    rows = handle.scanner(columns=[ID], fragments=fragments, with_row_address=True).to_table()
    numbers = pc.shift_right(rows.column("_rowaddr"), pa.scalar(32, pa.uint64()))
    read = {}
    for number, (name, _) in unread.items():
        read[number] = rows.column(ID).filter(pc.equal(numbers, pa.scalar(number, pa.uint64())))
        _keep(name, read[number])
    return read


def _keep(file: str, ids: pa.ChunkedArray) -> None:
    if _size(ids) <= limits.KNOWN_ID_BYTES // 16:  # a few rows cut from a large table would keep all of its text
        _kept.put(file, ids)


def _live_name(metadata: Any) -> str:
    """What a scan of a fragment reads: its file without the rows deleted so far."""
    deletion = metadata.deletion_file
    return f"{_file(metadata)} {deletion.read_version} {deletion.id}" if deletion else _file(metadata)


def _file(metadata: Any) -> str:
    """The name of a fragment's first data file, which has its ids: columns that are added later get files of their own.

    ``_path`` because ``path`` makes a new class at each look.
    """
    return str(metadata.files[0]._path)
