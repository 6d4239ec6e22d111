"""Source → every row of a load, valid on its own, in memory as Arrow. What is stored it only knows as far as rows of a
merge mean stored ones."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph import given, limits
from omnigraph.errors import InputError, OmniGraphError, ResourceLimitExceeded
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.write.change import Mode, type_of
from omnigraph.write.load.line_blocks import Block, blocks
from omnigraph.write.load.load_source import Format, Part, Source, parts_of, settled
from omnigraph.write.load.parse_lines import Dialect, Parsed, parse_block
from omnigraph.write.load.record_lines import RecordLines
from omnigraph.write.load.stored_matches import StoredMatches
from omnigraph.write.load.tabular import parse_part
from omnigraph.write.load.valid_rows import LINE, Reading
from omnigraph.write.load.violations import Violation, failure

#: Blocks of a load are parsed by this many threads. Parsing is Arrow's work, which runs beside Python.
_LOAD_THREADS = 4


FILE = "#file"  # no property can be called so


class Times(StrEnum):
    """What a time means that is finer than the millisecond a DateTime keeps."""

    EXACT = "exact"  # the row is bad
    ROUND = "round"  # the nearest millisecond, a half becomes the later one


class Columns(StrEnum):
    """What a merge does to the columns of a stored row that the input does not have."""

    REPLACE = "replace"  # they become null: the row is replaced as a whole
    KEEP = "keep"  # they stay


class OnError(StrEnum):
    """What a bad row means."""

    FAIL = "fail"  # nothing is loaded
    REJECT = "reject"  # it is left out and reported


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What to load and how; see `Graph.load`."""

    source: Source
    mode: Mode
    on_error: OnError = OnError.FAIL
    max_rejects: int = limits.LOAD_MAX_REJECTS
    format: str | None = None
    type: str | None = None
    times: Times = Times.EXACT
    columns: Columns = Columns.REPLACE

    @property
    def keeps(self) -> bool:
        return self.columns is Columns.KEEP

    @property
    def tolerated(self) -> int:
        return self.max_rejects if self.on_error is OnError.REJECT else 0

    @property
    def reading(self) -> Reading:
        """How rows are read: a load that fails anyway stops looking sooner."""
        most = self.tolerated + 1 if self.on_error is OnError.REJECT else limits.LOAD_COUNTED_VIOLATIONS
        return Reading(most, self.times is Times.ROUND)


def request_of(
    source: Source, mode: str, on_error: str, max_rejects: int | None, times: str, columns: str, **rest: str | None
) -> LoadRequest:
    """A request from what a caller gave."""
    most = limits.LOAD_MAX_REJECTS if max_rejects is None else given.count(max_rejects, "max_rejects")
    request = LoadRequest(
        settled(source),
        chosen(Mode, "mode", mode),
        chosen(OnError, "on_error", on_error),
        most,
        times=chosen(Times, "times", times),
        columns=chosen(Columns, "columns", columns),
        **rest,
    )
    if request.keeps and request.mode is not Mode.MERGE:
        raise InputError(f"columns='keep' says nothing about mode '{mode}'", hint="only 'merge' changes stored rows")
    return request


def chosen(kind: Any, name: str, value: str) -> Any:
    """One of the words of an enumeration, or an error that lists them."""
    try:
        return kind(value)
    except ValueError:
        raise InputError(f"{name} {value!r} is not one of {', '.join(map(repr, map(str, kind)))}") from None


@dataclass(slots=True)
class Gathered:
    """The rows of a load, valid on their own, with where each came from.

    Attributes:
        rows: by table key; the columns of the table, then ``#file`` (a position in ``files``) and ``#line``.
        fresh: table keys whose ids were all just made.
        found: violations so far, in the order of the input.
        lines: where the records of each CSV file begin; in ``#line`` they have their numbers.
    """

    files: list[str] = field(default_factory=list)
    rows: dict[str, pa.Table] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    found: list[Violation] = field(default_factory=list)
    lines: dict[str, RecordLines] = field(default_factory=dict)


