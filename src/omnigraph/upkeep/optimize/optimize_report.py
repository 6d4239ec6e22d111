"""What `optimize` did: one entry for each table of each branch, and for the datasets that a graph keeps for itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.storage.metadata.manifest import Commit
from omnigraph.upkeep.indexes import PendingIndex

#: Why a table was left as it is.
DRIFT = "drift_needs_repair"
BUSY = "written_meanwhile"


@dataclass(frozen=True, slots=True)
class OptimizedTable:
    """What was done to one table of a branch.

    Attributes:
        fragments_removed, fragments_added: how many gave their rows to how many.
        deleted_rows_dropped: rows that had been deleted and still lay in the files.
        indexes_built: columns whose index was made, extended or joined.
        rows_indexed: rows that came under an index by that, counted for each index.
        skipped: why the table, or a part of it, was left as it is: ``drift_needs_repair`` when other software wrote
            rows to it, ``written_meanwhile`` when others were faster each time; None when it was not.
        version, newest_version: with drift, the version that the graph shows and the newest that exists.
        pending_indexes: declared indexes that cannot be built yet.
    """

    table_key: str
    branch: str
    fragments_removed: int = 0
    fragments_added: int = 0
    deleted_rows_dropped: int = 0
    indexes_built: tuple[str, ...] = ()
    rows_indexed: int = 0
    skipped: str | None = None
    version: int | None = None
    newest_version: int | None = None
    pending_indexes: tuple[PendingIndex, ...] = ()

    @property
    def committed(self) -> bool:
        """Whether the branch shows another version of the table than before."""
        return bool(self.fragments_removed or self.indexes_built)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {**asdict(self), "indexes_built": list(self.indexes_built), "committed": self.committed} | {
            "pending_indexes": [asdict(each) for each in self.pending_indexes]
        }


@dataclass(frozen=True, slots=True)
class OptimizedDataset:
    """What was done to a dataset that the graph keeps for itself.

    Attributes:
        fragments: how many it has now.
        error: why it could not be compacted; None when it could, or had no need.
    """

    name: str
    branch: str
    fragments: int
    fragments_removed: int = 0
    fragments_added: int = 0
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """What `optimize` did.

    Attributes:
        commits: those that show it, oldest first; none when there was nothing to do.
        tables: those that were looked at: of a branch only tables that are its own, the others it shares.
        datasets: the manifest and the copies of the commits.
        engine: what did the heavy work, ``embedded`` or ``spark``; None when there was none to do.
    """

    commits: tuple[Commit, ...]
    tables: tuple[OptimizedTable, ...]
    datasets: tuple[OptimizedDataset, ...] = ()
    engine: str | None = None

    @property
    def skipped(self) -> tuple[OptimizedTable, ...]:
        """Tables that were left as they are, and have a reason for it."""
        return tuple(table for table in self.tables if table.skipped is not None)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "engine": self.engine,
            "commits": [commit.to_dict() for commit in self.commits],
            "tables": [table.to_dict() for table in self.tables],
            "datasets": [dataset.to_dict() for dataset in self.datasets],
        }

    @property
    def summary(self) -> str:
        """What was done, as one line."""
        removed = sum(table.fragments_removed for table in self.tables)
        added = sum(table.fragments_added for table in self.tables)
        built = sum(len(table.indexes_built) for table in self.tables)
        return f"{removed} fragments became {added}, {built} indexes built, {len(self.skipped)} tables skipped"

    def __repr__(self) -> str:
        return f"OptimizeReport({self.summary}; {len(self.commits)} commits)"
