"""What a cleanup removed, or would remove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from omnigraph.upkeep.stats.graph_stats import StoredFiles


@dataclass(frozen=True, slots=True)
class TableCleanup:
    """One table.

    Attributes:
        table_key: of the type; of other tables where they lie.
        versions_removed: versions of the table that no state needs which stays.
        error: why it was left alone; the others were cleaned all the same.
    """

    table_key: str
    versions_removed: int
    files_removed: int
    bytes_removed: int
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "table_key": self.table_key,
            "old_versions_removed": self.versions_removed,
            "files_removed": self.files_removed,
            "bytes_removed": self.bytes_removed,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class CleanupResult:
    """The answer of `cleanup`.

    Attributes:
        confirmed: whether anything was removed; otherwise this is what a cleanup would remove.
        states_kept, states_removed: states of all branches that stay readable, and that were given up.
        tables: those of which something goes, or that could not be cleaned.
        reclaimed_forks: parts of tables that belonged to branches which are gone, as ``table@lineage``.
        dropped_tables: tables of types that no state shows any more.
        unfinished: files of writes that did not come to their end.
        legacy: files of older software.
        commits: what says in the history of each branch that a cleanup ran, by branch.
        warnings: what whoever asked should know.
    """

    uri: str
    keep: int | None
    older_than: timedelta | None
    confirmed: bool
    states_kept: int = 0
    states_removed: int = 0
    tables: tuple[TableCleanup, ...] = ()
    reclaimed_forks: tuple[str, ...] = ()
    dropped_tables: tuple[str, ...] = ()
    unfinished: StoredFiles = field(default_factory=StoredFiles)
    legacy: StoredFiles = field(default_factory=StoredFiles)
    commits: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def bytes_removed(self) -> int:
        return sum(table.bytes_removed for table in self.tables) + self.legacy.bytes

    @property
    def files_removed(self) -> int:
        return sum(table.files_removed for table in self.tables) + self.legacy.files

    @property
    def ok(self) -> bool:
        """Whether no table was left alone."""
        return all(table.error is None for table in self.tables)

    def __repr__(self) -> str:
        verb = "removed" if self.confirmed else "would remove"
        what = f"{verb} {self.states_removed} states, {self.files_removed} files, {self.bytes_removed} bytes"
        failed = "" if self.ok else f", {sum(table.error is not None for table in self.tables)} tables failed"
        return f"CleanupResult({what}; {self.states_kept} states stay{failed})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "uri": self.uri,
            "keep_versions": self.keep,
            "older_than_secs": None if self.older_than is None else int(self.older_than.total_seconds()),
            "confirmed": self.confirmed,
            "states_kept": self.states_kept,
            "states_removed": self.states_removed,
            "files_removed": self.files_removed,
            "bytes_removed": self.bytes_removed,
            "datasets": [table.to_dict() for table in self.tables],
            "reclaimed_forks": list(self.reclaimed_forks),
            "dropped_tables": list(self.dropped_tables),
            "unfinished": self.unfinished.to_dict(),
            "legacy": self.legacy.to_dict(),
            "commits": dict(self.commits),
            "warnings": list(self.warnings),
        }