def read(catalog: Catalog, request: LoadRequest, stored: StoredMatches | None = None) -> Gathered:
    """Read and check every row of the source. Nothing is written.

    Args:
        stored: rows that those of a merge may mean.

    Raises:
        InputError: a file cannot be read, or, unless bad rows are to be rejected, a row is bad.
        ResourceLimitExceeded: too many bad rows, a line or a column is too long.
    """
    gathered = Gathered()
    pieces: dict[str, list[pa.Table]] = {}
    stale: set[str] = set()
    reading = replace(request.reading, stored=stored)
    for number, part in enumerate(parts_of(catalog, request.source, request.format, request.type)):
        gathered.files.append(part.name)
        if part.type is not None:
            pieces.setdefault(part.type.table_key, [_no_rows(catalog, part.type.table_key)])
        lines = RecordLines.of(part)
        if lines is not None:
            gathered.lines[part.name] = lines
        for parsed in _parsed(catalog, part, reading, lines):
            gathered.found += parsed.violations
            if len(gathered.found) >= reading.most:
                raise give_up(request, gathered.found)
            if gathered.found and request.on_error is OnError.FAIL:
                pieces.clear()  # only looking for further violations now
                continue
            for key, batches in parsed.rows.items():
                kept = pieces.setdefault(key, [_no_rows(catalog, key)])
                for batch in batches:
                    file = pa.array(np.full(batch.rows.num_rows, number, np.int32))
                    kept.append(batch.rows.append_column(FILE, file))
                    stale |= set() if batch.fresh_ids else {key}
    if gathered.found and request.on_error is OnError.FAIL:
        raise failure(gathered.found)
    gathered.rows = {key: _whole(key, tables) for key, tables in pieces.items()}
    gathered.fresh = set(gathered.rows) - stale
    return gathered


def _no_rows(catalog: Catalog, key: str) -> pa.Table:
    """An empty table of a type's rows, with the columns that say where they came from."""
    schema = table_schema(type_of(catalog, key))
    return pa.schema([*schema, (LINE, pa.int64()), (FILE, pa.int32())]).empty_table()


def _whole(key: str, tables: list[pa.Table]) -> pa.Table:
    whole = pa.concat_tables(tables)
    for name, column in zip(whole.column_names, whole.columns, strict=True):
        if column.nbytes > limits.LOAD_COLUMN_BYTES:
            error = ResourceLimitExceeded("bytes of one column in one load", column.nbytes, limits.LOAD_COLUMN_BYTES)
            error.hint = f"'{name}' of '{key}'; split the input, or load it with Spark"
            raise error
    return whole


def _parsed(catalog: Catalog, part: Part, reading: Reading, lines: RecordLines | None) -> Iterator[Parsed]:
    if part.format not in (Format.JSONL, Format.JSON):
        yield from parse_part(part, reading, lines=lines)
        return
    dialect = Dialect(catalog, part.type, reading)
    yield from _side_by_side(lambda block: parse_block(block, dialect), blocks(part.name, stream=part.stream))


def _side_by_side(parse: Callable[[Block], Parsed], given: Iterable[Block]) -> Iterator[Parsed]:
    """Blocks parsed by a few threads, answers in order; only a few blocks are in memory."""
    threads = min(_LOAD_THREADS, os.cpu_count() or 1)
    waiting: deque[Future[Parsed]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for block in given:
                waiting.append(pool.submit(parse, block))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def give_up(request: LoadRequest, found: list[Violation]) -> OmniGraphError:
    if request.on_error is OnError.FAIL:
        return failure(found)
    first = failure(found)
    error = ResourceLimitExceeded("rejects", len(found), request.tolerated)
    error.hint = f"nothing was loaded; the first: {first}"
    error.details |= {name: first.details[name] for name in ("file", "line", "violations") if name in first.details}
    return error
