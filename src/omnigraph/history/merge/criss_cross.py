"""The base of a merge whose two sides came together on several ways before.

One commit is the base, but both sides share more than it: changes that reached each of them over another common
ancestor, or over a branch that is gone. Those rows are laid over the base, so that they count as shared and not as a
change of one side. Where the shared states contradict each other a row has no known base; sides that agree about it
are left alone, and sides that do not are a conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.merge.merge_source import Detour
from omnigraph.history.merge.table_plan import state
from omnigraph.history.merge.three_way import MergeSide, decide, in_order, split
from omnigraph.storage.delta import table_delta
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Pin
from omnigraph.storage.tables.row_equality import same_rows
from omnigraph.storage.tables.row_lookup import find_rows, rows_at


@dataclass(frozen=True, slots=True)
class VirtualBase:
    """How the shared rows of one table differ from the base's, by id; an id is in at most one of the three.

    Attributes:
        put: rows that both sides had in common.
        removed: ids that both sides had lost.
        disputed: ids of which nobody can say what both sides had in common.
        originals: the base's rows under any of these ids.
    """

    put: pa.Table
    removed: pa.Array
    disputed: pa.Array
    originals: pa.Table

    @property
    def touched(self) -> pa.Array:
        return pa.concat_arrays([_ids(self.put), self.removed, self.disputed])


def side_of(store: GraphStore, base: Pin | None, pin: Pin, overlay: VirtualBase | None = None) -> MergeSide:
    """How a state of a table differs from the base, or from what is laid over it."""
    delta = table_delta(store.tables, base, pin)
    plain = MergeSide(delta.inserted, delta.updated, delta.deleted, delta.after, delta.before, delta.places_before)
    return plain if overlay is None else _over(plain, overlay)


def overlay_of(store: GraphStore, base: Pin | None, table_key: str, detours: Sequence[Detour]) -> VirtualBase | None:
    """What the detours changed in a table; None when they left it alone."""
    found = [
        _changes(store, base, detour.before.pins.get(table_key), detour.after.pins[table_key], detour.direct)
        for detour in detours
        if table_key in detour.after.pins
        and state(detour.before.pins.get(table_key)) != state(detour.after.pins[table_key])
    ]
    parts = [part for part in found if part is not None]
    if base is None or not parts:
        return None
    put, removed, disputed = parts[0]
    for more in parts[1:]:
        put, removed, disputed = _together((put, removed, disputed), more)
    touched = pa.concat_arrays([_ids(put), removed, disputed])
    if len(touched) == 0:
        return None
    handle = store.table(base)
    places = find_rows(handle, touched).column("_rowid").to_numpy()
    return VirtualBase(put, removed, disputed, rows_at(handle, places, put.column_names))


_Parts = tuple[pa.Table, pa.Array, pa.Array]


def _changes(store: GraphStore, base: Pin | None, before: Pin | None, after: Pin, direct: bool) -> _Parts | None:
    """Rows put, ids removed and ids disputed by one detour."""
    theirs = side_of(store, before, after)
    if direct or base is None:
        return theirs.rows(theirs.put), theirs.deleted, pa.array([], pa.string())
    outcome = decide(theirs, side_of(store, before, base))
    return theirs.rows(outcome.put), outcome.remove, outcome.conflicts.column("id").combine_chunks()


def _together(one: _Parts, other: _Parts) -> _Parts:
    """Two detours as one. What both touched is disputed unless they did the same."""
    ids = [pa.concat_arrays([_ids(put), removed, disputed]) for put, removed, disputed in (one, other)]
    both = split(ids[0], ids[1])[0]
    put_by_both = split(_ids(one[0]), _ids(other[0]))[0]
    differing = _differing(lambda wanted: _chosen(one[0], wanted), other[0], put_by_both)
    agreed = pa.concat_arrays([split(put_by_both, differing)[1], split(one[1], other[1])[0]])
    disputed = pc.unique(pa.concat_arrays([one[2], other[2], split(both, agreed)[1]]))

    def new(parts: _Parts, seen: pa.Array) -> tuple[pa.Table, pa.Array]:
        keep = pc.invert(pc.is_in(parts[0].column("id"), value_set=seen))
        return parts[0].filter(keep), split(parts[1], seen)[1]

    puts, removals = zip(new(one, disputed), new(other, pa.concat_arrays([disputed, agreed])), strict=True)
    return pa.concat_tables(puts), pa.concat_arrays(removals), disputed


def _over(side: MergeSide, overlay: VirtualBase) -> MergeSide:
    """A side against the base with the overlay on it, from the side against the base alone."""
    touched, shared = overlay.touched, _ids(overlay.put)
    own, kept = split(touched, side.put)  # rows that the side has and the base has not, or has otherwise
    kept = split(split(kept, _ids(overlay.originals))[0], side.deleted)[1]  # rows that are those of the base
    there = pa.concat_arrays([own, kept])

    def rows(wanted: pa.Array) -> pa.Table:
        from_base, rest = split(wanted, kept)
        return _concat([side.rows(rest), _chosen(overlay.originals, from_base)], overlay)

    def base_rows(wanted: pa.Array) -> pa.Table:
        from_overlay, rest = split(wanted, shared)
        from_base, rest = split(rest, overlay.disputed)
        parts = [side.base_rows(rest), _chosen(overlay.put, from_overlay), _chosen(overlay.originals, from_base)]
        return _concat(parts, overlay)

    return MergeSide(
        inserted=pa.concat_arrays([split(side.inserted, touched)[1], split(overlay.removed, there)[0]]),
        updated=pa.concat_arrays(
            [
                split(side.updated, touched)[1],
                _differing(rows, overlay.put, split(shared, there)[0]),
                split(overlay.disputed, there)[0],
            ]
        ),
        deleted=pa.concat_arrays(
            [
                split(side.deleted, touched)[1],
                split(shared, there)[1],
                split(overlay.disputed, there)[1],
            ]
        ),
        rows=rows,
        base_rows=base_rows,
    )


def _differing(rows: Callable[[pa.Array], pa.Table], shared: pa.Table, ids: pa.Array) -> pa.Array:
    if len(ids) == 0:
        return ids
    mine, common = in_order(rows(ids), ids), in_order(_chosen(shared, ids), ids)
    return ids.filter(pc.invert(same_rows(mine.select(common.column_names), common)))


def _chosen(rows: pa.Table, ids: pa.Array) -> pa.Table:
    return rows.filter(pc.is_in(rows.column("id"), value_set=ids))


def _concat(parts: list[pa.Table], overlay: VirtualBase) -> pa.Table:
    names = overlay.put.column_names
    return pa.concat_tables([part.select(names) for part in parts if part.num_rows] or [overlay.put.slice(0, 0)])


def _ids(rows: pa.Table) -> pa.Array:
    return rows.column("id").combine_chunks()
