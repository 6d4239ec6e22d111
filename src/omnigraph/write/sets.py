"""Rules about rows together: ids, keys and unique tuples once, endpoints present, cardinality kept.

Each rule looks at the rows of the write and asks the tables only for what those rows touch, by index where there is
one. The order of the checks is the order in which a caller sees violations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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
    if isinstance(type_, NodeType) and type_.key:
        value = ids[repeated].as_py()
        raise UniqueViolation(
            f"@unique violation on {key_label(type_)}: value '{value}' held by '{value}' and '{value}'",
            type=type_.name,
            row=repeated,
            ids=[value, value],
        )
    if change.mode is not Mode.MERGE:
        raise _key_conflict(type_, ids[repeated].as_py(), repeated)
    positions = pa.table({"id": ids, "row": pa.array(range(len(ids)), pa.int64())})
    last = positions.group_by("id").aggregate([("row", "max")]).column("row_max")
    return rows.take(last.combine_chunks().sort())


def refuse_existing(type_: NodeType | EdgeType, change: Change, existing: pa.Table) -> None:
    """Appending an id that exists is a conflict."""
    if change.mode is Mode.APPEND and existing.num_rows:
        raise _key_conflict(type_, existing.column("id")[0].as_py(), None)


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
    rule, touched = resolved.type.cardinality, _touched_sources(resolved)
    nodes = changes.get(f"node:{resolved.type.source}")
    if nodes is not None:
        touched = touched.filter(pc.invert(pc.is_in(touched, value_set=_lost(nodes))))
    counts = _counts(resolved.rows.column("src"))
    if not resolved.overwrites:
        stored = find_rows(workspace.readable(resolved.type.table_key), touched, "src", ("id",))
        staying = stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=resolved.gone_ids)))
        for source, count in _counts(staying.column("src")).items():
            counts[source] = counts.get(source, 0) + count
    for source in touched.to_pylist():
        count = counts.get(source, 0)
        if rule.high is not None and count > rule.high:
            raise _card(resolved.type, source, count, f"max {rule.high}")
        if count < rule.low:
            raise _card(resolved.type, source, count, f"min {rule.low}")


def _touched_sources(resolved: Resolved) -> pa.Array:
    parts = [resolved.rows.column("src"), resolved.replaced.column("src"), resolved.removed.column("src")]
    return pc.unique(pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())).sort()


def _check_unique_group(workspace: Workspace, resolved: Resolved, columns: tuple[str, ...]) -> None:
    tuples = _tuples(resolved.type, resolved.rows, columns)
    present = pc.is_valid(tuples)
    ids = resolved.rows.column("id").combine_chunks().filter(present)
    tuples = tuples.filter(present)
    repeated = _first_repeated(tuples)
    if repeated is not None:
        first = pc.index(tuples, tuples[repeated]).as_py()
        raise _unique(resolved.type, columns, resolved.rows.filter(present), repeated, ids[first], ids[repeated])
    if resolved.overwrites or len(tuples) == 0:
        return
    lead = columns[0]
    wanted = pc.unique(resolved.rows.column(lead).combine_chunks().filter(present))
    stored = find_rows(workspace.readable(resolved.type.table_key), wanted, lead, ("id", *columns))
    stored = stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=resolved.gone_ids)))
    held = _tuples(resolved.type, stored, columns)
    clash = first_true(pc.is_in(tuples, value_set=held.drop_null()))
    if clash is not None:
        holder = stored.column("id")[pc.index(held, tuples[clash]).as_py()]
        raise _unique(resolved.type, columns, resolved.rows.filter(present), clash, holder, ids[clash])


def _tuples(type_: NodeType | EdgeType, rows: pa.Table, columns: tuple[str, ...]) -> pa.Array:
    """One text per row that is equal exactly for equal tuples; null where any column is null."""
    texts = [canonical_text(rows.column(name).combine_chunks(), _type_of(type_, name)) for name in columns]
    return texts[0] if len(texts) == 1 else composite_id(texts)


def _type_of(type_: NodeType | EdgeType, column: str) -> PropertyType:
    prop = type_.properties.get(column)
    return prop.type if prop else _TEXT  # src and dst


def _require_nodes(
    workspace: Workspace, changes: dict[str, Resolved], column: str, node: str, ids: pa.Array, edge: EdgeType
) -> None:
    missing = _missing_nodes(workspace, changes, node, ids)
    if len(missing):
        raise EndpointMissing(
            f"{column} '{missing[0]}' not found in {node}", type=edge.name, endpoint=column, id=missing[0].as_py()
        )


def _missing_nodes(workspace: Workspace, changes: dict[str, Resolved], node: str, ids: pa.Array) -> pa.Array:
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
                raise EndpointMissing(
                    f"{column} '{stored.column(column)[0]}' not found in {end}",
                    type=edge.name,
                    endpoint=column,
                    id=stored.column(column)[0].as_py(),
                )


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


def _counts(sources: Any) -> dict[str, int]:
    return {entry["values"]: entry["counts"] for entry in pc.value_counts(sources).to_pylist()}


def _key_conflict(type_: NodeType | EdgeType, id_: str, row: int | None) -> KeyConflict:
    kind = "node" if isinstance(type_, NodeType) else "edge"
    message = f"{kind} type '{type_.name}' already has this id"
    return KeyConflict(message, hint=f"id '{id_}'", type=type_.name, id=id_, row=row)


def _unique(
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


def _card(type_: EdgeType, source: str, count: int, bound: str) -> CardinalityViolation:
    return CardinalityViolation(
        f"@card violation on edge {type_.name}: source '{source}' has {count} edges ({bound})",
        type=type_.name,
        source=source,
        count=count,
    )
