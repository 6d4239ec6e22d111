"""One blob of one row: where its bytes lie, and ranges of them. Nothing here reads a whole value unasked.

The bytes of a data file never change, so the place of a blob in its file tells its content from any other one.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from omnigraph.storage.objects.external_blobs import external_errors, open_external
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.filters import at_row_address
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.older_blobs import bytes_with_nulls, file_of_column
from omnigraph.storage.tables.row_lookup import locate
from omnigraph.storage.tables.small_fragments import EXTERNAL_KIND

_ETAG_CHARACTERS = 32
_FRAGMENT_BITS = 32


@dataclass(frozen=True, slots=True)
class ManagedBytes:
    """A blob in the files of its table.

    Attributes:
        etag: changes whenever the bytes do, and perhaps when their files are rewritten.
    """

    size: int
    etag: str
    _file: Any
    _table: LanceTable

    def read(self, offset: int, length: int) -> bytes:
        """Bytes that the blob has."""
        with store_errors("read a blob", self._table):
            return bytes(self._file.read_range(offset, length)) if length else b""


@dataclass(frozen=True, slots=True)
class ExternalBytes:
    """A blob that other software left where it was: a file or an object, or ``length`` bytes of one from ``start`` on.

    Its bytes may change without the graph, so each read asks for them again.
    """

    uri: str
    start: int = 0
    length: int | None = None

    @property
    def size(self) -> int:
        if self.length is not None:
            return self.length
        with open_external(self.uri) as source, external_errors(self.uri):
            return source.seek(0, io.SEEK_END)

    def read(self, offset: int, length: int) -> bytes:
        """Bytes that the blob has."""
        with open_external(self.uri) as source, external_errors(self.uri):
            source.seek(self.start + offset)
            return source.read(length)


class _NoBlob(Enum):
    """Why there are no bytes."""

    NO_ROW = auto()
    NULL = auto()


NO_ROW: Final = _NoBlob.NO_ROW
NULL: Final = _NoBlob.NULL


def blob_cell(
    handle: LanceTable, column: str, row_id: str
) -> ManagedBytes | ExternalBytes | Literal[_NoBlob.NO_ROW, _NoBlob.NULL]:
    """The blob in a column of the row with an id."""
    found = locate(handle, pa.array([row_id], pa.string())).addresses
    if len(found) == 0:
        return NO_ROW
    address = int(found[0])
    with store_errors("read a blob", handle):
        number, file = file_of_column(handle, column, address >> _FRAGMENT_BITS)
        described = _described(handle, column, address)
        if file is None or described is None or _is_older_null(handle, column, address, described):
            return NULL
        if described["kind"] == EXTERNAL_KIND:
            return _external(handle, described)
        (blob,) = handle.take_blobs(column, addresses=[address])
    place = (file.path, number, *(described[part] for part in ("kind", "blob_id", "position", "size")))
    etag = hashlib.sha256(" ".join(map(str, place)).encode()).hexdigest()[:_ETAG_CHARACTERS]
    return ManagedBytes(described["size"], etag, blob, handle)


def _described(handle: LanceTable, column: str, address: int) -> dict[str, Any] | None:
    """What Lance knows of a blob without its bytes; None for null."""
    scanner = handle.scanner(
        columns=[column],
        filter=at_row_address([address]),
        fragments=[handle.get_fragment(address >> _FRAGMENT_BITS)],
        blob_handling="blobs_descriptions",
    )
    (described,) = scanner.to_table().column(column).to_pylist()
    return described  # type: ignore[no-any-return]


def _is_older_null(handle: LanceTable, column: str, address: int, described: dict[str, Any]) -> bool:
    if described["size"] or described["kind"] == EXTERNAL_KIND:
        return False
    empty = pa.array([b""], pa.large_binary())
    return bool(bytes_with_nulls(handle, column, np.array([address], np.uint64), empty).null_count)


def _external(handle: LanceTable, described: dict[str, Any]) -> ExternalBytes:
    """Its address is whole, or it lies below an address that the table knows by a number."""
    uri, base = described["blob_uri"], described["blob_id"]
    if base:
        uri = f"{handle.base_paths()[base].path.rstrip('/')}/{uri}"
    return ExternalBytes(uri, described["position"], described["size"] or None)
