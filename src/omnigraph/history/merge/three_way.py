"""What becomes of each row when two sides changed a table since their base.

A function from Arrow to Arrow over the changes of both sides; rows that the source left alone never appear. It knows
no tables and no versions, so it can run on any part of the ids: what it says about an id depends on that id alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.tables.row_equality import same_rows

DIVERGENT_INSERT = "DivergentInsert"
DIVERGENT_UPDATE = "DivergentUpdate"
DELETE_VS_UPDATE = "DeleteVsUpdate"

_KINDS = pa.schema([pa.field("id", pa.string()), pa.field("kind", pa.string())])


@dataclass(frozen=True, slots=True)
class MergeSide:
    """How one side differs from the base, by id. An id is in at most one of the three.

    Attributes:
        rows: the rows of some inserted or updated ids as this side has them now, in any order.
        base_rows: the same for updated or deleted ids as the base had them.
        base_places: where those lie in the base, with some columns; None when the comparison did not come by it.
    """

    inserted: pa.Array
    updated: pa.Array
    deleted: pa.Array
    rows: Callable[[pa.Array], pa.Table]
    base_rows: Callable[[pa.Array], pa.Table]
    base_places: Callable[[pa.Array, Sequence[str]], pa.Table | None] = lambda ids, columns: None

    @property
    def put(self) -> pa.Array:
        return pa.concat_arrays([self.inserted, self.updated])

    @property
    def touched(self) -> pa.Array:
        return pa.concat_arrays([self.inserted, self.updated, self.deleted])


#: Those of some ids, which two sides have put, whose rows are not the same on both.
Differing: TypeAlias = Callable[[MergeSide, MergeSide, pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class RowOutcomes:
    """What a merge does to the target's rows of one table, by id.

    Attributes:
        put: take the source's row.
        remove: the row goes.
        conflicts: ``id`` and ``kind`` of rows that both sides changed differently.
    """

    put: pa.Array
    remove: pa.Array
    conflicts: pa.Table


def different(source: MergeSide, target: MergeSide, ids: pa.Array) -> pa.Array:
    """Those ids whose rows are not the same on both sides."""
    if len(ids) == 0:
        return ids
    ours, theirs = in_order(target.rows(ids), ids), in_order(source.rows(ids), ids)
    return ids.filter(pc.invert(same_rows(ours, theirs)))


def decide(source: MergeSide, target: MergeSide, differing: Differing = different) -> RowOutcomes:
    """The row table of the merge. Whatever the source did and the target did not touch is taken over.

    Args:
        differing: finds out which rows that both sides put are not the same; by default here and at once.
    """
    both_inserted, alone = split(source.inserted, target.inserted)
    insert_conflicts = differing(source, target, both_inserted)

    both_updated, rest = split(source.updated, target.updated)
    update_conflicts = differing(source, target, both_updated)
    lost_updates, updates = split(rest, target.deleted)

    kept_by_target, removals = split(source.deleted, target.updated)
    removals = split(removals, target.deleted)[1]
    conflicts = [
        _of_kind(insert_conflicts, DIVERGENT_INSERT),
        _of_kind(update_conflicts, DIVERGENT_UPDATE),
        _of_kind(pa.concat_arrays([lost_updates, kept_by_target]), DELETE_VS_UPDATE),
    ]
    return RowOutcomes(pa.concat_arrays([alone, updates]), removals, pa.concat_tables(conflicts))


def everything(source: MergeSide) -> RowOutcomes:
    """All changes of the source, for a target that stands on the base."""
    return RowOutcomes(source.put, source.deleted, _KINDS.empty_table())


def split(ids: pa.Array, others: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Those ids that are among the others, and those that are not."""
    among = pc.is_in(ids, value_set=others)
    return ids.filter(among), ids.filter(pc.invert(among))


def in_order(rows: pa.Table, ids: pa.Array) -> pa.Table:
    """Rows in the order of the ids; each id is there."""
    return rows.take(pc.index_in(ids, value_set=rows.column("id").combine_chunks()))


def _of_kind(ids: pa.Array, kind: str) -> pa.Table:
    return pa.table([ids, pa.repeat(pa.scalar(kind, pa.string()), len(ids))], schema=_KINDS)
