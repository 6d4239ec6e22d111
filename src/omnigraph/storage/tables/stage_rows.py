"""Stages a change of one table: files are written, nothing is visible, no version moves.

A change is rows to put (new, or replacing the row with the same id) and ids to remove. It becomes one Lance
transaction, whatever it mixes. Replaced rows keep their stable row id, so versions and indexes stay meaningful. Digests
of the values in each data file are made on the way; `verify` compares them with what can be read back.

What a version file says of its table stays short, however many small writes made it (decision 23): a write joins the
small fragments at the table's end once there are too many, in the order of their row ids, which are then nearly a
range; and it shortens the list of the versions that created the rows of a fragment, one for each small write.
"""

from __future__ import annotations

import heapq
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata, RowDatasetVersionMeta, RowIdSequence, write_fragments
from xxhash import xxh3_64, xxh3_64_hexdigest

from omnigraph import limits
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables import row_lookup
from omnigraph.storage.tables.datasets import (
    AS_BYTES,
    DATA_STORAGE_VERSION,
    as_dataset,
    has_blobs,
    physical_rows,
)
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.older_blobs import with_nulls
from omnigraph.storage.tables.row_lookup import ID, ROW_ADDRESS, ROW_ID, RowIds, RowLocations, plain_field
from omnigraph.storage.tables.small_fragments import small_fragments

_CREATED, _UPDATED = "_row_created_at_version", "_row_last_updated_at_version"

#: Characters of a list of versions that is made shorter: about 25 entries, which are in every version file.
_LONG_LIST = 1_024

#: Tags of protobuf fields: a message, or a number, in field 1 or 2.
_MESSAGE_1, _NUMBER_2 = b"\x0a", b"\x10"


@dataclass(frozen=True, slots=True)
class PendingChange:
    """The rows that a staged change puts into a table and removes from it.

    Attributes:
        put: complete rows; those that replace a row come first.
        replaced: row ids of those, in their order. The rows behind them get theirs when the change is committed.
        removed: row ids of rows that go.
    """

    put: pa.Table
    replaced: RowIds
    removed: RowIds


@dataclass(frozen=True, slots=True)
class StagedTransaction:
    """A table change that is ready to be committed.

    Attributes:
        operation: what Lance commits.
        read_version: version it was computed against.
        rows_after: row count of the table afterwards.
        uuid: names the transaction; recovery finds it in the table's history by this.
        digests: of the values in each new data file, by the name of the file.
        pending: the rows it puts and removes, if they are few; for readers in this process, not part of the record.
        updated, deleted: how many rows it replaces and removes, for the note of the commit.
        written: ids of the rows of each new fragment, in their order.
    """

    operation: Any
    read_version: int
    rows_after: int
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    digests: Mapping[str, str] = field(default_factory=dict)
    pending: PendingChange | None = field(default=None, compare=False, repr=False)
    updated: int = field(default=0, compare=False)
    deleted: int = field(default=0, compare=False)
    written: tuple[pa.ChunkedArray, ...] = field(default=(), compare=False, repr=False)

    @property
    def overwrites(self) -> bool:
        """Whether every row that was there before is gone."""
        return isinstance(self.operation, lance.LanceOperation.Overwrite)


def stage_change(
    handle: LanceTable, rows_before: int, put: pa.Table, existing: RowLocations, remove: RowLocations
) -> StagedTransaction | None:
    """Stage rows to put and rows to remove as one transaction; None when there is nothing to do.

    Args:
        put: complete rows in the table's schema, each id once.
        existing: those of ``put`` that replace a row.
        remove: rows that go; disjoint from ``existing``.
    """
    gone = np.concatenate([existing.addresses, remove.addresses])
    if put.num_rows == 0 and len(gone) == 0:
        return None
    rows_after = rows_before + put.num_rows - len(gone)
    with store_errors("stage a table change", handle):
        updates, inserts = _split(put, existing)
        folded = _fold_small(handle, gone)
        files = _Files(handle)
        new, stored = _new_fragments(files, updates, inserts, folded), _stored_fragments(handle, gone, folded)
        if stored.removed or stored.changed:
            operation: Any = lance.LanceOperation.Update(sorted(stored.removed), list(stored.changed), new)
        else:
            operation = lance.LanceOperation.Append(new)
        pending = _pending_change(handle.schema, updates[0], inserts, updates[1], remove.row_ids)
        return StagedTransaction(
            operation,
            handle.version,
            rows_after,
            digests=files.digests,
            pending=pending,
            updated=len(existing.addresses),
            deleted=len(remove.addresses),
            written=tuple(files.written),
        )


