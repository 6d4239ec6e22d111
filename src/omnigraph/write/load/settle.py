"""Rows that are fine alone but not together: which of them have to go so that the rest can stay.

The set rules of `write/sets.py`, asked for every offender instead of the first. Of rows that exclude each other the
first in the input stays. A row that goes may make others impossible, its edges for example, so the rules are asked
again until nobody has to go. What no row of the input can be blamed for is left to the write, which refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import OmniGraphError
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.storage.commit.protocol import Workspace
from omnigraph.storage.stage import find_rows
from omnigraph.write import sets
from omnigraph.write.change import Change, Mode
from omnigraph.write.resolve import resolve
from omnigraph.write.sets import Resolved

POSITION = "#position"  # no property can be called so

_Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Rows of one type that want to stay: the columns of its table and ``#position``, the place in the input."""

    type: NodeType | EdgeType
    mode: Mode
    rows: pa.Table
    fresh_ids: bool

    @property
    def change(self) -> Change:
        put = self.rows.drop_columns([POSITION])
        return Change(self.type.table_key, put, self.mode, conformed=True, fresh_ids=self.fresh_ids)


@dataclass(frozen=True, slots=True)
class Refused:
    """A row that has to go, and why."""

    table_key: str
    position: int
    error: OmniGraphError


class Settling:
    """Finds the rows that have to go, against one state of a branch.

    Args:
        most: stop after about this many.
        resolver: finds the stored rows that a change touches.
    """

    def __init__(
        self,
        workspace: Workspace,
        candidates: Mapping[str, Candidate],
        most: int,
        resolver: Callable[[Workspace, NodeType | EdgeType, Change, pa.Table, bool], Resolved] = resolve,
    ) -> None:
        self._workspace = workspace
        self._most = most
        self._resolve = resolver
        nodes_first = sorted(candidates.items(), key=lambda item: (isinstance(item[1].type, EdgeType), item[0]))
        self.candidates = dict(nodes_first)
        self.refused: list[Refused] = []

    def run(self) -> None:
        """Refuse rows until the rest can stay together, or until too many have gone."""
        before = -1
        while before < len(self.refused) <= self._most:
            before = len(self.refused)
            for rule in (self._repeated, self._existing, self._shared, self._endpoints, self._cardinality):
                for key, candidate in list(self.candidates.items()):
                    rule(key, candidate)

    def changes(self) -> list[Change]:
        return [candidate.change for candidate in self.candidates.values()]

    def _refuse(self, key: str, mask: _Mask, why: Callable[[int], OmniGraphError]) -> None:
        """Let the marked rows go. Errors are made for as many as anybody wants to see."""
        if not mask.any():
            return
        candidate = self.candidates[key]
        positions = candidate.rows.column(POSITION).to_numpy()
        room = max(0, self._most + 1 - len(self.refused))
        for row in np.flatnonzero(mask)[:room].tolist():
            self.refused.append(Refused(key, int(positions[row]), why(row)))
        self.candidates[key] = replace(candidate, rows=candidate.rows.filter(pa.array(~mask)))

    def _repeated(self, key: str, candidate: Candidate) -> None:
        ids = _column(candidate, "id")
        keyed = isinstance(candidate.type, NodeType) and candidate.type.key is not None
        if candidate.mode is Mode.MERGE and not keyed:
            return  # the last one wins

        def why(row: int) -> OmniGraphError:
            return sets.repeated_id(candidate.type, ids[row].as_py(), row)

        self._refuse(key, _later(ids), why)

    def _existing(self, key: str, candidate: Candidate) -> None:
        if candidate.mode is not Mode.APPEND or candidate.fresh_ids:
            return
        ids = _column(candidate, "id")
        stored = find_rows(self._workspace.readable(key), ids).column("id")
        self._refuse(key, _among(ids, stored), lambda row: sets.key_conflict(candidate.type, ids[row].as_py(), row))

    def _shared(self, key: str, candidate: Candidate) -> None:
        for columns in candidate.type.uniques:
            self._shared_group(key, self.candidates[key], columns)

    def _shared_group(self, key: str, candidate: Candidate, columns: tuple[str, ...]) -> None:
        resolved = self._resolved(key)
        kept = self._last_of_each_id(candidate)
        texts = sets.tuple_texts(candidate.type, candidate.rows, columns)
        ids = _column(candidate, "id")
        texts = pc.if_else(pa.array(kept), texts, None)
        held, holders = sets.held_tuples(self._workspace, resolved, columns)
        clashes = _among(texts, held) | _later(texts)

        def why(row: int) -> OmniGraphError:
            at = pc.index(held, texts[row]).as_py()
            holder = holders[at] if at >= 0 else ids[pc.index(texts, texts[row]).as_py()]
            return sets.unique_violation(candidate.type, columns, candidate.rows, row, holder, ids[row])

        self._refuse(key, clashes, why)

    def _endpoints(self, key: str, candidate: Candidate) -> None:
        if not isinstance(candidate.type, EdgeType):
            return
        edge = candidate.type
        for column, node in (("src", edge.source), ("dst", edge.target)):
            kept = self._last_of_each_id(self.candidates[key])
            ends = pc.if_else(pa.array(kept), _column(self.candidates[key], column), None)
            own = {f"node:{node}": self._resolved(f"node:{node}")} if f"node:{node}" in self.candidates else {}
            missing = sets.missing_nodes(self._workspace, own, node, pc.unique(ends).drop_null())
            self._refuse(key, _among(ends, missing), _missing_end(edge, column, ends))

    def _cardinality(self, key: str, candidate: Candidate) -> None:
        edge = candidate.type
        if not isinstance(edge, EdgeType) or edge.cardinality.is_default:
            return
        resolved = self._resolved(key)
        node = f"node:{edge.source}"
        nodes = {node: self._resolved(node)} if node in self.candidates else {}
        sources = sets.counted_sources(resolved, nodes)
        counts = sets.source_counts(self._workspace, resolved, sources)
        low, high = edge.cardinality.low, edge.cardinality.high
        rows = _column(candidate, "src")
        at = pc.fill_null(pc.index_in(rows, value_set=sources), -1).to_numpy(zero_copy_only=False)
        short = counts < low
        bad = (at >= 0) & short[at]
        if high is not None:
            # The rows of a source that are too many are its last ones.
            bad |= (at >= 0) & (_rank_from_end(at, self._last_of_each_id(candidate)) < (counts - high)[at])
        self._refuse(key, bad, lambda row: sets.card_violation(edge, rows[row].as_py(), int(counts[at[row]])))
        moved = resolved.replaced.filter(pc.is_in(resolved.replaced.column("src"), sources.filter(pa.array(short))))
        self._refuse_moved(key, edge, moved, dict(zip(sources.to_pylist(), counts.tolist(), strict=True)))

    def _refuse_moved(self, key: str, edge: EdgeType, moved: pa.Table, counts: Mapping[str, int]) -> None:
        """Edges whose old source has too few without them stay where they are."""
        ids = _column(self.candidates[key], "id")

        def why(row: int) -> OmniGraphError:
            source = moved.column("src")[pc.index(moved.column("id"), ids[row]).as_py()].as_py()
            return sets.card_violation(edge, source, counts[source])

        self._refuse(key, _among(ids, moved.column("id")), why)

    def _last_of_each_id(self, candidate: Candidate) -> _Mask:
        """Rows that a merge keeps when an id is repeated."""
        ids = _column(candidate, "id")
        return ~_later(ids[::-1])[::-1] if candidate.mode is Mode.MERGE else np.ones(len(ids), bool)

    def _resolved(self, key: str) -> Resolved:
        candidate = self.candidates[key]
        change = candidate.change
        rows = candidate.rows.filter(pa.array(self._last_of_each_id(candidate))).drop_columns([POSITION])
        return self._resolve(self._workspace, candidate.type, change, rows, candidate.fresh_ids)


