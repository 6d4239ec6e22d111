"""`__manifest`, the one table that says what a graph consists of: its rows, and the state that they add up to.

A `ManifestSnapshot` is what one branch consists of at one manifest version. `commit/publish.py` alone writes rows.
Names, order, types and nullability of the columns are the on-disk format and never change.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import ids, limits
from omnigraph.errors import CorruptGraph, NewerFormat
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.commit_note import RowCounts, note_line, note_of, rows_of
from omnigraph.storage.metadata.commit_part import TablePart, parts_of, parts_to_json
from omnigraph.storage.tables.datasets import DerivedVersion, TableVersion, version_file
from omnigraph.storage.tables.lance_types import LanceTable

PATH = "__manifest"
STAMP = b"omnigraph:internal_schema_version"
PRIMARY_KEY = b"lance-schema:unenforced-primary-key"

SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata={PRIMARY_KEY: b"true"}),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("item", pa.string()))),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ],
    metadata={STAMP: str(limits.INTERNAL_SCHEMA_VERSION).encode()},
)

_TYPES = tuple(zip(SCHEMA.names, SCHEMA.types, strict=True))

#: Every column a reader needs; `base_objects` is reserved and always null.
COLUMNS = [name for name in SCHEMA.names if name != "base_objects"]

TABLE = "table"
TABLE_VERSION = "table_version"
TABLE_TOMBSTONE = "table_tombstone"
GRAPH_COMMIT = "graph_commit"
GRAPH_HEAD = "graph_head"

#: Key in the metadata of a `table_version` row: data files that came with the version, and the digests of their values.
_DIGESTS = "digests"

#: Rows that describe the present. Every publish removes the old ones and writes them anew into its own fragment.
PRESENT = (TABLE, GRAPH_HEAD)


@dataclass(frozen=True, slots=True)
class Pin:
    """What the graph shows of one table: this version on this Lance branch.

    Attributes:
        location: path of the table below the graph root.
        branch: Lance branch the version belongs to; None is the table's main lineage.
        metadata: JSON text of the row, kept as it is because other software may have added keys.
        derived: what the version is without commits that were published with it; None for the version itself.
    """

    table_key: str
    location: str
    version: int
    branch: str | None
    row_count: int
    metadata: str = field(repr=False)
    derived: DerivedVersion | None = field(default=None, repr=False)

    @property
    def origin(self) -> str | None:
        """Transaction that made this version. Version numbers of a re-created branch repeat; this does not."""
        return _origin(self.metadata, self.table_key)


def table_version_of(pin: Pin) -> TableVersion:
    """The table version that a pin shows."""
    return TableVersion(pin.location, pin.branch, pin.version, pin.origin, pin.derived)


@lru_cache(maxsize=limits.OPEN_TABLES)
def _origin(metadata: str, table_key: str) -> str | None:
    """Every read asks for the origin of its tables, again and again."""
    value = _json_object(metadata, table_key).get("transaction")
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Hidden:
    """A table that was dropped: its directory stays, a higher version would show it again."""

    table_key: str
    location: str
    tombstone: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One state of the graph and where it came from.

    Attributes:
        id: ULID, or ``manifest:<branch>:v<n>`` for a state that has no commit record.
        branch: graph branch it was made on.
        version: manifest version it describes on that branch.
        parent: previous commit; None only for the first.
        merged_parent: head of the merged branch, for a merge.
        actor: who made it, if known.
        created_at: clock of the writer, taken before the commit became visible.
        labels: what the writer wanted to be found by, e.g. ``{"job": "<id>"}``.
        note: what was done, as JSON; `kind`, `message` and `rows` read it.
        parts: what it did to its tables, by table key, when others were published with it and came after it.
        readable: False in a listing when the state was cleaned up, or went with its branch.
    """

    id: str
    branch: str
    version: int
    parent: str | None
    merged_parent: str | None
    actor: str | None
    created_at: datetime
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    note: Mapping[str, Any] = field(default_factory=dict, hash=False)
    parts: Mapping[str, TablePart] = field(default_factory=dict, hash=False, repr=False)
    readable: bool = field(default=True, compare=False)

    @property
    def kind(self) -> str | None:
        """What was done: ``init``, ``mutation``, ``load``, ``embed``, ``merge``, ``schema_change``, ``index_build``,
        ``optimize``, ``revert``, ``restore``, ``rename``, ``recovery``, ``repair`` or ``cleanup``; None where nobody
        said."""
        return self.note.get("kind")

    @property
    def message(self) -> str | None:
        """What its author wrote about it."""
        return self.note.get("message")

    @property
    def rows(self) -> Mapping[str, RowCounts]:
        """Rows that it inserted, updated and deleted, by table key."""
        return rows_of(self.note)

    @property
    def summary(self) -> str:
        """What was done, as one line: ``load: Person +3, Follows +1 "first import"``."""
        return note_line(self.note)

    def __repr__(self) -> str:
        who = f" by {self.actor}" if self.actor is not None else ""
        done = f"; {self.summary}" if self.note else ""
        return f"Commit({self.id!r}, {self.branch} v{self.version}, {self.created_at:%Y-%m-%d %H:%M:%S}{who}{done})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that every interface shows. ``graph_branch`` is null for main, times are in microseconds."""
        shown: dict[str, Any] = {
            "graph_commit_id": self.id,
            "graph_branch": _stored_branch(self.branch),
            "graph_manifest_version": self.version,
            "parent_commit_id": self.parent,
            "merged_parent_commit_id": self.merged_parent,
            "actor_id": self.actor,
            "created_at": ids.micros(self.created_at),
            **self.note,
        }
        if self.labels:
            shown["labels"] = dict(self.labels)
        return shown


