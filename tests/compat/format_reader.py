"""A second implementation of reading a graph, written from `docs/format.md` alone: pylance, the standard library, and
constants taken from the page. It must never import OmniGraph."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import lance

from tests.compat import format_page as page

#: The kinds of rows, in the order of the page's table.
TABLE, HEAD, VERSION, TOMBSTONE, COMMIT = page.names_after("### Rows of `__manifest`")
OFFSET_BASIS, PRIME = (int(word, 16) for word in page.words_between("The offset basis is", "\n\n"))


def fnv1a_64(name: str) -> str:
    value = OFFSET_BASIS
    for byte in name.encode():
        value = ((value ^ byte) * PRIME) % 2**64
    return f"{value:016x}"


@dataclass(frozen=True)
class Pin:
    location: str
    branch: str | None
    version: int
    row_count: int


@dataclass(frozen=True)
class State:
    """A snapshot: visible tables by key, dropped keys, and the metadata of the head row."""

    version: int
    tables: dict[str, Pin]
    dropped: set[str]
    head: dict[str, Any] | None


class Reader:
    def __init__(self, root: Path) -> None:
        self.root = root

    def dataset(self, path: str, branch: str | None = None, version: int | None = None) -> Any:
        return lance.dataset(str(self.root / path / (f"tree/{branch}" if branch else "")), version=version)

    def branches(self) -> list[str]:
        refs = (self.root / "__manifest/_refs/branches").glob("*.json")
        lineages = [unquote(ref.name.removesuffix(".json")) for ref in refs]
        found = []
        for lineage in lineages:
            entries = dict(self._entry(file) for file in (self.root / "__branches").glob("*.json"))
            owners = [
                name for name, entry in entries.items() if (entry["lineage"], entry["state"]) == (lineage, "live")
            ]
            found += owners or ([] if lineage in entries else [lineage])
        return ["main", *sorted(found)]

    def _entry(self, file: Path) -> tuple[str, dict[str, Any]]:
        return unquote(file.name.removesuffix(".json")), json.loads(file.read_text())

    def lineage(self, branch: str) -> str | None:
        if branch == "main":
            return None
        entry = self.root / "__branches" / f"{quote(branch, safe='')}.json"
        if not entry.exists():
            return branch
        found = json.loads(entry.read_text())
        assert found["state"] == "live"
        return str(found["lineage"])

    def manifest(self, branch: str, version: int | None = None) -> Any:
        dataset = self.dataset("__manifest", self.lineage(branch), version)
        assert dataset.schema.metadata[b"omnigraph:internal_schema_version"] == b"3"
        return dataset

    def snapshot(self, branch: str = "main", version: int | None = None) -> State:
        """Step 2 of the page, or step 3 where it does not apply."""
        dataset = self.manifest(branch, version)
        newest = max(dataset.get_fragments(), key=lambda fragment: fragment.fragment_id)
        rows = dataset.scanner(fragments=[newest]).to_table().to_pylist()
        heads = [json.loads(row["metadata"]) for row in rows if row["object_type"] == HEAD]
        if len(heads) != 1 or heads[0]["manifest_version"] != dataset.version:
            return self.fold(branch, version)
        tables, dropped = {}, set()
        for row in rows:
            if row["object_type"] == TABLE and row["table_version"] is None:
                assert set(json.loads(row["metadata"])) == {"tombstone"}
                dropped.add(row["table_key"])
            elif row["object_type"] == TABLE:
                tables[row["table_key"]] = _pin(row, row["location"])
        return State(dataset.version, tables, dropped, heads[0])

    def fold(self, branch: str = "main", version: int | None = None) -> State:
        """Step 3: every row counts."""
        dataset = self.manifest(branch, version)
        locations: dict[str, str] = {}
        best: dict[str, dict[str, Any]] = {}
        tombstones: dict[str, int] = {}
        heads = []
        for row in dataset.to_table().to_pylist():
            key = row["table_key"]
            if row["object_type"] == TABLE:
                locations[key] = row["location"]
            elif (
                row["object_type"] == VERSION
                and row["table_version"] > best.get(key, {"table_version": 0})["table_version"]
            ):
                best[key] = row
            elif row["object_type"] == TOMBSTONE:
                tombstones[key] = max(tombstones.get(key, 0), row["table_version"])
            elif row["object_type"] == HEAD:
                heads.append(json.loads(row["metadata"]))
        hidden = {key for key, row in best.items() if tombstones.get(key, 0) >= row["table_version"]}
        tables = {key: _pin(row, locations[key]) for key, row in best.items() if key not in hidden}
        return State(dataset.version, tables, hidden, heads[0] if len(heads) == 1 else None)

    def rows(self, pin: Pin) -> list[dict[str, Any]]:
        dataset = self.dataset(pin.location, pin.branch, pin.version)
        found: list[dict[str, Any]] = dataset.scanner(blob_handling="all_binary").to_table().to_pylist()
        assert len(found) == pin.row_count
        return found

    def commits(self, branch: str = "main") -> list[dict[str, Any]]:
        """First-parent history, newest first, from the commit rows of the manifest."""
        rows = self.manifest(branch).to_table().to_pylist()
        known = {row["object_id"]: row for row in rows if row["object_type"] == COMMIT}
        head = self.snapshot(branch).head
        wanted = head["head_commit_id"] if head else None
        chain = []
        while wanted is not None:
            details = json.loads(known[wanted]["metadata"])
            chain.append(
                {
                    "id": wanted,
                    "branch": known[wanted]["table_branch"] or "main",
                    "version": known[wanted]["table_version"],
                    **details,
                }
            )
            wanted = details.get("parent_commit_id")
        return chain

    def counts(self, commit: dict[str, Any]) -> dict[str, int]:
        """Rows of each table in the state of a commit of main, also of one that others were published with."""
        if "parts" not in commit:
            return {key: pin.row_count for key, pin in self.snapshot(version=commit["version"]).tables.items()}
        group = [each for each in self.commits() if each["version"] == commit["version"]]
        found = {key: pin.row_count for key, pin in self.snapshot(version=commit["version"] - 1).tables.items()}
        for each in reversed(group[group.index(commit) :]):
            found |= {key: part["rows"] for key, part in each["parts"].items()}
        return found

    def schema_text(self, state: State) -> str:
        """The schema of a state: by the hash of its head row, from the history or the live files."""
        assert state.head is not None
        wanted = state.head["schema_ir_hash"]
        kept = self.root / "__schema_history" / f"{wanted.removeprefix('sha256:')}.pg"
        if kept.exists():
            return kept.read_text("utf-8")
        assert wanted == self.live_hash()
        return (self.root / "_schema.pg").read_text("utf-8")

    def live_hash(self) -> str:
        compiled = json.loads((self.root / "_schema.ir.json").read_text("utf-8"))
        compact = json.dumps(compiled, separators=(",", ":"), ensure_ascii=False)
        digest = f"sha256:{hashlib.sha256(compact.encode()).hexdigest()}"
        assert json.loads((self.root / "__schema_state.json").read_text())["schema_ir_hash"] == digest
        return digest


def _pin(row: dict[str, Any], location: str) -> Pin:
    return Pin(location, row["table_branch"], row["table_version"], row["row_count"])
