"""The rules about rows together, each stated once: ids once, ``@unique``, endpoints, ``@card``.

A rule is a function of one change and the write it belongs to. It answers with tables of violations (`VIOLATIONS`) and
asks the stored rows only for what the change touches. What a violation means is up to the caller: a write raises the
first one, a load that rejects drops the rows, a merge reports conflicts, `verify` reports problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import CardinalityViolation, EndpointMissing, KeyConflict, OmniGraphError, UniqueViolation
from omnigraph.schema.arrow import canonical_text, composite_id
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.tables.row_lookup import find_rows
from omnigraph.write.change import Mode, Resolved, id_column, last_of_each_id, type_of
from omnigraph.write.row_rules import column_label, key_label

_TEXT = PropertyType(Scalar.STRING)  # of src and dst


class SetRule(StrEnum):
    """Which rule a violation breaks."""

    REPEATED_ID = "repeated_id"  # one id twice in a write
    EXISTING_ID = "existing_id"  # an appended id that is stored
    UNIQUE = "unique"
    ENDPOINT = "endpoint"
    CARDINALITY = "cardinality"


#: One violation a row. ``row`` is the position among the rows that the change puts: null for a stored edge that loses
#: its node, and for a source with a wrong number of edges, where ``id`` is null too. ``value`` is the value that two
#: rows share, the missing endpoint, or the source; ``other`` the id of the other row that holds the value; ``first``
#: the position of an earlier row with the same id.
VIOLATIONS = pa.schema(
    [
        ("rule", pa.string()),
        ("table_key", pa.string()),
        ("row", pa.int64()),
        ("id", pa.string()),
        ("columns", pa.list_(pa.string())),
        ("value", pa.string()),
        ("other", pa.string()),
        ("count", pa.int64()),
        ("first", pa.int64()),
    ]
)


class Lookup(Protocol):
    """Answers questions about the stored rows."""

    def find(self, table_key: str, column: str, values: pa.Array, columns: tuple[str, ...]) -> pa.Table:
        """Rows of a table whose column is one of the values, with that column and those named. A table that does not
        exist has no rows."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Looks rows up in the tables of one state of a branch, by index where there is one."""

    workspace: Workspace

    def find(self, table_key: str, column: str, values: pa.Array, columns: tuple[str, ...]) -> pa.Table:
        if table_key not in self.workspace.snapshot.pins:
            return pa.schema([(name, pa.string()) for name in dict.fromkeys((column, *columns))]).empty_table()
        return find_rows(self.workspace.readable(table_key), values, column, columns)


@dataclass(frozen=True, slots=True)
class Proposal:
    """All changes of one write by table key, and the stored rows that they would be applied to."""

    catalog: Catalog
    changes: Mapping[str, Resolved]
    stored: Lookup

    def ordered(self) -> list[Resolved]:
        """Nodes before edges, by name."""
        return sorted(self.changes.values(), key=lambda each: (isinstance(each.type, EdgeType), each.type.name))

    def nodes(self, name: str) -> Resolved | None:
        """The change of a node type, if there is one."""
        return self.changes.get(f"node:{name}")


#: Gives the violations of one change, in the order in which they are reported; tables are never empty.
RuleFunction: TypeAlias = Callable[[Resolved, Proposal], Iterator[pa.Table]]


def violations(proposal: Proposal, rules: tuple[RuleFunction, ...]) -> Iterator[pa.Table]:
    """Every violation, rule by rule. Lazy: whoever wants only the first pays for no more."""
    for rule in rules:
        for change in proposal.ordered():
            yield from rule(change, proposal)


def refuse_violations(proposal: Proposal) -> None:
    """Raise the first violation."""
    first = next(violations(proposal, RULES), None)
    if first is not None:
        raise first_error(proposal.catalog, first)


def first_error(catalog: Catalog, found: pa.Table) -> OmniGraphError:
    violation = found.slice(0, 1).to_pylist()[0]
    return error_of(type_of(catalog, violation["table_key"]), violation)


# The rules


