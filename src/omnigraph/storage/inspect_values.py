"""Reads every value of a data file as any reader gets it, and compares it with its digest, for `verify(deep=True)`.

Deleted rows are read too: their bytes are part of the file. Columns that the table no longer has are not: nobody can
see them. `value_process.py` does the reading in a process of its own, because damaged bytes may end the one that
decodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph import limits
from omnigraph.storage import digests, manifest
from omnigraph.storage.blobs import AS_BYTES, is_blob
from omnigraph.storage.faults import panics_as_damage, store_errors
from omnigraph.storage.filters import equals
from omnigraph.storage.tables import Handle


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file with the columns of it that a version of its table shows.

    Attributes:
        name: unique in the graph.
        fragment: number of the fragment whose rows it holds.
        columns: the name of each and its place in the file.
        width: how many columns the file has.
    """

    name: str
    fragment: int
    columns: tuple[tuple[str, int], ...]
    width: int

    def recorded(self, known: Mapping[str, str]) -> list[str] | None:
        """The digests of the columns that are shown; None when none was recorded."""
        found = digests.columns_of(known.get(self.name), self.width)
        return [found[place] for _, place in self.columns] if found is not None else None


def recorded_digests(handle: Handle) -> dict[str, str]:
    """All digests that an open manifest has, by the name of the data file."""
    with store_errors("read the manifest"):
        scanner = handle.scanner(columns=["metadata"], filter=equals("object_type", manifest.TABLE_VERSION))
        texts = scanner.to_table().column("metadata").to_pylist()
    return {name: digest for text in texts for name, digest in manifest.digests_of(text).items()}


def data_files(handle: Handle) -> list[DataFile]:
    """The data files of one version of a table."""
    owners = {number: field.name() for field in handle.lance_schema.fields() for number in _numbers(field)}
    return [
        DataFile(
            file.path,
            fragment.fragment_id,
            tuple((owners[number], place) for place, number in enumerate(file.fields) if number in owners),
            len(file.fields),
        )
        for fragment in handle.get_fragments()
        for file in fragment.metadata.files
    ]


def _numbers(field: Any) -> list[int]:
    return [field.id(), *(number for child in field.children() for number in _numbers(child))]


def read_digests(handle: Handle, fragment: int, columns: Sequence[str], after_batch: Callable[[], None]) -> list[str]:
    """The digests of some columns of a fragment, from what can be read now."""
    with store_errors("read a data file"), panics_as_damage():
        found = digests.of_batches(_batches(handle, fragment, list(columns), after_batch))
    return [column.hex() for column in found]


def _batches(
    handle: Handle, fragment: int, columns: list[str], after_batch: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    blobs = any(is_blob(handle.schema.field(name)) for name in columns)
    scanner = handle.scanner(
        columns=columns,
        fragments=[handle.get_fragment(fragment)],
        batch_size=limits.EXPORT_BLOB_BATCH_ROWS if blobs else limits.VERIFY_DEEP_ROWS,
        blob_handling=AS_BYTES,
        with_row_id=True,  # tells deleted rows from others; they are not returned without
        include_deleted_rows=True,
        scan_in_order=True,
    )
    for batch in scanner.to_batches():
        yield batch.select(columns)
        after_batch()
