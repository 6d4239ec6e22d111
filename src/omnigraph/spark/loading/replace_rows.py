"""Rows of a load that take the place of stored rows: a join by id, then new fragments and deletions by the executors.

A row that replaces another keeps its row id. A fragment in which every row replaces one is used as it is; one that
mixes them is written again as two. Stored fragments lose the replaced rows by a deletion vector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.spark.cluster import Cluster, Task, numbers
from omnigraph.spark.loading.key_scan import (
    KEY_COUNT,
    KEY_COUNT_DDL,
    KeyCounter,
    KeyScan,
    StagedPiece,
    StoredPiece,
    kept_rows,
)
from omnigraph.spark.messages import (
    MESSAGE_DDL,
    FragmentsWritten,
    ReplaceMessage,
    RowsDeleted,
    decode,
    encode,
    encode_group,
)
from omnigraph.storage.tables.row_lookup import find_rows
from omnigraph.storage.tables.task_staging import (
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
class ReplacedRows:
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


@dataclass(frozen=True, slots=True)
class IdJoin:
    """The rows of a load and of a table that may have an id in common.

    Attributes:
        staged: where the fragments of the load lie; stored: the table as the load finds it.
        looks_up: ids are looked up in the index of the table, instead of reading all of them.
    """

    staged: StageTable
    stored: StageTable
    pieces: Sequence[StagedPiece]
    old: Sequence[StoredPiece]
    looks_up: bool = False

    @property
    def rows(self) -> int:
        """How many rows are read."""
        read = 0 if self.looks_up else sum(piece.rows for piece in self.old)
        return sum(piece.rows for piece in self.pieces) + read

    def new_ids(self, batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows, ids = self._ids_of(number)
                columns = {"id": ids, "piece": np.full(len(rows), number), "row": rows}
                yield pa.RecordBatch.from_pydict(columns)

    def old_ids(self, batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        """Of every stored fragment, all ids."""
        handle = self.stored.open()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _places(read_stored(handle, self.old[number].fragment, ["id"]))

    def found_ids(self, batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        """Of every fragment of the load, the ids that are stored."""
        handle = self.stored.open()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _places(find_rows(handle, self._ids_of(number)[1]))

    def _ids_of(self, number: int) -> tuple[Any, pa.Array]:
        """Offsets and ids of the rows of a fragment of the load that are not left out."""
        piece = self.pieces[number]
        ids = read_staged(self.staged, piece.fragment, ["id"]).column("id").combine_chunks()
        rows = kept_rows(piece, len(ids))
        return rows, ids.take(pa.array(rows))

    def here(self) -> tuple[pa.Table, pa.Table]:
        """New and old ids in this process."""
        new = pa.Table.from_batches(self.new_ids(numbers(len(self.pieces))))
        return new, pa.Table.from_batches(self._old(numbers(len(self._asked))))

    def frames(self, cluster: Cluster) -> tuple[DataFrame, DataFrame]:
        """The same on Spark."""
        new = cluster.each(len(self.pieces), self.new_ids, _NEW_DDL)
        return new, cluster.each(len(self._asked), self._old, _OLD_DDL)

    @property
    def _asked(self) -> Sequence[Any]:
        return self.pieces if self.looks_up else self.old

    @property
    def _old(self) -> Task:
        return self.found_ids if self.looks_up else self.old_ids


def _places(rows: pa.Table) -> pa.RecordBatch:
    """Where stored rows lie, by id."""
    addresses = rows.column("_rowaddr").to_numpy()
    columns = {
        "id": rows.column("id").combine_chunks(),
        "fragment": (addresses >> np.uint64(32)).astype(np.int64),
        "offset": (addresses & _OFFSET).astype(np.int64),
        "row_id": rows.column("_rowid").to_numpy().astype(np.int64),
    }
    return pa.RecordBatch.from_pydict(columns)


def _counting(order: KeyScan, key: str, join: IdJoin) -> Callable[[pa.Table], pa.Table]:
    """The counts of one stored fragment: rows that stay, and rows that are replaced (``hit``)."""
    sizes = {piece.fragment: piece.rows for piece in join.old}

    def run(group: pa.Table) -> pa.Table:
        fragment = group.column("fragment")[0].as_py()
        gone = group.filter(group.column("hit")).column("offset").to_numpy()
        counter = KeyCounter(order)
        counter.add(StoredPiece(key, fragment, sizes[fragment]), lambda rows: _among(rows, gone))
        return pa.Table.from_batches(list(counter.batches()), schema=KEY_COUNT)

    return run


def key_counts_here(order: KeyScan, key: str, join: IdJoin) -> list[pa.RecordBatch]:
    """The counts of the stored fragments of a small merge."""
    new, old = join.here()
    marked = old.append_column("hit", pc.is_in(old.column("id"), value_set=new.column("id")))
    see = _counting(order, key, join)
    return [batch for group in _groups(marked, ["fragment"]) for batch in see(group).to_batches()]


def key_counts(cluster: Cluster, order: KeyScan, key: str, join: IdJoin) -> DataFrame:
    """The same on Spark."""
    from pyspark.sql import functions as f

    new, old = join.frames(cluster)
    joined = old.join(new.select("id", f.lit(True).alias("hit")), "id", "left")
    marked = joined.select("fragment", "offset", f.coalesce("hit", f.lit(False)).alias("hit"))
    return marked.groupBy("fragment").applyInArrow(_counting(order, key, join), KEY_COUNT_DDL)


def _writing(join: IdJoin) -> Callable[[pa.Table], pa.Table]:
    """Writes what the matches of one fragment ask for: of the load (side 0) or of the table (side 1)."""
    staged, stored, pieces = join.staged, join.stored, join.pieces

    def run(group: pa.Table) -> pa.Table:
        number = group.column("number")[0].as_py()
        rows, row_ids = (group.column(name).to_numpy() for name in ("row", "row_id"))
        if group.column("side")[0].as_py():
            left = delete_stored(stored, stored.open(), number, rows)
            return encode_group([RowsDeleted(number, len(rows), left)])
        fragments = _split(staged, pieces[number], rows, row_ids.astype(np.uint64))
        return encode_group([FragmentsWritten(number, tuple(fragments))])

    return run


def _written_here(join: IdJoin) -> list[Any]:
    new, old = join.here()
    joined = new.join(old, "id", join_type="inner")
    sides = []
    for side, (number, row) in enumerate((("piece", "row"), ("fragment", "offset"))):
        columns = {"side": pa.array(np.full(joined.num_rows, side)), "number": joined.column(number)}
        sides.append(pa.table(columns | {"row": joined.column(row), "row_id": joined.column("row_id")}))
    write = _writing(join)
    groups = _groups(pa.concat_tables(sides), ["side", "number"])
    return [row for group in groups for row in write(group).to_pylist()]


def _written(cluster: Cluster, join: IdJoin) -> list[Any]:
    from pyspark.sql import functions as f

    new, old = join.frames(cluster)
    joined = new.join(old, "id")
    ours = joined.select(f.lit(0).alias("side"), f.col("piece").alias("number"), "row", "row_id")
    theirs = joined.select(
        f.lit(1).alias("side"), f.col("fragment").alias("number"), f.col("offset").alias("row"), "row_id"
    )
    grouped = ours.union(theirs).groupBy("side", "number")
    return cluster.collect(grouped.applyInArrow(_writing(join), MESSAGE_DDL))


def replace_rows(cluster: Cluster, join: IdJoin) -> ReplacedRows:
    """Write new fragments and deletions so that rows of the load take the place of stored rows with their ids."""
    pieces = join.pieces
    collected = _written_here(join) if cluster.runs_here(join.rows) else _written(cluster, join)
    result = ReplacedRows([], [], [])
    untouched = set(range(len(pieces)))
    for message in decode(collected, ReplaceMessage):
        match message:
            case FragmentsWritten():
                untouched.discard(message.number)
                result.fragments += message.fragments
            case RowsDeleted():
                result.rows += message.rows
                if message.left is None:
                    result.removed.append(message.fragment)
                else:
                    result.changed.append(message.left)
    result.fragments += without_dropped(cluster, join.staged, [pieces[number] for number in sorted(untouched)])
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
                yield encode([FragmentsWritten(task, tuple(written))])

    if not touched:
        return [piece.fragment for piece in pieces]
    told = cluster.messages(FragmentsWritten, len(touched), run, sum(piece.rows for piece in touched))
    written = {touched[each.number].fragment: each.fragments for each in told}
    return [text for piece in pieces for text in written.get(piece.fragment, (piece.fragment,))]


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
    return rows.take(pa.array(kept_rows(piece, rows.num_rows)))


def _among(rows: pa.Table, offsets: Any) -> pa.Array:
    here = (rows.column("_rowaddr").to_numpy() & _OFFSET).astype(np.int64)
    return pa.array(np.isin(here, offsets))


def _groups(rows: pa.Table, names: list[str]) -> Iterator[pa.Table]:
    """The rows of each combination of values."""
    for values in rows.select(names).group_by(names).aggregate([]).to_pylist():
        masks = [pc.equal(rows.column(name), value) for name, value in values.items()]
        yield rows.filter(reduce(pc.and_, masks))