def repeated_ids(type_: NodeType | EdgeType, mode: Mode, rows: pa.Table) -> Iterator[pa.Table]:
    """Rows whose id occurred before in the same write. Without a key, merging lets the last row of an id win."""
    keyed = isinstance(type_, NodeType) and type_.key is not None
    if mode is Mode.MERGE and not keyed:
        return
    ids = id_column(rows)
    earlier = _repeats(ids)
    later = np.flatnonzero(earlier >= 0)
    if len(later):
        found, first = ids.take(pa.array(later)), pa.array(earlier[later])
        yield _table(SetRule.REPEATED_ID, type_, later, found, _key_of(type_), value=found, other=found, first=first)


def single_rows(type_: NodeType | EdgeType, mode: Mode, rows: pa.Table) -> pa.Table:
    """The rows with each id once, or the first violation as an error."""
    found = next(repeated_ids(type_, mode, rows), None)
    if found is not None:
        raise error_of(type_, found.slice(0, 1).to_pylist()[0])
    return last_of_each_id(rows)


def existing_ids(change: Resolved, proposal: Proposal) -> Iterator[pa.Table]:
    """Appended rows whose id is stored."""
    if change.change.mode is not Mode.APPEND or change.replaced.num_rows == 0:
        return
    ids = id_column(change.rows)
    rows = _where(pc.is_in(ids, value_set=id_column(change.replaced)))
    found = ids.take(pa.array(rows))
    yield _table(SetRule.EXISTING_ID, change.type, row=rows, id=found, columns=("id",), value=found, other=found)


def unique(change: Resolved, proposal: Proposal) -> Iterator[pa.Table]:
    """Rows with a tuple that an earlier row of the write or a stored row that stays has, for every ``@unique``."""
    for columns in change.type.uniques:
        yield from unique_on(change, proposal, columns)


