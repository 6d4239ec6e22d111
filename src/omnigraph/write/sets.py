"""Rules about rows together: ids, keys and unique tuples once, endpoints present, cardinality kept.

Each rule looks at the rows of the write and asks the tables only for what those rows touch, by index where there is
one. The order of the checks is the order in which a caller sees violations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import CardinalityViolation, EndpointMissing, KeyConflict, UniqueViolation
from omnigraph.schema.canonical import canonical_text, composite_id
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.storage.commit.protocol import Workspace
from omnigraph.storage.stage import find_rows
from omnigraph.write.change import Change, Mode
from omnigraph.write.identity import column_label, first_true, key_label

_TEXT = PropertyType(Scalar.STRING)


@dataclass(frozen=True, slots=True)
class Resolved:
    """One type's change with everything the set rules found out about it.

    Attributes:
        rows: final rows to put, each id once.
        replaced: existing rows with an id of ``rows`` (`find_rows` layout); they count as gone.
        removed: existing rows that go.
    """

    type: NodeType | EdgeType
    change: Change
    rows: pa.Table
    replaced: pa.Table
    removed: pa.Table

    @property
    def overwrites(self) -> bool:
        return self.change.mode is Mode.OVERWRITE and self.change.put is not None

    @property
    def gone_ids(self) -> pa.Array:
        """Ids of stored rows that are not in the table afterwards with their old content."""
        return pa.concat_arrays([_ids(self.replaced), _ids(self.removed)])


def single_rows(type_: NodeType | EdgeType, change: Change, rows: pa.Table) -> pa.Table:
    """The rows with each id once: a repeated key is a violation, a repeated id the last of a merge."""
    ids = rows.column("id").combine_chunks()
    repeated = _first_repeated(ids)
    if repeated is None:
        return rows
    keyed = isinstance(type_, NodeType) and type_.key is not None
    if keyed or change.mode is not Mode.MERGE:
        raise repeated_id(type_, ids[repeated].as_py(), repeated)
    positions = pa.table({"id": ids, "row": pa.array(np.arange(len(ids)))})
    last = positions.group_by("id").aggregate([("row", "max")]).column("row_max")
    return rows.take(last.combine_chunks().sort())


def refuse_existing(resolved: Resolved) -> None:
    """Appending an id that exists is a conflict."""
    if resolved.change.mode is Mode.APPEND and resolved.replaced.num_rows:
        raise key_conflict(resolved.type, resolved.replaced.column("id")[0].as_py(), None)


def check_unique(workspace: Workspace, resolved: Resolved) -> None:
    for columns in resolved.type.uniques:
        _check_unique_group(workspace, resolved, columns)


def check_endpoints(workspace: Workspace, catalog: Catalog, changes: dict[str, Resolved]) -> None:
    """Every edge that is put finds its nodes, and no edge that stays loses one."""
    for resolved in changes.values():
        if isinstance(resolved.type, EdgeType):
            for column, node in (("src", resolved.type.source), ("dst", resolved.type.target)):
                ids = pc.unique(resolved.rows.column(column).combine_chunks())
                _require_nodes(workspace, changes, column, node, ids, resolved.type)
    for resolved in changes.values():
        if isinstance(resolved.type, NodeType):
            _refuse_stranded(workspace, catalog, changes, resolved)


def check_cardinality(workspace: Workspace, resolved: Resolved, changes: dict[str, Resolved]) -> None:
    """Recount the sources that this change touches. A source that goes owes no edges."""
    if not isinstance(resolved.type, EdgeType) or resolved.type.cardinality.is_default:
        return
    rule, touched = resolved.type.cardinality, counted_sources(resolved, changes)
    counts = source_counts(workspace, resolved, touched)
    is_wrong = (counts < rule.low) | (counts > (rule.high if rule.high is not None else np.inf))
    wrong = np.flatnonzero(is_wrong)
    if len(wrong):
        raise card_violation(resolved.type, touched[int(wrong[0])].as_py(), int(counts[wrong[0]]))


def counted_sources(resolved: Resolved, changes: dict[str, Resolved]) -> pa.Array:
    """Sources whose edges a change touches and that are still there afterwards, in order."""
    touched = _touched_sources(resolved)
    nodes = changes.get(f"node:{resolved.type.source}") if isinstance(resolved.type, EdgeType) else None
    return touched.filter(pc.invert(pc.is_in(touched, value_set=_lost(nodes)))) if nodes is not None else touched


def source_counts(workspace: Workspace, resolved: Resolved, sources: pa.Array) -> npt.NDArray[np.int64]:
    """How many edges each source has once the write is done."""
    counts = _counts(resolved.rows.column("src"), sources)
    return counts if resolved.overwrites else counts + staying_counts(workspace, resolved, sources)


def staying_counts(workspace: Workspace, resolved: Resolved, sources: pa.Array) -> npt.NDArray[np.int64]:
    """How many stored edges each source keeps."""
    stored = find_rows(workspace.readable(resolved.type.table_key), sources, "src", ("id",))
    staying = stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=resolved.gone_ids)))
    return _counts(staying.column("src"), sources)


def _touched_sources(resolved: Resolved) -> pa.Array:
    parts = [resolved.rows.column("src"), resolved.replaced.column("src"), resolved.removed.column("src")]
    return pc.unique(pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())).sort()


def _check_unique_group(workspace: Workspace, resolved: Resolved, columns: tuple[str, ...]) -> None:
    tuples = tuple_texts(resolved.type, resolved.rows, columns)
    present = pc.is_valid(tuples)
    ids = resolved.rows.column("id").combine_chunks().filter(present)
    tuples = tuples.filter(present)
    repeated = _first_repeated(tuples)
    if repeated is not None:
        first = pc.index(tuples, tuples[repeated]).as_py()
        raise unique_violation(
            resolved.type, columns, resolved.rows.filter(present), repeated, ids[first], ids[repeated]
        )
    held, holders = held_tuples(workspace, resolved, columns)
    clash = first_true(pc.is_in(tuples, value_set=held))
    if clash is not None:
        holder = holders[pc.index(held, tuples[clash]).as_py()]
        raise unique_violation(resolved.type, columns, resolved.rows.filter(present), clash, holder, ids[clash])


def held_tuples(
    workspace: Workspace, resolved: Resolved, columns: tuple[str, ...]
) -> tuple[pa.StringArray, pa.StringArray]:
    """Tuples of the stored rows that stay and might clash with rows of the write, and the ids that hold them."""
    wanted = pc.unique(resolved.rows.column(columns[0]).combine_chunks()).drop_null()
    if resolved.overwrites or len(wanted) == 0:
        return pa.array([], pa.string()), pa.array([], pa.string())
    stored = find_rows(workspace.readable(resolved.type.table_key), wanted, columns[0], ("id", *columns))
    stored = stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=resolved.gone_ids)))
    held = tuple_texts(resolved.type, stored, columns)
    return held.drop_null(), _ids(stored).filter(pc.is_valid(held))


def tuple_texts(type_: NodeType | EdgeType, rows: pa.Table, columns: tuple[str, ...]) -> pa.Array:
    """One text per row that is equal exactly for equal tuples; null where any column is null."""
    texts = [canonical_text(rows.column(name).combine_chunks(), _type_of(type_, name)) for name in columns]
    return texts[0] if len(texts) == 1 else composite_id(texts)


def _type_of(type_: NodeType | EdgeType, column: str) -> PropertyType:
    prop = type_.properties.get(column)
    return prop.type if prop else _TEXT  # src and dst


def _require_nodes(
    workspace: Workspace, changes: dict[str, Resolved], column: str, node: str, ids: pa.Array, edge: EdgeType
) -> None:
    missing = missing_nodes(workspace, changes, node, ids)
    if len(missing):
        raise endpoint_missing(edge, column, missing[0].as_py())


def missing_nodes(workspace: Workspace, changes: dict[str, Resolved], node: str, ids: pa.Array) -> pa.Array:
    """Those ids that are no node of the type once the write is done."""
    own = changes.get(f"node:{node}")
    if own is not None:
        ids = ids.filter(pc.invert(pc.is_in(ids, value_set=_ids(own.rows))))
        if own.overwrites:
            return ids
    if len(ids) == 0 or f"node:{node}" not in workspace.snapshot.pins:
        return ids
    stored = _ids(find_rows(workspace.readable(f"node:{node}"), ids))
    if own is not None:
        stored = stored.filter(pc.invert(pc.is_in(stored, value_set=_ids(own.removed))))
    return ids.filter(pc.invert(pc.is_in(ids, value_set=stored)))


def _refuse_stranded(workspace: Workspace, catalog: Catalog, changes: dict[str, Resolved], node: Resolved) -> None:
    """Nodes that go may not leave an edge behind."""
    lost = _lost(node)
    if len(lost) == 0:
        return
    for edge in catalog.edges.values():
        own = changes.get(edge.table_key)
        if (own is not None and own.overwrites) or edge.table_key not in workspace.snapshot.pins:
            continue
        for column, end in (("src", edge.source), ("dst", edge.target)):
            if end != node.type.name:
                continue
            stored = find_rows(workspace.readable(edge.table_key), lost, column, ("id",))
            if own is not None:
                stored = stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=own.gone_ids)))
            if stored.num_rows:
                raise endpoint_missing(edge, column, stored.column(column)[0].as_py())


def _lost(node: Resolved) -> pa.Array:
    """Ids of the nodes that are no longer there afterwards."""
    removed = _ids(node.removed)
    return removed.filter(pc.invert(pc.is_in(removed, value_set=_ids(node.rows))))


def _ids(rows: pa.Table) -> pa.Array:
    return rows.column("id").combine_chunks()


def _first_repeated(values: pa.Array) -> int | None:
    """Position of the first value that occurred before."""
    if len(pc.unique(values)) == len(values):
        return None
    order = pc.sort_indices(values)
    ordered = values.take(order)
    same = pc.equal(ordered[1:], ordered[:-1])
    return int(pc.min(order[1:].filter(same)).as_py())


def _counts(values: Any, wanted: pa.Array) -> npt.NDArray[np.int64]:
    """How often each wanted value occurs."""
    positions = pc.index_in(values, value_set=wanted).drop_null()
    return np.bincount(positions.to_numpy(), minlength=len(wanted)).astype(np.int64)


def repeated_id(type_: NodeType | EdgeType, id_: str, row: int) -> UniqueViolation | KeyConflict:
    """The same id twice in one write: for a keyed node that is the same key."""
    if not isinstance(type_, NodeType) or not type_.key:
        return key_conflict(type_, id_, row)
    return UniqueViolation(
        f"@unique violation on {key_label(type_)}: value '{id_}' held by '{id_}' and '{id_}'",
        type=type_.name,
        row=row,
        ids=[id_, id_],
    )


def key_conflict(type_: NodeType | EdgeType, id_: str, row: int | None) -> KeyConflict:
    kind = "node" if isinstance(type_, NodeType) else "edge"
    message = f"{kind} type '{type_.name}' already has this id"
    return KeyConflict(message, hint=f"id '{id_}'", type=type_.name, id=id_, row=row)


def endpoint_missing(edge: EdgeType, column: str, id_: str) -> EndpointMissing:
    node = edge.source if column == "src" else edge.target
    return EndpointMissing(f"{column} '{id_}' not found in {node}", type=edge.name, endpoint=column, id=id_)


def unique_violation(
    type_: NodeType | EdgeType, columns: tuple[str, ...], rows: pa.Table, row: int, first: Any, second: Any
) -> UniqueViolation:
    one = rows.slice(row, 1)
    values = [str(canonical_text(one.column(name).combine_chunks(), _type_of(type_, name))[0]) for name in columns]
    value = values[0] if len(values) == 1 else f"({', '.join(values)})"
    return UniqueViolation(
        f"@unique violation on {column_label(type_.name, columns)}: value '{value}' held by '{first}' and '{second}'",
        type=type_.name,
        ids=[first.as_py(), second.as_py()],
        row=row,
    )


def card_violation(type_: EdgeType, source: str, count: int) -> CardinalityViolation:
    rule = type_.cardinality
    bound = f"min {rule.low}" if count < rule.low else f"max {rule.high}"
    return CardinalityViolation(
        f"@card violation on edge {type_.name}: source '{source}' has {count} edges ({bound})",
        type=type_.name,
        source=source,
        count=count,
    )
