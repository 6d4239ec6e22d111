"""Random conditions and patterns of updates and deletes against the naive evaluator, over stored and pending rows.

Statements run on a state without being committed, so that many fit into a second. What the statements before have left
pending is told to the evaluator as rows of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest

import omnigraph as og
from omnigraph.errors import QueryTypeError
from omnigraph.query import bind_params, check_read, check_write, parse_queries
from omnigraph.query.typed import (
    Compare,
    Entity,
    ForMatched,
    InsertEdge,
    InsertNode,
    MatchBlock,
    OutputColumn,
    PropertyRef,
    RowCondition,
    RowTest,
    Traversal,
    TypedMutation,
    TypedQuery,
    Variable,
    Where,
)
from omnigraph.schema.catalog import PropertyType, Scalar
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.write.mutate import PendingMutation
from omnigraph.write.stored_values import MutationValues
from tests.engine.random_queries import Known, Scope, _Writer, is_plain, literal, random_query
from tests.engine.rich_graph import CATALOG, RichData, changes_of, rich_graph
from tests.oracle.naive import GraphData, OutOfReach, Row, TooMany, evaluate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = PropertyType(Scalar.STRING)
#: A property that takes a number which no row has, so that updated rows can be told.
MARKED = {"Item": "i64", "Place": "size", "Note": "stars", "Knows": "weight", "Stays": "share", "Near": "far"}
MARK = 7777


@dataclass
class Case:
    """A state of a graph, and the same rows for the evaluator."""

    graph: og.Graph
    rich: RichData

    @property
    def data(self) -> GraphData:
        return self.rich.graph_data()

    def running(self) -> PendingMutation:
        store = self.graph.internals.reader()
        return PendingMutation(Workspace(store, store.snapshot("main")), CATALOG, MutationValues({}, NOW))


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    random = Random(4)
    rich = RichData()
    with rich_graph(tmp_path_factory.mktemp("rich") / "g") as graph:
        for _ in range(3):
            step = rich.random_step(random)
            graph.write(changes_of(step))
            rich.apply(step)
        graph.ensure_indices()
        yield Case(graph, rich)


def checked(text: str) -> TypedMutation:
    return check_write(parse_queries(text).find(), CATALOG)


def run(pending: PendingMutation, mutation: TypedMutation, params: dict[str, Any]) -> dict[str, Any]:
    """Run the statements with their parameters; returns the bound ones."""
    bound = bind_params(mutation, params)
    pending._values = MutationValues(bound, NOW)
    for statement in mutation.statements:
        pending.run(statement)
    return bound


def changed_ids(pending: PendingMutation, type_name: str) -> set[str]:
    """Rows that are marked or gone."""
    node = CATALOG.nodes.get(type_name)
    key = (node or CATALOG.edges[type_name]).table_key
    rows, removed = pending._rows_of[key].state() if key in pending._rows_of else (None, None)
    if rows is None or removed is None:
        return set()
    marked = rows.filter(pc.equal(rows.column(MARKED[type_name]), MARK)) if type_name in MARKED else rows.slice(0, 0)
    return {*marked.column("id").to_pylist(), *removed.to_pylist()}


def expected_ids(query: TypedQuery, data: GraphData, params: dict[str, Any]) -> set[str]:
    return {row[0] for row in evaluate(query, data, params, NOW).rows if row[0] is not None}


def read_of(where: Where, type_name: str) -> TypedQuery:
    """The read that returns the ids of the rows for which a condition holds."""
    row = Variable("row#", "row", Entity.EDGE if type_name in CATALOG.edges else Entity.NODE, type_name)
    assert not isinstance(where, TypedQuery)
    if isinstance(where, RowTest):
        where = RowCondition(row, Compare(where.operator, PropertyRef(row, where.column, where.type), where.value))
    ends: tuple[Variable, ...] = ()
    traversals: tuple[Traversal, ...] = ()
    if row.entity is Entity.EDGE:
        edge = CATALOG.edges[row.type_name]
        a, b = (Variable(name, name, Entity.NODE, kind) for name, kind in (("a", edge.source), ("b", edge.target)))
        ends, traversals = (a, b), (Traversal(edge.name, a, b, edge=row),)
    block = MatchBlock((*ends, row), traversals, (where.predicate,))
    return TypedQuery("q", (), block, (OutputColumn("id", PropertyRef(row, "id", TEXT)),), distinct=True)


def random_where(random: Random, type_name: str, data: GraphData) -> tuple[str, _Writer]:
    """A condition in the words of ``where``, and the parameters that it declares."""
    is_edge = type_name in CATALOG.edges
    writer = _Writer(random.randrange, False)
    known = Known("x", is_edge, type_name)
    has_plain = any(map(is_plain, known.properties.values()))
    parts = []
    for _ in range(random.choice([1, 1, 2, 3])):
        part = "$x is"
        while "$x is" in part:
            part = writer.condition(Scope([known]), 0) if has_plain else id_test(random, type_name, data)
        if random.random() < 0.3:
            part = id_test(random, type_name, data)
        parts.append(f"not ({part})" if random.random() < 0.25 else f"({part})")
    return random.choice([" and ", " and ", " or "]).join(parts).replace("$x.", ""), writer


def id_test(random: Random, type_name: str, data: GraphData) -> str:
    rows = data.edges.get(type_name) or data.nodes.get(type_name) or [{"id": "n0", "src": "n0", "dst": "n1"}]
    column, stored = random.choice(
        [("id", "id"), ("from", "src"), ("to", "dst")] if type_name in CATALOG.edges else [("id", "id")]
    )
    values = [random.choice(rows)[stored] for _ in range(random.randrange(1, 4))]
    if random.random() < 0.5:
        return f"{column} {random.choice(['in', 'not in'])} {literal(values)}"
    return f"{column} {random.choice(['=', '!=', '<', '>='])} {literal(values[0])}"


def prelude(random: Random, case: Case, pending: PendingMutation) -> GraphData:
    """Random inserts and updates, run before the statement in question; returns the rows as they are then."""
    rows: dict[str, dict[str, Row]] = {name: dict(found) for name, found in case.rich.rows.items()}
    items = [*rows["Item"], "new1", "new2"]
    lines = []
    for key in random.sample(["new1", "new2", "n0", "n1"], 3):
        values = {
            "key": key,
            "n": random.randrange(3),
            "i32": random.choice([None, 1, 2]),
            "yes": random.random() < 0.5,
        }
        lines.append(f"insert Item {{ {', '.join(f'{name}: {shown(value)}' for name, value in values.items())} }}")
        rows["Item"][key] = dict.fromkeys(CATALOG.nodes["Item"].properties) | values | {"id": key}
    edges = []
    for _ in range(random.randrange(4)):
        ends = random.choice([key for key in items if key in rows["Item"]]), random.choice(list(rows["Item"]))
        edges.append(ends)
        lines.append(f"insert Knows {{ from: {literal(ends[0])}, to: {literal(ends[1])}, weight: {len(edges)} }}")
    old = random.sample(sorted(rows["Knows"]), min(2, len(rows["Knows"])))
    if old:
        lines.append(f'update Knows set {{ since: null, weight: 3 }} where id in {literal(old)} and from != "zz"')
    for each in old:
        rows["Knows"][each] = rows["Knows"][each] | {"since": None, "weight": 3}
    run(pending, checked(f"query q() {{ {' '.join(lines)} }}"), {})
    if "edge:Knows" in pending._rows_of:
        new = [each for each in pending._rows_of["edge:Knows"].state()[0].column("id").to_pylist() if each not in old]
        for number, (each, (source, target)) in enumerate(zip(new, edges, strict=True), 1):
            row = {"id": each, "src": source, "dst": target, "weight": number}
            rows["Knows"][each] = dict.fromkeys(CATALOG.edges["Knows"].properties) | row
    return GraphData(
        CATALOG,
        {name: list(rows[name].values()) for name in CATALOG.nodes},
        {name: list(rows[name].values()) for name in CATALOG.edges},
    )


def shown(value: Any) -> str:
    return "null" if value is None else literal(value)


def prior_deletes(random: Random, case: Case, pending: PendingMutation) -> GraphData:
    """The same for random deletes."""
    gone = {name: set(random.sample(sorted(rows), len(rows) // 4)) for name, rows in case.rich.rows.items()}
    for name, ids in gone.items():
        if ids:
            run(pending, checked(f'query q() {{ delete {name} where id in {literal(sorted(ids))} or id = "" }}'), {})
    nodes = {name: [row for row in rows if row["id"] not in gone[name]] for name, rows in case.data.nodes.items()}
    edges = {
        name: [
            row
            for row in rows
            if row["id"] not in gone[name]
            and row["src"] not in gone[CATALOG.edges[name].source]
            and row["dst"] not in gone[CATALOG.edges[name].target]
        ]
        for name, rows in case.data.edges.items()
    }
    return GraphData(CATALOG, nodes, edges)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_condition_chooses_the_rows_that_the_evaluator_chooses(case: Case, seed: int) -> None:
    random = Random(seed)
    chosen = 0
    for _ in range(60):
        type_name = random.choice([*CATALOG.nodes, *CATALOG.edges])
        where, writer = random_where(random, type_name, case.data)
        pending, data = case.running(), case.data
        head = f"query q({', '.join(writer.declared)})"
        if type_name in MARKED and random.random() < 0.7:
            if random.random() < 0.7:
                data = prelude(random, case, pending)
            text = f"{head} {{ update {type_name} set {{ {MARKED[type_name]}: {MARK} }} where {where} }}"
        else:
            text = f"{head} {{ delete {type_name} where {where} }}"
        try:
            mutation = checked(text)
        except QueryTypeError as refused:  # the rule of a comparison that stands alone
            assert "expects one of" in refused.message
            continue
        statement = next(mutation.changes)
        bound = run(pending, mutation, writer.params)
        assert not isinstance(statement, InsertNode | InsertEdge)
        expected = expected_ids(read_of(statement.where, type_name), data, bound)
        assert changed_ids(pending, type_name) == expected, (text, writer.params)
        chosen += len(expected)
    assert chosen > 50


@pytest.mark.parametrize("seed", range(6))
def test_a_random_pattern_finds_the_rows_that_the_evaluator_finds(case: Case, seed: int) -> None:
    random = Random(100 + seed)
    found = 0
    for _ in range(50):
        query = random_query(random, with_text=False)
        body = query.text.partition(" return ")[0]
        variables = parse_and_list(query.text)
        deletes = random.random() < 0.5
        usable = [each for each in variables if deletes or each.type_name in MARKED]
        if not usable:
            continue
        target = random.choice(usable)
        pending, data = case.running(), case.data
        if random.random() < 0.8:
            data = (prior_deletes if deletes else prelude)(random, case, pending)
        before = changed_ids(pending, target.type_name)
        change = f"update ${target.label} set {{ {MARKED.get(target.type_name)}: {MARK} }}"
        text = f"{body} {f'delete ${target.label}' if deletes else change} }}"
        mutation = checked(text)
        statement = mutation.statements[0]
        assert isinstance(statement, ForMatched)
        read = statement.changes[0].where
        assert isinstance(read, TypedQuery)
        try:
            expected = expected_ids(read, data, bind_params(mutation, query.params))
        except (OutOfReach, TooMany):
            continue
        run(pending, mutation, query.params)
        changed = changed_ids(pending, target.type_name) - before
        assert changed == expected, (text, query.params)
        found += len(expected)
    assert found > 20


def parse_and_list(text: str) -> list[Variable]:
    """The named variables of a read that a change could name."""
    query = check_read(parse_queries(text).find(), CATALOG)
    taken = {each.name for each in query.params}
    every = [*query.match.variables, *query.match.optional_variables]
    return [each for each in every if "#" not in each.name and each.label not in taken]