@dataclass(frozen=True, slots=True)
class Head:
    """The newest commit of a branch, as every publish records it.

    Attributes:
        epoch: counter of the lease under which it was published; a former owner with a lower one may not publish.
        version: manifest version of that publish; another number now means that somebody else wrote since.
        schema: hash of the schema that this state has; None when the graph was made without recording it.
    """

    commit_id: str
    parent: str | None
    epoch: int
    version: int
    schema: str | None = None


def pin_metadata(table_uri: str, version: int, transaction: str | None) -> str:
    """The witness of a table version: where its version file is. A hint, never an address."""
    path = f"{table_uri.partition('://')[2] or table_uri}/{version_file(version)}"
    values: dict[str, Any] = {"manifest_path": path, "manifest_size": None, "e_tag": None, "naming_scheme": "V2"}
    if transaction:
        values["transaction"] = transaction
    return json.dumps(values, separators=(",", ":"))


def table_row(pin: Pin) -> dict[str, Any]:
    return _row(
        pin.table_key,
        TABLE,
        table_key=pin.table_key,
        location=pin.location,
        metadata=pin.metadata,
        table_version=pin.version,
        table_branch=pin.branch,
        row_count=pin.row_count,
    )


def hidden_row(hidden: Hidden) -> dict[str, Any]:
    return _row(
        hidden.table_key,
        TABLE,
        table_key=hidden.table_key,
        location=hidden.location,
        metadata=json.dumps({"tombstone": hidden.tombstone}),
    )


def version_id(table_key: str, version: int) -> str:
    return f"{table_key}${version:020d}"


