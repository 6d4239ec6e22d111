"""What `stats` says: how big a graph is, how it lies in its files, and what waits for upkeep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from omnigraph import ids
from omnigraph.storage.tables.table_layout import IndexCoverage
from omnigraph.upkeep.drift import DriftKind
from omnigraph.upkeep.indexes import PendingIndex

if TYPE_CHECKING:
    from omnigraph.embed.managed.embedding_status import EmbeddingStatus


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """How many files there are of something, and how many bytes they have together."""

    files: int = 0
    bytes: int = 0

    def to_dict(self) -> dict[str, int]:
        return {"files": self.files, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class TableStats:
    """One table as a branch shows it.

    Attributes:
        version: table version that is shown.
        rows: as the commit recorded them.
        small_fragments: fragments of at most 4,096 rows; many of them make reads slower.
        deleted_rows: rows that still lie in the files and are not shown.
        bytes: files of the shown version: data, deleted rows, indexes and the version file.
        history_bytes: all other files of the table: of older versions, of other branches, or of nobody.
        indexes: those that are there.
        missing_indexes: declared ones that are not there, with the reason.
    """

    table_key: str
    version: int
    rows: int
    fragments: int
    small_fragments: int
    deleted_rows: int
    bytes: int
    history_bytes: int
    indexes: tuple[IndexCoverage, ...]
    missing_indexes: tuple[PendingIndex, ...]

    def __repr__(self) -> str:
        found = f"{self.rows} rows in {self.fragments} fragments, {self.bytes} bytes + {self.history_bytes} of history"
        missing = f", {len(self.missing_indexes)} indexes missing" if self.missing_indexes else ""
        return f"TableStats({self.table_key} v{self.version}: {found}{missing})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "table_key": self.table_key,
            "table_version": self.version,
            **{name: getattr(self, name) for name in SUMMED},
            "indexes": [index.to_dict() for index in self.indexes],
            "missing_indexes": [{"column": each.column, "reason": each.reason} for each in self.missing_indexes],
        }


#: The figures of a table that can be added up over tables.
SUMMED = ("rows", "fragments", "small_fragments", "deleted_rows", "bytes", "history_bytes")


@dataclass(frozen=True, slots=True)
class ManifestStats:
    """The table that says what every state consists of.

    Attributes:
        version: the newest version on the branch, which is what is shown.
        versions: versions of the branch that are stored; those before it was made are its parent's.
        rows: of the newest version; they hold the whole history.
        bytes: all files of the manifest, of every branch.
    """

    version: int
    versions: int
    rows: int
    fragments: int
    bytes: int

    def to_dict(self) -> dict[str, int]:
        """The JSON form."""
        return {
            "version": self.version,
            "versions": self.versions,
            "rows": self.rows,
            "fragments": self.fragments,
            "bytes": self.bytes,
        }


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A recovery record: a write that runs now, or that did not come to its end.

    Attributes:
        kind: who writes, as the record says; None when the record cannot be read.
        tables: keys of the tables that it moves.
        started_at: clock of the writer.
        age_seconds: how long ago that was when it was looked at.
        problem: why the record cannot be read.
    """

    operation_id: str
    branch: str | None
    kind: str | None
    tables: tuple[str, ...] = ()
    started_at: datetime | None = None
    age_seconds: float | None = None
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; times are in microseconds."""
        return {
            "operation_id": self.operation_id,
            "branch": self.branch,
            "kind": self.kind,
            "tables": list(self.tables),
            "started_at": ids.micros(self.started_at) if self.started_at is not None else None,
            "age_seconds": round(self.age_seconds, 3) if self.age_seconds is not None else None,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class TableDrift:
    """A table of the branch with versions above the one that is shown.

    Attributes:
        version: table version that is shown.
        newest_version: the newest one that is stored.
        kind: what the versions in between are.
    """

    table_key: str
    version: int
    newest_version: int
    kind: DriftKind

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "table_key": self.table_key,
            "table_version": self.version,
            "newest_version": self.newest_version,
            "kind": self.kind.value,
        }


@dataclass(frozen=True, slots=True)
class GraphStats:
    """The answer of `stats`: the tables of one branch, and the graph around them.

    Attributes:
        commits: length of the branch's first-parent history.
        branches: names of all branches, main first.
        tags: names of all tags.
        pending: recovery records of all branches, oldest first.
        drift: tables of this branch that moved past what it shows.
        stored: every file of the graph.
        parts: the same by what the files are for: ``tables`` (those of this branch), ``manifest``, ``mirrors``,
            ``topology``, ``embeddings``, ``recovery``, ``upkeep`` and ``other``.
        unreferenced: files of deleted branches, which nobody can reach. Others that no state names are not known
            without reading every version; they are among the ``history_bytes`` of their table.
        embeddings: the vectors that follow a text, by property; only when they are asked for.
    """

    uri: str
    branch: str
    commits: int
    tables: tuple[TableStats, ...]
    manifest: ManifestStats
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    pending: tuple[PendingWrite, ...]
    drift: tuple[TableDrift, ...]
    stored: StoredFiles
    parts: Mapping[str, StoredFiles]
    unreferenced: StoredFiles
    embeddings: tuple[EmbeddingStatus, ...] = ()

    @property
    def totals(self) -> dict[str, int]:
        """The figures of all tables, added up: rows, fragments, bytes and so on."""
        return {name: sum(getattr(table, name) for table in self.tables) for name in SUMMED}

    def __repr__(self) -> str:
        waiting = [
            f"{len(each)} {what}" for each, what in ((self.pending, "pending"), (self.drift, "drifting")) if each
        ]
        totals = self.totals
        size = f"{len(self.tables)} tables, {totals['rows']} rows, {totals['fragments']} fragments"
        found = "; ".join([f"{size}, {self.commits} commits; {self.stored.bytes} bytes", *waiting])
        return f"GraphStats({self.branch}: {found})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "uri": self.uri,
            "branch": self.branch,
            "commits": self.commits,
            "totals": self.totals,
            "tables": [table.to_dict() for table in self.tables],
            "manifest": self.manifest.to_dict(),
            "branches": list(self.branches),
            "tags": list(self.tags),
            "pending": [each.to_dict() for each in self.pending],
            "drift": [each.to_dict() for each in self.drift],
            "stored": self.stored.to_dict(),
            "parts": {name: part.to_dict() for name, part in self.parts.items()},
            "unreferenced": self.unreferenced.to_dict(),
            "embeddings": [each.to_dict() for each in self.embeddings],
        }
