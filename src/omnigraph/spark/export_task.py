"""What the executors do for an export: look at ids, make lines, write files. Names, sizes and few ids come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from omnigraph import limits
from omnigraph.history.export import parquet_batch, parquet_schema
from omnigraph.storage.fragments import TableAt, scan_fragments
from omnigraph.storage.ordered import ID, rows_by_id
from omnigraph.storage.outputs import Folder
from omnigraph.write.json_lines import json_lines

Group = tuple[int, ...]

_FOUND = "table int, group int, rows long, first string, last string, sample array<string>"
_WRITTEN = "name string, bytes long"
_LINES = "range int, id string, line string"


@dataclass(frozen=True, slots=True)
class Found:
    """The ids of a group of fragments: their range, and some of them spread evenly."""

    table: int
    group: int
    rows: int
    first: str
    last: str
    sample: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Written:
    name: str
    bytes: int


def inspect_groups(session: SparkSession, tables: list[TableAt], groups: list[tuple[int, Group]]) -> list[Found]:
    """Where the ids of each group lie."""

    def look(number: int) -> dict[str, Any]:
        table, fragments = groups[number]
        ids = pa.chunked_array(
            [batch.column(0) for batch in scan_fragments(tables[table], fragments, [ID])], pa.string()
        )
        if len(ids) == 0:
            return {"table": table, "group": number, "rows": 0, "first": "", "last": "", "sample": []}
        ends = pc.min_max(ids)
        step = max(1, len(ids) // limits.EXPORT_SAMPLES)
        sample = ids.take(pa.array(range(0, len(ids), step), pa.int64()))
        first, last = ends["min"].as_py(), ends["max"].as_py()
        return {"table": table, "group": number, "rows": len(ids), "first": first, "last": last,
                "sample": sample.to_pylist()}  # fmt: skip

    schema = pa.schema([
        ("table", pa.int32()), ("group", pa.int32()), ("rows", pa.int64()), ("first", pa.string()),
        ("last", pa.string()), ("sample", pa.list_(pa.field("element", pa.string()))),
    ])  # fmt: skip
    rows = _each(session, len(groups), lambda number: pa.RecordBatch.from_pylist([look(number)], schema), _FOUND)
    return [Found(**(row.asDict() | {"sample": tuple(row["sample"])})) for row in rows]


def write_groups(
    session: SparkSession, tables: list[TableAt], parts: list[tuple[str, int, Group]], folder: Folder, format_: str
) -> list[Written]:
    """One file per part: the rows of some fragments, as lines in the order of their ids or as Parquet."""
    writing = _write_lines if format_ == "jsonl" else _write_parquet

    def write(number: int) -> pa.RecordBatch:
        name, table, fragments = parts[number]
        with folder.file(name) as draft:
            writing(tables[table], fragments, draft)
            size = draft.stat().st_size
        return _written(name, size)

    return [Written(*row) for row in _each(session, len(parts), write, _WRITTEN)]


def write_ranges(
    session: SparkSession, table: TableAt, shares: list[Group], cuts: list[str], folder: Folder, names: list[str]
) -> list[Written]:
    """One file per range of ids, from groups of fragments that each hold ids of several ranges."""
    key = table.pin.table_key

    def lines(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for fragments in _chosen(numbers, shares):
            for batch in scan_fragments(table, fragments, list(table.schema.names)):
                texts = batch.column(ID)
                columns = [_range_of(texts, cuts), texts, json_lines(key, batch).cast(pa.string())]
                yield pa.RecordBatch.from_arrays(columns, names=["range", "id", "line"])

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        name = names[first.column(0)[0].as_py()]
        with folder.file(name) as draft:
            with draft.open("wb") as file:
                _append_lines(file, first)
                for batch in batches:
                    _append_lines(file, batch)
            size = draft.stat().st_size
        yield _written(name, size)

    ranges = len(cuts) + 1
    made = session.range(0, len(shares), 1, len(shares)).mapInArrow(lines, _LINES)
    ordered = made.repartitionById(ranges, "range").sortWithinPartitions("id")
    return [Written(*row) for row in ordered.mapInArrow(write, _WRITTEN).collect()]


def _range_of(texts: pa.Array, cuts: list[str]) -> pa.Array:
    """Which range each id belongs to: how many cuts are at or below it."""
    found = pa.nulls(len(texts), pa.int32()).fill_null(0)
    for cut in cuts:
        found = pc.add(found, pc.greater_equal(texts, pa.scalar(cut, pa.string())).cast(pa.int32()))
    return found


def _append_lines(file: Any, batch: pa.RecordBatch) -> None:
    lines = batch.column(2)
    start, end = lines.offset, lines.offset + len(lines)
    if start == end:
        return
    offsets = pa.Array.from_buffers(pa.int32(), end + 1, [None, lines.buffers()[1]])
    file.write(memoryview(lines.buffers()[2])[offsets[start].as_py() : offsets[end].as_py()])


def _write_lines(table: TableAt, fragments: Group, draft: Path) -> None:
    handle = table.open()
    with draft.open("wb") as file:
        for batch in rows_by_id(handle, list(handle.schema.names), fragments):
            data = json_lines(table.pin.table_key, batch).buffers()[2]
            if data is not None:
                file.write(memoryview(data))


def _write_parquet(table: TableAt, fragments: Group, draft: Path) -> None:
    schema = parquet_schema(table.schema)
    with pq.ParquetWriter(draft, schema) as writer:
        for batch in scan_fragments(table, fragments, list(schema.names)) if fragments else ():
            writer.write_batch(parquet_batch(batch, schema))


def _written(name: str, size: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"name": [name], "bytes": pa.array([size], pa.int64())})


def _chosen(numbers: Iterator[pa.RecordBatch], groups: Sequence[Group]) -> Iterator[Group]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield groups[number]


def _each(session: SparkSession, count: int, work: Callable[[int], pa.RecordBatch], schema: str) -> list[Any]:
    """One task per number, one small answer per task."""
    if count == 0:
        return []

    def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield work(number)

    return list(session.range(0, count, 1, count).mapInArrow(run, schema).collect())
