"""Keys that may break a rule → the exact answer, given by `write/set_rules.py` as in the embedded load.

The rows with such keys come to the driver, with every row whose fate depends on theirs: rows of the same id, edges of
nodes that may be rejected, edges of the same source, and the nodes that those edges point at. On these rows the rules
give the same answer as on the whole input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import InvalidRowSet, KeyConflict
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.catalog import EdgeType, NodeType
from omnigraph.spark.cluster import Cluster
from omnigraph.spark.loading.fetch import PLACE, Wanted, fetch_staged, fetch_stored, lines_of_rows, too_many_rows
from omnigraph.spark.loading.key_scan import KeyScan, StagedPiece, StoredPiece, edges_at
from omnigraph.spark.loading.key_spaces import Suspicion
from omnigraph.spark.loading.stage_task import StageConfig
from omnigraph.spark.loading.staged import Staging
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.tables.row_lookup import find_rows
from omnigraph.text_hash import hash_texts
from omnigraph.write.change import Change, Mode, Resolved, resolve, type_of
from omnigraph.write.load.commit_load import candidates_of, placed_error, violations_of
from omnigraph.write.load.gather import FILE, Gathered, LoadRequest
from omnigraph.write.load.record_lines import RecordLines
from omnigraph.write.load.reject import Rejection
from omnigraph.write.load.valid_rows import LINE
from omnigraph.write.load.violations import Violation
from omnigraph.write.set_rules import single_rows
from omnigraph.write.stage_changes import check_sets

_ENDS = ("src", "dst")
_Request = tuple[str, tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class SuspectContext:
    """What is needed to read the rows of suspicious keys."""

    cluster: Cluster
    keys: KeyScan
    order: StageConfig
    staging: Staging
    request: LoadRequest
    workspace: Workspace
    pieces: Sequence[StagedPiece]
    stored: Mapping[str, Sequence[StoredPiece]]


@dataclass(slots=True)
class Suspects:
    """Hashes of keys by space and suspicion."""

    hashes: dict[tuple[int, Suspicion], list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Sequence[Any], most: int) -> Suspects:
        """From what the find_suspects tasks answered: of each kind those that come first in the input."""
        found = cls()
        ordered = sorted(rows, key=lambda row: (row["place"], row["hash"]))
        for row in ordered:
            kind = (row["space"], Suspicion(row["suspicion"]))
            known = found.hashes.setdefault(kind, [])
            if kind[1] is Suspicion.COLLAPSES or len(known) < most:
                known.append(row["hash"])
        return found

    def of_kind(self, suspicion: Suspicion) -> dict[int, list[int]]:
        return {space: hashes for (space, kind), hashes in self.hashes.items() if kind is suspicion}

    @property
    def breaks(self) -> bool:
        return any(kind is not Suspicion.COLLAPSES for _, kind in self.hashes)


def collapsed(context: SuspectContext, suspects: Suspects) -> dict[str, list[int]]:
    """Places of the rows that a later row of the same id replaces within the load."""
    spaces = context.keys.spaces.all
    wanted = [
        Wanted(spaces[space].key, ("id",), space, tuple(hashes))
        for space, hashes in suspects.of_kind(Suspicion.COLLAPSES).items()
    ]
    gone = {}
    for key, rows in fetch_staged(context.cluster, context.keys, wanted, context.pieces, whole=False).items():
        last = rows.group_by("id").aggregate([(PLACE, "max")]).column(f"{PLACE}_max").to_numpy()
        gone[key] = np.setdiff1d(rows.column(PLACE).to_numpy(), last).tolist()
    return {key: places for key, places in gone.items() if places}


class SuspectCheck:
    """The rows of suspicious keys with those that depend on them, and what the rules say about them."""

    def __init__(self, context: SuspectContext, suspects: Suspects) -> None:
        self._context = context
        self._suspects = suspects
        found = _DependentRows(context).of(suspects)
        keys = context.staging.keys
        rows = {key: found.get(key, _no_rows(context, key)) for key in keys}
        places = {key: rows[key].column(PLACE).to_pylist() for key in keys}
        lines = lines_of_rows(context.cluster, context.order, context.staging, places)
        self._gathered = Gathered(files=context.staging.files, fresh=context.staging.fresh & set(keys))
        for part in context.order.parts:
            begins = RecordLines.of(part)
            self._gathered.lines |= {} if begins is None else {part.name: begins}
        for key in keys:
            where = [lines[key, place] for place in places[key]]
            table = rows[key].drop_columns([PLACE])
            table = table.append_column(LINE, pa.array([line for _, line in where], pa.int64()))
            self._gathered.rows[key] = table.append_column(FILE, pa.array([part for part, _ in where], pa.int32()))
        self._places = places
        self._candidates = candidates_of(context.keys.catalog, context.request, self._gathered)

    def refuse(self) -> None:
        """Raise the violation that an embedded load raises; nothing happens when all suspicions were wrong."""
        try:
            self._check()
        except (InvalidRowSet, KeyConflict) as error:
            raise placed_error(self._rejection(limits.LOAD_COUNTED_VIOLATIONS), self._gathered, error) from None

    def reject(self, most: int) -> tuple[list[Violation], dict[str, list[int]]]:
        """Rows that have to go so that the rest can stay: violations, and places by table key."""
        rejection = self._rejection(most)
        rejection.run()
        gone: dict[str, list[int]] = {}
        for each in rejection.rejected:
            gone.setdefault(each.table_key, []).append(self._places[each.table_key][each.position])
        return violations_of(self._gathered, rejection), gone

    def _rejection(self, most: int) -> Rejection:
        return Rejection(self._context.workspace, self._context.keys.catalog, self._candidates, most, _resolve)

    def _check(self) -> None:
        workspace, catalog = self._context.workspace, self._context.keys.catalog
        resolved: dict[str, Resolved] = {}
        for key, candidate in self._candidates.items():
            change = candidate.change
            put = change.put if change.put is not None else candidate.rows
            rows = put if candidate.fresh_ids else single_rows(candidate.type, change.mode, put)
            resolved[key] = _resolve(workspace, candidate.type, change, rows, candidate.fresh_ids)
        self._add_removed(resolved)
        check_sets(workspace, catalog, resolved)

    def _add_removed(self, resolved: dict[str, Resolved]) -> None:
        """What an overwrite takes away, as far as a rule cares."""
        context = self._context
        if context.request.mode is not Mode.OVERWRITE:
            return
        for space, hashes in self._suspects.of_kind(Suspicion.STRANDED).items():
            node = context.keys.spaces.all[space].key
            ids = self._stranded(node, space, hashes)
            self._put(resolved, node, ids)
        for space, hashes in self._suspects.of_kind(Suspicion.COUNTED).items():
            key = context.keys.spaces.all[space].key
            wanted = Wanted(key, ("src",), space, tuple(hashes))
            pieces = context.stored.get(key, ())
            if pieces:
                self._put(resolved, key, fetch_stored(context.cluster, context.keys, wanted, pieces))

    def _put(self, resolved: dict[str, Resolved], key: str, removed: pa.Table) -> None:
        if key not in resolved:
            type_ = type_of(self._context.keys.catalog, key)
            columns = ["id", "src", "dst"] if isinstance(type_, EdgeType) else ["id"]
            rows = pa.schema([(name, pa.string()) for name in columns]).empty_table()
            change = Change(key, rows, Mode.OVERWRITE, conformed=True)
            resolved[key] = _resolve(self._context.workspace, type_, change, rows, True)
        resolved[key] = replace(resolved[key], removed=removed)

    def _stranded(self, node: str, space: int, hashes: Sequence[int]) -> pa.Table:
        """The nodes that edges which stay would lose, as rows with an id."""
        context, found = self._context, []
        for edge in context.keys.catalog.edges.values():
            for column, end in edge.endpoints:
                if f"node:{end}" == node and edge.table_key not in context.keys.loaded:
                    wanted = Wanted(edge.table_key, (column,), space, tuple(hashes))
                    rows = fetch_stored(context.cluster, context.keys, wanted, context.stored.get(edge.table_key, ()))
                    found += rows.column(column).to_pylist()
        return pa.table({"id": pa.array(sorted(set(found)), pa.string())})


def _no_rows(context: SuspectContext, key: str) -> pa.Table:
    schema = table_schema(type_of(context.keys.catalog, key))
    return pa.schema([*schema, (PLACE, pa.int64())]).empty_table()


def _resolve(
    workspace: Workspace, type_: NodeType | EdgeType, change: Change, rows: pa.Table, fresh_ids: bool
) -> Resolved:
    """Like `resolve`, but an overwrite does not read the whole table: what it removes was counted already."""
    if change.mode is not Mode.OVERWRITE:
        return resolve(workspace, type_, change, rows, fresh_ids)
    extra = ("src",) if isinstance(type_, EdgeType) else ()
    nothing = find_rows(workspace.readable(type_.table_key), pa.array([], pa.string()), columns=extra)
    return Resolved(type_, change, rows, nothing, nothing)


class _DependentRows:
    """Gathers rows until no row outside can change what happens to one inside."""

    def __init__(self, context: SuspectContext) -> None:
        self._context = context
        self._asked: dict[_Request, set[int]] = {}
        self._rows: dict[str, pa.Table] = {}

    def of(self, suspects: Suspects) -> dict[str, pa.Table]:
        wanted = self._first(suspects)
        while wanted:
            new = self._fetched(wanted)
            wanted = self._next(new)
        self._fetched(self._witnesses())
        return self._rows

    def _first(self, suspects: Suspects) -> dict[_Request, set[int]]:
        wanted: dict[_Request, set[int]] = {}
        for (number, suspicion), hashes in suspects.hashes.items():
            space = self._context.keys.spaces.all[number]
            if suspicion is Suspicion.MISSING:
                for key, column in edges_at(self._context.keys, space.key):
                    wanted.setdefault((key, (column,), number), set()).update(hashes)
            elif suspicion not in (Suspicion.STRANDED, Suspicion.COLLAPSES):
                wanted.setdefault((space.key, space.columns, number), set()).update(hashes)
        return wanted

    def _next(self, new: Mapping[str, pa.Table]) -> dict[_Request, set[int]]:
        """What depends on rows that may have to go."""
        spaces = self._context.keys.spaces
        wanted: dict[_Request, set[int]] = {}
        for key, rows in new.items():
            ids = spaces.ids_of(key)
            if ids is not None:
                self._want(wanted, (key, ("id",), ids.number), rows.column("id"))
                for edge, column in edges_at(self._context.keys, key):
                    self._want(wanted, (edge, (column,), ids.number), rows.column("id"))
            for space in spaces.others_of(key, "card"):
                self._want(wanted, (key, ("src",), space.number), rows.column("src"))
                if self._context.request.mode is Mode.MERGE:
                    handle = self._context.workspace.readable(key)
                    before = find_rows(handle, rows.column("id").combine_chunks(), columns=("src",))
                    self._want(wanted, (key, ("src",), space.number), before.column("src"))
        return wanted

    def _witnesses(self) -> dict[_Request, set[int]]:
        """The nodes that gathered edges point at."""
        wanted: dict[_Request, set[int]] = {}
        for key, rows in self._rows.items():
            type_ = type_of(self._context.keys.catalog, key)
            if not isinstance(type_, EdgeType):
                continue
            for column, node in type_.endpoints:
                space = self._context.keys.spaces.ids_of(f"node:{node}")
                if space is not None and f"node:{node}" in self._context.keys.loaded:
                    self._want(wanted, (f"node:{node}", ("id",), space.number), rows.column(column))
        return wanted

    def _want(self, wanted: dict[_Request, set[int]], request: _Request, texts: pa.ChunkedArray) -> None:
        hashes = hash_texts(texts.combine_chunks().drop_null(), self._context.keys.secret, request[2])
        more = set(hashes.tolist()) - self._asked.get(request, set())
        if more:
            wanted.setdefault(request, set()).update(more)

    def _fetched(self, wanted: Mapping[_Request, set[int]]) -> dict[str, pa.Table]:
        """Rows that were not here before."""
        context = self._context
        asked = self._asked_for({**wanted, **self._moved(wanted)})
        new = {}
        for key, rows in fetch_staged(context.cluster, context.keys, asked, context.pieces, whole=True).items():
            known = self._rows.get(key)
            if known is not None:
                fresh = np.isin(rows.column(PLACE).to_numpy(), known.column(PLACE).to_numpy(), invert=True)
                rows = rows.filter(pa.array(fresh))
            if rows.num_rows:
                new[key] = rows
                whole = rows if known is None else pa.concat_tables([known, rows])
                self._rows[key] = whole.sort_by(PLACE).combine_chunks()
        if sum(rows.num_rows for rows in self._rows.values()) > limits.SETTLED_ROWS:
            raise too_many_rows(sum(rows.num_rows for rows in self._rows.values()))
        return new

    def _asked_for(self, wanted: Mapping[_Request, set[int]]) -> list[Wanted]:
        for request, hashes in wanted.items():
            self._asked.setdefault(request, set()).update(hashes)
        return [Wanted(*request, tuple(hashes)) for request, hashes in wanted.items()]

    def _moved(self, wanted: Mapping[_Request, set[int]]) -> dict[_Request, set[int]]:
        """In a merge, edges that leave a source count there too."""
        context, found = self._context, dict[_Request, set[int]]()
        for (key, columns, number), hashes in wanted.items():
            ids, stored = context.keys.spaces.ids_of(key), context.stored.get(key)
            if context.request.mode is not Mode.MERGE or context.keys.spaces.all[number].kind != "card":
                continue
            if ids is not None and stored:
                rows = fetch_stored(context.cluster, context.keys, Wanted(key, columns, number, tuple(hashes)), stored)
                request = (key, ("id",), ids.number)
                self._want(found, request, rows.column("id"))
                found.setdefault(request, set()).update(wanted.get(request, ()))
        return found