def stage_overwrite(handle: LanceTable, rows: pa.Table) -> StagedTransaction:
    """Stage the replacement of all rows; zero rows empty the table."""
    with store_errors("stage an overwrite"):
        files = _Files(handle)
        fragments = files.write(rows) if rows.num_rows else []
        operation = lance.LanceOperation.Overwrite(handle.schema, fragments)
        return StagedTransaction(operation, handle.version, rows.num_rows, digests=files.digests)


def _split(put: pa.Table, existing: RowLocations) -> tuple[tuple[pa.Table, np.ndarray[Any, Any]], pa.Table]:
    """Rows that replace one, with the row ids they keep, and rows that are new."""
    if len(existing.ids) == 0:
        return (put.slice(0, 0), existing.row_ids), put
    positions = pc.index_in(put.column(ID), value_set=existing.ids)
    replaces = pc.is_valid(positions)
    updates = put.filter(replaces)
    kept = existing.row_ids[positions.drop_null().to_numpy()]
    return (updates, kept), put.filter(pc.invert(replaces))


@dataclass(frozen=True, slots=True)
class _Fragments:
    """What a change does to the fragments that are there."""

    removed: frozenset[int]
    changed: tuple[FragmentMetadata, ...]


def _stored_fragments(handle: LanceTable, gone: RowIds, folded: _Folded | None) -> _Fragments:
    """Fragments without the rows that go, and those about which the version file says more than it need."""
    removed = set(folded.fragment_ids) if folded else set()
    changed: dict[int, FragmentMetadata] = {}
    fragment_of = gone >> np.uint64(32)
    for fragment_id in sorted(set(fragment_of.tolist()) - removed):
        offsets = (gone[fragment_of == fragment_id] & np.uint64(0xFFFFFFFF)).tolist()
        left = handle.get_fragment(fragment_id).delete_rows(offsets)
        if left is None:
            removed.add(fragment_id)
        else:
            changed[fragment_id] = left
    stay = (changed.get(each.fragment_id, each.metadata) for each in _youngest(handle, removed))
    changed |= {fragment.id: fragment for fragment in _shortened(handle, stay)}
    return _Fragments(frozenset(removed), tuple(changed[number] for number in sorted(changed)))


def _new_fragments(
    files: _Files, updates: tuple[pa.Table, RowIds], inserts: pa.Table, folded: _Folded | None
) -> list[FragmentMetadata]:
    new: list[FragmentMetadata] = []
    replaced, kept_ids = updates
    if folded is not None and folded.rows.num_rows:
        schema = _read_schema(files.handle.schema)
        replaced = pa.concat_tables([folded.rows.cast(schema), replaced.cast(schema)])
        replaced, kept_ids = _in_row_id_order(replaced, np.concatenate([folded.row_ids, kept_ids]))
    if replaced.num_rows:
        new += _with_row_ids(files.write(replaced), kept_ids)
    if inserts.num_rows:
        new += files.write(inserts)
    return new


def _with_row_ids(fragments: list[FragmentMetadata], row_ids: np.ndarray[Any, Any]) -> list[FragmentMetadata]:
    start = 0
    for fragment in fragments:
        part = row_ids[start : start + fragment.physical_rows]
        fragment.row_id_meta = RowIdSequence(part.tolist()).to_inline_metadata()
        start += fragment.physical_rows
    return fragments


class _Files:
    """Writes the new data files of one transaction and keeps the digests of their values."""

    def __init__(self, handle: LanceTable) -> None:
        self.handle = handle
        self.digests: dict[str, str] = {}
        self.written: list[pa.ChunkedArray] = []

    def write(self, rows: pa.Table) -> list[FragmentMetadata]:
        schema = self.handle.schema
        fragments = write_fragments(
            physical_rows(rows, schema),
            as_dataset(self.handle),
            schema=schema,
            mode="append",
            max_rows_per_file=limits.FRAGMENT_ROWS,
            data_storage_version=DATA_STORAGE_VERSION,
        )
        self.digests |= of_files(fragments, rows)
        row_lookup.note(fragments, rows)
        start = 0
        for fragment in fragments:
            self.written.append(rows.column(ID).slice(start, fragment.physical_rows))
            start += fragment.physical_rows
        return fragments


@dataclass(frozen=True, slots=True)
class _Folded:
    """Small fragments that a write replaces by one, as their live rows."""

    fragment_ids: frozenset[int]
    rows: pa.Table
    row_ids: RowIds


