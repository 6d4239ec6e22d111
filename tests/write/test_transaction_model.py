"""Random transactions beside other writers, on a graph and on dictionaries: both must say the same, step by step."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import ConflictError, EndpointMissing, KeyConflict, OmniGraphError, RowNotFound
from tests.support.small_graphs import rows_of

SCHEMA = "node P { k: String @key  n: I32? }\nnode Q { k: String @key  n: I32? }\nedge E: P -> Q { n: I32? }"
NODES = "query q() { match { $x: %s } return { $x.k as k, $x.n as n } order { k } }"
EDGES = "query q() { match { $p: P  $p $e: e $q } return { $p.k as p, $q.k as q, $e.n as n } order { p, q, n } }"
HOPS = "query q() { match { $p: P  $p e $q } return { $p.k as p, $q.k as q } order { p, q } }"

KEYS = st.sampled_from("abcd")
NUMBERS = st.one_of(st.none(), st.integers(0, 3))


@dataclass
class Rows:
    """A graph as dictionaries. ``edges`` by id."""

    nodes: dict[str, dict[str, int | None]] = field(default_factory=lambda: {"P": {}, "Q": {}})
    edges: dict[str, tuple[str, str, int | None]] = field(default_factory=dict)

    def delete(self, type_: str, key: str) -> bool:
        there = key in self.nodes[type_]
        self.nodes[type_].pop(key, None)
        end = 0 if type_ == "P" else 1
        self.edges = {id_: edge for id_, edge in self.edges.items() if edge[end] != key or not there}
        return there


STEPS = st.one_of(
    st.tuples(st.just("insert"), st.sampled_from("PQ"), KEYS, NUMBERS),
    st.tuples(st.just("update"), st.sampled_from("PQ"), KEYS, NUMBERS),
    st.tuples(st.just("delete"), st.sampled_from("PQ"), KEYS, st.none()),
    st.tuples(st.just("upsert"), st.sampled_from("PQ"), KEYS, NUMBERS),
    st.tuples(st.just("connect"), KEYS, KEYS, NUMBERS),
    st.tuples(st.just("query"), st.sampled_from(["P", "Q", "E", "hops"]), st.none(), st.none()),
    st.tuples(st.just("other"), st.sampled_from("PQE"), KEYS, NUMBERS),
)


class Side:
    """One transaction on both sides, and what its commit depends on."""

    def __init__(self, graph: og.Graph, outside: Rows) -> None:
        self.graph = graph
        self.outside = outside  # what is committed
        self.base = copy.deepcopy(outside)
        self.own = copy.deepcopy(outside)
        self.reads: set[str] = set()
        self.blind: dict[str, set[str]] = {}  # how rows were put without a look, by type
        self.inserted: dict[str, set[str]] = {"P": set(), "Q": set()}
        self.put: dict[str, set[str]] = {"P": set(), "Q": set()}
        self.changed = False

    def step(self, tx: og.Transaction, step: tuple[str, Any, Any, Any]) -> None:
        verb, type_, key, number = step
        getattr(self, f"_{verb}")(tx, type_, key, number)

    def _insert(self, tx: og.Transaction, type_: str, key: str, number: int | None) -> None:
        if key in self.own.nodes[type_]:
            assert raised(lambda: tx.insert(type_, {"k": key, "n": number})) is KeyConflict
            self.reads |= {"P", "Q", "E"}  # the block has learnt what is there
            return
        assert tx.insert(type_, {"k": key, "n": number}) == [key]
        self.own.nodes[type_][key] = number
        self.inserted[type_].add(key)
        self._put_blindly(type_, key, "insert")

    def _upsert(self, tx: og.Transaction, type_: str, key: str, number: int | None) -> None:
        text = f"query q($k: String, $n: I32?) {{ insert {type_} {{ k: $k, n: $n }} }}"
        tx.mutate(text, params={"k": key, "n": number})
        self.own.nodes[type_][key] = number
        self._put_blindly(type_, key, "upsert")

    def _put_blindly(self, type_: str, key: str, how: str) -> None:
        self.changed = True
        self.put[type_].add(key)
        self.blind.setdefault(type_, set()).add(how)
        if len(self.blind[type_]) > 1:
            self.reads.add(type_)

    def _update(self, tx: og.Transaction, type_: str, key: str, number: int | None) -> None:
        self.reads.add(type_)
        if key not in self.own.nodes[type_]:
            assert raised(lambda: tx.update(type_, {"k": key, "n": number})) is RowNotFound
            return
        assert tx.update(type_, [{"k": key, "n": number}]) == 1
        self.own.nodes[type_][key] = number
        self.put[type_].add(key)
        self.changed = True

    def _delete(self, tx: og.Transaction, type_: str, key: str, _: None) -> None:
        self.reads |= {type_, "E"}
        there = self.own.delete(type_, key)
        assert tx.delete(type_, [key]) == there
        self.changed |= there

    def _connect(self, tx: og.Transaction, source: str, target: str, number: int | None) -> None:
        row = {"from": source, "to": target, "n": number}
        if source not in self.own.nodes["P"] or target not in self.own.nodes["Q"]:
            assert raised(lambda: tx.insert("E", row)) is EndpointMissing
            self.reads |= {"P", "Q", "E"}  # the block has learnt what is not there
            return
        (id_,) = tx.insert("E", row)
        self.own.edges[id_] = (source, target, number)
        self.changed = True

    def _query(self, tx: og.Transaction, what: str, *_: None) -> None:
        if what in "PQ":
            self.reads.add(what)
            found = {row["k"]: row["n"] for row in tx.query(NODES % what).rows()}
            assert found == self.own.nodes[what]
            return
        rows = tx.query(EDGES if what == "E" else HOPS).rows()
        ends = [(row["p"], row["q"]) for row in rows]
        expected = [(source, target) for source, target, _ in self.own.edges.values()]
        assert sorted(ends) == sorted(expected if what == "E" else set(expected))
        self.reads |= {"P", "Q", "E"}

    def _other(self, tx: og.Transaction, type_: str, key: str, number: int | None) -> None:
        """Another writer commits."""
        if type_ == "E":
            nodes = self.outside.nodes
            if key in nodes["P"] and key in nodes["Q"]:
                text = "query q($k: String, $n: I32?) { insert E { from: $k, to: $k, n: $n } }"
                self.graph.mutate(text, params={"k": key, "n": number})
                ids = set(rows_of(self.graph, "E")) - set(self.outside.edges)
                self.outside.edges |= dict.fromkeys(ids, (key, key, number))
            return
        self.graph.mutate(
            f"query q($k: String, $n: I32?) {{ insert {type_} {{ k: $k, n: $n }} }}", params={"k": key, "n": number}
        )
        self.outside.nodes[type_][key] = number


def raised(call: Any) -> type[OmniGraphError] | None:
    try:
        call()
    except OmniGraphError as error:
        return type(error)
    return None


def committed(side: Side, moved: set[str]) -> Rows | None:
    """What is there after the commit; None for a conflict."""
    if side.changed and side.reads & moved:
        return None
    after = copy.deepcopy(side.outside)
    for type_ in "PQ":
        if any(key in after.nodes[type_] and key not in side.base.nodes[type_] for key in side.inserted[type_]):
            return None
        after.nodes[type_] |= {key: n for key, n in side.own.nodes[type_].items() if key in side.put[type_]}
        for key in side.base.nodes[type_].keys() - side.own.nodes[type_].keys():
            after.delete(type_, key)
    after.edges = {
        id_: edge for id_, edge in after.edges.items() if id_ in side.own.edges or id_ not in side.base.edges
    }
    after.edges |= side.own.edges
    return after


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(transactions=st.lists(st.tuples(st.lists(STEPS, max_size=9), st.booleans()), min_size=1, max_size=4))
def test_transactions_and_dictionaries_agree(transactions: list[tuple[list[Any], bool]]) -> None:
    with tempfile.TemporaryDirectory() as directory, og.init(Path(directory, "g"), SCHEMA) as graph:
        state = Rows()
        for steps, fails in transactions:
            side = Side(graph, state)
            versions = {key: pin.version for key, pin in graph.snapshot().tables.items()}
            conflict = False
            try:
                with graph.transaction() as tx:
                    for step in steps:
                        side.step(tx, step)
                    now = {key: pin.version for key, pin in graph.snapshot().tables.items()}
                    moved = {key[5:] for key in now if now[key] != versions[key]}
                    expected = side.outside if fails else committed(side, moved)
                    if fails:
                        raise InterruptedError
            except ConflictError:
                conflict = True
            except InterruptedError:
                pass
            assert conflict is (expected is None)
            state = side.outside if expected is None else expected
            for type_ in "PQ":
                assert {id_: row["n"] for id_, row in rows_of(graph, type_).items()} == state.nodes[type_]
            edges = {id_: (row["src"], row["dst"], row["n"]) for id_, row in rows_of(graph, "E").items()}
            assert edges == state.edges
        assert graph.verify().ok
