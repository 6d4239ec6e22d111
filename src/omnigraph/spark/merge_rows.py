"""Rows of a load that take the place of stored rows: a join by id, then new fragments and deletions by the executors.

A row that replaces another keeps its row id. A fragment in which every row replaces one is used as it is; one that
mixes them is written again as two. Stored fragments lose the replaced rows by a deletion vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph.spark.cluster import Cluster
from omnigraph.spark.key_task import SIGHTING, SIGHTING_DDL, KeyOrder, Sightings, StagedPiece, StoredPiece
from omnigraph.spark.wire import ANSWER_DDL, Answer, answers_of, batch_of
from omnigraph.storage.remote_stage import (
    StageTable,
    delete_stored,
    read_staged,
    read_stored,
    read_whole,
    with_row_ids,
    write_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEW_DDL = "id string, piece long, row long"
_OLD_DDL = "id string, fragment long, offset long, row_id long"
_OFFSET = np.uint64(0xFFFFFFFF)


@dataclass(slots=True)
class Replaced:
    """What a merge makes of the fragments of one type.

    Attributes:
        fragments: to be added.
        changed: stored ones with more deletions; removed: those without a row left.
        rows: how many stored rows are replaced.
    """

    fragments: list[str]
    changed: list[str]
    removed: list[int]
    rows: int = 0


def matches(
    cluster: Cluster, staged: StageTable, stored: StageTable, pieces: Sequence[StagedPiece], old: Sequence[StoredPiece]
) -> DataFrame:
    """Rows of the load (``piece``, ``row``) that have the id of a stored row (``fragment``, ``offset``, ``row_id``)."""
    return _new_ids(cluster, staged, pieces).join(_old_ids(cluster, stored, old), "id")


def _new_ids(cluster: Cluster, staged: StageTable, pieces: Sequence[StagedPiece]) -> DataFrame:
    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                ids = read_staged(staged, pieces[number].fragment, ["id"]).column("id").combine_chunks()
                rows = np.delete(np.arange(len(ids)), list(pieces[number].dropped))
                columns = {"id": ids.take(pa.array(rows)), "piece": np.full(len(rows), number), "row": rows}
                yield pa.RecordBatch.from_pydict(columns)

    return cluster.each(len(pieces), run, _NEW_DDL)


def _old_ids(cluster: Cluster, stored: StageTable, old: Sequence[StoredPiece]) -> DataFrame:
    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        handle = stored.open()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = read_stored(handle, old[number].fragment, ["id"])
                offsets = rows.column("_rowaddr").to_numpy() & _OFFSET
                columns = {
                    "id": rows.column("id").combine_chunks(),
                    "fragment": np.full(rows.num_rows, old[number].fragment),
                    "offset": offsets.astype(np.int64),
                    "row_id": rows.column("_rowid").to_numpy().astype(np.int64),
                }
                yield pa.RecordBatch.from_pydict(columns)

    return cluster.each(len(old), run, _OLD_DDL)


def sightings(
    cluster: Cluster, order: KeyOrder, key: str, pieces: Sequence[StagedPiece], old: Sequence[StoredPiece]
) -> DataFrame:
    """What is seen of stored fragments in a merge: rows that stay, and rows that are replaced."""
    from pyspark.sql import functions as f

    sizes = {piece.fragment: piece.rows for piece in old}

    def run(group: pa.Table) -> pa.Table:
        fragment = group.column("fragment")[0].as_py()
        gone = group.filter(group.column("hit")).column("offset").to_numpy()
        seen = Sightings(order)
        seen.add(StoredPiece(key, fragment, sizes[fragment]), lambda rows: _among(rows, gone))
        return pa.Table.from_batches(list(seen.batches()), schema=SIGHTING)

    new = _new_ids(cluster, order.tables[key], pieces).select("id", f.lit(True).alias("hit"))
    joined = _old_ids(cluster, order.stored[key], old).join(new, "id", "left")
    marked = joined.select("fragment", "offset", f.coalesce("hit", f.lit(False)).alias("hit"))
    return marked.groupBy("fragment").applyInArrow(run, SIGHTING_DDL)


def replace_rows(
    cluster: Cluster, staged: StageTable, stored: StageTable, pieces: Sequence[StagedPiece], joined: DataFrame
) -> Replaced:
    """Write what the matches ask for."""
    from pyspark.sql import functions as f

    new = joined.select(f.lit(0).alias("side"), "piece", "row", "row_id").withColumnRenamed("piece", "number")
    old = joined.select(f.lit(1).alias("side"), "fragment", "offset", "row_id").withColumnRenamed("fragment", "number")
    both = new.union(old.withColumnRenamed("offset", "row"))

    def run(group: pa.Table) -> pa.Table:
        number = group.column("number")[0].as_py()
        rows, row_ids = (group.column(name).to_numpy() for name in ("row", "row_id"))
        if group.column("side")[0].as_py():
            left = delete_stored(stored, stored.open(), number, rows)
            answer = Answer(number, "removed" if left is None else "changed", [left, len(rows)])
        else:
            answer = Answer(number, "new", _split(staged, pieces[number], rows, row_ids.astype(np.uint64)))
        return pa.Table.from_batches([batch_of([answer])])

    result = Replaced([], [], [])
    untouched = set(range(len(pieces)))
    collected = cluster.collect(both.groupBy("side", "number").applyInArrow(run, ANSWER_DDL))
    for answer in answers_of(collected):
        if answer.word == "new":
            untouched.discard(answer.number)
            result.fragments += answer.body
        else:
            left, rows = answer.body
            result.rows += rows
            if left is None:
                result.removed.append(answer.number)
            else:
                result.changed.append(left)
    result.fragments += without_dropped(cluster, staged, [pieces[number] for number in sorted(untouched)])
    return result


def without_dropped(cluster: Cluster, staged: StageTable, pieces: Sequence[StagedPiece]) -> list[str]:
    """Fragments without the rows that are left out; those that lose none are used as they are."""
    touched = [piece for piece in pieces if piece.dropped]

    def run(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                handle = staged.open()
                rows = _kept(read_whole(staged, handle, touched[task].fragment), touched[task])
                written = write_rows(staged, handle, rows) if rows.num_rows else []
                yield batch_of([Answer(task, "new", written)])

    if not touched:
        return [piece.fragment for piece in pieces]
    answers = answers_of(cluster.collect(cluster.each(len(touched), run, ANSWER_DDL)))
    written = {touched[answer.number].fragment: answer.body for answer in answers}
    return [text for piece in pieces for text in written.get(piece.fragment, [piece.fragment])]


def _split(table: StageTable, piece: StagedPiece, rows: Any, row_ids: Any) -> list[str]:
    """A staged fragment as rows that replace, with the row ids they keep, and rows that are new."""
    order = np.argsort(rows)
    rows, row_ids = rows[order], row_ids[order]
    if len(rows) == piece.rows:
        return [with_row_ids(piece.fragment, row_ids)]
    handle = table.open()
    whole = read_whole(table, handle, piece.fragment)
    (updates,) = write_rows(table, handle, whole.take(pa.array(rows)))
    is_new = np.ones(piece.rows, bool)
    is_new[rows] = False
    is_new[list(piece.dropped)] = False
    inserts = write_rows(table, handle, whole.filter(pa.array(is_new))) if is_new.any() else []
    return [with_row_ids(updates, row_ids), *inserts]


def _kept(rows: pa.Table, piece: StagedPiece) -> pa.Table:
    keep = np.ones(rows.num_rows, bool)
    keep[list(piece.dropped)] = False
    return rows.filter(pa.array(keep))


def _among(rows: pa.Table, offsets: Any) -> pa.Array:
    here = (rows.column("_rowaddr").to_numpy() & _OFFSET).astype(np.int64)
    return pa.array(np.isin(here, offsets))
