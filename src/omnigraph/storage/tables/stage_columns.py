"""Stages a change of a table's columns: new, renamed, widened, nullable, gone. One transaction, no row moves.

Lance knows a column by its field id; name, place and nullability belong to the schema alone. A new column without
values needs no file, a renamed one keeps its id, and a widened one gets a file of its own beside the old ones. So the
cost follows the widened columns, never the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import lance
import pyarrow as pa
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata
from lance.schema import LanceSchema

from omnigraph import limits
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables import stage_rows
from omnigraph.storage.tables.datasets import physical_schema
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.stage_rows import StagedTransaction


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column as it is from now on.

    Attributes:
        field: its name, logical type, nullability and metadata.
        source: name it has had; None for a new one, whose values are null.
    """

    field: pa.Field
    source: str | None


def stage_reshape(handle: LanceTable, rows: int, columns: Sequence[ColumnChange]) -> StagedTransaction | None:
    """Stage a table with exactly these columns, in this order; None when it looks like that already."""
    wanted = physical_schema(pa.schema([column.field for column in columns]))
    if wanted.equals(handle.schema, check_metadata=True):
        return None
    with store_errors("stage a change of columns", handle):
        known = {field.name(): field.id() for field in handle.lance_schema.fields()}
        stored = {c.source: field for c, field in zip(columns, wanted, strict=True) if c.source is not None}
        fragments, widened_ids, free = _widen(handle, _to_rewrite(handle.schema, stored))
        numbered = []
        for column, field in zip(columns, wanted, strict=True):
            if column.source is None:
                number, free = free, free + _width(field)
            else:
                number = widened_ids.get(column.source, known[column.source])
            numbered.append((field, number))
        schema = _numbered_schema(numbered)
        operation = _operation(fragments, schema, rewritten=bool(widened_ids))
        return StagedTransaction(operation, handle.version, rows, digests=_new_digests(handle, fragments))


def _operation(fragments: list[FragmentMetadata], schema: LanceSchema, *, rewritten: bool) -> Any:
    """A projection where the schema alone changes; with new files, a merge that names them."""
    if not rewritten:
        return lance.LanceOperation.Project(schema)
    return lance.LanceOperation.Merge([_pruned(fragment, schema) for fragment in fragments], schema)


def _to_rewrite(before: pa.Schema, after: dict[str, pa.Field]) -> dict[str, pa.DataType]:
    """Columns that get new files: those of another type, and with one of them those that become nullable, because
    Lance takes no other change of a column together with new files."""
    widened = {name: field.type for name, field in after.items() if before.field(name).type != field.type}
    relaxed = {name: field.type for name, field in after.items() if before.field(name).nullable != field.nullable}
    return {**relaxed, **widened} if widened else {}


def stage_new(schema: pa.Schema) -> StagedTransaction:
    """Stage the first version of an empty table."""
    return StagedTransaction(lance.LanceOperation.Overwrite(physical_schema(schema), []), 0, 0)


def _fragments(handle: LanceTable) -> list[FragmentMetadata]:
    return [fragment.metadata for fragment in handle.get_fragments()]


def _widen(handle: LanceTable, types: dict[str, pa.DataType]) -> tuple[list[FragmentMetadata], dict[str, int], int]:
    """Write columns anew with a wider type.

    Returns:
        The fragments, the field ids of the widened columns, and the lowest field id that nothing uses.
    """
    free = 1 + max(_field_ids(handle))
    if not types:
        return _fragments(handle), {}, free
    names = {name: f"__wider_{position}" for position, name in enumerate(types)}

    def cast(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([batch.column(name).cast(types[name]) for name in names], list(names.values()))

    fragments = []
    schema = None
    for fragment in handle.get_fragments():
        changed, schema = fragment.merge_columns(cast, columns=list(names))
        fragments.append(changed)
    if schema is None:  # no rows, no files: any number will do
        numbers = {}
        for name, type_ in types.items():
            numbers[name], free = free, free + _width(pa.field(name, type_))
        return [], numbers, free
    numbers = {name: schema.field(written).id() for name, written in names.items()}
    return fragments, numbers, 1 + max(free - 1, *(number for field in schema.fields() for number in _numbers(field)))


def _new_digests(handle: LanceTable, fragments: list[FragmentMetadata]) -> dict[str, str]:
    """The digests of files that the table did not have, read back: Lance fills the places of deleted rows itself."""
    known = {file.path for fragment in _fragments(handle) for file in fragment.files}
    found = {}
    for name in (file.path for fragment in fragments for file in fragment.files if file.path not in known):
        reader = LanceFileReader(f"{handle.uri}/data/{name}", storage_options=handle.initial_storage_options)
        values = reader.read_all(batch_size=limits.VERIFY_BATCH_ROWS).to_batches()
        found[name] = stage_rows.text_of(stage_rows.of_batches(values))
    return found


def _pruned(fragment: FragmentMetadata, schema: LanceSchema) -> FragmentMetadata:
    """A fragment without files that hold dropped columns only; Lance takes such a file for damage."""
    live = {number for field in schema.fields() for number in _numbers(field)}
    return replace(fragment, files=[file for file in fragment.files if live.intersection(file.fields)])


def _field_ids(handle: LanceTable) -> set[int]:
    """Field ids of the schema and of every file: that of a dropped column is not free, its values are still there."""
    numbers = {number for field in handle.lance_schema.fields() for number in _numbers(field)}
    for fragment in handle.get_fragments():
        for file in fragment.metadata.files:
            numbers.update(file.fields)
    return numbers


def _numbers(field: Any) -> list[int]:
    """Field ids of a column and of everything below it."""
    return [int(field.id()), *(number for child in field.children() for number in _numbers(child))]


def _width(field: pa.Field) -> int:
    """How many field ids a column takes: one for itself and one for each member below it."""
    return len(schema_to_parts(LanceSchema.from_pyarrow(pa.schema([field])))[1])


def _numbered_schema(fields: list[tuple[pa.Field, int]]) -> LanceSchema:
    """A schema with given field ids. Lance numbers the fields of an Arrow schema from 0, so each one is numbered
    behind as many others as its id says, and then taken out alone."""
    stored: list[bytes] = []
    for field, number in fields:
        before = [pa.field(f"_{position}", pa.int8()) for position in range(number)]
        stored += schema_to_parts(LanceSchema.from_pyarrow(pa.schema([*before, field])))[1][number:]
    return LanceSchema._from_protos("{}", *stored)


def schema_to_parts(schema: LanceSchema) -> tuple[str, list[bytes]]:
    """A Lance schema with its field ids as its metadata and one entry per field, for a recovery record."""
    parts: Any = schema.__reduce__()[1]
    return parts[0], list(parts[1:])


def schema_from_parts(metadata: str, entries: list[bytes]) -> LanceSchema:
    return LanceSchema._from_protos(metadata, *entries)
