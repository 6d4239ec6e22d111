"""Whether small writes can be published together: none of them may see, decide or disturb what another one does.

Then the rules hold for each of them exactly when they hold for all of them at once, in whatever order they come; so
they are checked together, on the state that all of them start from. What is not sure to be independent is not taken
for it, and waits for the next publish.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from omnigraph import limits
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.tables.datasets import has_blobs
from omnigraph.write.change import Change, Mode, type_of
from omnigraph.write.mutate import MutationDraft

_Row = tuple[str, str]  # table key and id


@dataclass(slots=True)
class Footprint:
    """What some writes touch.

    Attributes:
        tables, rows: what they write.
        seen_tables, seen_rows: what decides what they write, and the nodes that their edges lie at.
        alone: tables with a rule about several rows, such as ``@unique``: one write at a time.
    """

    tables: set[str] = field(default_factory=set)
    rows: set[_Row] = field(default_factory=set)
    seen_tables: set[str] = field(default_factory=set)
    seen_rows: set[_Row] = field(default_factory=set)
    alone: set[str] = field(default_factory=set)

    def disturbs(self, other: Footprint) -> bool:
        """Whether what one of them does may depend on what the other one does."""
        return not (
            self.rows.isdisjoint(other.rows)
            and self.rows.isdisjoint(other.seen_rows)
            and self.seen_rows.isdisjoint(other.rows)
            and self.tables.isdisjoint(other.seen_tables)
            and self.seen_tables.isdisjoint(other.tables)
            and self.alone.isdisjoint(other.alone)
        )

    def add(self, other: Footprint) -> None:
        self.tables |= other.tables
        self.rows |= other.rows
        self.seen_tables |= other.seen_tables
        self.seen_rows |= other.seen_rows
        self.alone |= other.alone


def footprint_of(draft: MutationDraft) -> Footprint | None:
    """What a mutation touches; None for one that is published by itself, because it is large or has blobs."""
    catalog = draft.schema.catalog
    found = Footprint(seen_tables=set(draft.reach.tables), seen_rows=set(draft.reach.rows))
    for change in draft.changes:
        type_ = type_of(catalog, change.table_key)
        ids = written_ids(change)
        if len(ids) > limits.GROUP_WRITE_ROWS or change.mode is Mode.OVERWRITE or has_blobs(table_schema(type_)):
            return None
        found.tables.add(change.table_key)
        found.rows.update((change.table_key, each) for each in ids)
        if isinstance(type_, EdgeType):
            found.seen_rows.update(_ends(type_, change))
        if _has_joint_rule(catalog, type_):
            found.alone.add(change.table_key)
    return found


def written_ids(change: Change) -> list[str]:
    """Ids of the rows that a change puts and removes."""
    put = change.put.column("id").to_pylist() if change.put is not None else []
    return put + (change.remove.to_pylist() if change.remove is not None else [])


def _ends(type_: EdgeType, change: Change) -> Iterable[_Row]:
    for column, node in type_.endpoints:
        ends = change.put.column(column).to_pylist() if change.put is not None else []
        yield from ((f"node:{node}", each) for each in ends)


def _has_joint_rule(catalog: Catalog, type_: NodeType | EdgeType) -> bool:
    """Whether a row of a type may be right or wrong because of another one that is no end of it."""
    return bool(type_.uniques) or (isinstance(type_, EdgeType) and not type_.cardinality.is_default)