def unique_on(change: Resolved, proposal: Proposal, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """The same for one ``@unique``. A null exempts a row.

    A stored row is named as the other holder before a row of the write. Rows that only clash with each other come
    first.
    """
    texts = tuple_texts(change.type, change.rows, columns)
    first = _repeats(texts)
    holders = _stored_holders(change, proposal, columns, texts)
    is_held = np.zeros(len(texts), bool) if holders is None else _mask(pc.is_valid(holders))
    rows = np.concatenate([np.flatnonzero((first >= 0) & ~is_held), np.flatnonzero(is_held)])
    if len(rows) == 0:
        return
    ids = id_column(change.rows)
    other = ids.take(pa.array(first[rows], mask=first[rows] < 0))
    if holders is not None:
        other = pc.coalesce(holders.take(pa.array(rows)), other)
    shown = _shown(change, columns, rows)
    yield _table(SetRule.UNIQUE, change.type, rows, ids.take(pa.array(rows)), columns, shown, other)


def missing_endpoints(change: Resolved, proposal: Proposal) -> Iterator[pa.Table]:
    """Edges that are put and whose node is not there afterwards, at either end."""
    if isinstance(change.type, EdgeType):
        for column, node in change.type.endpoints:
            yield from missing_endpoints_at(change, proposal, column, node)


def missing_endpoints_at(change: Resolved, proposal: Proposal, column: str, node: str) -> Iterator[pa.Table]:
    """The same at one end."""
    ends = change.rows.column(column).combine_chunks()
    missing = _missing_nodes(proposal, node, pc.unique(ends))
    if len(missing):
        rows = _where(pc.is_in(ends, value_set=missing))
        ids, values = (change.rows.column(name).take(pa.array(rows)) for name in ("id", column))
        yield _table(SetRule.ENDPOINT, change.type, row=rows, id=ids, columns=(column,), value=values)


def stranded_edges(change: Resolved, proposal: Proposal) -> Iterator[pa.Table]:
    """Stored edges that stay while the change takes their node away."""
    if not isinstance(change.type, NodeType) or len(lost := _lost(change)) == 0:
        return
    for edge in proposal.catalog.edges.values():
        own = proposal.changes.get(edge.table_key)
        if own is not None and own.overwrites:
            continue
        for column, node in edge.endpoints:
            if node != change.type.name:
                continue
            stored = _staying(proposal.stored.find(edge.table_key, column, lost, ("id",)), own)
            if stored.num_rows:
                yield _table(
                    SetRule.ENDPOINT, edge, id=stored.column("id"), columns=(column,), value=stored.column(column)
                )


def cardinality(change: Resolved, proposal: Proposal) -> Iterator[pa.Table]:
    """Sources whose edges the change puts, moves away or removes, that stay, and that have too few or too many edges
    afterwards. None at all is too few; a source that never had an edge is not looked at."""
    edge = change.type
    if not isinstance(edge, EdgeType) or edge.cardinality.is_default:
        return
    sources = _touched_sources(change)
    nodes = proposal.nodes(edge.source)
    if nodes is not None:
        sources = sources.filter(pc.invert(pc.is_in(sources, value_set=_lost(nodes))))
    counts = _counts(change.rows.column("src"), sources)
    if not change.overwrites:
        stored = _staying(proposal.stored.find(edge.table_key, "src", sources, ("id",)), change)
        counts += _counts(stored.column("src"), sources)
    wrong = counts < edge.cardinality.low
    if edge.cardinality.high is not None:
        wrong |= counts > edge.cardinality.high
    at = np.flatnonzero(wrong)
    if len(at):
        yield _table(
            SetRule.CARDINALITY, edge, columns=("src",), value=sources.take(pa.array(at)), count=pa.array(counts[at])
        )


#: Every rule over resolved changes, in the order in which violations are reported.
RULES: tuple[RuleFunction, ...] = (existing_ids, unique, missing_endpoints, stranded_edges, cardinality)


def error_of(type_: NodeType | EdgeType, violation: Mapping[str, Any]) -> OmniGraphError:
    """The error that a row of `VIOLATIONS` means."""
    name, row, value = type_.name, violation["row"], violation["value"]
    match SetRule(violation["rule"]):
        case SetRule.REPEATED_ID if isinstance(type_, NodeType) and type_.key:
            first = violation["first"]
            hint = f"rows {first + 1} and {row + 1}"
            message = f"duplicate key '{value}' of {key_label(type_)}"
            return UniqueViolation(message, hint=hint, type=name, row=row, first_row=first, ids=[value, value])
        case SetRule.REPEATED_ID | SetRule.EXISTING_ID:
            kind = "node" if isinstance(type_, NodeType) else "edge"
            message = f"{kind} type '{name}' already has this id"
            return KeyConflict(message, hint=f"id '{value}'", kind=kind, type=name, id=value, row=row)
        case SetRule.UNIQUE:
            label, holders = column_label(name, tuple(violation["columns"])), [violation["other"], violation["id"]]
            message = f"@unique violation on {label}: value '{value}' held by '{holders[0]}' and '{holders[1]}'"
            return UniqueViolation(message, type=name, ids=holders, row=row)
        case SetRule.ENDPOINT:
            (column,) = violation["columns"]
            node = dict(type_.endpoints)[column] if isinstance(type_, EdgeType) else name
            stays = None if row is not None else _stranded(name, node, violation["id"])
            message = f"{column} '{value}' not found in {node}"
            return EndpointMissing(message, hint=stays, type=name, endpoint=column, id=value)
        case SetRule.CARDINALITY:
            count, rule = violation["count"], type_.cardinality if isinstance(type_, EdgeType) else None
            bound = "" if rule is None else f"min {rule.low}" if count < rule.low else f"max {rule.high}"
            message = f"@card violation on edge {name}: source '{value}' has {count} edges ({bound})"
            return CardinalityViolation(message, type=name, source=value, count=count)


def _stranded(edge: str, node: str, id_: str) -> str:
    return f"edge '{id_}' of type {edge} stays and points at it: change {edge} in the same write, or keep the {node}"


# What the rules are made of


def tuple_texts(type_: NodeType | EdgeType, rows: pa.Table | pa.RecordBatch, columns: tuple[str, ...]) -> pa.Array:
    """One text per row that is equal exactly for equal tuples; null where any column is null."""
    texts = _texts(type_, rows, columns)
    return texts[0] if len(texts) == 1 else composite_id(texts)


def _texts(type_: NodeType | EdgeType, rows: pa.Table | pa.RecordBatch, columns: tuple[str, ...]) -> list[pa.Array]:
    texts = []
    for name in columns:
        column, known = rows.column(name), type_.properties.get(name)
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        texts.append(canonical_text(array, known.type if known else _TEXT))
    return texts


def _shown(change: Resolved, columns: tuple[str, ...], rows: npt.NDArray[np.int64]) -> pa.Array:
    """Tuples as messages show them: ``x`` or ``(x, y)``."""
    texts = _texts(change.type, change.rows.select(dict.fromkeys(columns)).take(pa.array(rows)), columns)
    if len(texts) == 1:
        return texts[0]
    return pc.binary_join_element_wise("(", pc.binary_join_element_wise(*texts, ", "), ")", "")


def _stored_holders(change: Resolved, proposal: Proposal, columns: tuple[str, ...], texts: pa.Array) -> pa.Array | None:
    """For each row the id of a stored row that stays and has its tuple, or null; None when nobody has any."""
    wanted = pc.unique(change.rows.column(columns[0]).combine_chunks()).drop_null()
    if change.overwrites or len(wanted) == 0:
        return None
    stored = _staying(proposal.stored.find(change.type.table_key, columns[0], wanted, ("id", *columns)), change)
    if stored.num_rows == 0:
        return None
    held = tuple_texts(change.type, stored, columns)
    at = pc.index_in(texts, value_set=held.drop_null())
    return id_column(stored).filter(pc.is_valid(held)).take(at) if at.null_count < len(at) else None


def _missing_nodes(proposal: Proposal, node: str, ids: pa.Array) -> pa.Array:
    """Those ids that are no node of the type once the write is done."""
    own = proposal.nodes(node)
    if own is not None:
        ids = ids.filter(pc.invert(pc.is_in(ids, value_set=id_column(own.rows))))
        if own.overwrites:
            return ids
    if len(ids) == 0:
        return ids
    stored = id_column(proposal.stored.find(f"node:{node}", "id", ids, ()))
    if own is not None:
        stored = stored.filter(pc.invert(pc.is_in(stored, value_set=id_column(own.removed))))
    return ids.filter(pc.invert(pc.is_in(ids, value_set=stored)))


def _lost(nodes: Resolved) -> pa.Array:
    """Ids of the nodes that are no longer there afterwards."""
    removed = id_column(nodes.removed)
    return removed.filter(pc.invert(pc.is_in(removed, value_set=id_column(nodes.rows))))


def _staying(stored: pa.Table, change: Resolved | None) -> pa.Table:
    """Stored rows that the change of their type neither replaces nor removes."""
    if change is None or stored.num_rows == 0:
        return stored
    return stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=change.gone_ids)))


