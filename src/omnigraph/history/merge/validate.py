"""Does the merged state keep the rules of its schema? Every violation is a conflict, and all of them are found.

Looks only at what the merge changes on the target and asks the tables about what that touches. Both sides were valid
before, so this gives the answer of a full check. The rules themselves are those of `write/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import Conflict, OmniGraphError
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.commit.protocol import Workspace
from omnigraph.storage.stage import find_rows
from omnigraph.write import sets
from omnigraph.write.load.rules import halved
from omnigraph.write.rows import conform
from omnigraph.write.sets import Resolved

ORPHAN_EDGE = "OrphanEdge"
UNIQUE_VIOLATION = "UniqueViolation"
CARDINALITY_VIOLATION = "CardinalityViolation"
VALUE_VIOLATION = "ValueConstraintViolation"


def violations(
    workspace: Workspace,
    catalog: Catalog,
    changes: Mapping[str, Resolved],
    values: Callable[[Resolved], Iterable[Conflict]] | None = None,
) -> list[Conflict]:
    """Every rule that the target would break with these changes, by table key and id.

    Args:
        values: checks the rows one by one, for changes that hold only the columns of the other rules.
    """
    found: list[Conflict] = []
    by_key = dict(changes)
    for change in by_key.values():
        found += values(change) if values else broken_values(change.type, change.rows)
        found += _uniques(workspace, change)
        found += _dangling(workspace, change, by_key)
        found += _stranded(workspace, catalog, change, by_key)
        found += _cardinality(workspace, change, by_key)
    unique = {(each.table_key, each.row_id, each.kind, each.message): each for each in found}
    return sorted(unique.values(), key=conflict_order)


def conflict_order(conflict: Conflict) -> tuple[str, str, str, str]:
    return conflict.table_key, conflict.row_id or "", conflict.kind, conflict.message


def broken_values(type_: NodeType | EdgeType, rows: pa.Table) -> Iterator[Conflict]:
    """Required, range, pattern and enum of each row that is put."""
    bad: list[tuple[int, OmniGraphError]] = []
    for _ in halved(
        rows.num_rows,
        lambda start, count: conform(type_, rows.slice(start, count)),
        lambda position, error: bad.append((position, error)),
        lambda: False,
    ):
        pass
    for position, error in bad:
        yield Conflict(type_.table_key, rows.column("id")[position].as_py(), VALUE_VIOLATION, error.message)


def _uniques(workspace: Workspace, change: Resolved) -> Iterator[Conflict]:
    for columns in change.type.uniques:
        tuples = sets.tuple_texts(change.type, change.rows, columns)
        ids = change.rows.column("id").combine_chunks()
        held, holders = sets.held_tuples(workspace, change, columns)
        clashes = pc.fill_null(pc.is_in(tuples, value_set=held, skip_nulls=True), False)
        repeated = pa.array(_later(tuples))
        for row in np.flatnonzero(pc.or_(clashes, repeated).to_numpy(zero_copy_only=False)).tolist():
            at = pc.index(held, tuples[row]).as_py()
            first = holders[at] if at >= 0 else ids[pc.index(tuples, tuples[row]).as_py()]
            error = sets.unique_violation(change.type, columns, change.rows, row, first, ids[row])
            yield Conflict(change.type.table_key, ids[row].as_py(), UNIQUE_VIOLATION, error.message)


def _later(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which values occurred before; null never did."""
    codes = pc.fill_null(values.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
    later = np.ones(len(codes), bool)
    later[np.unique(codes, return_index=True)[1]] = False
    return np.asarray(later & (codes >= 0))


def _dangling(workspace: Workspace, change: Resolved, changes: dict[str, Resolved]) -> Iterator[Conflict]:
    """Edges that the merge puts and whose node the merged state does not have."""
    edge = change.type
    if not isinstance(edge, EdgeType):
        return
    for column, node in (("src", edge.source), ("dst", edge.target)):
        ends = change.rows.column(column).combine_chunks()
        missing = sets.missing_nodes(workspace, changes, node, pc.unique(ends))
        if len(missing):
            yield from _orphans(edge, column, change.rows.filter(pc.is_in(ends, value_set=missing)))


def _stranded(
    workspace: Workspace, catalog: Catalog, change: Resolved, changes: dict[str, Resolved]
) -> Iterator[Conflict]:
    """Edges of the target that stay while the merge takes their node away."""
    if not isinstance(change.type, NodeType) or change.removed.num_rows == 0:
        return
    lost = change.removed.column("id").combine_chunks()
    for edge in catalog.edges.values():
        if edge.table_key not in workspace.snapshot.pins:
            continue
        own = changes.get(edge.table_key)
        for column, end in (("src", edge.source), ("dst", edge.target)):
            if end != change.type.name:
                continue
            stored = find_rows(workspace.readable(edge.table_key), lost, column, ("id",))
            if own is not None:
                stored = stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=own.gone_ids)))
            yield from _orphans(edge, column, stored)


def _orphans(edge: EdgeType, column: str, rows: pa.Table) -> Iterator[Conflict]:
    for id_, end in zip(rows.column("id").to_pylist(), rows.column(column).to_pylist(), strict=True):
        error = sets.endpoint_missing(edge, column, end)
        yield Conflict(edge.table_key, id_, ORPHAN_EDGE, error.message)


def _cardinality(workspace: Workspace, change: Resolved, changes: dict[str, Resolved]) -> Iterator[Conflict]:
    """Edges per source. Too few counts only while there is at least one: a merge may take the last edge away."""
    edge = change.type
    if not isinstance(edge, EdgeType) or edge.cardinality.is_default:
        return
    sources = sets.counted_sources(change, changes)
    counts = sets.source_counts(workspace, change, sources)
    low, high = edge.cardinality.low, edge.cardinality.high
    wrong = (counts > 0) & (counts < low)
    if high is not None:
        wrong |= counts > high
    for position in np.flatnonzero(wrong).tolist():
        error = sets.card_violation(edge, sources[position].as_py(), int(counts[position]))
        yield Conflict(edge.table_key, None, CARDINALITY_VIOLATION, error.message)
