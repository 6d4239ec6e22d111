"""The task that reads: splits → row rules → files of Lance fragments. Only metadata goes back to the driver.

Memory is a block of input and at most one unfinished fragment per type. A task that is tried again or run twice writes
other files; the driver takes the metadata of one of them, and the files of the others are reachable by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from omnigraph import failpoints, limits
from omnigraph.errors import InternalError, OmniGraphError, StorageError
from omnigraph.schema.catalog import Catalog
from omnigraph.spark.loading.splits import ParsedSplit, Split
from omnigraph.spark.messages import (
    FragmentStaged,
    RowRange,
    RowRefused,
    SplitFailed,
    SplitRead,
    StagingMessage,
    TaskError,
    encode,
)
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.task_staging import StageTable, rows_of, write_rows
from omnigraph.write.load.load_source import Format, Part
from omnigraph.write.load.parse_lines import Parsed
from omnigraph.write.load.tabular import parse_part
from omnigraph.write.load.valid_rows import LINE, Reading, RowBatch


@dataclass(frozen=True, slots=True)
class StageConfig:
    """What all tasks of a load are told.

    Attributes:
        tables: where rows of each table key are staged.
        reading: how rows are read; a task stops looking after its most bad rows.
        keeps: bad rows are left out; otherwise the first one ends the writing.
    """

    catalog: Catalog
    parts: tuple[Part, ...]
    splits: tuple[Split, ...]
    tables: Mapping[str, StageTable]
    reading: Reading
    keeps: bool
    first_lines: Mapping[int, int] = field(default_factory=dict)


def stage_splits(config: StageConfig, tasks: list[range]) -> Callable[[Iterator[Any]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over task numbers."""

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for message in _stage(config, ((number, _parsed(config, number)) for number in tasks[task])):
                    yield encode([message])

    return run


def stage_frame(config: StageConfig, part: Part) -> Callable[[Iterator[Any]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over the rows of a DataFrame."""

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for message in stage_partition(config, part, batches):
            yield encode([message])

    return run


def stage_partition(config: StageConfig, part: Part, batches: Iterator[pa.RecordBatch]) -> Iterator[StagingMessage]:
    """Stage the rows of one partition of a DataFrame; each partition is a split."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.partitionId() if context is not None else 0
    yield from _stage(config, [(number, _Frame(part, batches, config.reading))])


class _Frame:
    """Parsed batches of one partition; rows are numbered within it."""

    def __init__(self, part: Part, batches: Iterator[pa.RecordBatch], reading: Reading) -> None:
        self._part = part
        self._batches = batches
        self._reading = reading
        self.count = 0

    def __iter__(self) -> Iterator[Parsed]:
        for batch in self._batches:
            part = Part(self._part.name, Format.ARROW, self._part.type, pa.Table.from_batches([batch]))
            yield from parse_part(part, self._reading, first_row=self.count + 1)
            self.count += batch.num_rows


def _parsed(config: StageConfig, number: int) -> ParsedSplit:
    split = config.splits[number]
    first = config.first_lines.get(number, 1)
    return ParsedSplit(config.catalog, config.parts[split.part], split, first, config.reading)


def _stage(config: StageConfig, splits: Iterable[tuple[int, ParsedSplit | _Frame]]) -> Iterator[StagingMessage]:
    buffers: dict[str, _Buffer] = {}
    for number, parsed_blocks in splits:
        found = 0
        seen: dict[str, int] = {}
        try:
            for parsed in parsed_blocks:
                found += len(parsed.violations)
                yield from (RowRefused.of(number, each) for each in parsed.violations)
                if found >= config.reading.most:
                    break
                if not config.tables or (found and not config.keeps):
                    buffers.clear()  # only looking for further violations now
                    continue
                for key, batches in parsed.rows.items():
                    seen.setdefault(key, 0)
                    if key not in config.tables:
                        continue  # the driver refuses a type that the branch does not have
                    for rows in batches:
                        buffer = buffers.setdefault(key, _Buffer(key, config.tables[key]))
                        buffer.add(number, seen[key], rows)
                        seen[key] += rows.rows.num_rows
                        yield from buffer.full()
        except (StorageError, InternalError):
            raise  # Spark tries again
        except OmniGraphError as error:
            yield SplitFailed(number, TaskError.of(error))
        yield SplitRead(number, parsed_blocks.count, seen)
    for buffer in buffers.values():
        yield from buffer.rest()


class _Buffer:
    """Rows of one type that wait until they fill a fragment, with where they came from."""

    def __init__(self, key: str, table: StageTable) -> None:
        self._key = key
        self._table = table
        self._handle: LanceTable | None = None
        self._rows: list[pa.Table] = []
        self._ranges: list[RowRange] = []
        self._bytes = 0
        self._count = 0

    def add(self, split: int, first: int, batch: RowBatch) -> None:
        rows = batch.rows.drop_columns([LINE])
        if rows.num_rows == 0:
            return
        self._rows.append(rows)
        self._ranges.append(RowRange(split, first, rows.num_rows, batch.fresh_ids))
        self._bytes += rows.nbytes
        self._count += rows.num_rows

    def full(self) -> Iterator[FragmentStaged]:
        while self._count >= limits.FRAGMENT_ROWS or self._bytes >= limits.STAGE_BYTES:
            yield from self._write(min(self._count, limits.FRAGMENT_ROWS))

    def rest(self) -> Iterator[FragmentStaged]:
        if self._count:
            yield from self._write(self._count)

    def _write(self, count: int) -> Iterator[FragmentStaged]:
        failpoints.reach("spark.before_fragment")
        if self._handle is None:
            self._handle = self._table.open()
        whole = pa.concat_tables(self._rows)
        fragments = write_rows(self._table, self._handle, whole.slice(0, count))
        rest = whole.slice(count)
        ranges, self._ranges = _cut(self._ranges, count)
        self._rows = [rest] if rest.num_rows else []
        self._count, self._bytes = rest.num_rows, rest.nbytes if rest.num_rows else 0
        for fragment in fragments:
            size = rows_of(fragment)
            own, ranges = _cut(ranges, size)
            yield FragmentStaged(self._key, fragment, size, tuple(own))


def _cut(ranges: Sequence[RowRange], count: int) -> tuple[list[RowRange], list[RowRange]]:
    """The first so many rows of some ranges, and the rest."""
    taken: list[RowRange] = []
    for position, each in enumerate(ranges):
        if each.rows > count:
            head = [replace(each, rows=count)] if count else []
            rest = replace(each, first=each.first + count, rows=each.rows - count)
            return [*taken, *head], [rest, *ranges[position + 1 :]]
        taken.append(each)
        count -= each.rows
    return taken, []
