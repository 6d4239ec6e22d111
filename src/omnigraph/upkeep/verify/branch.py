"""Everything about one branch, table by table. What several branches share is looked at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.inspect import DAMAGE, damage_of
from omnigraph.storage.manifest import Pin
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import Handle
from omnigraph.upkeep.verify import rows
from omnigraph.upkeep.verify.report import Ledger
from omnigraph.upkeep.verify.tables import FILES, check_columns, check_indexes, open_pin, unknown_tables

IDS = "ids"
KEYS = "keys"
VALUES = "values"
UNIQUE = "unique"
ENDPOINTS = "endpoints"
CARDINALITY = "cardinality"


@dataclass(frozen=True, slots=True)
class Table:
    """One readable table of a branch with the columns of its type."""

    type: NodeType | EdgeType
    pin: Pin
    handle: Handle

    @property
    def key(self) -> str:
        return self.pin.table_key


class BranchCheck:
    """Checks branches one after the other and remembers which tables were looked at.

    Nothing is asked about the rows of tables that are known to be damaged: reading them proves nothing, and may end
    the process.
    """

    def __init__(self, store: GraphStore, ledger: Ledger, damaged: Set[Pin] = frozenset()) -> None:
        self._store = store
        self._ledger = ledger
        self._damaged = damaged
        self._opened: dict[Pin, Handle | None] = {}
        self._seen: set[object] = set()

    def tables(self, snapshot: Snapshot, catalog: Catalog | None) -> None:
        """Every table of a branch, then the rows of those that can be read."""
        handles = {key: self._open(snapshot.branch, pin) for key, pin in snapshot.pins.items()}
        if catalog is None:
            return
        self._ledger.extend(unknown_tables(snapshot.branch, catalog, set(snapshot.pins)))
        readable = {}
        for key, handle in handles.items():
            type_ = catalog.by_table_key(key)
            if handle is not None and type_ is not None:
                pin = snapshot.pins[key]
                if not self._is_new(pin, "columns") or check_columns(self._ledger, snapshot.branch, type_, handle):
                    readable[key] = Table(type_, pin, handle)
        self._rows(snapshot.branch, readable)

    def _open(self, branch: str, pin: Pin) -> Handle | None:
        if pin in self._damaged:
            return None
        if pin not in self._opened:
            self._opened[pin] = open_pin(self._store, self._ledger, branch, pin)
            handle = self._opened[pin]
            if handle is not None:
                check_indexes(self._ledger, branch, pin.table_key, handle)
        return self._opened[pin]

    def _rows(self, branch: str, tables: Mapping[str, Table]) -> None:
        for table in tables.values():
            try:
                self._alone(branch, table)
                if isinstance(table.type, NodeType):
                    self._with_edges(branch, table, list(_incoming(table, tables)))
            except DAMAGE as error:
                self._ledger.add(FILES, branch, table.key, f"its rows cannot be read: {damage_of(error)}")

    def _alone(self, branch: str, table: Table) -> None:
        """Rules about the rows of one table."""
        if not self._is_new(table.pin, "rows"):
            return
        type_, count = table.type, table.pin.row_count
        if isinstance(type_, NodeType) and type_.key is not None:
            with self._ledger.looking_at(KEYS, count):
                wrong = rows.wrong_keys(table.handle, type_)
            self._note(KEYS, branch, table, wrong, "ids differ from their keys")
        if rows.ruled_columns(type_):
            with self._ledger.looking_at(VALUES, count):
                said = rows.wrong_value(table.handle, type_)
            if said is not None:
                self._ledger.add(VALUES, branch, table.key, said)
        for columns in type_.uniques:
            texts = rows.tuple_text(type_, columns)
            with self._ledger.looking_at(UNIQUE, count):
                wrong = self._repeated(table, texts)
            self._note(UNIQUE, branch, table, wrong, f"values of @unique({', '.join(columns)}) occur more than once")
        if isinstance(type_, EdgeType):
            with self._ledger.looking_at(IDS, count):
                wrong = self._repeated(table, rows.column_text("id"))
            self._note(IDS, branch, table, wrong, "ids occur more than once")
            self._cardinality(branch, table, type_)

    def _repeated(self, table: Table, texts: rows.Texts) -> rows.Wrong | None:
        parts = rows.parts_of(table.pin.row_count)
        for part in range(parts):
            wrong = rows.repeated(table.handle, texts, rows.collect(table.handle, texts, part, parts))
            if wrong is not None:
                return wrong
        return None

    def _cardinality(self, branch: str, table: Table, edge: EdgeType) -> None:
        if edge.cardinality.is_default:
            return
        texts, low, high = rows.column_text("src"), edge.cardinality.low, edge.cardinality.high
        parts = rows.parts_of(table.pin.row_count)
        with self._ledger.looking_at(CARDINALITY, table.pin.row_count):
            for part in range(parts):
                known = rows.collect(table.handle, texts, part, parts)
                wrong = rows.outside(table.handle, texts, known, low, high)
                if wrong is not None:
                    break
        allowed = f"{low}..{'' if high is None else high}"
        self._note(CARDINALITY, branch, table, wrong, f"sources have fewer or more edges than @card({allowed})")

    def _with_edges(self, branch: str, node: Table, incoming: list[tuple[Table, str]]) -> None:
        """Ids of one node type, and every edge that ends at it; its hashes are made once for all of them."""
        fresh = [(edge, end) for edge, end in incoming if self._is_new((edge.pin, end, node.pin), "endpoints")]
        is_new = self._is_new(node.pin, "ids")
        if not fresh and not is_new:
            return
        texts = rows.column_text("id")
        parts = rows.parts_of(node.pin.row_count)
        for part in range(parts):
            with self._ledger.looking_at(IDS, node.pin.row_count if is_new and part == 0 else 0):
                known = rows.collect(node.handle, texts, part, parts)
                wrong = rows.repeated(node.handle, texts, known) if is_new else None
            self._note(IDS, branch, node, wrong, "ids occur more than once")
            for edge, end in fresh:
                with self._ledger.looking_at(ENDPOINTS, edge.pin.row_count if part == 0 else 0):
                    wrong = rows.missing(edge.handle, rows.column_text(end), known, part, parts)
                self._note(ENDPOINTS, branch, edge, wrong, f"'{end}' values are no {node.type.name}")

    def _note(self, check: str, branch: str, table: Table, wrong: rows.Wrong | None, what: str) -> None:
        if wrong is not None:
            self._ledger.add(check, branch, table.key, f"{wrong.count} {what}: {wrong}")

    def _is_new(self, what: object, check: str) -> bool:
        if (what, check) in self._seen:
            return False
        self._seen.add((what, check))
        return True


def _incoming(node: Table, tables: Mapping[str, Table]) -> Iterator[tuple[Table, str]]:
    for table in tables.values():
        if isinstance(table.type, EdgeType):
            if table.type.source == node.type.name:
                yield table, "src"
            if table.type.target == node.type.name:
                yield table, "dst"
