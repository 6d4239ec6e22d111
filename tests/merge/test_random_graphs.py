"""Random histories of real graphs: branches that write and merge in any direction, against the naive oracle."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import MergeConflict
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.write.change import Change, Mode
from tests.merge.branches import fingerprint, state
from tests.merge.oracle import Row, Rules, State, last_common, merge, same_state, shared_state

SCHEMA = """
node Person { name: String @key  age: I32?  email: String? @unique }
node City { text: String  tags: [String]? }
edge Knows: Person -> Person { weight: F64? }
edge LivesIn: Person -> City @card(0..1)
"""
RULES = Rules(
    ends={"edge:Knows": ("node:Person", "node:Person"), "edge:LivesIn": ("node:Person", "node:City")},
    uniques={"node:Person": ("email",)},
    cards={"edge:LivesIn": (0, 1)},
)
TYPES: dict[str, dict[str, pa.DataType]] = {
    "node:Person": {"id": pa.string(), "name": pa.string(), "age": pa.int32(), "email": pa.string()},
    "node:City": {"id": pa.string(), "text": pa.string(), "tags": pa.list_(pa.string())},
    "edge:Knows": {"id": pa.string(), "src": pa.string(), "dst": pa.string(), "weight": pa.float64()},
    "edge:LivesIn": {"id": pa.string(), "src": pa.string(), "dst": pa.string()},
}
PEOPLE = [f"p{number}" for number in range(7)]
CITIES = [f"c{number}" for number in range(3)]

MAKE: dict[str, Callable[[random.Random], Row]] = {
    "node:Person": lambda rng: {
        "id": (name := rng.choice(PEOPLE)),
        "name": name,
        "age": rng.choice([None, 1, 2]),
        "email": rng.choice([None, None, "x@", "y@"]),
    },
    "node:City": lambda rng: {
        "id": rng.choice(CITIES),
        "text": rng.choice(["", "a"]),
        "tags": rng.choice([None, [], ["t"]]),
    },
    "edge:Knows": lambda rng: {
        "id": f"k{rng.randrange(6)}",
        "src": rng.choice(PEOPLE),
        "dst": rng.choice(PEOPLE),
        "weight": rng.choice([None, 0.0, -0.0, 0.5]),
    },
    "edge:LivesIn": lambda rng: {"id": f"l{rng.randrange(4)}", "src": rng.choice(PEOPLE), "dst": rng.choice(CITIES)},
}


class History:
    """One graph, and every state that a commit of it made."""

    def __init__(self, root: Path) -> None:
        self.graph = og.init(root, SCHEMA)
        self.states: dict[str, State] = {}
        self.commits: dict[str, Commit] = {}
        self.heads: dict[str, str] = {}
        self.seen: set[str] = set()
        self.note("main", {key: {} for key in TYPES})

    def note(self, branch: str, found: State) -> None:
        head = self.graph.commits.head(branch)
        self.heads[branch] = head.id
        self.commits[head.id] = head
        self.states[head.id] = found

    def state(self, branch: str) -> State:
        return self.states[self.heads[branch]]

    def create(self, branch: str, from_: str) -> None:
        self.graph.branches.create(branch, from_)
        self.heads[branch] = self.heads[from_]

    def write(self, rng: random.Random, branch: str) -> None:
        """One write of one to four rows that keeps every rule; some tries come to nothing."""
        now = {key: dict(rows) for key, rows in self.state(branch).items()}
        puts: dict[str, dict[str, Row]] = {key: {} for key in TYPES}
        going: dict[str, set[str]] = {key: set() for key in TYPES}
        for _ in range(rng.randint(1, 4)):
            key = rng.choice(list(TYPES))
            tried = {name: dict(rows) for name, rows in now.items()}
            if rng.random() < 0.3 and tried[key]:
                id_ = rng.choice(sorted(tried[key]))
                tried[key].pop(id_)
            else:
                row = MAKE[key](rng)
                tried[key][row["id"]] = row
                id_ = row["id"]
            if RULES.broken_by(tried):
                continue
            now = tried
            puts[key].pop(id_, None)
            going[key].discard(id_)
            if id_ in now[key]:
                puts[key][id_] = now[key][id_]
            else:
                going[key].add(id_)
        changes = [change(key, puts[key], going[key]) for key in TYPES if puts[key] or going[key]]
        if changes and self.graph.write(changes, branch=branch).commit:
            self.note(branch, now)

    def merge(self, source: str, target: str) -> None:
        preview = self.graph.branches.merge(source, target, dry_run=True)
        before = fingerprint(self.graph, target)
        if preview.outcome == "already_up_to_date":
            assert self.graph.branches.merge(source, target).commit is None
            assert fingerprint(self.graph, target) == before
            self.seen.add("already_up_to_date")
            return
        heads = self.heads[source], self.heads[target]
        bases = last_common(*heads, self.commits)
        assert preview.base == bases[0]
        if len(bases) > 1:
            self.seen.add("criss-cross")
        base = shared_state(*heads, self.commits, self.states)
        wanted = merge(base, self.state(source), self.state(target), RULES)
        assert {named(each) for each in preview.conflicts} == wanted.conflicts
        if wanted.conflicts:
            with pytest.raises(MergeConflict) as caught:
                self.graph.branches.merge(source, target)
            assert {named(each) for each in caught.value.conflicts} == wanted.conflicts
            assert fingerprint(self.graph, target) == before
            self.seen |= {kind for _, _, kind in wanted.conflicts}
            return
        done = self.graph.branches.merge(source, target)
        assert done.commit is not None
        assert (done.commit.parent, done.commit.merged_parent) == (self.heads[target], self.heads[source])
        assert done.tables == preview.tables
        self.note(target, wanted.state)
        self.seen.add(done.outcome)
        assert same_state(state(self.graph, target), wanted.state)
        assert same_state(state(self.graph, source), self.state(source))


def change(key: str, rows: dict[str, Row], going: set[str]) -> Change:
    columns = {name: pa.array([row[name] for row in rows.values()], type_) for name, type_ in TYPES[key].items()}
    remove = pa.array(sorted(going), pa.string()) if going else None
    return Change(key, pa.table(columns) if rows else None, Mode.MERGE, remove)


def named(conflict: Any) -> tuple[str, str | None, str]:
    """A conflict as the oracle names it: of rows that share something only the table."""
    about_many = conflict.kind in ("UniqueViolation", "CardinalityViolation")
    return conflict.table_key, None if about_many else conflict.row_id, conflict.kind


def play(root: Path, seed: int, merges: int) -> set[str]:
    rng = random.Random(seed)
    history = History(root)
    for _ in range(4):
        history.write(rng, "main")
    for branch, from_ in (("a", "main"), ("b", "main"), ("c", "a")):
        history.create(branch, from_)
    for _ in range(merges):
        for _ in range(rng.randint(0, 3)):
            history.write(rng, rng.choice(list(history.heads)))
        source, target = rng.sample(list(history.heads), 2)
        history.merge(source, target)
    for branch in history.heads:
        assert same_state(state(history.graph, branch), history.state(branch))
    return history.seen


def test_random_merges_of_real_graphs_end_as_the_oracle_says(tmp_path: Path) -> None:
    seen = [play(tmp_path / str(seed), seed, merges=15) for seed in range(4)]
    assert {"already_up_to_date", "fast_forward", "merged", "DivergentUpdate", "DeleteVsUpdate"} <= set().union(*seen)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_random_merges_of_real_graphs_end_as_the_oracle_says(tmp_path: Path, seed: int) -> None:
    assert play(tmp_path / "g", seed, merges=40)
