"""What a merge did, or would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import Conflict
from omnigraph.storage.metadata.manifest import Commit

Kind = Literal["already_up_to_date", "fast_forward", "merged", "conflicts"]

#: Tables that the short form of a result names.
_SHOWN_TABLES = 3

#: Conflicts that a sentence names.
_SHOWN_CONFLICTS = 3


@dataclass(frozen=True, slots=True)
class MergedRows:
    """Rows of one type that a merge changes on the target.

    Attributes:
        ids: ids of the rows under ``inserted``, ``updated`` and ``deleted``.
    """

    inserted: int
    updated: int
    deleted: int
    ids: Mapping[str, pa.Array] = field(repr=False, compare=False, default_factory=dict)

    @classmethod
    def of(cls, inserted: pa.Array, updated: pa.Array, deleted: pa.Array) -> MergedRows:
        ids = {"inserted": inserted, "updated": updated, "deleted": deleted}
        return cls(len(inserted), len(updated), len(deleted), ids)

    def to_dict(self, *, with_ids: bool = False) -> dict[str, Any]:
        counts: dict[str, Any] = {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}
        if with_ids:
            counts["entities"] = {
                name: ids.slice(0, limits.MERGE_SHOWN_ENTITIES).to_pylist() for name, ids in self.ids.items()
            }
        return counts


@dataclass(frozen=True, slots=True)
class RowConflict(Conflict):
    """A row that both sides changed, with its three images; None where a side has no such row."""


def summary(conflicts: Sequence[Conflict]) -> str:
    """How many conflicts there are, and the first of them."""
    number = "one conflict" if len(conflicts) == 1 else f"{len(conflicts)} conflicts"
    first = "; ".join(f"{each.kind}: {each.message}" for each in conflicts[:_SHOWN_CONFLICTS])
    more = f" and {len(conflicts) - _SHOWN_CONFLICTS} more" if len(conflicts) > _SHOWN_CONFLICTS else ""
    return f"{number} ({first}{more})"


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The outcome of a merge.

    Attributes:
        outcome: ``already_up_to_date`` wrote nothing; ``fast_forward`` met no change of the target.
        commit: the merge commit; None when nothing was written.
        base: id of the common ancestor.
        source_commit: head of the source that was merged; what came later is not.
        tables: changed rows by table key; types without a change are left out.
        conflicts: what stands in the way, for a dry run. A merge that is not dry raises them.
        branch_deleted: whether the source is gone; None when nobody asked for it.
        branch_delete_error: why it is not.
        engine: which engine looked at the rows: ``embedded`` or ``spark``.
    """

    outcome: Kind
    source: str
    target: str
    commit: Commit | None
    base: str
    source_commit: str
    tables: Mapping[str, MergedRows] = field(default_factory=dict)
    conflicts: tuple[Conflict, ...] = ()
    dry_run: bool = False
    branch_deleted: bool | None = None
    branch_delete_error: str | None = None
    engine: str = "embedded"

    def __repr__(self) -> str:
        changed = [f"{key} +{rows.inserted} ~{rows.updated} -{rows.deleted}" for key, rows in self.tables.items()]
        shown = [*changed[:_SHOWN_TABLES], *(["…"] if len(changed) > _SHOWN_TABLES else [])]
        parts = [", ".join(shown)] if shown else []
        parts += [f"{len(self.conflicts)} conflicts"] if self.conflicts else []
        parts += ["dry run" if self.dry_run else f"commit {self.commit.id}" if self.commit is not None else "no commit"]
        return f"MergeResult({self.outcome}: {self.source} → {self.target}; {'; '.join(parts)})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that every interface shows; a dry run also names the first entities of each type."""
        return {
            "outcome": self.outcome,
            "source": self.source,
            "target": self.target,
            "commit": self.commit.to_dict() if self.commit else None,
            "base_commit_id": self.base,
            "source_commit_id": self.source_commit,
            "dry_run": self.dry_run,
            "tables": {key: rows.to_dict(with_ids=self.dry_run) for key, rows in self.tables.items()},
            "conflicts": [conflict.to_dict() for conflict in self.conflicts],
            "branch_deleted": self.branch_deleted,
            "branch_delete_error": self.branch_delete_error,
        }