def table_version_row(pin: Pin, digests: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The row of a version, with the digests of the data files that came with it."""
    return _row(
        version_id(pin.table_key, pin.version),
        TABLE_VERSION,
        table_key=pin.table_key,
        metadata=_with_digests(pin.metadata, digests) if digests else pin.metadata,
        table_version=pin.version,
        table_branch=pin.branch,
        row_count=pin.row_count,
    )


def _with_digests(metadata: str, digests: Mapping[str, str]) -> str:
    return json.dumps({**_json_object(metadata, "of a new version"), _DIGESTS: dict(digests)}, separators=(",", ":"))


def digests_of(metadata: str | None) -> dict[str, str]:
    """The digests in the row of a version, by the name of the data file; what cannot be read is no digest."""
    if metadata is None or f'"{_DIGESTS}"' not in metadata:
        return {}
    try:
        found = json.loads(metadata)[_DIGESTS]
        return {name: digest for name, digest in found.items() if isinstance(digest, str)}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def without_digests(metadata: str) -> str:
    """The metadata of a version as the row of the present has it: every publish writes that one again."""
    if not digests_of(metadata):
        return metadata
    values = json.loads(metadata)
    return json.dumps({name: value for name, value in values.items() if name != _DIGESTS}, separators=(",", ":"))


def tombstone_row(table_key: str, version: int) -> dict[str, Any]:
    return _row(f"{table_key}$tombstone${version:020d}", TABLE_TOMBSTONE, table_key=table_key, table_version=version)


def commit_row(commit: Commit) -> dict[str, Any]:
    details = {
        "parent_commit_id": commit.parent,
        "merged_parent_commit_id": commit.merged_parent,
        "actor_id": commit.actor,
        "created_at": ids.micros(commit.created_at),
        "labels": dict(commit.labels) or None,
        "parts": parts_to_json(commit.parts) or None,
        **commit.note,
    }
    return _row(
        commit.id,
        GRAPH_COMMIT,
        metadata=json.dumps({name: value for name, value in details.items() if value is not None}),
        table_version=commit.version,
        table_branch=_stored_branch(commit.branch),
    )


def head_row(branch: str, head: Head) -> dict[str, Any]:
    details = {"head_commit_id": head.commit_id, "epoch": head.epoch, "manifest_version": head.version}
    if head.parent is not None:
        details["parent_commit_id"] = head.parent
    if head.schema is not None:
        details["schema_ir_hash"] = head.schema
    return _row(f"graph_head:{branch}", GRAPH_HEAD, metadata=json.dumps(details))


def to_arrow(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def past_rows(rows: pa.Table, without: Iterable[str] = ()) -> pa.Table:
    """Those rows that do not describe the present, and that have none of some ids, as a publish writes them again."""
    present = pc.is_in(rows.column("object_type"), value_set=pa.array(PRESENT))
    gone = pc.is_in(rows.column("object_id"), value_set=pa.array(without, pa.string()))
    kept = rows.filter(pc.invert(pc.or_(present, gone)))
    columns = [kept.column(name) if name in kept.column_names else pa.nulls(len(kept), type_) for name, type_ in _TYPES]
    return pa.table(columns, schema=SCHEMA)


def commit_of(row: Mapping[str, Any]) -> Commit:
    """Read a `graph_commit` row."""
    with _reading(row) as details:
        return Commit(
            id=row["object_id"],
            branch=row["table_branch"] or ids.MAIN,
            version=int(row["table_version"]),
            parent=details.get("parent_commit_id"),
            merged_parent=details.get("merged_parent_commit_id"),
            actor=details.get("actor_id"),
            created_at=ids.from_micros(int(details["created_at"])),
            labels={str(name): str(value) for name, value in (details.get("labels") or {}).items()},
            note=note_of(details),
            parts=parts_of(details),
        )


def head_of(row: Mapping[str, Any]) -> Head:
    """Read a `graph_head` row. Another writer may not know epoch and version; both are 0 then."""
    with _reading(row) as details:
        return Head(
            commit_id=details["head_commit_id"],
            parent=details.get("parent_commit_id"),
            epoch=int(details.get("epoch", 0)),
            version=int(details.get("manifest_version", 0)),
            schema=details.get("schema_ir_hash"),
        )


def hidden_version_of(row: Mapping[str, Any]) -> int | None:
    """Tombstone recorded in the `table` row of a dropped table."""
    if row["table_version"] is not None:
        return None
    with _reading(row) as details:
        value = details.get("tombstone")
        return int(value) if value is not None else None


def stamp_of(handle: Any) -> int:
    """Layout version of an open `__manifest`; refuses what is newer or unreadable."""
    raw = (handle.schema.metadata or {}).get(STAMP)
    if raw is None:
        return 1
    try:
        stamp = int(raw.decode("ascii"))
        if stamp < 1:
            raise ValueError(raw)
    except ValueError:
        raise CorruptGraph(f"the graph's layout stamp {raw!r} is not a version number") from None
    if stamp > limits.INTERNAL_SCHEMA_VERSION:
        raise NewerFormat(
            f"this graph has layout version {stamp}, this software knows {limits.INTERNAL_SCHEMA_VERSION}",
            hint="upgrade omnigraph",
            found=stamp,
            supported=limits.INTERNAL_SCHEMA_VERSION,
        )
    return stamp


def _row(object_id: str, object_type: str, table_key: str = "", **columns: Any) -> dict[str, Any]:
    return {"object_id": object_id, "object_type": object_type, "table_key": table_key, **columns}


def _stored_branch(branch: str) -> str | None:
    return None if branch == ids.MAIN else branch


@contextmanager
def _reading(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The metadata of a row; a value in it that cannot be used is a corrupt row too."""
    details = _json_object(row["metadata"], row["object_id"])
    try:
        yield details
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        raise CorruptGraph(f"manifest row {row['object_id']!r} has unreadable metadata") from None


def _json_object(text: str | None, row: str) -> dict[str, Any]:
    try:
        details = json.loads(text or "{}")
        if isinstance(details, dict):
            return details
    except (ValueError, RecursionError):
        pass
    raise CorruptGraph(f"manifest row {row!r} has unreadable metadata")


@dataclass(frozen=True, slots=True)
class ManifestSnapshot:
    """One consistent state of one branch.

    Attributes:
        version: manifest version.
        head: newest commit as recorded; None when the branch was last written by software without head rows.
        pins: visible tables by table key, in key order.
        hidden: dropped tables by table key.
        present_rows: where the rows of the present lie (fragment id → offsets); the next publish replaces them.
        recent: the other rows of the newest fragment, about the latest commits; None when the present lies elsewhere.
        handle: the open manifest.
        identity: which branch of this name; one that was deleted and made again is another one.
        lineage: Lance branch of the manifest that this state lies on; None is the main one.
        withheld: tables by table key that are visible, but not to whoever this state is for.
        between: no version of the manifest shows this state: it is that of a commit which others were published with
            and came after (`storage/grouped_states.py`).
    """

    branch: str
    version: int
    head: Head | None
    pins: Mapping[str, Pin]
    hidden: Mapping[str, Hidden]
    present_rows: Mapping[int, list[int]] = field(repr=False)
    handle: LanceTable = field(repr=False, compare=False)
    identity: str = field(default="", repr=False)
    recent: pa.Table | None = field(default=None, repr=False, compare=False)
    lineage: str | None = field(default=None, repr=False)
    withheld: Mapping[str, Pin] = field(default_factory=dict, repr=False)
    between: bool = field(default=False, repr=False)

    def without(self, table_keys: Collection[str]) -> ManifestSnapshot:
        """The same state for somebody who may not see some of its tables."""
        shown = {key: pin for key, pin in self.pins.items() if key not in table_keys}
        kept = {key: pin for key, pin in self.pins.items() if key in table_keys}
        return replace(self, pins=shown, withheld={**self.withheld, **kept}) if kept else self

    @property
    def whole(self) -> ManifestSnapshot:
        """The same state with all its tables."""
        if not self.withheld:
            return self
        return replace(self, pins=dict(sorted({**self.pins, **self.withheld}.items())), withheld={})

    def owns(self, lineage: str | None) -> bool:
        """Whether this branch, and no other, commits to a lineage of a table."""
        return ids.is_lineage_of(lineage, self.lineage)

    @property
    def epoch(self) -> int:
        return self.head.epoch if self.head else 0

    @property
    def schema(self) -> str | None:
        """Hash of the schema of this state; None when nobody recorded it, or wrote since without recording it.

        The second version of a new manifest has the rows of the first.
        """
        if self.head is None or (self.head.version != self.version and (self.head.version, self.version) != (1, 2)):
            return None
        return self.head.schema

    def version_of(self, table_key: str) -> int:
        """What an expectation is compared with: the visible version, else the tombstone, else 0."""
        if table_key in self.pins:
            return self.pins[table_key].version
        hidden = self.hidden.get(table_key)
        return hidden.tombstone if hidden else 0


def read_snapshot(handle: LanceTable, branch: str) -> ManifestSnapshot:
    """The state that an open manifest shows, from its newest fragment if that can be trusted."""
    manifest.stamp_of(handle)
    return _from_newest_fragment(handle, branch) or fold(handle, branch)


def _from_newest_fragment(handle: LanceTable, branch: str) -> ManifestSnapshot | None:
    fragments = handle.get_fragments()
    if not fragments:
        return None
    newest = max(fragments, key=lambda fragment: fragment.fragment_id)
    table = _read(handle, [newest])
    rows: list[dict[str, Any]] = table.to_pylist()
    heads = [row for row in rows if row["object_type"] == manifest.GRAPH_HEAD]
    if len(heads) != 1:
        return None
    head = manifest.head_of(heads[0])
    if head.version != handle.version:
        return None
    pins, hidden = {}, {}
    for row in rows:
        if row["object_type"] != manifest.TABLE:
            continue
        tombstone = manifest.hidden_version_of(row)
        if tombstone is not None:
            hidden[row["table_key"]] = Hidden(row["table_key"], _location(row), tombstone)
        elif row["table_version"] is None:
            return None
        else:
            pins[row["table_key"]] = _pin(row, _location(row))
    return replace(_snapshot(handle, branch, head, pins, hidden, rows), recent=manifest.past_rows(table))


def fold(handle: LanceTable, branch: str) -> ManifestSnapshot:
    """The state from all rows: per table the greatest version, hidden if a tombstone is at or above it."""
    rows: list[dict[str, Any]] = _read(handle, None).to_pylist()
    locations: dict[str, str] = {}
    best: dict[str, dict[str, Any]] = {}
    tombstones: dict[str, int] = defaultdict(int)
    heads = []
    for row in rows:
        key = row["table_key"]
        match row["object_type"]:
            case manifest.TABLE:
                locations[key] = _location(row)
            case manifest.TABLE_VERSION:
                if key not in best or best[key]["table_version"] < _number(row):
                    best[key] = row
            case manifest.TABLE_TOMBSTONE:
                tombstones[key] = max(tombstones[key], _number(row))
            case manifest.GRAPH_HEAD:
                heads.append(manifest.head_of(row))
    pins, hidden = {}, {}
    for key, row in best.items():
        if key not in locations:
            raise CorruptGraph(f"the manifest has a version of table '{key}' but does not say where it lies")
        if tombstones[key] >= row["table_version"]:
            hidden[key] = Hidden(key, locations[key], tombstones[key])
        else:
            bare = manifest.without_digests(row["metadata"]) if row["metadata"] else None
            pins[key] = _pin({**row, "metadata": bare}, locations[key])
    head = max(heads, key=lambda head: head.version) if heads else None
    return _snapshot(handle, branch, head, pins, hidden, rows)


def _snapshot(
    handle: LanceTable,
    branch: str,
    head: Head | None,
    pins: dict[str, Pin],
    hidden: dict[str, Hidden],
    rows: list[dict[str, Any]],
) -> ManifestSnapshot:
    present: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        if row["object_type"] in manifest.PRESENT:
            present[row["_rowaddr"] >> 32].append(row["_rowaddr"] & 0xFFFFFFFF)
    return ManifestSnapshot(
        branch=branch,
        version=handle.version,
        head=head,
        pins=dict(sorted(pins.items())),
        hidden=dict(sorted(hidden.items())),
        present_rows=dict(present),
        handle=handle,
    )


def _read(handle: LanceTable, fragments: list[Any] | None) -> pa.Table:
    return handle.scanner(columns=manifest.COLUMNS, fragments=fragments, with_row_address=True).to_table()


def _pin(row: Mapping[str, Any], location: str) -> Pin:
    if row["row_count"] is None or row["metadata"] is None:
        raise CorruptGraph(f"manifest row {row['object_id']!r} lacks its row count or metadata")
    return Pin(row["table_key"], location, _number(row), row["table_branch"], row["row_count"], row["metadata"])


def _location(row: Mapping[str, Any]) -> str:
    location: str | None = row["location"]
    if not location or location.startswith("/") or ".." in location.split("/"):
        raise CorruptGraph(f"manifest row {row['object_id']!r} names no usable location")
    return location


def _number(row: Mapping[str, Any]) -> int:
    if row["table_version"] is None:
        raise CorruptGraph(f"manifest row {row['object_id']!r} lacks its version")
    return int(row["table_version"])
