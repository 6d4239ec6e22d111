"""The recovery record of one write: what it is about to do, complete enough for somebody else to finish it.

Values only. `record_json.py` is their form on disk, `sidecar.py` their way to the store and back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from omnigraph.storage.commit.prepared import SchemaChange
from omnigraph.storage.manifest import Commit, Pin
from omnigraph.storage.stage import Staged


class WriterKind(StrEnum):
    """Who writes. The first two commit exactly once per table, the others may commit several times."""

    MUTATION = "Mutation"
    LOAD = "Load"
    SCHEMA_APPLY = "SchemaApply"
    BRANCH_MERGE = "BranchMerge"
    ENSURE_INDICES = "EnsureIndices"
    OPTIMIZE = "Optimize"

    @property
    def is_strict(self) -> bool:
        return self in (WriterKind.MUTATION, WriterKind.LOAD)

    @property
    def preserves_content(self) -> bool:
        return self in (WriterKind.ENSURE_INDICES, WriterKind.OPTIMIZE)


@dataclass(frozen=True, slots=True)
class CommitDraft:
    """A commit before it has a parent and a version: minted with the write, so that recovery keeps its author."""

    id: str
    actor: str | None
    created_at: datetime
    merged_parent: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableIntent:
    """One table that the write moves.

    Attributes:
        uri: full address when the record was written; a moved graph has another one, so it is only a label.
        expected_version: the table's version before; 0 when this write makes the table.
        branch: Lance branch on which the commit lands; None is the main lineage.
        staged: the transaction, None in a record of software that cannot redo.
        location: path below the graph root; None in a record of older software: where the graph says.
        shown_version: what the graph shows under this key before, if that is another number: the table is new to it,
            comes back after a drop, or carries a new name.
    """

    table_key: str
    uri: str
    expected_version: int
    post_commit_pin: int
    branch: str | None
    staged: Staged | None = None
    location: str | None = None
    shown_version: int | None = None

    @property
    def replaces(self) -> int:
        return self.expected_version if self.shown_version is None else self.shown_version


@dataclass(frozen=True, slots=True)
class Pointer:
    """A table version that the write shows as it is, in place of the version the graph shows."""

    pin: Pin
    replaces: int


@dataclass(frozen=True, slots=True)
class Tombstone:
    table_key: str
    version: int
    replaces: int


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The record of one attempt.

    Attributes:
        base_head: commit that the write was computed on. Only while it is the head can the write still be published.
        base_identity: which branch of this name that was; None in a record of older software.
    """

    operation_id: str
    branch: str
    actor: str | None
    kind: WriterKind
    tables: tuple[TableIntent, ...]
    started_at: datetime
    commit: CommitDraft | None = None
    base_head: str | None = None
    base_identity: str | None = None
    base_schema: str | None = None
    merge_source: str | None = None
    registrations: tuple[tuple[str, str, str | None], ...] = ()
    pointers: tuple[Pointer, ...] = ()
    tombstones: tuple[Tombstone, ...] = ()
    merged_commits: tuple[Commit, ...] = ()
    schema: SchemaChange | None = None
    aborted: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def can_redo(self) -> bool:
        return self.commit is not None and all(table.staged is not None for table in self.tables)
