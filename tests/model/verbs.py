"""The machine of `merging.py` with the verbs that users write and follow a graph with: queries, loads, diffs, the feed.

A query and a load must do what the plain write of the same rows does. A diff applied to its first state gives the
second. Any state can be restored and any commit reverted. A follower that applies every page of the feed holds the
branch as it is, whatever happened in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from hypothesis import event
from hypothesis import strategies as st
from hypothesis.stateful import rule

import omnigraph as og
from omnigraph.errors import ChangeCursorRejected, MergeConflict
from tests.merge.oracle import merge, same_state
from tests.model.machine import ACTOR, CITIES, EDGES, PEOPLE, index, numbers, some_people, tags
from tests.model.merging import RULES, MergingMachine
from tests.model.oracle import ENDS, Put, State, city, knows, outcome, person
from tests.support.change_histories import Model as Followed
from tests.support.change_histories import apply, model_of

PUT_PERSON = "query q($n: String, $a: I64?, $t: String?) { insert Person { name: $n, age: $a, tag: $t } }"
SET_AGE = "query q($n: String, $a: I64?) { update Person set { age: $a } where name = $n }"
DROP_PERSON = "query q($n: String) { delete Person where name = $n }"


class VerbMachine(MergingMachine):
    """Everything at once."""

    def __init__(self, make_root: Callable[[], str], crashes: int) -> None:
        super().__init__(make_root, crashes)
        self.followers: dict[str, tuple[str, Followed]] = {}

    # Writing by other doors.

    @rule(number=index, name=st.sampled_from(PEOPLE), age=numbers, tag=tags)
    def mutate_insert(self, number: int, name: str, age: int | None, tag: str | None) -> None:
        """A row whose key exists is replaced."""
        put = Put("node:Person", "merge", (person(name, age, tag),))
        self.by_query(number, PUT_PERSON, {"n": name, "a": age, "t": tag}, lambda _: (put,))

    @rule(number=index, name=st.sampled_from(PEOPLE), age=numbers)
    def mutate_update(self, number: int, name: str, age: int | None) -> None:
        def updated(state: State) -> tuple[Put, ...]:
            found = state["node:Person"].get(name)
            return (Put("node:Person", "merge", ({**found, "age": age},)),) if found else ()

        self.by_query(number, SET_AGE, {"n": name, "a": age}, updated)

    @rule(number=index, name=st.sampled_from(PEOPLE))
    def mutate_delete(self, number: int, name: str) -> None:
        """A node takes its edges along."""

        def gone(state: State) -> tuple[Put, ...]:
            node = Put("node:Person", remove=(name,))
            return (node, *(Put(edge, remove=_at(state, edge, name)) for edge in ENDS))

        self.by_query(number, DROP_PERSON, {"n": name}, gone)

    def by_query(
        self, number: int, text: str, params: Mapping[str, object], puts: Callable[[State], tuple[Put, ...]]
    ) -> None:
        branch = self.branch(number)
        before = self.model.branches[branch].head.state
        self.write_as(branch, puts(before), lambda: self.graph.mutate(text, params=params, branch=branch).commit)

    @rule(number=index, names=some_people, age=numbers, mode=st.sampled_from(["append", "merge", "overwrite"]))
    def load_people(self, number: int, names: list[str], age: int | None, mode: str) -> None:
        put = Put("node:Person", mode, tuple(person(name, age) for name in names))
        self.load(number, put, {"Person": pa.Table.from_pylist([_without_id(row) for row in put.rows])})

    @rule(number=index, name=st.sampled_from(CITIES), size=numbers)
    def load_cities(self, number: int, name: str, size: int | None) -> None:
        put = Put("node:City", "merge", (city(name, size),))
        self.load(number, put, {"City": pa.Table.from_pylist([_without_id(row) for row in put.rows])})

    @rule(number=index, id_=st.sampled_from(EDGES), ends=st.tuples(st.sampled_from(PEOPLE), st.sampled_from(PEOPLE)))
    def load_edges(self, number: int, id_: str, ends: tuple[str, str]) -> None:
        put = Put("edge:Knows", "merge", (knows(id_, *ends),))
        self.load(number, put, {"Knows": pa.table({"id": [id_], "from": [ends[0]], "to": [ends[1]]})})

    def load(self, number: int, put: Put, tables: dict[str, pa.Table]) -> None:
        branch = self.branch(number)
        self.write_as(
            branch,
            (put,),
            lambda: self.graph.load(tables, put.mode, branch=branch, engine="embedded").commit,  # type: ignore[arg-type]
        )

    def renamed(self, name: str, new_name: str) -> None:
        """A follower of a branch goes on under its new name, with the cursor that it has."""
        self.followers.pop(new_name, None)
        if name in self.followers:
            self.followers[new_name] = self.followers.pop(name)
        super().renamed(name, new_name)

    def write_as(self, branch: str, puts: tuple[Put, ...], run: Callable[[], Any]) -> None:
        """It does what the plain write of these rows would do."""
        wanted = outcome(self.model.branches[branch].head.state, puts)
        try:
            commit = run()
        except og.OmniGraphError as error:
            assert error.code in wanted.refusals, f"{error!r}, expected {wanted.refusals or 'success'}"
            event(f"verb refused: {error.code}")
            return
        assert not wanted.refusals, f"should have been refused with {wanted.refusals}"
        assert (commit is not None) == wanted.changes
        if commit is not None:
            assert commit.actor == ACTOR
            self.model.commit(branch, commit, wanted.state)

    # Going back.

    @rule(number=index, which=index)
    def restore(self, number: int, which: int) -> None:
        """The rows of any state that the branch ever had."""
        branch = self.branch(number)
        line = self.model.branches[branch]
        wanted = line.chain[which % len(line.chain)]
        commit = self.graph.restore(wanted.commit.id, branch=branch).commit
        assert (commit is None) == same_state(wanted.state, line.head.state)
        if commit is not None:
            assert (commit.kind, commit.actor) == ("restore", ACTOR)
            self.model.commit(branch, commit, wanted.state)

    @rule(number=index, which=index)
    def revert(self, number: int, which: int) -> None:
        """What the naive merge of the state before a commit into the newest one gives."""
        branch = self.branch(number)
        chain = self.model.branches[branch].chain
        if len(chain) < 2:
            return
        at = 1 + which % (len(chain) - 1)
        wanted = merge(chain[at].state, chain[at - 1].state, chain[-1].state, RULES)
        try:
            commit = self.graph.revert(chain[at].commit.id, branch=branch).commit
        except MergeConflict as error:
            assert {(each.table_key, each.kind) for each in error.conflicts} == {
                (key, kind) for key, _, kind in wanted.conflicts
            }
            event("revert refused")
            return
        assert not wanted.conflicts, f"should have been refused with {wanted.conflicts}"
        assert (commit is None) == same_state(wanted.state, chain[-1].state)
        if commit is not None:
            self.model.commit(branch, commit, wanted.state)

    # Following.

    @rule(number=index, first=index, second=index)
    def diff(self, number: int, first: int, second: int) -> None:
        """Any two commits of a branch, in either direction."""
        chain = self.model.branches[self.branch(number)].chain
        one, other = chain[first % len(chain)], chain[second % len(chain)]
        followed = model_of(self.graph.diff(chain[0].commit.id, one.commit.id))
        assert _rows(followed) == _model_rows(one.state), f"up to {one.commit}"
        apply(followed, self.graph.diff(one.commit.id, other.commit.id))
        assert _rows(followed) == _model_rows(other.state), f"from {one.commit} to {other.commit}"

    @rule(number=index, limit=st.sampled_from([1, 3, 1_000]), old=st.booleans())
    def follow(self, number: int, limit: int, old: bool) -> None:
        """Whoever applies every page holds the branch; a cursor of a branch that is gone is refused."""
        branch = self.branch(number)
        graph = self.old if old else self.graph
        since, followed = self.followers.get(branch, ("beginning", {}))
        try:
            page = graph.changes(since, branch=branch, limit=limit)
        except ChangeCursorRejected:
            assert since != "beginning"
            event("feed: the branch was made anew")
            since, followed = "beginning", {}
            page = graph.changes(since, branch=branch, limit=limit)
        while True:
            for block in page.blocks:
                apply(followed, block.changes)
            if page.page_token is not None:
                page = graph.changes(page_token=page.page_token, branch=branch, limit=limit)
            elif page.caught_up:
                break
            else:
                page = graph.changes(page.cursor, branch=branch, limit=limit)
        assert page.cursor is not None
        self.followers[branch] = (page.cursor, followed)
        wanted = _model_rows(self.model.branches[branch].head.state)
        assert _rows(followed) == wanted, f"a follower of {branch} is behind"


def _without_id(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "id" and value is not None}


def _at(state: State, edge: str, name: str) -> tuple[str, ...]:
    """Edges of a type that touch a person."""
    ends = [end for end, type_ in zip(("src", "dst"), ENDS[edge], strict=True) if type_ == "node:Person"]
    return tuple(id_ for id_, row in state[edge].items() if any(row[end] == name for end in ends))


def _rows(followed: Followed) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What a follower holds, flat and without what is null."""
    found = {}
    for place, image in followed.items():
        ends = image.get("endpoints", {})
        row = {**image["properties"], "src": ends.get("from"), "dst": ends.get("to")}
        found[place] = {name: value for name, value in row.items() if value is not None}
    return found


def _model_rows(state: State) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The same of a state of the model."""
    found = {}
    for table, rows in state.items():
        kind, _, type_ = table.partition(":")
        for id_, row in rows.items():
            found[kind, type_, id_] = {n: value for n, value in row.items() if n != "id" and value is not None}
    return found
