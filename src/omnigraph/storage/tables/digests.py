"""Digests of the values in data files: made when rows are staged, compared by `verify` with what can be read back.

A digest belongs to the values, not to the bytes of a file: it does not depend on chunks, offsets, dictionaries or what
lies under nulls. Each column of a file has its own, so that dropped and renamed columns change nothing. It finds
damage, not forgery. `metadata/manifest.py` says where digests are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_64, xxh3_64_hexdigest

#: Begins the text of every digest; another function would have another name.
FUNCTION = "xxh3:"
_HEX = 16


class ColumnDigest:
    """The digest of one column, fed in pieces of any size and layout.

    Hashed apart, each from beginning to end: the places of nulls, the lengths of texts and lists, the bytes of values.
    Members of lists and structs are columns of their own.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._nulls = xxh3_64()
        self._lengths = xxh3_64()
        self._bytes = xxh3_64()
        self._members: list[ColumnDigest] = []

    def add(self, values: pa.Array) -> None:
        values = _plain(values)
        first, self._rows = self._rows, self._rows + len(values)
        if values.null_count:
            places = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)) + first
            self._nulls.update(places.astype("<u8").data)
            values = values.drop_null()
        if len(values):
            self._add_valid(values)

    def _add_valid(self, values: pa.Array) -> None:
        type_ = values.type
        if pa.types.is_struct(type_):
            self._add_members([values.field(position) for position in range(type_.num_fields)])
        elif pa.types.is_fixed_size_list(type_):
            self._add_members([values.flatten()])
        elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
            self._lengths.update(np.diff(_offsets(values, pa.types.is_large_list(type_))).astype("<i8").data)
            self._add_members([values.flatten()])
        elif pa.types.is_string(type_) or pa.types.is_binary(type_):
            self._add_texts(values, _offsets(values, is_large=False))
        elif pa.types.is_large_string(type_) or pa.types.is_large_binary(type_):
            self._add_texts(values, _offsets(values, is_large=True))
        elif not pa.types.is_null(type_):
            width = type_.bit_width // 8
            self._bytes.update(values.buffers()[1].slice(values.offset * width, len(values) * width))

    def _add_texts(self, values: pa.Array, offsets: np.ndarray[Any, Any]) -> None:
        self._lengths.update(np.diff(offsets).astype("<i8").data)
        content = values.buffers()[2]
        if content is not None:
            self._bytes.update(content.slice(int(offsets[0]), int(offsets[-1] - offsets[0])))

    def _add_members(self, members: list[pa.Array]) -> None:
        self._members += [ColumnDigest() for _ in members[len(self._members) :]]
        for digest, values in zip(self._members, members, strict=True):
            digest.add(values)

    def hex(self) -> str:
        """The digest of all that was added, 16 characters."""
        parts = [self._nulls.digest(), self._lengths.digest(), self._bytes.digest()]
        parts += [member.hex().encode() for member in self._members]
        return xxh3_64_hexdigest(self._rows.to_bytes(8, "little") + b"".join(parts))


def _plain(values: pa.Array) -> pa.Array:
    """Values in the one layout of their type that is hashed; a blob is its bytes."""
    if isinstance(values, pa.ExtensionArray):
        storage = values.storage
        values = pc.struct_field(storage, "data") if pa.types.is_struct(storage.type) else storage
    type_ = values.type
    if pa.types.is_dictionary(type_):
        return _plain(values.dictionary_decode())
    if pa.types.is_boolean(type_):
        return values.cast(pa.uint8())
    if pa.types.is_string_view(type_) or pa.types.is_binary_view(type_):
        return values.cast(pa.large_binary())
    return values


def _offsets(values: pa.Array, is_large: bool) -> np.ndarray[Any, Any]:
    width = 8 if is_large else 4
    buffer = values.buffers()[1].slice(values.offset * width, (len(values) + 1) * width)
    return np.frombuffer(buffer, np.int64 if is_large else np.int32)


def text_of(columns: Iterable[ColumnDigest]) -> str:
    """The digest of a file: those of its columns in their order."""
    return FUNCTION + "".join(column.hex() for column in columns)


def columns_of(text: str | None, count: int) -> list[str] | None:
    """The digests of a file's columns; None if there is none that this software understands."""
    if text is None or not text.startswith(FUNCTION) or len(text) != len(FUNCTION) + _HEX * count:
        return None
    return [text[start : start + _HEX] for start in range(len(FUNCTION), len(text), _HEX)]


def of_batches(batches: Iterable[pa.RecordBatch]) -> list[ColumnDigest]:
    """The digest of every column of a stream."""
    found: list[ColumnDigest] = []
    for batch in batches:
        found = found or [ColumnDigest() for _ in batch.columns]
        for digest, values in zip(found, batch.columns, strict=True):
            digest.add(values)
    return found


def of_files(fragments: Sequence[Any], rows: pa.Table) -> dict[str, str]:
    """The digests of new files that hold these rows in this order, by the name of the file."""
    found, start = {}, 0
    for fragment in fragments:
        (file,) = fragment.files  # a new fragment has one
        part = rows.slice(start, fragment.physical_rows)
        start += fragment.physical_rows
        found[file.path] = text_of(_of_column(column) for column in part.columns)
    return found


def _of_column(column: pa.ChunkedArray) -> ColumnDigest:
    digest = ColumnDigest()
    for chunk in column.chunks:
        digest.add(chunk)
    return digest
