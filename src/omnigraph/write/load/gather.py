"""Source → every row of a load, valid on its own, in memory as Arrow. Knows files and rows, but no stored graph."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import InputError, OmniGraphError, ResourceLimitExceeded
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog
from omnigraph.write.change import Mode, type_of
from omnigraph.write.load.line_blocks import Block, blocks
from omnigraph.write.load.load_source import Format, Part, Source, parts_of
from omnigraph.write.load.parse_lines import Dialect, Parsed, parse_block
from omnigraph.write.load.tabular import parse_part
from omnigraph.write.load.valid_rows import LINE
from omnigraph.write.load.violations import Violation, failure

#: Blocks of a load are parsed by this many threads. Parsing is Arrow's work, which runs beside Python.
_LOAD_THREADS = 4


FILE = "#file"  # no property can be called so


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

    @property
    def tolerated(self) -> int:
        return self.max_rejects if self.on_error is OnError.REJECT else 0


def request_of(source: Source, mode: str, on_error: str, max_rejects: int | None, **rest: str | None) -> LoadRequest:
    """A request from what a caller gave."""
    most = limits.LOAD_MAX_REJECTS if max_rejects is None else max_rejects
    if most < 0:
        raise InputError(f"max_rejects is {most}, which is less than 0")
    return LoadRequest(source, _choice(Mode, "mode", mode), _choice(OnError, "on_error", on_error), most, **rest)


def _choice(kind: Any, name: str, value: str) -> Any:
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
    """

    files: list[str] = field(default_factory=list)
    rows: dict[str, pa.Table] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    found: list[Violation] = field(default_factory=list)


def read(catalog: Catalog, request: LoadRequest) -> Gathered:
    """Read and check every row of the source. Nothing is written.

    Raises:
        InputError: a file cannot be read, or, unless bad rows are to be rejected, a row is bad.
        ResourceLimitExceeded: too many bad rows, a line or a column is too long.
    """
    gathered = Gathered()
    pieces: dict[str, list[pa.Table]] = {}
    stale: set[str] = set()
    most = request.tolerated + 1 if request.on_error is OnError.REJECT else limits.LOAD_COUNTED_VIOLATIONS
    for number, part in enumerate(parts_of(catalog, request.source, request.format, request.type)):
        gathered.files.append(part.name)
        for parsed in _parsed(catalog, part, most):
            gathered.found += parsed.violations
            if len(gathered.found) >= most:
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


def _parsed(catalog: Catalog, part: Part, most: int) -> Iterator[Parsed]:
    if part.format not in (Format.JSONL, Format.JSON):
        yield from parse_part(part, most)
        return
    dialect = Dialect(catalog, part.type, most)
    yield from _side_by_side(lambda block: parse_block(block, dialect), blocks(part.name))


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
