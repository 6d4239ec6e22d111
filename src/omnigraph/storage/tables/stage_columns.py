"""Stages a change of a table's columns: new, renamed, widened, nullable, gone. One transaction, no row moves.

Lance knows a column by its field id; name, place and nullability belong to the schema alone. A new column without
values needs no file, a renamed one keeps its id, and a widened one or a new one with a value gets a file of its own
beside the old ones. So the cost follows the written columns, never the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

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
from omnigraph.storage.tables.schema_parts import schema_to_parts
from omnigraph.storage.tables.stage_rows import StagedTransaction

Value: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column as it is from now on.

    Attributes:
        field: its name, logical type, nullability and metadata.
        source: name it has had; None for a new one.
        value: what every row holds in a new column; None for null.
    """

    field: pa.Field
    source: str | None
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class _Written:
    """A column in a new file: the values of another one in another type, or one value for every row."""

    type: pa.DataType
    nullable: bool
    source: str | None = None
    value: Value | None = None

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        if self.source is not None:
            return batch.column(self.source).cast(self.type)
        return pa.repeat(pa.scalar(self.value, self.type), batch.num_rows)


def stage_reshape(handle: LanceTable, rows: int, columns: Sequence[ColumnChange]) -> StagedTransaction | None:
    """Stage a table with exactly these columns, in this order; None when it looks like that already."""
    wanted = physical_schema(pa.schema([column.field for column in columns]))
    if wanted.equals(handle.schema, check_metadata=True):
        return None
    with store_errors("stage a change of columns", handle):
        known = {field.name(): field.id() for field in handle.lance_schema.fields()}
        fragments, written_ids, free = _write(handle, _to_write(handle.schema, columns, wanted))
        numbered = []
        for column, field in zip(columns, wanted, strict=True):
            if field.name in written_ids:
                number = written_ids[field.name]
            elif column.source is None:
                number, free = free, free + _width(field)
            else:
                number = known[column.source]
            numbered.append((field, number))
        schema = _numbered_schema(numbered)
        operation = _operation(fragments, schema, rewritten=bool(written_ids))
        return StagedTransaction(operation, handle.version, rows, digests=_new_digests(handle, fragments))


def _operation(fragments: list[FragmentMetadata], schema: LanceSchema, *, rewritten: bool) -> Any:
    """A projection where the schema alone changes; with new files, a merge that names them."""
    if not rewritten:
        return lance.LanceOperation.Project(schema)
    return lance.LanceOperation.Merge([_pruned(fragment, schema) for fragment in fragments], schema)


def _to_write(before: pa.Schema, columns: Sequence[ColumnChange], after: pa.Schema) -> dict[str, _Written]:
    """Columns that get new files, by the name they get: new ones with a value, those of another type, and with one of
    them those that become nullable, because Lance takes no other change of a column together with new files."""
    filled, widened, relaxed = {}, {}, {}
    for column, field in zip(columns, after, strict=True):
        if column.source is None:
            if column.value is not None:
                filled[field.name] = _Written(field.type, field.nullable, value=column.value)
        elif before.field(column.source).type != field.type:
            widened[field.name] = _Written(field.type, field.nullable, column.source)
        elif before.field(column.source).nullable != field.nullable:
            relaxed[field.name] = _Written(field.type, field.nullable, column.source)
    return {**relaxed, **widened, **filled} if widened or filled else {}


def stage_new(schema: pa.Schema) -> StagedTransaction:
    """Stage the first version of an empty table."""
    return StagedTransaction(lance.LanceOperation.Overwrite(physical_schema(schema), []), 0, 0)


def _fragments(handle: LanceTable) -> list[FragmentMetadata]:
    return [fragment.metadata for fragment in handle.get_fragments()]


def _write(handle: LanceTable, columns: dict[str, _Written]) -> tuple[list[FragmentMetadata], dict[str, int], int]:
    """Write columns into files of their own.

    Returns:
        The fragments, the field ids of the written columns, and the lowest field id that nothing uses.
    """
    free = 1 + max(_field_ids(handle))
    if not columns:
        return _fragments(handle), {}, free
    names = {name: f"__written_{position}" for position, name in enumerate(columns)}

    def values(batch: pa.RecordBatch) -> pa.RecordBatch:
        fields = [pa.field(names[name], each.type, each.nullable) for name, each in columns.items()]
        return pa.record_batch([each.of(batch) for each in columns.values()], schema=pa.schema(fields))

    sources = [each.source for each in columns.values() if each.source is not None]
    fragments = []
    schema = None
    for fragment in handle.get_fragments():
        changed, schema = fragment.merge_columns(values, columns=sources or ["id"])
        fragments.append(changed)
    if schema is None:  # no rows, no files: any number will do
        numbers = {}
        for name, each in columns.items():
            numbers[name], free = free, free + _width(pa.field(name, each.type))
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
        before = [pa.field(f"#{position}", pa.int8()) for position in range(number)]  # no property is called so
        stored += schema_to_parts(LanceSchema.from_pyarrow(pa.schema([*before, field])))[1][number:]
    return LanceSchema._from_protos("{}", *stored)
