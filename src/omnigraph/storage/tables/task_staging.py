"""Staging by processes that have no graph open: the tasks of a bulk job write and read the files of one table here.

What crosses between machines is an address and fragment metadata as text; rows never do. Nothing becomes visible: the
driver puts the metadata into one transaction, `commit/` does the rest. Files nobody commits are unreachable.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments

from omnigraph import limits
from omnigraph.errors import StorageError
from omnigraph.storage.commit import sidecar
from omnigraph.storage.objects import object_store
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.objects.object_store import Location, ObjectStore
from omnigraph.storage.tables import stage_rows
from omnigraph.storage.tables.datasets import (
    AS_BYTES,
    DATA_STORAGE_VERSION,
    Tables,
    TableVersion,
    as_dataset,
    has_blobs,
    physical_rows,
)
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.stage_rows import StagedTransaction

_Offsets = npt.NDArray[np.int64]
_DIGESTS = "omnigraph.digests"


@dataclass(frozen=True, slots=True)
class StageTable:
    """A table at one version, as any process can open it.

    Attributes:
        location: the graph, with the options of its object store and their credentials.
    """

    location: Location
    version: TableVersion

    def open(self) -> LanceTable:
        return Tables(self.location).at(self.version)

    @property
    def uri(self) -> str:
        """Where the files of this lineage of the table are."""
        return Tables(self.location).uri(self.version.location, self.version.branch)

    @property
    def directory(self) -> str:
        """The same below the root of the graph."""
        branch = self.version.branch
        return f"{self.version.location}/tree/{branch}" if branch else self.version.location

    def data_file(self, name: str) -> str:
        return Tables(self.location).data_file(self.version.location, self.version.branch, name)


def write_rows(table: StageTable, handle: LanceTable, rows: pa.Table) -> list[str]:
    """Write rows as fragments of bounded size and make them durable; returns their metadata."""
    with store_errors("stage rows"):
        fragments = write_fragments(
            physical_rows(rows, handle.schema),
            as_dataset(handle),
            schema=handle.schema,
            mode="append",
            max_rows_per_file=limits.FRAGMENT_ROWS,
            data_storage_version=DATA_STORAGE_VERSION,
        )
        if table.location.is_local:
            files = object_store.files_of(table.uri, lance.LanceOperation.Append(fragments))
            object_store.sync_files(files, table.location.uri)
    known = stage_rows.of_files(fragments, rows)
    return [_text(fragment, {file.path: known[file.path] for file in fragment.files}) for fragment in fragments]


def rows_of(fragment: str) -> int:
    return int(json.loads(fragment)["physical_rows"])


def read_staged(table: StageTable, fragment: str, columns: Sequence[str]) -> pa.Table:
    """Columns of a staged fragment, in the order of its rows; no blobs."""
    with store_errors("read staged rows"):
        (file,) = FragmentMetadata.from_json(fragment).files
        options = dict(table.location.options) or None
        reader = LanceFileReader(table.data_file(file.path), storage_options=options, columns=list(columns))
        return reader.read_all(batch_size=limits.FRAGMENT_ROWS).to_table().select(list(columns))


def read_whole(table: StageTable, handle: LanceTable, fragment: str) -> pa.Table:
    """Every column of a staged fragment, blobs as bytes."""
    if not has_blobs(handle.schema):
        return read_staged(table, fragment, handle.schema.names)
    with store_errors("read staged rows"), _detached(table, handle, fragment) as whole:
        return whole.scanner(blob_handling=AS_BYTES).to_table()


@contextlib.contextmanager
def _detached(table: StageTable, handle: LanceTable, fragment: str) -> Iterator[LanceTable]:
    """A version beside all lineages that holds just this fragment; blobs cannot be read without one."""
    operation = lance.LanceOperation.Overwrite(handle.schema, [FragmentMetadata.from_json(fragment)])
    whole = lance.LanceDataset.commit(as_dataset(handle), operation, read_version=handle.version, detached=True)
    try:
        yield whole
    finally:
        with contextlib.suppress(StorageError):
            ObjectStore(table.location).delete(f"{table.directory}/_versions/d{whole.version}.manifest")


def stored_fragments(handle: LanceTable) -> list[tuple[int, int]]:
    """Number and live rows of the fragments of a table."""
    with store_errors("read a table", handle):
        return [(each.fragment_id, each.count_rows()) for each in handle.get_fragments()]


def read_stored(handle: LanceTable, fragment: int, columns: Sequence[str]) -> pa.Table:
    """Columns of the live rows of one fragment with ``_rowid`` and ``_rowaddr``."""
    with store_errors("read a table", handle):
        scanner = handle.scanner(
            columns=list(columns), fragments=[handle.get_fragment(fragment)], with_row_id=True, with_row_address=True
        )
        return scanner.to_table()


def delete_stored(table: StageTable, handle: LanceTable, fragment: int, offsets: _Offsets) -> str | None:
    """Stage the deletion of rows of one fragment; None when none would be left."""
    with store_errors("stage a deletion"):
        left = handle.get_fragment(fragment).delete_rows(offsets.tolist())
        if left is not None and table.location.is_local:
            object_store.sync_files([f"{table.uri}/{left.deletion_file.path(left.id)}"], table.location.uri)
        return _text(left) if left is not None else None


def with_row_ids(fragment: str, row_ids: npt.NDArray[np.uint64]) -> str:
    """Metadata of a fragment whose rows take the place of others and keep their row ids."""
    metadata = FragmentMetadata.from_json(fragment)
    metadata.row_id_meta = RowIdSequence(row_ids.tolist()).to_inline_metadata()
    return _text(metadata, _digests([fragment]))


def staged_append(handle: LanceTable, fragments: Sequence[str], rows_after: int) -> StagedTransaction:
    operation = lance.LanceOperation.Append(_all(fragments))
    return StagedTransaction(operation, handle.version, rows_after, digests=_digests(fragments))


def staged_overwrite(handle: LanceTable, fragments: Sequence[str], rows_after: int) -> StagedTransaction:
    operation = lance.LanceOperation.Overwrite(handle.schema, _all(fragments))
    return StagedTransaction(operation, handle.version, rows_after, digests=_digests(fragments))


def staged_update(
    handle: LanceTable, fragments: Sequence[str], changed: Sequence[str], removed: Sequence[int], rows_after: int
) -> StagedTransaction:
    """New fragments in the place of deleted rows."""
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=sorted(removed), updated_fragments=_all(changed), new_fragments=_all(fragments)
    )
    return StagedTransaction(operation, handle.version, rows_after, digests=_digests(fragments))


def staged_replacement(
    table: StageTable, handle: LanceTable, fragments: Sequence[str], gone: npt.NDArray[np.uint64], rows_after: int
) -> StagedTransaction:
    """New fragments, and stored ones without the rows at the addresses ``gone``."""
    if len(gone) == 0:
        return staged_append(handle, fragments, rows_after)
    changed, removed = [], []
    owners, offsets = gone >> np.uint64(32), (gone & np.uint64(0xFFFFFFFF)).astype(np.int64)
    for number in np.unique(owners).tolist():
        left = delete_stored(table, handle, number, offsets[owners == number])
        if left is None:
            removed.append(number)
        else:
            changed.append(left)
    return staged_update(handle, fragments, changed, removed, rows_after)


def remove_staged(table: StageTable, fragments: Sequence[str], keep: Sequence[str] = ()) -> None:
    """Remove the files of fragments, except those that fragments in ``keep`` use. What fails stays for `cleanup`.

    Files that the table shows, or that a commit on its way may show, are never removed: whoever was interrupted need
    not know how far its commit came.
    """
    objects = ObjectStore(table.location)
    unused = _files(fragments) - _files(keep)
    try:
        if not unused or sidecar.pending(objects):
            return
        unused -= _shown_files(table)
    except StorageError:
        return
    for name in unused:
        with contextlib.suppress(StorageError):
            objects.delete(f"{table.directory}/data/{name}")
            objects.delete_below(f"{table.directory}/data/{name.removesuffix('.lance')}")


def _shown_files(table: StageTable) -> set[str]:
    newest = Tables(table.location).newest_or_none(table.version.location, table.version.branch)
    if newest is None:
        return set()
    return {file.path for fragment in newest.get_fragments() for file in fragment.data_files()}


def _files(fragments: Sequence[str]) -> set[str]:
    return {file.path for each in fragments for file in FragmentMetadata.from_json(each).files}


def _all(fragments: Sequence[str]) -> list[Any]:
    return [FragmentMetadata.from_json(each) for each in fragments]


def _text(fragment: FragmentMetadata, of_files: Mapping[str, str] | None = None) -> str:
    """Metadata as text; the digests of the files travel in it under a name that Lance does not read."""
    known = {_DIGESTS: dict(of_files)} if of_files else {}
    return json.dumps({**fragment.to_json(), **known}, separators=(",", ":"))


def _digests(fragments: Sequence[str]) -> dict[str, str]:
    return {name: digest for each in fragments for name, digest in json.loads(each).get(_DIGESTS, {}).items()}
