"""Brings few rows of a load to the driver: those with certain keys, and the lines that rows came from.

Only used when a rule is broken or rows of a merge fall together. What is brought is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import ResourceLimitExceeded
from omnigraph.spark.cluster import Cluster
from omnigraph.spark.loading.key_scan import KeyScan, StagedPiece, StoredPiece
from omnigraph.spark.loading.splits import ParsedSplit
from omnigraph.spark.loading.stage_task import StageConfig
from omnigraph.spark.loading.staged import SplitId, Staging
from omnigraph.spark.messages import LinesFound, RowsFetched, encode
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.task_staging import read_staged, read_stored, read_whole
from omnigraph.text_hash import hash_texts
from omnigraph.write.change import type_of
from omnigraph.write.load.valid_rows import LINE
from omnigraph.write.set_rules import tuple_texts

PLACE = "#place"  # no property can be called so

_ROW_BYTES = 100  # of a line, about


@dataclass(frozen=True, slots=True)
class Wanted:
    """Rows of a type whose key has one of these numbers.

    Attributes:
        space: space in which the key was numbered.
    """

    key: str
    columns: tuple[str, ...]
    space: int
    hashes: tuple[int, ...]


def fetch_staged(
    cluster: Cluster, order: KeyScan, wanted: Sequence[Wanted], pieces: Sequence[StagedPiece], whole: bool
) -> dict[str, pa.Table]:
    """Rows of the load with one of the wanted keys, by table key, with ``#place``; all columns, or just the ids."""
    tasks = [piece for piece in pieces if any(each.key == piece.key for each in wanted)]
    if not tasks:
        return {}
    by_key: dict[str, list[Wanted]] = {}
    for each in wanted:
        by_key.setdefault(each.key, []).append(each)

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                piece = tasks[task]
                found = _matching(order, piece, by_key[piece.key], whole)
                if found.num_rows:
                    yield encode([RowsFetched.of(piece.key, found)])

    found: dict[str, list[pa.Table]] = {}
    rows = 0
    for fetched in cluster.messages(RowsFetched, len(tasks), run, sum(piece.rows for piece in tasks)):
        rows += fetched.rows
        if rows > limits.SETTLED_ROWS:
            raise too_many_rows(rows)
        found.setdefault(fetched.table_key, []).append(fetched.table())
    return {key: _ordered(pa.concat_tables(tables)) for key, tables in found.items()}


def too_many_rows(rows: int) -> ResourceLimitExceeded:
    error = ResourceLimitExceeded("rows that break a rule together", rows, limits.SETTLED_ROWS)
    error.hint = "nothing was loaded; correct the input"
    return error


def fetch_stored(cluster: Cluster, order: KeyScan, wanted: Wanted, pieces: Sequence[StoredPiece]) -> pa.Table:
    """Stored rows with one of the wanted keys: ``id``, the columns of the key, row id and address."""
    columns = sorted({"id", *wanted.columns})

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                rows = read_stored(order.stored[wanted.key].open(), pieces[task].fragment, columns)
                found = rows.filter(_hits(order, wanted, rows)).slice(0, limits.SUSPECTS)
                if found.num_rows:
                    yield encode([RowsFetched.of(wanted.key, found)])

    fetched = cluster.messages(RowsFetched, len(pieces), run, sum(piece.rows for piece in pieces))
    empty = pa.schema([*((name, pa.string()) for name in columns), ("_rowid", pa.uint64()), ("_rowaddr", pa.uint64())])
    return pa.concat_tables([empty.empty_table(), *(each.table().cast(empty) for each in fetched)])


def lines_of_rows(
    cluster: Cluster, config: StageConfig, staging: Staging, rows: Mapping[str, Sequence[int]]
) -> dict[tuple[str, int], tuple[int, int]]:
    """Part and line of rows, by table key and place: the splits they came from are read again."""
    asked: dict[SplitId, dict[str, dict[int, int]]] = {}
    for key, places in rows.items():
        for place in places:
            split, position = staging.origin(key, place)
            asked.setdefault(split, {}).setdefault(key, {})[position] = place
    found: dict[tuple[str, int], tuple[int, int]] = {}
    again = []
    for split, keys in asked.items():
        if config.parts[split[0]].table is None:
            again.append((split, keys))
            continue
        bad = [each.line for each in staging.found.get(split, ())]
        before = staging.lines_before(split)
        for key, positions in keys.items():
            for position, place in positions.items():
                found[key, place] = (split[0], _skipping(position + 1, bad, before) + before)
    if again:
        about = sum(config.splits[number].weight for (_, number), _ in again) // _ROW_BYTES
        for told in cluster.messages(LinesFound, len(again), _numbering(config, staging, again), about):
            split, keys = again[told.task]
            for position, line in zip(told.positions, told.lines, strict=True):
                found[told.table_key, keys[told.table_key][position]] = (split[0], line)
    return found


def _numbering(config: StageConfig, staging: Staging, again: list[Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    before = [staging.lines_before(split) for split, _ in again]

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                (part, number), keys = again[task]
                split = config.splits[number]
                seen = dict.fromkeys(keys, 0)
                wanted = {key: np.sort(np.fromiter(positions, np.int64)) for key, positions in keys.items()}
                told = []
                for parsed in ParsedSplit(config.catalog, config.parts[part], split, before[task] + 1, config.reading):
                    for key in keys:
                        for rows in parsed.rows.get(key, ()):
                            lines = rows.rows.column(LINE).to_numpy()
                            first, seen[key] = seen[key], seen[key] + len(lines)
                            low, high = np.searchsorted(wanted[key], [first, seen[key]])
                            here = wanted[key][low:high]
                            at = tuple(here.tolist()), tuple(lines[here - first].tolist())
                            told.append(LinesFound(task, key, *at))
                yield encode(told)

    return run


def _skipping(row: int, bad: Sequence[int], before: int) -> int:
    """Number of the n-th row that is not bad."""
    for line in sorted(line - before for line in bad):
        if line <= row:
            row += 1
    return row


def _matching(order: KeyScan, piece: StagedPiece, wanted: Sequence[Wanted], whole: bool) -> pa.Table:
    table = order.tables[piece.key]
    columns = sorted({"id", *(column for each in wanted for column in each.columns)})
    keys = read_staged(table, piece.fragment, columns)
    mask = np.zeros(keys.num_rows, bool)
    for each in wanted:
        mask |= _hits(order, each, keys).to_numpy(zero_copy_only=False)
    mask[list(piece.dropped)] = False
    rows = np.flatnonzero(mask)
    places = pa.array(rows + piece.first)
    if len(rows) == 0 or not whole:
        return keys.select(["id"]).take(pa.array(rows)).append_column(PLACE, places)
    handle: LanceTable = table.open()
    return read_whole(table, handle, piece.fragment).take(pa.array(rows)).append_column(PLACE, places)


def _hits(order: KeyScan, wanted: Wanted, rows: pa.Table) -> pa.Array:
    texts = tuple_texts(type_of(order.catalog, wanted.key), rows, wanted.columns)
    present = pc.is_valid(texts)
    hashes = hash_texts(texts.drop_null(), order.secret, wanted.space)
    mask = np.zeros(rows.num_rows, bool)
    mask[present.to_numpy(zero_copy_only=False)] = np.isin(hashes, np.array(wanted.hashes, np.int64))
    return pa.array(mask)


def _ordered(rows: pa.Table) -> pa.Table:
    return rows.sort_by(PLACE).combine_chunks()
