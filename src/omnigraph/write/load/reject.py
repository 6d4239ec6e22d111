"""Rejects the rows of a load that break a rule together, so that the rest can be written.

`write/set_rules.py` finds the violations; here each is turned into the rows of the input to blame. Of rows that exclude
each other the first in the input stays. A dropped row may make others invalid, its edges for example, so the rules are
asked again until they find nothing. A violation that no row of the input caused is left to the write, which raises it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import OmniGraphError
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.write.change import Change, Mode, Resolved, id_column, last_of_each_id, resolve
from omnigraph.write.set_rules import RULES, Proposal, RuleFunction, SetRule, StoredRows, error_of, repeated_ids

POSITION = "#position"  # no property can be called so


@dataclass(frozen=True, slots=True)
class Candidate:
    """Rows of one type that may be written: the columns of its table and ``#position``, the place in the input."""

    type: NodeType | EdgeType
    mode: Mode
    rows: pa.Table
    fresh_ids: bool
    reads_rows: bool = False

    @property
    def change(self) -> Change:
        put, reads = self.rows.drop_columns([POSITION]), self.reads_rows
        return Change(self.type.table_key, put, self.mode, None, reads, conformed=True, fresh_ids=self.fresh_ids)


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that is left out, and why."""

    table_key: str
    position: int
    error: OmniGraphError


class Rejection:
    """Finds the rows of a load to leave out, against one state of a branch.

    Args:
        most: stop after more than this many.
        resolver: finds the stored rows that a change touches.
    """

    def __init__(
        self,
        workspace: Workspace,
        catalog: Catalog,
        candidates: Mapping[str, Candidate],
        most: int,
        resolver: Callable[[Workspace, NodeType | EdgeType, Change, pa.Table, bool], Resolved] = resolve,
    ) -> None:
        self._workspace = workspace
        self._catalog = catalog
        self._most = most
        self._resolve = resolver
        nodes_first = sorted(candidates.items(), key=lambda item: (isinstance(item[1].type, EdgeType), item[0]))
        self.candidates = dict(nodes_first)
        self.rejected: list[RejectedRow] = []
        self._resolved: dict[str, Resolved] = {}

    def run(self) -> None:
        """Drop rows until the rest can stay together, or until too many have gone."""
        before = -1
        while before < len(self.rejected) <= self._most:
            before = len(self.rejected)
            for key, candidate in list(self.candidates.items()):
                for found in repeated_ids(candidate.type, candidate.mode, candidate.rows):
                    self._drop(key, candidate.rows, found)
            for rule in RULES:
                for key in self.candidates:
                    self._enforce(rule, key)

    def changes(self) -> list[Change]:
        return [candidate.change for candidate in self.candidates.values()]

    def _enforce(self, rule: RuleFunction, key: str) -> None:
        """Drop the rows to blame and ask again, until the rule finds nobody to blame."""
        while len(self.rejected) <= self._most:
            proposal = Proposal(self._catalog, self._changes(), StoredRows(self._workspace))
            change = proposal.changes[key]
            found = next(_blamed(change, rule(change, proposal)), None)
            if found is None:
                return
            self._drop(key, change.rows, found)

    def _changes(self) -> dict[str, Resolved]:
        for key, candidate in self.candidates.items():
            if key not in self._resolved:
                rows = last_of_each_id(candidate.rows) if candidate.mode is Mode.MERGE else candidate.rows
                self._resolved[key] = self._resolve(
                    self._workspace, candidate.type, candidate.change, rows, candidate.fresh_ids
                )
        return self._resolved

    def _drop(self, key: str, rows: pa.Table, found: pa.Table) -> None:
        """Drop rows. Errors are made only for as many as are shown."""
        candidate = self.candidates[key]
        positions = rows.column(POSITION).take(found.column("row"))
        room = max(0, self._most + 1 - len(self.rejected))
        shown = found.append_column(POSITION, positions).sort_by(POSITION).slice(0, room)
        for violation in shown.to_pylist():
            if violation["first"] is not None:
                violation["first"] = rows.column(POSITION)[violation["first"]].as_py()
            self.rejected.append(RejectedRow(key, violation[POSITION], error_of(candidate.type, violation)))
        going = pc.is_in(candidate.rows.column(POSITION), value_set=positions.combine_chunks())
        self.candidates[key] = replace(candidate, rows=candidate.rows.filter(pc.invert(going)))
        self._resolved.pop(key, None)


def _blamed(change: Resolved, found: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Violations by the rows of the input that are to blame; those without one are left out."""
    for table in found:
        if table.column("rule")[0].as_py() == SetRule.CARDINALITY:
            table = _rows_of_sources(change, table)
        table = table.filter(pc.is_valid(table.column("row")))
        if table.num_rows:
            yield table


def _rows_of_sources(change: Resolved, found: pa.Table) -> pa.Table:
    """Rows to blame for sources with a wrong number of edges: of too many the last ones; of too few all, and those
    that an edge left for another source."""
    edge = change.type
    if not isinstance(edge, EdgeType):
        return found.slice(0, 0)
    sources, counts = found.column("value").combine_chunks(), found.column("count").to_numpy()
    is_short = counts < edge.cardinality.low
    group = _index(change.rows.column("src"), sources)
    to_blame = group >= 0
    if edge.cardinality.high is not None:
        to_blame &= is_short[group] | (_rank_from_end(group) < (counts - edge.cardinality.high)[group])
    left = change.replaced.filter(pc.is_in(change.replaced.column("src"), sources.filter(pa.array(is_short))))
    moved = _index(change.rows.column("id"), id_column(left))
    if left.num_rows:
        old = _index(left.column("src"), sources)
        group = np.where(to_blame | (moved < 0), group, old[moved])
        to_blame |= moved >= 0
    rows = np.flatnonzero(to_blame)
    blamed = found.take(pa.array(group[rows]))
    return blamed.set_column(blamed.schema.get_field_index("row"), "row", pa.array(rows, pa.int64()))


def _index(values: pa.ChunkedArray, wanted: pa.Array) -> npt.NDArray[np.int64]:
    """Where each value is among others, otherwise -1."""
    return np.asarray(pc.fill_null(pc.index_in(values, value_set=wanted), -1).to_numpy(), np.int64)


def _rank_from_end(groups: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many rows of the same group follow each row."""
    order = np.argsort(groups[::-1], kind="stable")
    ordered = groups[::-1][order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else order[:0]
    sizes = np.diff(np.append(starts, len(ordered)))
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.arange(len(groups)) - np.repeat(starts, sizes)
    return rank[::-1]
