"""Random mutations on a graph and on a few dictionaries; both must say the same, statement by statement."""

from __future__ import annotations

import operator
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import EndpointMissing
from tests.support.small_graphs import rows_of

SCHEMA = """
node P { k: String @key  n: I32?  s: String? }
node Q { k: String @key  n: I32? }
node Free { n: I32? }
edge Pp: P -> P { n: I32? }
edge Pq: P -> Q { n: I32? }
edge Qp: Q -> P { n: I32? }
"""
EDGES = {"Pp": ("P", "P"), "Pq": ("P", "Q"), "Qp": ("Q", "P")}
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _touches(ends: list[str], keys: set[Any], edge: dict[str, Any]) -> bool:
    return any(edge[end] in keys for end in ends)


@dataclass
class Model:
    """The same graph as rows in lists, and the rules in the simplest words."""

    nodes: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"P": [], "Q": [], "Free": []})
    edges: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in EDGES})

    def insert(self, type_: str, row: dict[str, Any]) -> tuple[int, int]:
        if type_ in EDGES:
            self.edges[type_].append(row)
            return 0, 1
        if "k" in row:
            self.nodes[type_] = [old for old in self.nodes[type_] if old["k"] != row["k"]]
        self.nodes[type_].append(row)
        return 1, 0

    def update(self, type_: str, test: Callable[[dict[str, Any]], bool], values: dict[str, Any]) -> tuple[int, int]:
        hit = [row for row in (self.edges if type_ in EDGES else self.nodes)[type_] if test(row)]
        for row in hit:
            row.update(values)
        return (0, len(hit)) if type_ in EDGES else (len(hit), 0)

    def delete(self, type_: str, test: Callable[[dict[str, Any]], bool]) -> tuple[int, int]:
        if type_ in EDGES:
            return 0, self._drop_edges(type_, test)
        gone = [row for row in self.nodes[type_] if test(row)]
        self.nodes[type_] = [row for row in self.nodes[type_] if not test(row)]
        keys = {row.get("k") for row in gone}
        edges = 0
        for edge, (source, target) in EDGES.items():
            ends = [end for end, at in (("from", source), ("to", target)) if at == type_]
            edges += self._drop_edges(edge, partial(_touches, ends, keys))
        return len(gone), edges

    def _drop_edges(self, type_: str, test: Callable[[dict[str, Any]], bool]) -> int:
        before = len(self.edges[type_])
        self.edges[type_] = [row for row in self.edges[type_] if not test(row)]
        return before - len(self.edges[type_])

    def dangling(self) -> bool:
        return any(
            row[end] not in {node["k"] for node in self.nodes[type_]}
            for edge, types in EDGES.items()
            for row in self.edges[edge]
            for end, type_ in zip(("from", "to"), types, strict=True)
        )

    def copy(self) -> Model:
        def rows(types: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
            return {name: [dict(row) for row in found] for name, found in types.items()}

        return Model(rows(self.nodes), rows(self.edges))


KEYS = st.sampled_from("abcde")
NUMBERS = st.one_of(st.none(), st.integers(0, 4))
TYPES = ["P", "Q", "Free", *EDGES]


@st.composite
def inserts(draw: st.DrawFn) -> tuple[str, ...]:
    type_ = draw(st.sampled_from([*TYPES, "P", "Q"]))
    row: dict[str, Any] = {"n": draw(NUMBERS)}
    if type_ in EDGES:
        row |= {"from": draw(KEYS), "to": draw(KEYS)}
    elif type_ != "Free":
        row["k"] = draw(KEYS)
    return ("insert", type_, row)  # type: ignore[return-value]


@st.composite
def wheres(draw: st.DrawFn, type_: str) -> tuple[str, str, Any]:
    columns = ["n", "n", "from", "to"] if type_ in EDGES else ["n"] if type_ == "Free" else ["n", "n", "k"]
    column = draw(st.sampled_from(columns))
    return column, draw(st.sampled_from(sorted(SIGNS))), draw(NUMBERS if column == "n" else KEYS)


@st.composite
def updates(draw: st.DrawFn) -> tuple[Any, ...]:
    type_ = draw(st.sampled_from(TYPES))
    return ("update", type_, {"n": draw(NUMBERS)}, draw(wheres(type_)))


@st.composite
def deletes(draw: st.DrawFn) -> tuple[Any, ...]:
    type_ = draw(st.sampled_from(TYPES))
    return ("delete", type_, draw(wheres(type_)))


MUTATIONS = st.one_of(
    st.lists(st.one_of(inserts(), inserts(), updates()), min_size=1, max_size=6),
    st.lists(deletes(), min_size=1, max_size=3),
)


def passes(test: tuple[str, str, Any]) -> Callable[[dict[str, Any]], bool]:
    column, sign, value = test
    return lambda row: row[column] is not None and value is not None and SIGNS[sign](row[column], value)


def apply(model: Model, statement: tuple[Any, ...]) -> tuple[int, int]:
    match statement:
        case ("insert", type_, row):
            return model.insert(type_, dict(row))
        case ("update", type_, values, test):
            return model.update(type_, passes(test), values)
        case ("delete", type_, test):
            return model.delete(type_, passes(test))
    raise AssertionError(statement)


def spelled(statements: list[tuple[Any, ...]]) -> tuple[str, dict[str, Any]]:
    """The mutation as text; every value is a parameter, because null has no literal."""
    params: dict[str, Any] = {}

    def value(column: str, given: Any) -> str:
        name = f"v{len(params)}_{'n' if column == 'n' else 's'}"
        params[name] = given
        return f"${name}"

    def body(row: dict[str, Any]) -> str:
        return ", ".join(f"{column}: {value(column, given)}" for column, given in row.items())

    lines = []
    for statement in statements:
        match statement:
            case ("insert", type_, row):
                lines.append(f"insert {type_} {{ {body(row)} }}")
            case ("update", type_, values, (column, sign, given)):
                lines.append(f"update {type_} set {{ {body(values)} }} where {column} {sign} {value(column, given)}")
            case ("delete", type_, (column, sign, given)):
                lines.append(f"delete {type_} where {column} {sign} {value(column, given)}")
    declared = ", ".join(f"${name}: {'I32?' if name.endswith('n') else 'String'}" for name in params)
    return f"query q({declared}) {{ {' '.join(lines)} }}", params


def assert_same(graph: og.Graph, model: Model) -> None:
    for type_, rows in model.nodes.items():
        stored = [{name: row[name] for name in ("k", "n") if name in row} for row in rows_of(graph, type_).values()]
        assert sorted(map(repr, stored)) == sorted(
            repr({name: row[name] for name in ("k", "n") if name in row}) for row in rows
        )
    for type_, rows in model.edges.items():
        edges = [{"from": row["src"], "to": row["dst"], "n": row["n"]} for row in rows_of(graph, type_).values()]
        assert sorted(map(repr, edges)) == sorted(
            repr({name: row[name] for name in ("from", "to", "n")}) for row in rows
        )


@given(st.lists(MUTATIONS, min_size=1, max_size=6))
def test_mutations_do_what_the_model_does(mutations: list[list[tuple[Any, ...]]]) -> None:
    with tempfile.TemporaryDirectory() as root, og.init(Path(root, "g"), SCHEMA) as graph:
        model = Model()
        for statements in mutations:
            text, params = spelled(statements)
            attempt = model.copy()
            counts = [apply(attempt, statement) for statement in statements]
            head = graph.commits.head().id
            if attempt.dangling():
                try:
                    graph.mutate(text, params=params)
                    raise AssertionError("a dangling edge was taken")
                except EndpointMissing:
                    assert graph.commits.head().id == head
            else:
                result = graph.mutate(text, params=params)
                total = (sum(nodes for nodes, _ in counts), sum(edges for _, edges in counts))
                assert (result.affected_nodes, result.affected_edges) == total
                assert (result.commit is None) == (graph.commits.head().id == head) == (total == (0, 0))
                model = attempt
            assert_same(graph, model)