def _missing_end(edge: EdgeType, column: str, ends: pa.Array) -> Callable[[int], OmniGraphError]:
    return lambda row: sets.endpoint_missing(edge, column, ends[row].as_py())


def _column(candidate: Candidate, name: str) -> pa.Array:
    return candidate.rows.column(name).combine_chunks()


def _among(values: pa.Array, wanted: pa.Array | pa.ChunkedArray) -> _Mask:
    """Which values are among others; null never is."""
    found = pc.and_(pc.is_valid(values), pc.is_in(values, value_set=wanted))
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _later(values: pa.Array) -> _Mask:
    """Which values occurred before; null never did."""
    codes = pc.fill_null(values.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
    later = np.ones(len(codes), bool)
    later[np.unique(codes, return_index=True)[1]] = False
    return np.asarray(later & (codes >= 0))


def _rank_from_end(groups: npt.NDArray[np.int64], counted: _Mask) -> npt.NDArray[np.int64]:
    """How many counted rows of the same group follow each row; rows that do not count follow nobody."""
    order = np.argsort(groups[::-1], kind="stable")
    ordered, counts = groups[::-1][order], counted[::-1][order]
    running = np.cumsum(counts)
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else np.zeros(0, bool)
    before = np.maximum.accumulate(np.where(starts, running - counts, 0))
    rank = np.empty(len(groups), np.int64)
    rank[order] = np.where(counts, running - counts - before, np.iinfo(np.int64).max)
    return rank[::-1]
