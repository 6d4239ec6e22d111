"""Random histories of a small graph, and models that apply its changes. No pytest in here."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.errors import MergeConflict
from omnigraph.history.diff import Diff
from omnigraph.history.entity_changes import EntityChange
from omnigraph.storage.delta import DELETE
from omnigraph.write.change import Change, Mode

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date?  tags: [String]?  seen: DateTime? }
node City { name: String @key  size: F64? }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""

#: Entity (kind, type, id) → its image.
Model = dict[tuple[str, str, str], dict[str, Any]]


class GraphHistory:
    """A graph that changes at random on several branches."""

    def __init__(self, root: Any, seed: int) -> None:
        self.graph = og.init(root, SCHEMA)
        self.random = random.Random(seed)
        self.branches = ["main"]

    def grow(self, steps: int) -> GraphHistory:
        for _ in range(steps):
            writes = [self._people, self._people, self._cities, self._edges, self._remove]
            self.random.choice([*writes, self._fork, self._merge])()
        return self

    def commits(self, branch: str = "main") -> list[str]:
        """Commit ids, oldest first."""
        return [commit.id for commit in reversed(self.graph.commits.list(branch))]

    def _branch(self) -> str:
        return self.random.choice(self.branches)

    def _names(self, stem: str, most: int) -> list[str]:
        return [f"{stem}{number}" for number in self.random.sample(range(12), self.random.randint(1, most))]

    def _people(self) -> None:
        names = self._names("p", 5)
        pick = self.random.choice
        rows = pa.table(
            {
                "name": names,
                "age": pa.array([pick([None, 1, 2]) for _ in names], pa.int32()),
                "born": pa.array([pick([None, 10_000]) for _ in names], pa.int32()).cast(pa.date32()),
                "tags": pa.array([pick([None, [], ["a"]]) for _ in names], pa.list_(pa.string())),
                "seen": pa.array([pick([None, 1_700_000_000_123]) for _ in names], pa.int64()).view(pa.date64()),
            }
        )
        self.graph.write([Change("node:Person", rows, Mode.MERGE)], branch=self._branch())

    def _cities(self) -> None:
        names = self._names("c", 3)
        sizes = pa.array([self.random.choice([0.0, -0.0, None]) for _ in names], pa.float64())
        change = Change("node:City", pa.table({"name": names, "size": sizes}), Mode.MERGE)
        self.graph.write([change], branch=self._branch())

    def _edges(self) -> None:
        branch = self._branch()
        people, cities = (
            self.graph.snapshot(branch).arrow(name, ["id"])["id"].to_pylist() for name in ("Person", "City")
        )
        if not people or not cities:
            return
        ids = self._names("e", 4)
        ends = {name: [self.random.choice(people) for _ in ids] for name in ("src", "dst")}
        since = pa.array([self.random.choice([None, 1]) for _ in ids], pa.int32())
        knows = Change("edge:Knows", pa.table({"id": ids, **ends, "since": since}), Mode.MERGE)
        homes = pa.table({"id": ids, "src": ends["src"], "dst": [self.random.choice(cities) for _ in ids]})
        self.graph.write([knows, Change("edge:LivesIn", homes, Mode.MERGE)], branch=branch)

    def _remove(self) -> None:
        """People go with their edges, as a mutation would do it."""
        branch = self._branch()
        gone = self._names("p", 3)
        snapshot = self.graph.snapshot(branch)
        changes = [Change("node:Person", remove=pa.array(gone, pa.string()))]
        for name in ("Knows", "LivesIn"):
            rows = snapshot.arrow(name, ["id", "src", "dst"]).to_pylist()
            ids = [row["id"] for row in rows if row["src"] in gone or (name == "Knows" and row["dst"] in gone)]
            if ids:
                changes.append(Change(f"edge:{name}", remove=pa.array(ids, pa.string())))
        self.graph.write(changes, branch=branch)

    def _fork(self) -> None:
        if len(self.branches) < 4:
            name = f"b{len(self.branches)}"
            self.graph.branches.create(name, from_=self._branch())
            self.branches.append(name)

    def _merge(self) -> None:
        """A merge if there is no conflict."""
        if len(self.branches) > 1:
            source, into = self.random.sample(self.branches, 2)
            with contextlib.suppress(MergeConflict):
                self.graph.branches.merge(source, into=into)


def changes_of(diff: Diff) -> list[Change]:
    """A diff as the write that makes it happen."""
    found = []
    for pair in diff.pairs:
        rows = diff.changes_of(pair)
        whole = rows.slice(0, len(rows))
        gone = [id_ for id_, op in zip(whole.ids.to_pylist(), whole.ops.tolist(), strict=True) if op == 2]
        put = whole.after if whole.after.num_rows else None
        if put is not None or gone:
            found.append(Change(pair.table_key, put, Mode.MERGE, pa.array(gone, pa.string()) if gone else None))
    return found


def state_of(graph: og.Graph, branch: str | None = None, at: Any = None) -> dict[str, list[dict[str, Any]]]:
    """Every row of every type, in order."""
    snapshot = graph.snapshot(branch, at)
    return {key: sorted(snapshot.arrow(key).to_pylist(), key=lambda row: row["id"]) for key in snapshot.tables}


def apply(model: Model, changes: Iterable[EntityChange]) -> None:
    """Apply changes to a model; a change that does not fit what is there fails."""
    for change in changes:
        place = (change.kind, change.type, change.id)
        assert repr(model.get(place)) == repr(change.before), f"{change} does not fit"
        assert change.before != change.after or repr(change.before) != repr(change.after)
        if change.op == DELETE:
            del model[place]
        else:
            assert change.after is not None
            model[place] = change.after


def model_of(diff: Diff) -> Model:
    """The later state of a diff from an empty graph."""
    model: Model = {}
    apply(model, diff)
    return model
