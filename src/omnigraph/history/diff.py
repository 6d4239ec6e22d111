"""What differs between two states of a graph, entity by entity.

Tables that both states show at the same version are skipped. The others are compared one after the other while the
answer is read, so that memory follows the changes of one type. What cannot be compared is refused before the first
change is given out. The order is fixed: nodes before edges, then type, then id.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.errors import ChangeSchemaBoundary, HistoricalVersionReclaimed, TypeNotFound
from omnigraph.history.entity_changes import KINDS, ChangeBatch, ChangeFilter, EntityChange
from omnigraph.history.recent_deltas import recent_deltas
from omnigraph.storage.delta import DELETE, OPS, OrderedChanges, require_comparable
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin, table_version_of
from omnigraph.storage.tables.table_scan import AdaptiveBatches

#: Changes of a diff or a feed that become objects at a time, and the same for types with blobs.
_CHANGE_BATCH_ROWS = 1_024
_CHANGE_BLOB_BATCH_ROWS = 32

#: Bytes of images on one side that become objects at a time, unless a single one is larger.
_CHANGE_BATCH_BYTES = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class DiffStats:
    """How many entities changed, and the names of their types."""

    inserts: int
    updates: int
    deletes: int
    types_affected: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "inserts": self.inserts,
            "updates": self.updates,
            "deletes": self.deletes,
            "types_affected": list(self.types_affected),
        }

    def __str__(self) -> str:
        types = f" in {', '.join(self.types_affected)}" if self.types_affected else ""
        return f"{self.inserts} inserted, {self.updates} updated, {self.deletes} deleted{types}"


class Diff:
    """The changes that lead from one state to another. Iterate it as often as you like; nothing is kept in between.

    Attributes:
        from_commit, to_commit: head commits of the two states.
        from_version, to_version: their manifest versions.
        branch: branch of the later state.
        pairs: types whose tables differ in some way, in the order of the answer.
    """

    def __init__(
        self, store: GraphStore, before: ManifestSnapshot, after: ManifestSnapshot, filter_: ChangeFilter
    ) -> None:
        self._store = store
        self._filter = filter_
        self.from_commit = store.head_id(before)
        self.to_commit = store.head_id(after)
        self.from_version = before.version
        self.to_version = after.version
        self.branch = after.branch
        self.pairs = comparable(store, table_pairs(before, after, filter_), self.to_commit)
        self._stats: DiffStats | None = None

    def __iter__(self) -> Iterator[EntityChange]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[ChangeBatch]:
        """The changes in Arrow, some thousand of one type at a time."""
        count = _Counts()
        for pair in self.pairs:
            changes = self.changes_of(pair)
            count.add(pair, changes)
            yield from batches_of(pair, changes)
        self._stats = count.stats()

    def changes_of(self, pair: TablePair) -> OrderedChanges:
        """Ids and operations of one type; images are read from it slice by slice."""
        return recent_deltas(self._store).changes(self._store, pair.before, pair.after, self._filter.wanted_ops)

    @property
    def stats(self) -> DiffStats:
        """Counts. They need no images, and nothing at all once the changes were read to their end."""
        if self._stats is None:
            count = _Counts()
            for pair in self.pairs:
                count.add(pair, self.changes_of(pair))
            self._stats = count.stats()
        return self._stats

    def rows(self) -> list[dict[str, Any]]:
        """Every change in its JSON form."""
        return [change.to_dict() for change in self]

    def jsonl(self) -> Iterator[str]:
        """One line of JSON per change."""
        for change in self:
            yield json.dumps(change.to_dict(), ensure_ascii=False, separators=(",", ":")) + "\n"

    def to_json(self, *, indent: int | None = None) -> str:
        """The changes with their counts as one JSON text."""
        separators = (",", ":") if indent is None else None
        return json.dumps(self._document(), ensure_ascii=False, indent=indent, separators=separators)

    def to_arrow(self, type_name: str | None = None) -> pa.Table:
        """The changes as a table.

        Args:
            type_name: one type, whose images are structs in native types. Without it all types are in one table and
                the images are JSON texts.
        """
        if type_name is None:
            return _all_types(self)
        pairs = [pair for pair in self.pairs if pair.type == type_name]
        if not pairs:
            raise TypeNotFound(f"no change of type '{type_name}' can be among these", type=type_name)
        parts = []
        for pair in pairs:
            changes = self.changes_of(pair)
            whole = ChangeBatch(pair.kind, pair.type, pair.type_id, changes.slice(0, len(changes)))
            parts.append(whole.columns())
        return pa.concat_tables(parts, promote_options="default")

    def to_dict(self) -> dict[str, Any]:
        """The compact form without images, for programs that know it."""
        return {
            "from_version": self.from_version,
            "to_version": self.to_version,
            "branch": self.branch,
            "changes": [_compact(change, self.to_version) for change in self],
            "stats": self.stats.to_dict(),
        }

    def _document(self) -> dict[str, Any]:
        return {
            "from_commit_id": self.from_commit,
            "to_commit_id": self.to_commit,
            "changes": self.rows(),
            "stats": self.stats.to_dict(),
        }

    def __repr__(self) -> str:
        return f"Diff({self.from_commit} → {self.to_commit}, {len(self.pairs)} tables)"


class _Counts:
    """Counts in the making."""

    def __init__(self) -> None:
        self._ops = np.zeros(len(OPS), np.int64)
        self._types: dict[str, None] = {}

    def add(self, pair: TablePair, changes: OrderedChanges) -> None:
        self._ops += np.bincount(changes.ops, minlength=len(OPS))
        if len(changes):
            self._types[pair.type] = None

    def stats(self) -> DiffStats:
        inserts, updates, deletes = self._ops.tolist()
        return DiffStats(inserts, updates, deletes, tuple(self._types))


def batches_of(
    pair: TablePair, changes: OrderedChanges, start: int = 0, most: int | None = None
) -> Iterator[ChangeBatch]:
    """The changes of one type from a place on, in batches that fit into memory.

    Args:
        most: rows of a batch at most, if the caller wants fewer than usual.
    """
    rows = _CHANGE_BLOB_BATCH_ROWS if changes.has_blobs else _CHANGE_BATCH_ROWS
    pace = AdaptiveBatches(min(rows, most or rows), _CHANGE_BATCH_BYTES)
    for first, last in pace.steps(start, len(changes)):
        part = changes.slice(first, last)
        pace.took(last - first, max(part.before.nbytes, part.after.nbytes))
        yield ChangeBatch(pair.kind, pair.type, pair.type_id, part)


def _all_types(diff: Diff) -> pa.Table:
    names = ("kind", "type", "id", "op", "changed", "before", "after")
    types = [pa.string()] * 4 + [pa.list_(pa.string())] + [pa.string()] * 2
    schema = pa.schema(list(zip(names, types, strict=True)))
    parts = []
    for batch in diff.batches():
        rows = [
            (each.kind, each.type, each.id, each.op, list(each.changed), _text(each.before), _text(each.after))
            for each in batch
        ]
        parts.append(pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=names).cast(schema))
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _text(image: dict[str, Any] | None) -> str | None:
    return None if image is None else json.dumps(image, ensure_ascii=False, separators=(",", ":"))


def _compact(change: EntityChange, version: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "table_key": f"{change.kind}:{change.type}",
        "kind": change.kind,
        "type_name": change.type,
        "id": change.id,
        "op": change.op,
        "manifest_version": version,
    }
    image = change.before if change.op == DELETE else change.after
    if image and "endpoints" in image:
        ends = image["endpoints"]
        found["endpoints"] = {"src": ends["from"], "dst": ends["to"]}
    return found


@dataclass(frozen=True, slots=True)
class TablePair:
    """One type in both states; None where it does not exist."""

    table_key: str
    before: Pin | None
    after: Pin | None

    @property
    def kind(self) -> str:
        return self.table_key.partition(":")[0]

    @property
    def type(self) -> str:
        return self.table_key.partition(":")[2]

    @property
    def names(self) -> set[str]:
        """Table keys of both states; a renamed type answers to both."""
        return {self.table_key, *(pin.table_key for pin in (self.before, self.after) if pin)}

    @property
    def type_id(self) -> str:
        pin = self.after or self.before
        return pin.location.rpartition("/")[2] if pin else ""


def table_pairs(before: ManifestSnapshot, after: ManifestSnapshot, filter_: ChangeFilter) -> list[TablePair]:
    """Types whose tables differ in some way: nodes before edges, then by name.

    A renamed type keeps its table, so tables are matched by where they lie; names match what is left.
    """
    partners = _partners(before.pins, after.pins)
    pairs = [TablePair(key, before.pins.get(partners.get(key, "")), pin) for key, pin in after.pins.items()]
    taken = set(partners.values())
    pairs += [TablePair(key, pin, None) for key, pin in before.pins.items() if key not in taken]
    wanted = [pair for pair in pairs if any(map(filter_.wants_table, pair.names)) and not _is_same(pair)]
    return sorted(wanted, key=lambda pair: (KINDS.index(pair.kind), pair.type))


def comparable(store: GraphStore, pairs: list[TablePair], commit_id: str) -> list[TablePair]:
    """The pairs, after making sure that each can be opened and compared.

    Raises:
        CorruptGraph: a newest state shows a version that is missing.
        HistoricalVersionReclaimed: names the type and the commit.
        ChangeSchemaBoundary: likewise.
    """
    for pair in pairs:
        try:
            for pin in filter(None, (pair.before, pair.after)):
                store.table(pin)
            require_comparable(store.tables, pair.before, pair.after)
        except HistoricalVersionReclaimed:
            raise HistoricalVersionReclaimed(
                f"the rows of type '{pair.type}' at commit {commit_id} or before it were cleaned up",
                hint="choose newer states",
                commit_id=commit_id,
                type=pair.type,
            ) from None
        except ChangeSchemaBoundary as error:
            details = {**error.details, "graph_commit_id": commit_id, "type_name": pair.type}
            raise ChangeSchemaBoundary(error.message, hint=error.hint, **details) from None
    return pairs


def _partners(before: Mapping[str, Pin], after: Mapping[str, Pin]) -> dict[str, str]:
    """Later table keys with their earlier ones."""
    places = {pin.location: key for key, pin in before.items()}
    found = {key: places[pin.location] for key, pin in after.items() if pin.location in places}
    left = before.keys() - set(found.values())
    return found | {key: key for key in after if key not in found and key in left}


def _is_same(pair: TablePair) -> bool:
    old, new = pair.before, pair.after
    if old is None or new is None:
        return False
    return table_version_of(old) == table_version_of(new)
