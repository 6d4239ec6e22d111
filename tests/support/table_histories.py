"""Random histories of one table through every kind of transaction, and every state that they pass. No pytest in here.

Graph writes, index builds and branches come first, then transactions that only other software makes: compaction and
restore, on the table itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.storage.metadata.manifest import Pin, table_version_of
from omnigraph.storage.tables.datasets import as_dataset
from omnigraph.write.change import Change, Mode

KEY = "node:Item"

SCHEMA = """
node Item { name: String @key  size: I32?  weight: F64?  tags: [String]?  place: Vector(2)? }
"""

BLOB_SCHEMA = """
node Item { name: String @key  size: I32?  body: Blob? }
"""

_WEIGHTS = [None, 0.0, -0.0, 1.5]
_TAGS = [None, [], [""], ["a"], ["a", "b"]]
_PLACES = [None, [0.0, 1.0], [-0.0, 1.0]]
_BODIES = [None, b"", b"x", b"y" * 70_000, b"z" * 70_000]


@dataclass(frozen=True, slots=True)
class State:
    """A pin, what made it, and the rows that it shows."""

    pin: Pin
    made_by: str
    rows: dict[str, dict[str, Any]]


class TableHistory:
    """A graph with one table whose states are recorded as it changes."""

    def __init__(self, root: Any, seed: int, *, blobs: bool = False) -> None:
        self.graph = og.init(root, BLOB_SCHEMA if blobs else SCHEMA)
        self.tables = self.graph._store.tables
        self.random = random.Random(seed)
        self.states: list[State] = []
        self._blobs = blobs
        self._branches = ["main"]
        self.record("main", "init")

    def grow(self, steps: int) -> TableHistory:
        kinds = [self._put, self._put, self._put, self._remove, self._overwrite, self._small_writes, self._indexes]
        for _ in range(steps):
            self.random.choice([*kinds, self._branch, self._recreate])()
        return self

    def grow_by_others(self, steps: int) -> TableHistory:
        """Transactions of other software on the main lineage. The graph itself is not written afterwards."""
        for _ in range(steps):
            self.random.choice([self.compact, self._restore, self._delete])()
        return self

    def _put(self) -> None:
        names = self.random.sample(self._names(), self.random.randint(1, 12))
        self._write("put", Change(KEY, self._rows(names), Mode.MERGE))

    def _small_writes(self) -> None:
        """Enough of them that the small fragments are folded."""
        branch = self.random.choice(self._branches)
        for _ in range(14):
            name = self.random.choice(self._names())
            self.graph.write([Change(KEY, self._rows([name]), Mode.MERGE)], branch=branch)
        self.record(branch, "fold")

    def _overwrite(self) -> None:
        names = self.random.sample(self._names(), self.random.randint(0, 20))
        self._write("overwrite", Change(KEY, self._rows(names), Mode.OVERWRITE))

    def _remove(self) -> None:
        names = self.random.sample(self._names(), 5)
        self._write("remove", Change(KEY, remove=pa.array(names, pa.string())))

    def _indexes(self) -> None:
        branch = self.random.choice(self._branches)
        self.graph.ensure_indices(branch)
        self.record(branch, "index")

    def _branch(self) -> None:
        name = f"b{len(self._branches)}"
        if name not in self._branches and len(self._branches) < 4:
            self.graph.branches.create(name, from_=self.random.choice(self._branches))
            self._branches.append(name)

    def _recreate(self) -> None:
        """Delete the newest branch and make it again from elsewhere; its states are gone."""
        if len(self._branches) == 1:
            return
        name = self._branches.pop()
        self.graph.branches.delete(name)
        self.states = [state for state in self.states if state.pin.branch != name]
        self.graph.branches.create(name, from_=self.random.choice(self._branches))
        self._branches.append(name)

    def compact(self) -> None:
        handle = self.tables.newest(self._main().location)
        handle.optimize.compact_files(target_rows_per_fragment=1_000_000)
        self.record_raw("compact")

    def _restore(self) -> None:
        handle = self.tables.newest(self._main().location)
        older = self.random.choice([version["version"] for version in handle.versions()])
        handle.checkout_version(older).restore()
        self.record_raw("restore")

    def _delete(self) -> None:
        handle = self.tables.newest(self._main().location)
        names = [row["id"] for row in handle.to_table(columns=["id"]).to_pylist()]
        if names:
            as_dataset(handle).delete(f"id = '{self.random.choice(names)}'")
            self.record_raw("delete")

    def _write(self, kind: str, change: Change) -> None:
        branch = self.random.choice(self._branches)
        self.graph.write([change], branch=branch)
        self.record(branch, kind)

    def record(self, branch: str, kind: str) -> None:
        pin = self.graph.snapshot(branch).tables[KEY]
        self.states.append(State(pin, f"{kind} on {branch}", self._shown(pin)))

    def record_raw(self, kind: str) -> None:
        main = self._main()
        handle = self.tables.newest(main.location)
        pin = replace(main, version=handle.version, row_count=handle.count_rows(), metadata="{}")
        self.states.append(State(pin, kind, self._shown(pin)))

    def _main(self) -> Pin:
        return self.graph.snapshot().tables[KEY]

    def _shown(self, pin: Pin) -> dict[str, dict[str, Any]]:
        handle = self.tables.at(table_version_of(pin))
        rows = handle.to_table(blob_handling="all_binary").to_pylist()
        return {row["id"]: row for row in rows}

    def _names(self) -> list[str]:
        return [f"i{number}" for number in range(40)]

    def _rows(self, names: list[str]) -> pa.Table:
        count = len(names)
        columns: dict[str, Any] = {
            "name": pa.array(names, pa.string()),
            "size": pa.array([self.random.choice([None, 0, 1]) for _ in range(count)], pa.int32()),
        }
        if self._blobs:
            columns["body"] = pa.array([self.random.choice(_BODIES) for _ in range(count)], pa.large_binary())
        else:
            columns["weight"] = pa.array([self.random.choice(_WEIGHTS) for _ in range(count)], pa.float64())
            columns["tags"] = pa.array([self.random.choice(_TAGS) for _ in range(count)], pa.list_(pa.string()))
            columns["place"] = pa.array([self.random.choice(_PLACES) for _ in range(count)], pa.list_(pa.float32(), 2))
        return pa.table(columns)


def naive_delta(before: State, after: State) -> tuple[list[str], list[str], list[str]]:
    """Inserted, updated and deleted ids, one row at a time; ``repr`` tells the two zeros apart."""
    old, new = before.rows, after.rows
    inserted = sorted(new.keys() - old.keys())
    deleted = sorted(old.keys() - new.keys())
    updated = sorted(name for name in old.keys() & new.keys() if repr(old[name]) != repr(new[name]))
    return inserted, updated, deleted
