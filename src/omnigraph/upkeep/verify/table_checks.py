"""Checks on the tables that a branch shows: each is there, is the right one, and can be read and searched.

A deep check also reads every value of every data file and compares it with the digest that was recorded with its
commit. A file is read once, however many branches show it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import pyarrow as pa

from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.inspect_files import (
    DAMAGE,
    DataFile,
    ValueProcess,
    damage_of,
    data_files,
    files_damage,
    index_damage,
    indexes,
    made_by,
    recorded_digests,
)
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin, table_version_of
from omnigraph.storage.tables.datasets import is_blob, physical_schema
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.upkeep.drift import DriftKind, drift_kind
from omnigraph.upkeep.verify.control_checks import explained_tables
from omnigraph.upkeep.verify.history_checks import read_branch
from omnigraph.upkeep.verify.report import Ledger, Problem

PINS = "pins"
FILES = "files"
COLUMNS = "columns"
HEADS = "heads"
INDEXES = "indexes"
DIGESTS = "digests"

_HARMLESS_DRIFT = {
    DriftKind.UNPUBLISHED: "a write that never became visible, which the next one passes over",
    DriftKind.MAINTENANCE: "other software only maintained it, its rows are the same and the next write goes on",
}


def open_pin(store: GraphStore, ledger: Ledger, branch: str, pin: Pin) -> LanceTable | None:
    """The table that a pin names, if it is there and every one of its files is."""
    with ledger.looking_at(PINS):
        try:
            handle = store.tables.fresh(table_version_of(pin))
            rows = int(handle.count_rows())
        except DAMAGE as error:
            ledger.add(PINS, branch, pin.table_key, f"version {pin.version} cannot be opened: {damage_of(error)}")
            return None
        if pin.origin is not None and (maker := made_by(handle)) != pin.origin:
            message = f"version {pin.version} was made by transaction {maker}, the graph names {pin.origin}"
            ledger.add(PINS, branch, pin.table_key, message)
        if rows != pin.row_count:
            message = f"version {pin.version} has {rows} rows, the graph says {pin.row_count}"
            ledger.add(PINS, branch, pin.table_key, message)
    with ledger.looking_at(FILES, len(handle.get_fragments())):
        damage = files_damage(handle)
        if damage is not None:
            ledger.add(FILES, branch, pin.table_key, f"version {pin.version} cannot be read: {damage}")
    return handle if damage is None else None


def check_columns(ledger: Ledger, branch: str, type_: NodeType | EdgeType, handle: LanceTable) -> bool:
    """Whether the table has the columns of its type. Their order means nothing."""
    with ledger.looking_at(COLUMNS):
        wanted = {field.name: field for field in physical_schema(table_schema(type_))}
        present = {field.name: field for field in handle.schema}
        found = []
        for name in sorted(wanted.keys() | present.keys()):
            if name not in present:
                found.append(f"column '{name}' is missing")
            elif name not in wanted:
                found.append(f"column '{name}' belongs to no property")
            elif _meaning(wanted[name]) != _meaning(present[name]):
                told = [f"{field.type}{'?' if field.nullable else ''}" for field in (present[name], wanted[name])]
                found.append(f"column '{name}' is {told[0]}, the schema asks for {told[1]}")
        for message in found:
            ledger.add(COLUMNS, branch, type_.table_key, message)
        return not found


def _meaning(field: pa.Field) -> tuple[object, bool]:
    """What a column holds. What blobs are made of has changed with Lance, and no value depends on it."""
    return "Blob" if is_blob(field) else field.type, field.nullable


def unknown_tables(branch: str, catalog: Catalog, keys: set[str]) -> list[Problem]:
    """Types without a table, and tables without a type."""
    wanted = {type_.table_key for types in (catalog.nodes, catalog.edges) for type_ in types.values()}
    lost = [Problem(COLUMNS, branch, key, "the schema has this type, the graph no table") for key in wanted - keys]
    extra = [Problem(COLUMNS, branch, key, "the graph has this table, the schema no type") for key in keys - wanted]
    return sorted(lost + extra)


def drift_problems(store: GraphStore, branch: str) -> list[Problem]:
    """Tables that moved past what the branch shows, with no record that explains it.

    What writers of this software left there, and versions with the same rows, the next write passes over. At anything
    else it would refuse.
    """
    snapshot = read_branch(store, branch)
    explained = explained_tables(store)
    found = []
    for key, pin in snapshot.pins.items():
        if not snapshot.owns(pin.branch) or (branch, key) in explained:
            continue
        newest = store.tables.newest_or_none(pin.location, pin.branch)
        if newest is None or newest.version <= pin.version:
            continue
        message = f"the table is at version {newest.version}, the graph shows {pin.version}"
        why = _HARMLESS_DRIFT.get(drift_kind(newest, above=pin.version))
        said = f"{message}: {why}" if why else f"{message}, nothing explains it; `omnigraph repair` tells what was done"
        found.append(Problem(HEADS, branch, key, said, harmless=why is not None))
    return found


def check_indexes(ledger: Ledger, branch: str, table_key: str, handle: LanceTable) -> None:
    """Whether each index that exists gives answers."""
    try:
        present = indexes(handle)
    except DAMAGE as error:
        ledger.add(INDEXES, branch, table_key, f"its indexes cannot be listed: {damage_of(error)}")
        return
    for index in present:
        with ledger.looking_at(INDEXES):
            damage = index_damage(handle, index)
            if damage is not None:
                ledger.add(INDEXES, branch, table_key, f"the index on '{index.field_names[0]}' is broken: {damage}")


class DigestCheck:
    """Checks branches one after the other, main first: branches may show its files, and it has their digests.

    Attributes:
        damaged: tables that hold something else than what was written. Nothing more can be said about their rows.
    """

    def __init__(self, store: GraphStore, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger
        self._recorded: dict[str, str] = {}
        self._damage: dict[tuple[str, tuple[tuple[str, int], ...]], str | None] = {}
        self._process = ValueProcess(store.location)
        self.damaged: set[Pin] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.__exit__(kind, error, trace)

    def tables(self, snapshot: ManifestSnapshot) -> None:
        """Every table that a branch shows."""
        with self._ledger.looking_at(DIGESTS, 0):
            try:
                self._recorded |= recorded_digests(snapshot.handle)
            except DAMAGE as error:
                self._ledger.add(DIGESTS, snapshot.branch, None, f"its digests cannot be read: {damage_of(error)}")
        for pin in snapshot.pins.values():
            self._table(snapshot.branch, pin)

    def _table(self, branch: str, pin: Pin) -> None:
        try:
            files = data_files(self._store.tables.fresh(table_version_of(pin)))
        except DAMAGE:
            return  # the check of the pins says so
        new = [file for file in files if (file.name, file.columns) not in self._damage]
        for file in new:
            with self._ledger.looking_at(DIGESTS):
                damage = self._damage[file.name, file.columns] = self._damage_of(pin, file)
            if damage is not None:
                self._ledger.add(DIGESTS, branch, pin.table_key, f"the file {file.name} {damage}")
        if any(self._damage[file.name, file.columns] is not None for file in files):
            self.damaged.add(pin)
        uncovered = sum(file.recorded(self._recorded) is None for file in new)
        if uncovered:
            message = f"{uncovered} of {len(files)} data files are not covered: no digest was recorded for them"
            self._ledger.add(DIGESTS, branch, pin.table_key, message, harmless=True)

    def _damage_of(self, pin: Pin, file: DataFile) -> str | None:
        """Why the values of a file are not those that were written; without a digest, why they cannot be read."""
        try:
            found = self._process.digests(table_version_of(pin), file)
        except DAMAGE as error:
            return f"cannot be decoded: {damage_of(error)}"
        recorded = file.recorded(self._recorded)
        if recorded is None or found == recorded:
            return None
        wrong = [name for (name, _), *two in zip(file.columns, found, recorded, strict=True) if two[0] != two[1]]
        return f"does not hold what was written in {', '.join(map(repr, wrong))}"
