"""The model: what a graph must show, as dictionaries per commit and a list of commits per branch.

It predicts rows, refusals and history for a closed set of operations, and knows nothing of files. A write is valid when
the state after it is: ids new where they must be, tags unique, every edge with both ends, at most one home a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from omnigraph.storage.metadata.manifest import Commit
from omnigraph.write.change import Change, Mode

SCHEMA = """
node Person { name: String @key  age: I64? @range(age, 0..150)  tag: String? @unique }
node City { name: String @key  size: I64? }
edge Knows: Person -> Person { weight: I64? }
edge LivesIn: Person -> City @card(0..1) { since: I64? }
"""
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "node:Person": ("id", "age", "name", "tag"),
    "node:City": ("id", "name", "size"),
    "edge:Knows": ("id", "src", "dst", "weight"),
    "edge:LivesIn": ("id", "src", "dst", "since"),
}
ENDS = {"edge:Knows": ("node:Person", "node:Person"), "edge:LivesIn": ("node:Person", "node:City")}
NUMBERS = ("age", "size", "weight", "since")

#: Table → id → row.
State = Mapping[str, Mapping[str, Mapping[str, Any]]]

EMPTY: State = {table: {} for table in COLUMNS}


@dataclass(frozen=True, slots=True)
class Put:
    """The change of one table, as plain values: it can be sent to another process."""

    table: str
    mode: str = "append"
    rows: tuple[Mapping[str, Any], ...] = ()
    remove: tuple[str, ...] = ()

    def change(self) -> Change:
        names = [name for name in COLUMNS[self.table] if self.table in ENDS or name != "id"]
        columns = {
            name: pa.array([row.get(name) for row in self.rows], pa.int64() if name in NUMBERS else pa.string())
            for name in names
        }
        has_rows = bool(self.rows) or self.mode == "overwrite"
        return Change(
            self.table,
            pa.table(columns) if has_rows else None,
            Mode(self.mode),
            remove=pa.array(self.remove, pa.string()) if self.remove else None,
        )


def person(name: str, age: int | None = None, tag: str | None = None) -> dict[str, Any]:
    return {"id": name, "name": name, "age": age, "tag": tag}


def city(name: str, size: int | None = None) -> dict[str, Any]:
    return {"id": name, "name": name, "size": size}


def knows(id_: str, src: str, dst: str, weight: int | None = None) -> dict[str, Any]:
    return {"id": id_, "src": src, "dst": dst, "weight": weight}


def lives_in(id_: str, src: str, dst: str, since: int | None = None) -> dict[str, Any]:
    return {"id": id_, "src": src, "dst": dst, "since": since}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write does to a state.

    Attributes:
        refusals: codes of the errors that apply; any of them may be the one that is raised. Empty means it happens.
        changes: whether there is anything to commit.
    """

    state: State
    refusals: frozenset[str] = frozenset()
    changes: bool = True


def outcome(before: State, puts: Iterable[Put]) -> Outcome:
    after: dict[str, dict[str, Mapping[str, Any]]] = {table: dict(rows) for table, rows in before.items()}
    refusals: set[str] = set()
    changes = False
    for put in puts:
        table = after[put.table]
        if put.mode == "overwrite":
            changes |= bool(table or put.rows)
            table.clear()
        gone = [id_ for id_ in put.remove if table.pop(id_, None) is not None]
        if put.mode == "append" and any(row["id"] in before[put.table] for row in put.rows):
            refusals.add("conflict.key")
        table.update({row["id"]: row for row in put.rows})
        changes |= bool(gone or put.rows)
    refusals |= _faults(after)
    return Outcome(before, frozenset(refusals)) if refusals else Outcome(after, frozenset(), changes)


def _faults(state: State) -> set[str]:
    faults = set()
    tags = Counter(row["tag"] for row in state["node:Person"].values() if row["tag"] is not None)
    if any(count > 1 for count in tags.values()):
        faults.add("rows.unique")
    for edge, (source, target) in ENDS.items():
        if any(row["src"] not in state[source] or row["dst"] not in state[target] for row in state[edge].values()):
            faults.add("rows.endpoint")
    homes = Counter(row["src"] for row in state["edge:LivesIn"].values())
    if any(count > 1 for count in homes.values()):
        faults.add("rows.cardinality")
    if any(row["age"] is not None and not 0 <= row["age"] <= 150 for row in state["node:Person"].values()):
        faults.add("row.range")
    return faults


@dataclass(frozen=True, slots=True)
class Record:
    """One commit as the graph reported it, with the state it stands for, and the branch it was made on, whatever that
    is called."""

    commit: Commit
    state: State
    line: object = None


@dataclass(slots=True)
class ModelBranch:
    """A branch: its history from genesis to head, and the branch and version that it was made from."""

    chain: list[Record]
    parent: str | None = None
    made_at: int = 0
    line: object = None

    @property
    def head(self) -> Record:
        return self.chain[-1]

    def at_time(self, moment: datetime) -> Record | None:
        return next((record for record in reversed(self.chain) if record.commit.created_at <= moment), None)


@dataclass(slots=True)
class Model:
    """The whole graph."""

    branches: dict[str, ModelBranch] = field(default_factory=dict)

    @staticmethod
    def new(genesis: Commit) -> Model:
        return Model({"main": ModelBranch([Record(genesis, EMPTY)])})

    def commit(self, branch: str, commit: Commit, state: State) -> None:
        """Take a new head. It must follow the old one."""
        chain = self.branches[branch].chain
        assert commit.parent == chain[-1].commit.id, f"{commit} does not follow {chain[-1].commit}"
        assert commit.branch == branch
        assert commit.version > chain[-1].commit.version
        chain.append(Record(commit, state, self.branches[branch].line))

    def create(self, name: str, parent: str, version: int, chain: list[Record]) -> None:
        self.branches[name] = ModelBranch(list(chain), parent, version, object())

    def maker(self, record: Record) -> str:
        """What the branch is called now that a commit was made on."""
        return next(name for name, branch in self.branches.items() if branch.line is record.line)

    def refusals_of_rename(self, name: str, new_name: str) -> frozenset[str]:
        if name not in self.branches:
            return frozenset({"not_found.branch"})
        if name == new_name:
            return frozenset({"name"})
        return self.refusals_of_create(new_name)

    def rename(self, name: str, new_name: str) -> None:
        self.branches[new_name] = self.branches.pop(name)
        for branch in self.branches.values():
            branch.parent = new_name if branch.parent == name else branch.parent

    def holder(self, name: str, version: int) -> str:
        """The branch that a version number seen from another one belongs to."""
        branch = self.branches[name]
        below = branch.parent is not None and version < branch.made_at
        return self.holder(branch.parent, version) if branch.parent and below else name

    def refusals_of_create(self, name: str) -> frozenset[str]:
        return frozenset({"conflict.branch_exists"} if name in self.branches else ())

    def refusals_of_delete(self, name: str) -> frozenset[str]:
        if name not in self.branches:
            return frozenset({"not_found.branch"})
        used = any(branch.parent == name for branch in self.branches.values())
        return frozenset({"conflict.branch_in_use"} if used else ())

    def delete(self, name: str) -> None:
        del self.branches[name]

    def names(self) -> list[str]:
        return ["main", *sorted(name for name in self.branches if name != "main")]
