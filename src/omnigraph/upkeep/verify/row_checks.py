"""Checks on the rows of a branch: ids, keys, values, unique tuples, endpoints, cardinality.

Rows are streamed and become hashes; only those are held, a bounded number at a time. They narrow a table to a few
suspects. Those are read again and judged by the rules that every write keeps (`write/set_rules.py`), as if one write
had put them. What several branches share is looked at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.inspect_files import DAMAGE, damage_of, stream
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.text_hash import TextHashes, hash_texts
from omnigraph.upkeep.verify.report import Ledger
from omnigraph.upkeep.verify.table_checks import FILES, check_columns, check_indexes, open_pin, unknown_tables
from omnigraph.write.change import Change, Mode, Resolved
from omnigraph.write.row_rules import id_rules, required, row_error, ruled_columns, value_rules
from omnigraph.write.set_rules import (
    Proposal,
    cardinality,
    missing_endpoints_at,
    repeated_ids,
    tuple_texts,
    unique_on,
)

#: Examples of wrong rows that `verify` names in one sentence.
_VERIFY_EXAMPLES = 3

#: Suspicious rows that `verify` looks at closely per rule and table. Behind them the rule is broken anyway.
_VERIFY_SUSPECTS = 65_536


IDS = "ids"
KEYS = "keys"
VALUES = "values"
UNIQUE = "unique"
ENDPOINTS = "endpoints"
CARDINALITY = "cardinality"

_SECRET = secrets.randbits(64)  # nobody can choose texts that collide
_NOTHING = pa.schema([("id", pa.string()), ("src", pa.string())]).empty_table()


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """One readable table of a branch with the columns of its type."""

    catalog: Catalog
    type: NodeType | EdgeType
    pin: Pin
    handle: LanceTable

    @property
    def key(self) -> str:
        return self.pin.table_key

    @property
    def parts(self) -> int:
        """In how many parts it is looked at."""
        return max(1, -(-self.pin.row_count // limits.VERIFY_PART_ROWS))

    def texts(self, *columns: str) -> Texts:
        return Texts(columns, lambda batch: tuple_texts(self.type, batch, columns))

    def as_change(self, rows: pa.Table) -> tuple[Resolved, Proposal]:
        """Rows of the table as if one write had put all that there is."""
        change = Resolved(self.type, Change(self.key, rows, Mode.OVERWRITE), rows, _NOTHING, _NOTHING)
        return change, Proposal(self.catalog, {self.key: change}, _Scans({}))


@dataclass(frozen=True, slots=True)
class Texts:
    """One text per row of a table that is equal exactly for equal tuples; null where a column is null."""

    columns: tuple[str, ...]
    of: Callable[[pa.RecordBatch | pa.Table], pa.Array]

    def batches(self, handle: LanceTable) -> Iterator[pa.Array]:
        for batch in stream(handle, self.columns):
            yield self.of(batch).drop_null()


@dataclass(frozen=True, slots=True)
class _Scans:
    """Looks rows up by reading whole tables: an index may be what is wrong."""

    handles: Mapping[str, LanceTable]

    def find(self, table_key: str, column: str, values: pa.Array, columns: tuple[str, ...]) -> pa.Table:
        names = list(dict.fromkeys((column, *columns)))
        batches = stream(self.handles[table_key], names)
        found = [batch.filter(pc.is_in(batch.column(column), value_set=values)) for batch in batches]
        return pa.Table.from_batches(found, schema=pa.schema([self.handles[table_key].schema.field(n) for n in names]))


@dataclass(frozen=True, slots=True)
class Wrong:
    """Rows that break a rule: how many, and a few of them."""

    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"'{example}'" for example in self.examples)
        return shown if self.count <= len(self.examples) else f"{shown} and {self.count - len(self.examples)} more"


class BranchCheck:
    """Checks branches one after the other and remembers which tables were looked at.

    Nothing is asked about the rows of tables that are known to be damaged: reading them proves nothing, and may end
    the process.
    """

    def __init__(self, store: GraphStore, ledger: Ledger, damaged: Set[Pin] = frozenset()) -> None:
        self._store = store
        self._ledger = ledger
        self._damaged = damaged
        self._opened: dict[Pin, LanceTable | None] = {}
        self._seen: set[object] = set()

    def tables(self, snapshot: ManifestSnapshot, catalog: Catalog | None) -> None:
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
                    readable[key] = CheckedTable(catalog, type_, pin, handle)
        self._rows(snapshot.branch, readable)

    def _open(self, branch: str, pin: Pin) -> LanceTable | None:
        if pin in self._damaged:
            return None
        if pin not in self._opened:
            self._opened[pin] = open_pin(self._store, self._ledger, branch, pin)
            handle = self._opened[pin]
            if handle is not None:
                check_indexes(self._ledger, branch, pin.table_key, handle)
        return self._opened[pin]

    def _rows(self, branch: str, tables: Mapping[str, CheckedTable]) -> None:
        for table in tables.values():
            try:
                self._alone(branch, table)
                if isinstance(table.type, NodeType):
                    self._with_edges(branch, table, list(_incoming(table, tables)))
            except DAMAGE as error:
                self._ledger.add(FILES, branch, table.key, f"its rows cannot be read: {damage_of(error)}")

    def _alone(self, branch: str, table: CheckedTable) -> None:
        """Rules about the rows of one table."""
        if not self._is_new(table.pin, "rows"):
            return
        type_, count = table.type, table.pin.row_count
        if isinstance(type_, NodeType) and type_.key is not None:
            with self._ledger.looking_at(KEYS, count):
                wrong = _wrong_keys(table, type_.key)
            self._note(KEYS, branch, table, wrong, "ids differ from their keys")
        ruled = ruled_columns(type_)
        if ruled:
            with self._ledger.looking_at(VALUES, count):
                said = _wrong_value(table, ruled)
            if said is not None:
                self._ledger.add(VALUES, branch, table.key, said)
        for columns in type_.uniques:
            with self._ledger.looking_at(UNIQUE, count):
                wrong = _first_wrong(table, table.texts(*columns), _repeated)
            self._note(UNIQUE, branch, table, wrong, f"values of @unique({', '.join(columns)}) occur more than once")
        if isinstance(type_, EdgeType):
            with self._ledger.looking_at(IDS, count):
                wrong = _first_wrong(table, table.texts("id"), _repeated)
            self._note(IDS, branch, table, wrong, "ids occur more than once")
            self._cardinality(branch, table, type_)

    def _cardinality(self, branch: str, table: CheckedTable, edge: EdgeType) -> None:
        rule = edge.cardinality
        if rule.is_default:
            return
        with self._ledger.looking_at(CARDINALITY, table.pin.row_count):
            wrong = _first_wrong(table, table.texts("src"), _miscounted)
        allowed = f"{rule.low}..{'' if rule.high is None else rule.high}"
        self._note(CARDINALITY, branch, table, wrong, f"sources have fewer or more edges than @card({allowed})")

    def _with_edges(self, branch: str, node: CheckedTable, incoming: list[tuple[CheckedTable, str]]) -> None:
        """Ids of one node type, and every edge that ends at it; its hashes are made once for all of them."""
        fresh = [(edge, end) for edge, end in incoming if self._is_new((edge.pin, end, node.pin), "endpoints")]
        is_new = self._is_new(node.pin, "ids")
        if not fresh and not is_new:
            return
        texts = node.texts("id")
        for part in range(node.parts):
            with self._ledger.looking_at(IDS, node.pin.row_count if is_new and part == 0 else 0):
                known = _collect(node, texts, part)
                wrong = _repeated(node, texts, known) if is_new else None
            self._note(IDS, branch, node, wrong, "ids occur more than once")
            for edge, end in fresh:
                with self._ledger.looking_at(ENDPOINTS, edge.pin.row_count if part == 0 else 0):
                    wrong = _missing(edge, end, node, known, part)
                self._note(ENDPOINTS, branch, edge, wrong, f"'{end}' values are no {node.type.name}")

    def _note(self, check: str, branch: str, table: CheckedTable, wrong: Wrong | None, what: str) -> None:
        if wrong is not None:
            self._ledger.add(check, branch, table.key, f"{wrong.count} {what}: {wrong}")

    def _is_new(self, what: object, check: str) -> bool:
        if (what, check) in self._seen:
            return False
        self._seen.add((what, check))
        return True


def _incoming(node: CheckedTable, tables: Mapping[str, CheckedTable]) -> Iterator[tuple[CheckedTable, str]]:
    for table in tables.values():
        if isinstance(table.type, EdgeType):
            if table.type.source == node.type.name:
                yield table, "src"
            if table.type.target == node.type.name:
                yield table, "dst"


def _first_wrong(
    table: CheckedTable, texts: Texts, check: Callable[[CheckedTable, Texts, TextHashes], Wrong | None]
) -> Wrong | None:
    """What a check of one part after the other finds first."""
    for part in range(table.parts):
        wrong = check(table, texts, _collect(table, texts, part))
        if wrong is not None:
            return wrong
    return None


def _collect(table: CheckedTable, texts: Texts, part: int) -> TextHashes:
    """The hashes of one part of a table, in ascending order."""
    found = [_hashes(batch) for batch in texts.batches(table.handle)]
    found = [each[_is_of_part(each, part, table.parts)] if table.parts > 1 else each for each in found]
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


def _hashes(texts: pa.Array) -> TextHashes:
    return hash_texts(texts, _SECRET)


def _is_of_part(hashes: TextHashes, part: int, parts: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(hashes.view(np.uint64) % np.uint64(parts) == np.uint64(part))


def _repeated(table: CheckedTable, texts: Texts, known: TextHashes) -> Wrong | None:
    """Ids or unique tuples that several rows have; ``known`` are the sorted hashes of (a part of) the table."""
    rows = _suspects(table, texts, np.unique(known[1:][known[1:] == known[:-1]]), ("id",))
    if rows.num_rows == 0:
        return None
    if texts.columns == ("id",):
        found = list(repeated_ids(table.type, Mode.OVERWRITE, rows))
    else:
        found = list(unique_on(*table.as_change(rows), texts.columns))
    return _wrong(texts.of(rows.take(found[0].column("row")))) if found else None


def _miscounted(table: CheckedTable, texts: Texts, known: TextHashes) -> Wrong | None:
    """Sources that have edges, but fewer or more than they may."""
    if not isinstance(table.type, EdgeType):
        return None
    rule = table.type.cardinality
    values, times = np.unique(known, return_counts=True)
    suspects = values[(times < rule.low) | (times > (np.inf if rule.high is None else rule.high))]
    rows = _suspects(table, texts, suspects, ())
    found = list(cardinality(*table.as_change(rows))) if rows.num_rows else []
    return _wrong(found[0].column("value")) if found else None


def _missing(edge: CheckedTable, end: str, node: CheckedTable, known: TextHashes, part: int) -> Wrong | None:
    """Ends of edges that are no node; ``known`` are the sorted hashes of one part of the nodes."""
    suspects: list[pa.Array] = []
    count = 0
    for batch in edge.texts(end).batches(edge.handle):
        values = _hashes(batch)
        places = np.minimum(np.searchsorted(known, values), max(len(known) - 1, 0))
        is_lost = known[places] != values if len(known) else np.ones(len(values), bool)
        if node.parts > 1:
            is_lost &= _is_of_part(values, part, node.parts)
        if is_lost.any():
            count += int(is_lost.sum())
            suspects.append(pc.unique(batch.filter(pa.array(is_lost)))[:_VERIFY_EXAMPLES])
    if not suspects:
        return None
    values = pc.unique(pa.concat_arrays(suspects))
    change, proposal = edge.as_change(pa.table({"id": pa.nulls(len(values), pa.string()), end: values}))
    proposal = Proposal(proposal.catalog, proposal.changes, _Scans({node.key: node.handle}))
    found = list(missing_endpoints_at(change, proposal, end, node.type.name))
    return Wrong(count, _examples(found[0].column("value"))) if found else None


def _suspects(table: CheckedTable, texts: Texts, hashes: TextHashes, columns: tuple[str, ...]) -> pa.Table:
    """Rows whose text has one of the hashes, with the columns of the texts and those named."""
    names = list(dict.fromkeys((*columns, *texts.columns)))
    hashes, found = hashes[:_VERIFY_SUSPECTS], []
    for batch in stream(table.handle, names) if len(hashes) else ():
        rows = batch.filter(texts.of(batch).is_valid())
        found.append(rows.filter(pa.array(np.isin(_hashes(texts.of(rows)), hashes))))
    return pa.Table.from_batches(found, schema=pa.schema([table.handle.schema.field(name) for name in names]))


def _wrong(texts: pa.Array | pa.ChunkedArray) -> Wrong:
    return Wrong(len(pc.unique(texts)), _examples(texts))


def _examples(texts: pa.Array | pa.ChunkedArray) -> tuple[str, ...]:
    return tuple(pc.unique(texts).sort()[:_VERIFY_EXAMPLES].to_pylist())


def _wrong_keys(table: CheckedTable, key: tuple[str, ...]) -> Wrong | None:
    """Nodes whose id is not the text of their key."""
    texts = table.texts(*key)
    count, examples = 0, []
    for batch in stream(table.handle, ("id", *key)):
        for found in id_rules(table.type, texts.of(batch), batch.column("id")):
            count += found.num_rows
            examples += batch.column("id").take(found.column("row"))[:_VERIFY_EXAMPLES].to_pylist()
    return Wrong(count, tuple(examples[:_VERIFY_EXAMPLES])) if count else None


def _wrong_value(table: CheckedTable, names: tuple[str, ...]) -> str | None:
    """The first value that breaks a rule of its own, in the words in which a write is refused."""
    for batch in stream(table.handle, names):
        columns = {name: batch.column(name) for name in names}
        missing = chain.from_iterable(required(table.type.properties[name], columns[name]) for name in names)
        found = next(chain(missing, value_rules(table.type, columns)), None)
        if found is not None:
            return row_error(table.type, columns, found.slice(0, 1).to_pylist()[0]).message
    return None
