"""The set rules of a load as a Spark job: tasks count how the keys of the load and of the tables are used, the counts
of a key come together, and the few keys that may break a rule are checked exactly.

`key_spaces.py` narrows the keys; the rules themselves are `write/set_rules.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph import limits
from omnigraph.progress import Stage
from omnigraph.schema.catalog import Catalog
from omnigraph.spark.cluster import Cluster, Task, numbers
from omnigraph.spark.loading.key_scan import (
    KEY_COUNT,
    KEY_COUNT_DDL,
    SUSPECT_DDL,
    IndexLookups,
    KeyScan,
    StagedPiece,
    StoredPiece,
    columns_of,
    find_suspects,
    is_looked_up,
    look_up_keys,
    lookups_of,
    scan_keys,
)
from omnigraph.spark.loading.key_spaces import spaces_of
from omnigraph.spark.loading.replace_rows import IdJoin, key_counts, key_counts_here
from omnigraph.spark.loading.stage_task import StageConfig
from omnigraph.spark.loading.staged import Staging
from omnigraph.spark.loading.suspect_rows import SuspectCheck, SuspectContext, Suspects, collapsed
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.task_staging import StageTable, stored_fragments
from omnigraph.write.change import Mode
from omnigraph.write.load.commit_load import in_input_order, refuse_emptying
from omnigraph.write.load.gather import Gathered, LoadRequest, OnError, give_up
from omnigraph.write.load.violations import Violation

#: Suspects of one kind that are looked at when the load fails anyway.
_LOOKED_AT = 1_000


@dataclass(slots=True)
class Checked:
    """What the rules left of a load.

    Attributes:
        found: violations of rows alone; rejected: all violations, in the order of the input.
        dropped: offsets of rows that are left out, by table key and number of the fragment.
        refused: rows by table key that were rejected by a rule about rows together.
    """

    found: list[Violation] = field(default_factory=list)
    rejected: list[Violation] = field(default_factory=list)
    dropped: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def dropped_of(self, key: str) -> Mapping[int, Sequence[int]]:
        return self.dropped.get(key, {})


def stored_pieces(key: str, handle: LanceTable) -> list[StoredPiece]:
    return [StoredPiece(key, number, rows) for number, rows in stored_fragments(handle) if rows]


class LoadCheck:
    """Checks one load against one state of a branch."""

    def __init__(
        self,
        cluster: Cluster,
        order: StageConfig,
        staging: Staging,
        request: LoadRequest,
        workspace: Workspace,
        catalog: Catalog,
        tables: Mapping[str, StageTable],
    ) -> None:
        self._cluster = cluster
        self._order = order
        self._staging = staging
        self._request = request
        self._workspace = workspace
        loaded = {key: key in staging.fresh for key in staging.keys}
        stored = {key: self._address(key) for key, pin in workspace.snapshot.pins.items() if pin.row_count}
        self._keys = KeyScan(
            catalog,
            spaces_of(catalog, loaded, request.mode),
            request.mode,
            secrets.randbits(63),
            tables,
            stored,
            frozenset(loaded),
        )
        self._stored = {
            key: stored_pieces(key, workspace.readable(key))
            for key in stored
            if catalog.by_table_key(key) is not None and columns_of(self._keys, key, staged=False)
        }
        self._checked = Checked()

    def _address(self, key: str) -> StageTable:
        pin = self._workspace.snapshot.pins[key]
        return StageTable(self._workspace.store.location, TableVersion(pin.location, pin.branch, pin.version))

    def check(self, found: list[Violation], stage: Stage) -> Checked:
        """Leave out rows that may be left out, or raise the first violation."""
        self._checked = Checked(found, list(found))
        rejects = self._request.on_error is OnError.REJECT
        while True:
            suspects = self._suspects(stage)
            if rejects and suspects.breaks and self._rejected(suspects):
                continue
            gone = collapsed(self._context(), suspects)  # a row that is rejected replaces nobody, so these come later
            if gone:
                self._drop(gone)
                continue
            if suspects.breaks and not rejects:
                SuspectCheck(self._context(), suspects).refuse()
            self._refuse_emptying()
            return self._checked

    def _rejected(self, suspects: Suspects) -> bool:
        """Leave rows out so that the others can stay; whether there were any. Raises what nobody can be blamed for."""
        check = SuspectCheck(self._context(), suspects)
        violations, gone = check.reject(self._request.tolerated - len(self._checked.rejected))
        if gone:
            self._reject(violations, gone)
        else:
            self._refuse_emptying()
            check.refuse()
        return bool(gone)

    def _refuse_emptying(self) -> None:
        left = {key: count - self._checked.refused.get(key, 0) for key, count in self._staging.counts.items()}
        refuse_emptying(self._request, self._checked.found, self._staging.counts, left)

    def _reject(self, violations: list[Violation], gone: Mapping[str, list[int]]) -> None:
        everything = [*self._checked.rejected, *violations]
        self._checked.rejected = in_input_order(everything, Gathered(files=self._staging.files))
        if len(everything) > self._request.tolerated:
            raise give_up(self._request, self._checked.rejected)
        for key, places in gone.items():
            self._checked.refused[key] = self._checked.refused.get(key, 0) + len(places)
        self._drop(gone)

    def _drop(self, gone: Mapping[str, list[int]]) -> None:
        for key, places in gone.items():
            fragments = self._checked.dropped.setdefault(key, {})
            for place in places:
                number, offset = self._staging.address(key, place)
                fragments.setdefault(number, []).append(offset)

    def _pieces(self) -> list[StagedPiece]:
        return [
            piece for key in self._staging.keys for piece in self._staging.pieces(key, self._checked.dropped_of(key))
        ]

    def _context(self) -> SuspectContext:
        return SuspectContext(
            self._cluster,
            self._keys,
            self._order,
            self._staging,
            self._request,
            self._workspace,
            self._pieces(),
            self._stored,
        )

    def _suspects(self, stage: Stage) -> Suspects:
        if not self._keys.spaces.all:
            return Suspects()
        most = max(_LOOKED_AT, self._request.tolerated + 1)
        return Suspects.of(self._suspicious(stage), most)

    def _suspicious(self, stage: Stage) -> list[Any]:
        """The keys that may break a rule, by all counts of every key."""
        staged = [piece for piece in self._pieces() if columns_of(self._keys, piece.key, staged=True)]
        plain: list[Any] = list(staged)
        looked_up: list[tuple[str, IndexLookups]] = []
        joins: dict[str, IdJoin] = {}
        for key, stored in self._stored.items():
            asked = self._looked_up(key, stored)
            if asked is not None:
                looked_up.append((key, asked))
            elif self._may_replace(key):
                pieces = self._staging.pieces(key, self._checked.dropped_of(key))
                joins[key] = IdJoin(self._keys.tables[key], self._keys.stored[key], pieces, stored)
            else:
                plain += stored
        tasks, narrow = _packed(plain), find_suspects(self._keys.spaces)
        looking = look_up_keys(self._keys, looked_up, staged)
        rows = sum(piece.rows for piece in plain)
        if self._cluster.runs_here(rows) and all(self._cluster.runs_here(each.rows) for each in joins.values()):
            counts = list(scan_keys(self._keys, tasks)(numbers(len(tasks))))
            counts += looking(numbers(len(looked_up)))
            for key, join in joins.items():
                counts += key_counts_here(self._keys, key, join)
            return _narrowed_here(narrow, counts)
        frame = self._cluster.each(len(tasks), scan_keys(self._keys, tasks), KEY_COUNT_DDL)
        if looked_up:
            frame = frame.union(self._cluster.each(len(looked_up), looking, KEY_COUNT_DDL))
        for key, join in joins.items():
            frame = frame.union(key_counts(self._cluster, self._keys, key, join))
        parts = min(self._cluster.cores * limits.SHUFFLES_PER_CORE, len(tasks) + 2 * len(joins))
        suspicious = frame.repartition(max(1, parts), "hash").mapInArrow(narrow, SUSPECT_DDL)
        return self._cluster.collect(suspicious, stage)

    def _looked_up(self, key: str, stored: Sequence[StoredPiece]) -> IndexLookups | None:
        """What to look up in a table by its indexes; None when it is better read as a whole."""
        if self._request.mode is Mode.OVERWRITE:
            return None
        asked = lookups_of(self._keys, key, replaces=self._may_replace(key))
        rows = {each: self._staging.counts[each] for each in self._staging.keys}
        return asked if is_looked_up(self._workspace.readable(key), asked, rows, stored) else None

    def _may_replace(self, key: str) -> bool:
        """Whether stored rows may be replaced, which then do not count, and a rule counts them."""
        counts = self._keys.spaces.others_of(key, "unique") or self._keys.spaces.others_of(key, "card")
        is_merged = self._request.mode is Mode.MERGE and key in self._keys.loaded and key not in self._staging.fresh
        return is_merged and bool(counts)


def _narrowed_here(narrow: Task, counts: Sequence[pa.RecordBatch]) -> list[Any]:
    """The same in this process: some keys at a time, so that memory is little more than the counts."""
    table = pa.Table.from_batches(counts, schema=KEY_COUNT)
    parts = max(1, -(-table.num_rows // limits.KEY_TASK_ROWS))
    if parts == 1:
        return [row for batch in narrow(iter(counts)) for row in batch.to_pylist()]
    found: list[Any] = []
    numbers_of_parts = table.column("hash").to_numpy() % parts
    for part in range(parts):
        own = table.filter(pa.array(numbers_of_parts == part))
        found += [row for batch in narrow(iter(own.to_batches())) for row in batch.to_pylist()]
    return found


def _packed(pieces: Sequence[Any]) -> list[list[Any]]:
    """Neighbours that one task looks at together."""
    tasks: list[list[Any]] = []
    rows = 0
    for piece in pieces:
        if not tasks or rows + piece.rows > limits.KEY_TASK_ROWS:
            tasks.append([])
            rows = 0
        tasks[-1].append(piece)
        rows += piece.rows
    return tasks
