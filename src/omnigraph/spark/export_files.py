"""Export by Spark: the executors write the files, the driver sees their names and sizes.

The text is that of the embedded export, byte for byte: tables by key, rows by id. A table whose groups of fragments do
not overlap is written group by group as it lies. Any other is cut into ranges of ids: each executor makes the lines
of its share, Spark brings the lines of a range together, and one task writes them in order.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph.errors import InputError
from omnigraph.graph import Graph
from omnigraph.history.export import (
    ExportResult,
    export_format,
    export_result,
    parquet_batch,
    parquet_schema,
    selected_pins,
    type_files,
)
from omnigraph.history.state_at import At
from omnigraph.spark.cluster import job_errors
from omnigraph.spark.frames import PinnedState, pinned
from omnigraph.spark.session import active_session
from omnigraph.storage.metadata.manifest import Pin
from omnigraph.storage.objects.object_store import Location, parse_location
from omnigraph.storage.objects.user_files import Folder, concatenate
from omnigraph.storage.tables.table_scan import ID, TableAt, fragment_groups, rows_by_id, scan_fragments
from omnigraph.write.csv_lines import write_csv
from omnigraph.write.json_lines import json_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Ids that each task of an export by Spark reports, to cut a table into ranges of about equal size.
_EXPORT_SAMPLES = 256


_ONE_FILE = ".jsonl"


def export(
    graph: Graph,
    path: str | os.PathLike[str],
    format: Literal["jsonl", "parquet", "csv"] | None = None,
    types: Sequence[str] | None = None,
    *,
    branch: str | None = None,
    at: At | None = None,
) -> ExportResult:
    """Write one state of a graph with Spark.

    Args:
        path: local or ``s3://``. For JSONL a name that ends in ``.jsonl`` is one file, any other a new directory of
            parts that are the export when they are read in the order of their names. For Parquet and CSV a new
            directory with one directory per type, whatever its name.
        format: None takes what the suffix of the path says, JSONL when it says nothing.
        types: names of types; None for all.
        at: a commit id, ``tag:NAME``, a manifest version or a time; None writes the newest state.
    """
    known = export_format(path, format)
    state = pinned(graph, branch, at, "export")
    pins = selected_pins(state.snapshot, [types] if isinstance(types, str) else types)
    target = parse_location(path)
    with job_errors("export"):
        if known == "jsonl" and target.uri.endswith(_ONE_FILE):
            written = _one_file(state, pins, target)
        else:
            written = _folder(state, pins, Folder(target), known)
    files = tuple(each.name for each in written)
    return export_result(state.snapshot, pins, files, sum(each.bytes for each in written))


def _folder(state: PinnedState, pins: list[Pin], target: Folder, format_: str) -> list[WrittenFile]:
    """Parts in a new directory. A local one gets its name at the end; below a prefix they appear one by one."""
    if not target.is_empty():
        raise InputError(f"{target.location.uri} exists and is not empty", hint="choose another directory")
    drafts = _sibling(target.location) if target.location.is_local else target
    try:
        written = _lines(state, pins, drafts) if format_ == "jsonl" else _by_type(state, pins, drafts, format_)
        if drafts is not target:
            drafts.take_name(target) if written else _make(target)
    except BaseException:
        drafts.remove()
        raise
    return [WrittenFile(target.address(each.name), each.bytes) for each in written]


def _one_file(state: PinnedState, pins: list[Pin], target: Location) -> list[WrittenFile]:
    """Parts beside the file, poured together by the driver a piece at a time."""
    parts = _sibling(target)
    folder, _, name = target.uri.rpartition("/")
    try:
        written = _lines(state, pins, parts)
        concatenate(parts, [each.name for each in written], Folder(Location(folder, target.options)), name)
    finally:
        parts.remove()
    return [WrittenFile(target.uri, sum(each.bytes for each in written))]


def _sibling(target: Location) -> Folder:
    folder, _, name = target.uri.rpartition("/")
    return Folder(Location(f"{folder}/.{name}.{uuid.uuid4().hex}", target.options))


def _make(target: Folder) -> None:
    os.makedirs(target.location.uri, exist_ok=True)


def _lines(state: PinnedState, pins: list[Pin], folder: Folder) -> list[WrittenFile]:
    session = active_session()
    tables = [TableAt(state.location, pin) for pin in pins if pin.row_count]
    shares = [fragment_groups(table) for table in tables]
    asked = [(number, group) for number, groups in enumerate(shares) if len(groups) > 1 for group in groups]
    found = inspect_groups(session, tables, asked)
    written: list[WrittenFile] = []
    direct = [(_part(number, 0), number, groups[0]) for number, groups in enumerate(shares) if len(groups) == 1]
    for number in sorted({number for number, _ in asked}):
        own = sorted((each for each in found if each.table == number and each.rows), key=lambda each: each.first)
        groups = [asked[each.group][1] for each in own]
        if all(a.last < b.first for a, b in pairwise(own)):
            direct += [(_part(number, place), number, group) for place, group in enumerate(groups)]
            continue
        cuts = _cuts([text for each in own for text in each.sample], len(own))
        names = [_part(number, place) for place in range(len(cuts) + 1)]
        written += write_ranges(session, tables[number], groups, cuts, folder, names)
    written += write_groups(session, tables, direct, folder, "jsonl")
    return sorted(written, key=lambda each: each.name)


def _part(table: int, place: int) -> str:
    """Names in the order of the export."""
    return f"part-{table:05d}-{place:05d}.jsonl"


def _cuts(sample: list[str], parts: int) -> list[str]:
    """Ids that cut a table into about equal ranges, from ids spread evenly over each group."""
    ordered = sorted(set(sample))  # by code points, which is the order of the bytes too
    return sorted({ordered[len(ordered) * number // parts] for number in range(1, parts)})


def _by_type(state: PinnedState, pins: list[Pin], folder: Folder, format_: str) -> list[WrittenFile]:
    tables = [TableAt(state.location, pin) for pin in pins]
    parts = list(_type_parts(tables, type_files(pins, format_), format_))
    return sorted(write_groups(active_session(), tables, parts, folder, format_), key=lambda each: each.name)


def _type_parts(tables: list[TableAt], names: list[str], format_: str) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """An empty type has one file too: it holds the schema."""
    for number, (table, name) in enumerate(zip(tables, names, strict=True)):
        for place, group in enumerate(fragment_groups(table) or [()]):
            yield f"{name}/part-{place:05d}.{format_}", number, group


Group = tuple[int, ...]

_FOUND = "table int, group int, rows long, first string, last string, sample array<string>"
_WRITTEN = "name string, bytes long"
_LINES = "range int, id string, line string"


@dataclass(frozen=True, slots=True)
class IdRange:
    """The ids of a group of fragments: their range, and some of them spread evenly."""

    table: int
    group: int
    rows: int
    first: str
    last: str
    sample: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WrittenFile:
    name: str
    bytes: int


def inspect_groups(session: SparkSession, tables: list[TableAt], groups: list[tuple[int, Group]]) -> list[IdRange]:
    """Where the ids of each group lie."""

    def look(number: int) -> dict[str, Any]:
        table, fragments = groups[number]
        ids = pa.chunked_array(
            [batch.column(0) for batch in scan_fragments(tables[table], fragments, [ID])], pa.string()
        )
        if len(ids) == 0:
            return {"table": table, "group": number, "rows": 0, "first": "", "last": "", "sample": []}
        ends = pc.min_max(ids)
        step = max(1, len(ids) // _EXPORT_SAMPLES)
        sample = ids.take(pa.array(range(0, len(ids), step), pa.int64()))
        first, last = ends["min"].as_py(), ends["max"].as_py()
        return {"table": table, "group": number, "rows": len(ids), "first": first, "last": last,
                "sample": sample.to_pylist()}  # fmt: skip

    schema = pa.schema([
        ("table", pa.int32()), ("group", pa.int32()), ("rows", pa.int64()), ("first", pa.string()),
        ("last", pa.string()), ("sample", pa.list_(pa.field("element", pa.string()))),
    ])  # fmt: skip
    rows = _each(session, len(groups), lambda number: pa.RecordBatch.from_pylist([look(number)], schema), _FOUND)
    return [IdRange(**(row.asDict() | {"sample": tuple(row["sample"])})) for row in rows]


def write_groups(
    session: SparkSession, tables: list[TableAt], parts: list[tuple[str, int, Group]], folder: Folder, format_: str
) -> list[WrittenFile]:
    """One file per part: the rows of some fragments, as lines in the order of their ids, as Parquet or as CSV."""
    writing = {"jsonl": _write_lines, "parquet": _write_parquet, "csv": _write_csv}[format_]

    def write(number: int) -> pa.RecordBatch:
        name, table, fragments = parts[number]
        with folder.file(name) as draft:
            writing(tables[table], fragments, draft)
            size = draft.stat().st_size
        return _written(name, size)

    return [WrittenFile(*row) for row in _each(session, len(parts), write, _WRITTEN)]


def write_ranges(
    session: SparkSession, table: TableAt, shares: list[Group], cuts: list[str], folder: Folder, names: list[str]
) -> list[WrittenFile]:
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
    return [WrittenFile(*row) for row in ordered.mapInArrow(write, _WRITTEN).collect()]


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


def _write_csv(table: TableAt, fragments: Group, draft: Path) -> None:
    schema = table.schema
    write_csv(draft, schema, scan_fragments(table, fragments, list(schema.names)) if fragments else ())


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
