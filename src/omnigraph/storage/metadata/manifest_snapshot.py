"""What a branch of the graph consists of at one manifest version.

The newest fragment of `__manifest` alone tells it, because every publish writes all rows of the present into its own
fragment. When somebody else wrote since, the whole history is folded instead; both ways give the same snapshot, and
the tests hold them against each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from omnigraph import ids
from omnigraph.errors import CorruptGraph
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.manifest import Head, Hidden, Pin
from omnigraph.storage.tables.lance_types import LanceTable


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
