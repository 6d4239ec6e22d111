"""Everything one publish will show, staged and not yet visible: what a writer hands to the commit protocol.

All of it goes into the recovery record too, so that whoever comes after a crash publishes exactly the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from omnigraph.storage.metadata.manifest import Commit, Pin
from omnigraph.storage.tables.datasets import Handle
from omnigraph.storage.tables.stage_rows import StagedTransaction

#: What a preparation found out besides the change itself: counts, a plan, rejected rows.
Report_co = TypeVar("Report_co", covariant=True)


@dataclass(frozen=True, slots=True)
class PreparedTable:
    """A staged change of one table.

    Attributes:
        pin: what the graph showed when this was computed. For a table that the write makes, its key and location at
            version 0; for a renamed one the new key with the version and location of the old.
        handle: the table at that pin, on the lineage the commit goes to; None for a table that the write makes.
        reads_rows: the change depends on rows that were there (update, delete, overwrite): a moved pin is a conflict.
    """

    pin: Pin
    handle: Handle | None
    staged: StagedTransaction
    reads_rows: bool


@dataclass(frozen=True, slots=True)
class Merged:
    """The other side of a merge.

    Attributes:
        parent: head commit of the source.
        commits: commits of the source that the target does not know yet; their rows are copied, so that the history
            stays whole when the source is deleted.
    """

    parent: str
    commits: tuple[Commit, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """The schema that a publish makes the graph's own.

    Attributes:
        hash: of the new schema; recorded in the head row, so that every state knows its schema.
        source, ir, state: texts of the three schema files.
        purge: locations of tables whose older versions are removed once the change is visible.
        remove: locations of tables that are removed wholly then.
    """

    hash: str
    source: str
    ir: str
    state: str
    purge: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared(Generic[Report_co]):
    """One publish, and what its preparation reports to the caller of the commit.

    Attributes:
        report: comes back with the commit; belongs to exactly this preparation.
        tables: staged table commits by table key.
        pointers: pins shown as they are, without a table commit: an adopted version, a renamed type.
        tombstones: table keys that disappear, with the version at which they do.
        merged: makes the commit a merge, even if no table moves.
        labels: names and values kept in the commit, e.g. the id of the job that made it.
        made_for: hash of the schema that the change was computed for, recorded where the state itself has none.
    """

    report: Report_co
    tables: Mapping[str, PreparedTable] = field(default_factory=dict)
    pointers: Mapping[str, Pin] = field(default_factory=dict)
    tombstones: Mapping[str, int] = field(default_factory=dict)
    merged: Merged | None = None
    schema: SchemaChange | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    made_for: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit; labels alone are no change."""
        return not (self.tables or self.pointers or self.tombstones or self.merged or self.schema)


#: A preparation whose report nobody looks at, for the steps of the protocol.
AnyPrepared = Prepared[Any]