def _touched_sources(change: Resolved) -> pa.Array:
    parts = [change.rows.column("src"), change.replaced.column("src"), change.removed.column("src")]
    return pc.unique(pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())).sort()


def _repeats(values: pa.Array) -> npt.NDArray[np.int64]:
    """For each value that occurred before the position of its first occurrence, otherwise -1; null never did."""
    encoded = values.dictionary_encode()
    repeats = np.full(len(values), -1, np.int64)
    if len(encoded.dictionary) < len(values) - values.null_count:
        codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        found, first = np.unique(codes, return_index=True)
        earlier = first[np.searchsorted(found, codes)]
        is_later = (codes >= 0) & (earlier < np.arange(len(codes)))
        repeats[is_later] = earlier[is_later]
    return repeats


def _counts(values: Any, wanted: pa.Array) -> npt.NDArray[np.int64]:
    """How often each wanted value occurs."""
    positions = pc.index_in(values, value_set=wanted).drop_null()
    return np.bincount(positions.to_numpy(), minlength=len(wanted)).astype(np.int64)


def _mask(values: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), bool)


def _where(mask: Any) -> npt.NDArray[np.int64]:
    return np.flatnonzero(_mask(mask))


def _key_of(type_: NodeType | EdgeType) -> tuple[str, ...]:
    return (type_.key if isinstance(type_, NodeType) else None) or ("id",)


def _table(
    rule: SetRule,
    type_: NodeType | EdgeType,
    row: npt.NDArray[np.int64] | None = None,
    id: Any = None,
    columns: tuple[str, ...] = (),
    value: Any = None,
    other: Any = None,
    count: Any = None,
    first: Any = None,
) -> pa.Table:
    size = len(value)
    arrays = {
        "rule": pa.repeat(rule.value, size),
        "table_key": pa.repeat(type_.table_key, size),
        "row": None if row is None else pa.array(row, pa.int64()),
        "id": id,
        "columns": pa.repeat(pa.scalar(list(columns), pa.list_(pa.string())), size),
        "value": value,
        "other": other,
        "count": count,
        "first": first,
    }
    filled = [pa.nulls(size, each.type) if arrays[each.name] is None else arrays[each.name] for each in VIOLATIONS]
    return pa.table(filled, schema=VIOLATIONS)
