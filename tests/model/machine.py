"""Runs random operations on a real graph and on the model, and compares the two by five roads after every step.

The roads: the receipt of a write, a snapshot, the raw Lance rows at the pin, the commit history, and an old read-only
handle against the one that writes. A write that is cut short ends as if it had happened or as if it had not.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import event, note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import InputError, NotFoundError, ReadOnly
from tests.model.oracle import (
    COLUMNS,
    SCHEMA,
    Model,
    Put,
    Record,
    State,
    city,
    knows,
    lives_in,
    outcome,
    person,
)
from tests.support.crash_checks import assert_mirrored, assert_pins_are_heads, assert_whole, records
from tests.support.light_python import run_module
from tests.support.source_tree import ROOT

ACTOR = "act-model"
PEOPLE = [f"p{number}" for number in range(6)]
CITIES = [f"c{number}" for number in range(3)]
EDGES = [f"e{number}" for number in range(5)]
BRANCHES = ["a", "review/b", "review/c"]

#: Where a write can be cut, by a kill or by an error that the store returns.
CUTS = (
    "write.after_stage",
    "write.after_gate_checks",
    "write.after_sidecar",
    "fork.before_create",
    "fork.post_create_pre_open",
    "write.after_table_commit",
    "table.lost_ack",
    "write.after_all_table_commits",
    "publish.before_commit",
    "publish.lost_ack",
    "write.after_publish_before_delete",
    "recovery.sidecar_delete",
)
CONTROL_CUTS = (
    "branch_create.before_ref",
    "branch_create.after_ref",
    "branch_create.after_entry",
    "branch_delete.before_table_cleanup",
    "branch_rename.after_new_entry",
    "branch_rename.after_decision",
)

numbers = st.one_of(st.none(), st.integers(0, 150))
some_people = st.lists(st.sampled_from(PEOPLE), min_size=1, max_size=3, unique=True)
tags = st.one_of(st.none(), st.sampled_from(["red", "blue"]))
modes = st.sampled_from(["append", "merge"])
index = st.integers(0, 10**6)


@st.composite
def writes(draw: st.DrawFn) -> tuple[Put, ...]:
    """One write: people, cities and edges that come, change, go or replace all of their kind."""
    kinds: Sequence[Callable[[], tuple[Put, ...]]] = (
        lambda: (_people(draw, draw(modes)),),
        lambda: (_people(draw, draw(modes)), _cities(draw, draw(modes)), _homes(draw)),
        lambda: (_cities(draw, draw(modes)),),
        lambda: (_friends(draw, draw(modes)),),
        lambda: (_homes(draw),),
        lambda: (Put("node:Person", remove=tuple(draw(some_people))),),
        lambda: (Put("edge:Knows", remove=tuple(draw(st.lists(st.sampled_from(EDGES), min_size=1, unique=True)))),),
        lambda: (_people(draw, "merge"), Put("edge:Knows", remove=tuple(EDGES)), Put("edge:LivesIn", remove=("h0",))),
        lambda: (_cities(draw, "overwrite"),),
        lambda: (_people(draw, "overwrite"), Put("edge:Knows", "overwrite"), Put("edge:LivesIn", "overwrite")),
    )
    return draw(st.sampled_from(kinds))()


def _people(draw: st.DrawFn, mode: str) -> Put:
    names = draw(some_people)
    return Put("node:Person", mode, tuple(person(name, draw(numbers), draw(tags)) for name in names))


def _cities(draw: st.DrawFn, mode: str) -> Put:
    names = draw(st.lists(st.sampled_from(CITIES), min_size=1, max_size=2, unique=True))
    return Put("node:City", mode, tuple(city(name, draw(numbers)) for name in names))


def _friends(draw: st.DrawFn, mode: str) -> Put:
    ids = draw(st.lists(st.sampled_from(EDGES), min_size=1, max_size=2, unique=True))
    ends = st.sampled_from(PEOPLE)
    return Put("edge:Knows", mode, tuple(knows(id_, draw(ends), draw(ends), draw(numbers)) for id_ in ids))


def _homes(draw: st.DrawFn) -> Put:
    home = lives_in(draw(st.sampled_from(["h0", "h1"])), draw(st.sampled_from(PEOPLE)), draw(st.sampled_from(CITIES)))
    return Put("edge:LivesIn", "merge", (home,))


class GraphMachine(RuleBasedStateMachine):
    """One graph, one model, and the rules that change both."""

    def __init__(self, make_root: Callable[[], str], crashes: int) -> None:
        super().__init__()
        self.uri = make_root()
        self.crashes_left = crashes
        self.step = 0

    @initialize()
    def start(self) -> None:
        self.graph = og.init(self.uri, SCHEMA, actor=ACTOR)
        self.old = og.open(self.uri, mode="ro")
        self.model = Model.new(self.graph.commits.head())

    def branch(self, number: int) -> str:
        names = self.model.names()
        return names[number % len(names)]

    # Writes.

    @rule(number=index, names=st.lists(st.sampled_from(PEOPLE), min_size=2, max_size=3, unique=True), home=numbers)
    def grow(self, number: int, names: list[str], home: int | None) -> None:
        """People who know each other and live somewhere."""
        edges = [knows(id_, names[0], name, home) for id_, name in zip(EDGES, names[1:], strict=False)]
        puts = [
            Put("node:Person", "merge", tuple(person(name, home) for name in names)),
            Put("node:City", "merge", (city(CITIES[0], home),)),
            Put("edge:Knows", "merge", tuple(edges)),
            Put("edge:LivesIn", "merge", (lives_in("h0", names[0], CITIES[0], home),), ("h1",)),
        ]
        self.write(number, tuple(puts))

    @rule(number=index, puts=writes())
    def write(self, number: int, puts: tuple[Put, ...]) -> None:
        branch = self.branch(number)
        wanted = outcome(self.model.branches[branch].head.state, puts)
        try:
            result = self.graph.write([put.change() for put in puts], branch=branch)
        except og.OmniGraphError as error:
            assert error.code in wanted.refusals, f"{error!r}, expected {wanted.refusals or 'success'}"
            event(f"write refused: {error.code}")
            return
        event("write done")
        assert not wanted.refusals, f"should have been refused with {wanted.refusals}"
        assert (result.commit is not None) == wanted.changes
        if result.commit is not None:
            assert result.commit.actor == ACTOR
            self.model.commit(branch, result.commit, wanted.state)
            assert self.graph.commits.head(branch) == result.commit

    @rule(number=index, column=st.sampled_from(["unknown", "null key", "age", "table", "branch"]))
    def write_bad_input(self, number: int, column: str) -> None:
        put = Put("node:Person", "merge", (person("p0", 151 if column == "age" else 1),))
        change, branch = put.change(), self.branch(number)
        if column == "unknown":
            assert change.put is not None
            change = dataclasses.replace(change, put=change.put.append_column("nonsense", [["x"]]))
        elif column == "null key":
            change = Put("node:Person", "merge", ({**person("p0"), "name": None},)).change()
        elif column == "table":
            change = dataclasses.replace(change, table_key="node:Nothing")
        elif column == "branch":
            branch = "no-such-branch"
        try:
            self.graph.write([change], branch=branch)
        except (InputError, NotFoundError):
            return
        raise AssertionError(f"bad input was taken: {column}")

    @rule(number=index)
    def ensure_indices(self, number: int) -> None:
        branch = self.branch(number)
        report = self.graph.ensure_indices(branch)
        if report.commit is not None:
            self.model.commit(branch, report.commit, self.model.branches[branch].head.state)

    @rule()
    def recover(self) -> None:
        assert self.graph.recover() == 0

    # Branches.

    @rule(name=st.sampled_from(BRANCHES), number=index, position=index, by=st.sampled_from(["head", "id", "version"]))
    def create_branch(self, name: str, number: int, position: int, by: str) -> None:
        source = self.branch(number)
        chain = self.model.branches[source].chain
        record = chain[-1] if by == "head" else chain[position % len(chain)]
        commit = record.commit
        at = {"head": None, "id": commit.id, "version": commit.version}[by]
        version = self.graph.snapshot(source).version if by == "head" else commit.version
        parent = {"head": source, "id": self.model.maker(record), "version": self.model.holder(source, version)}[by]
        wanted = self.model.refusals_of_create(name)
        try:
            self.graph.branches.create(name, source, at)
        except og.OmniGraphError as error:
            assert error.code in wanted or self.is_gone(error, record), f"{error!r}, expected {wanted or 'success'}"
            return
        assert not wanted
        self.model.create(name, parent, version, chain[: chain.index(record) + 1])

    def is_gone(self, error: og.OmniGraphError, record: Record) -> bool:
        """Whether an error says that a state was removed which may have been; here nothing is ever removed."""
        return False

    @rule(name=st.sampled_from(BRANCHES))
    def delete_branch(self, name: str) -> None:
        wanted = self.refusals_of_delete(name)
        try:
            self.graph.branches.delete(name)
        except og.OmniGraphError as error:
            assert error.code in wanted, f"{error!r}, expected {wanted or 'success'}"
            return
        assert not wanted
        self.model.delete(name)

    def refusals_of_delete(self, name: str) -> frozenset[str] | set[str]:
        """Codes of the errors with which a delete may be refused."""
        return self.model.refusals_of_delete(name)

    @rule(name=st.sampled_from(BRANCHES), new_name=st.sampled_from(BRANCHES))
    def rename_branch(self, name: str, new_name: str) -> None:
        wanted = self.model.refusals_of_rename(name, new_name)
        try:
            self.graph.branches.rename(name, new_name)
        except og.OmniGraphError as error:
            assert error.code in wanted, f"{error!r}, expected {wanted or 'success'}"
            return
        assert not wanted
        self.renamed(name, new_name)

    def renamed(self, name: str, new_name: str) -> None:
        """Everything of a branch goes with it; a commit says so, unless the rename was killed before it."""
        self.model.rename(name, new_name)
        line, head = self.model.branches[new_name], self.graph.commits.head(new_name)
        if head.id != line.head.commit.id:
            assert (head.kind, head.rows) == ("rename", {})
            self.model.commit(new_name, head, line.head.state)

    # Handles.

    @rule()
    def reopen(self) -> None:
        self.graph.close()
        self.graph = og.open(self.uri, actor=ACTOR)

    @rule()
    def reopen_for_reading(self) -> None:
        self.old = og.open(self.uri, mode="ro")
        try:
            self.old.write([Put("node:Person", "merge", (person("p0"),)).change()])
        except ReadOnly:
            return
        raise AssertionError("a read-only handle wrote")

    # The past.

    @rule(number=index, position=index, by=st.sampled_from(["id", "version", "time"]), old=st.booleans())
    def read_the_past(self, number: int, position: int, by: str, old: bool) -> None:
        branch = self.branch(number)
        line = self.model.branches[branch]
        record = line.chain[position % len(line.chain)]
        at: Any = {"id": record.commit.id, "version": record.commit.version, "time": record.commit.created_at}[by]
        wanted = line.at_time(at) if by == "time" else record
        assert wanted is not None
        self.read_at(branch, at, wanted, old)

    def read_at(self, branch: str, at: Any, wanted: Record, old: bool) -> None:
        graph = self.old if old else self.graph
        assert state_of(graph.snapshot(branch, at)) == wanted.state, f"{branch} at {at}"

    # Interruptions.

    @rule(number=index, puts=writes(), cut=st.sampled_from(CUTS), action=st.sampled_from(["raise", "lose"]))
    def interrupt(self, number: int, puts: tuple[Put, ...], cut: str, action: str) -> None:
        """The store returns an error, or loses its answer, somewhere on the way; the same process goes on."""
        branch = self.branch(number)
        wanted = outcome(self.model.branches[branch].head.state, puts)
        failpoints.arm(f"{cut}={action}")
        try:
            self.graph.write([put.change() for put in puts], branch=branch)
        except (og.OmniGraphError, ConnectionError) as error:
            note(f"interrupted: {error!r}")
        finally:
            failpoints.arm("")
        self.graph.recover()
        self.settle(branch, wanted.state)

    @precondition(lambda self: self.crashes_left > 0)
    @rule(number=index, puts=writes(), cut=st.sampled_from(CUTS), nth=st.integers(1, 2))
    def crash(self, number: int, puts: tuple[Put, ...], cut: str, nth: int) -> None:
        """Another process is killed on the way; whoever opens next finds the old state or the new one."""
        branch = self.branch(number)
        wanted = outcome(self.model.branches[branch].head.state, puts)
        self.kill({"do": "write", "branch": branch, "puts": [dataclasses.asdict(put) for put in puts]}, cut, nth)
        self.settle(branch, wanted.state)

    @precondition(lambda self: self.crashes_left > 0)
    @rule(name=st.sampled_from(BRANCHES), number=index, cut=st.sampled_from(CONTROL_CUTS))
    def crash_branch_control(self, name: str, number: int, cut: str) -> None:
        source = self.branch(number)
        do = cut.partition(".")[0].removeprefix("branch_")
        refused = {
            "create": self.model.refusals_of_create(name),
            "delete": self.refusals_of_delete(name),
            "rename": self.model.refusals_of_rename(source, name) or source == "main",
        }[do]
        if refused:
            return
        version = self.graph.snapshot(source).version
        self.kill({"do": do, "branch": source, "name": name}, cut, 1)
        exists = name in self.graph.branches.list()
        if do == "create" and exists:
            self.model.create(name, source, version, self.model.branches[source].chain)
        elif do == "delete" and not exists:
            self.model.delete(name)
        elif do == "rename" and exists:
            self.renamed(source, name)

    def kill(self, order: dict[str, Any], cut: str, nth: int) -> None:
        self.crashes_left -= 1
        text = json.dumps({"uri": self.uri, "actor": ACTOR, **order})
        child = subprocess.run(
            run_module("tests.support.model_child", text),
            cwd=ROOT,
            env={**os.environ, "OMNIGRAPH_FAILPOINTS": f"{cut}=kill@{nth}"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        # A refused operation and one that never comes to the failpoint end on their own.
        assert child.returncode in (0, 1, -signal.SIGKILL), child.stderr[-2000:]
        note(f"the child ended with {child.returncode}")
        self.graph = og.open(self.uri, actor=ACTOR)
        assert records(self.uri) == {}, "a recovery record is left after an open"

    def settle(self, branch: str, new: State) -> None:
        """The head is the old commit, or one commit further with exactly the new state."""
        head = self.graph.commits.head(branch)
        if head.id != self.model.branches[branch].head.commit.id:
            assert head.actor == ACTOR
            self.model.commit(branch, head, new)
            event("interrupted: new")
        else:
            event("interrupted: old")

    # After every step.

    @invariant()
    def graph_and_model_agree(self) -> None:
        if not hasattr(self, "model"):
            return
        self.step += 1
        assert self.graph.branches.list() == self.model.names() == self.old.branches.list()
        for branch, line in self.model.branches.items():
            history = [record.commit for record in reversed(line.chain)]
            assert self.graph.commits.list(branch) == history, f"history of {branch}"
            self.compare(branch, line.head)
        # One commit of the past per step, in turn; all of them at the end.
        line = self.model.branches[self.branch(self.step)]
        self.compare_past(line.chain[self.step % len(line.chain)])

    def compare(self, branch: str, head: Record) -> None:
        snapshot, other = self.graph.snapshot(branch), self.old.snapshot(branch)
        assert snapshot.tables == other.tables, f"two handles disagree about {branch}"
        assert state_of(snapshot) == head.state, f"rows of {branch}"
        for key, pin in snapshot.tables.items():
            assert pin.row_count == len(head.state.get(key, ())), f"row count of {key} on {branch}"
        key = list(COLUMNS)[self.step % len(COLUMNS)]
        pin = snapshot.tables[key]
        raw = self.graph._store.tables.newest(pin.location, pin.branch).checkout_version(pin.version)
        assert by_id(raw.to_table(list(COLUMNS[key])).to_pylist()) == head.state[key], f"raw rows of {key} on {branch}"

    def compare_past(self, record: Record) -> None:
        assert self.graph.commits.get(record.commit.id) == record.commit
        assert state_of(self.graph.snapshot(at=record.commit.id)) == record.state, (
            f"the past changed at {record.commit}"
        )

    def teardown(self) -> None:
        failpoints.arm("")
        if not hasattr(self, "model"):
            return
        for line in self.model.branches.values():
            for record in line.chain:
                self.compare_past(record)
        for branch in self.model.branches:
            assert_pins_are_heads(self.graph, branch)
        assert records(self.uri) == {}
        self.graph.recover()  # copies what a killed writer of a branch did not
        self.graph.close()
        reader = og.open(self.uri, mode="ro")
        for branch in self.model.branches:
            assert_mirrored(reader, branch)
        assert_whole(reader)


def state_of(snapshot: og.Snapshot) -> dict[str, dict[str, dict[str, Any]]]:
    """What the model knows of a state; a schema may have more."""
    return {key: by_id(snapshot.arrow(key, list(columns)).to_pylist()) for key, columns in COLUMNS.items()}


def by_id(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows), "an id occurs twice"
    return found