def _fold_small(handle: LanceTable, gone: RowIds) -> _Folded | None:
    """Rows of the small fragments at the table's end, once there are too many of them.

    Args:
        gone: addresses of rows that the write replaces or removes.
    """
    chosen = small_fragments(handle)
    if not chosen:
        return None
    scanner = handle.scanner(fragments=chosen, with_row_id=True, with_row_address=True, blob_handling=AS_BYTES)
    batches = (with_nulls(handle, batch) for batch in scanner.to_batches())
    rows = pa.Table.from_batches(batches, _read_schema(handle.schema, ROW_ID, ROW_ADDRESS))
    rows = rows.filter(pc.invert(pc.is_in(rows.column(ROW_ADDRESS), value_set=pa.array(gone, pa.uint64()))))
    return _Folded(
        frozenset(fragment.fragment_id for fragment in chosen),
        rows.select(handle.schema.names),
        rows.column(ROW_ID).to_numpy(),
    )


def _read_schema(schema: pa.Schema, *numbers: str) -> pa.Schema:
    """A table as it is read, where blobs are bytes, with numbers of the rows behind its columns."""
    return pa.schema([*map(plain_field, schema), *(pa.field(name, pa.uint64()) for name in numbers)])


def _youngest(handle: LanceTable, without: Collection[int]) -> list[Any]:
    """The fragments at a table's end among which some may be the result of a fold; the older ones were looked at."""
    stay = (fragment for fragment in handle.get_fragments() if fragment.fragment_id not in without)
    return heapq.nlargest(2 * limits.SMALL_FRAGMENTS, stay, key=lambda fragment: fragment.fragment_id)


def _in_row_id_order(rows: pa.Table, row_ids: RowIds) -> tuple[pa.Table, RowIds]:
    """Rows with their row ids in the order that takes the least room to say."""
    order = np.argsort(row_ids)
    return rows.take(pa.array(order)), row_ids[order]


def _shortened(handle: LanceTable, fragments: Iterable[Any]) -> Iterator[Any]:
    """Of some fragments of a table those whose rows were created by many versions, with the first of these for all.

    Nobody misses a row by that: the version that last wrote a row stays exact, and a row counts as created earlier than
    it was, so it is looked up in states in which it is not. Row ids, files and deletions stay as they are.

    Args:
        fragments: metadata of fragments of this version, perhaps with more deletions.
    """
    for fragment in fragments:
        if fragment.created_at_version_meta is not None and fragment.physical_rows <= limits.FOLD_ROWS:
            created = _first_version(handle, fragment)
            if created is not None:
                yield replace(fragment, created_at_version_meta=created)


def _first_version(handle: LanceTable, fragment: Any) -> Any | None:
    """One version for all rows of a fragment, if the list that it has is long and written as it is known here."""
    if len(fragment.created_at_version_meta.json()) <= _LONG_LIST:
        return None
    stored = handle.get_fragment(fragment.id)
    versions = handle.scanner(columns=[_CREATED, _UPDATED], fragments=[stored]).to_table()
    updated = pc.min_max(versions.column(_UPDATED)).as_py()
    known = _for_all_rows(fragment.physical_rows, updated["max"])
    if json.loads(fragment.last_updated_at_version_meta.json()) != known:
        return None
    first = pc.min(versions.column(_CREATED)).as_py()
    return RowDatasetVersionMeta.from_json(json.dumps(_for_all_rows(fragment.physical_rows, first)))


def _for_all_rows(rows: int, version: int) -> dict[str, list[int]]:
    """The list of versions of a fragment that has one entry: all rows, one version."""
    whole = _message(_message(_NUMBER_2 + _varint(rows)))
    return {"inline": list(_message(whole + _NUMBER_2 + _varint(version)))}


def _message(content: bytes) -> bytes:
    return _MESSAGE_1 + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])


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


def _pending_change(
    schema: pa.Schema, updates: pa.Table, inserts: pa.Table, replaced: RowIds, removed: RowIds
) -> PendingChange | None:
    """What a change does to its rows, unless it is too large to be kept. Rows of a big table are copied."""
    count = updates.num_rows + inserts.num_rows
    if count + len(removed) > limits.KEPT_EFFECT_ROWS or has_blobs(schema):
        return None
    parts = [part if part.schema.equals(schema) else part.cast(schema) for part in (updates, inserts) if part.num_rows]
    rows = pa.concat_tables(parts) if parts else schema.empty_table()
    if rows.nbytes > limits.KEPT_EFFECT_BYTES:
        return None
    if rows.get_total_buffer_size() > limits.KEPT_EFFECT_BYTES:
        rows = rows.take(pa.arange(0, count))
    return PendingChange(rows.combine_chunks(), replaced, removed)
