"""The engine against the naive evaluator: one graph that grows by random commits, random queries after each of them.

A difference is made small before it is told: first the query, then the rows. The report ends with lines that can be
run as they are.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any

import omnigraph as og
from omnigraph.errors import SumOverflow
from tests.engine.random_queries import GeneratedQuery, random_query, shrunk
from tests.engine.rich_graph import CATALOG, SCHEMA, RichData, changes_of, first_step, rich_graph
from tests.engine.running import json_rows, oracle_answer
from tests.oracle.naive import GraphData, OutOfReach, Row, TooMany
from tests.support.example_graph import changes, jsonl_rows

COMMITS = 3
SHRINKING_SECONDS = 30.0


@dataclass
class Tally:
    """What a run was worth."""

    compared: int = 0
    with_rows: int = 0
    passed_over: int = 0


@dataclass(frozen=True)
class Moment:
    """A state of the graph: its rows, those before the last commit, and its commit."""

    data: GraphData
    before: GraphData
    commit_id: str


def run(root: Path, seed: int, queries: int) -> Tally:
    """Compare on one graph; an AssertionError tells the smallest difference that was found."""
    random = Random(seed)
    tally = Tally()
    with rich_graph(root) as graph:
        moments: list[Moment] = []
        for number, moment in enumerate(growing(graph, random)):
            moments.append(moment)
            for _ in range(queries * (number + 1) // COMMITS - queries * number // COMMITS):
                asked = random.choice(moments[:-1]) if number and random.random() < 0.2 else moment
                query = random_query(random)
                compare(graph, asked, None if asked is moment else asked.commit_id, query, tally, seed)
    return tally


def growing(graph: og.Graph, random: Random) -> Iterator[Moment]:
    """The states of a graph while random commits are made on it."""
    rich = RichData()
    before = rich.graph_data()
    for number in range(COMMITS):
        step = rich.random_step(random)
        wanted = changes_of(step)
        if wanted:
            graph.write(wanted)
        if number == 1 and random.random() < 0.3:
            graph.ensure_indices()
        rich.apply(step)
        yield Moment(rich.graph_data(), before, graph.commits.head().id)
        before = rich.graph_data()


def compare(graph: og.Graph, moment: Moment, at: str | None, query: GeneratedQuery, tally: Tally, seed: int) -> None:
    try:
        answer = oracle_answer(query.text, moment.data, query.params)
        tally.with_rows += bool(answer.expected())
    except (OutOfReach, TooMany):
        tally.passed_over += 1
        return
    except SumOverflow:
        pass  # the engine must refuse it too
    tally.compared += 1
    if complaint(graph, moment.data, query, at) is not None:
        raise AssertionError(report(graph, moment, at, query, seed))


def complaint(graph: og.Graph, data: GraphData, query: GeneratedQuery, at: str | None = None) -> str | None:
    """What is wrong with the engine's answer, or None."""
    try:
        answer = oracle_answer(query.text, data, query.params)
    except (OutOfReach, TooMany):
        return None
    except SumOverflow:
        return refused_sum(graph, query, at)
    try:
        rows = json_rows(graph.query(query.text, params=query.params, at=at))
    except Exception as error:  # any error is a difference: the query is valid
        return f"{type(error).__name__}: {error}"
    return answer.complaint(rows)


def refused_sum(graph: og.Graph, query: GeneratedQuery, at: str | None = None) -> str | None:
    """What is wrong with the engine's answer to a query whose sum needs more than 64 bits, or None."""
    try:
        rows = graph.query(query.text, params=query.params, at=at).rows()
    except SumOverflow:
        return None
    return f"a sum should have been refused: {rows}"


def report(graph: og.Graph, moment: Moment, at: str | None, query: GeneratedQuery, seed: int) -> str:
    def fails(query: GeneratedQuery) -> bool:
        return complaint(graph, moment.data, query, at) is not None

    small = shrunk(query, fails)
    rows = smallest_rows(moment.data, small)
    if rows is not None:
        lines, what = jsonl_lines(rows), said(rows, small)
        where = "on a fresh graph"
    elif at is None and fails_after_commit(moment, small):
        lines, what = jsonl_lines(moment.data), complaint(graph, moment.data, small, at)
        earlier = "\n".join(jsonl_lines(moment.before))
        where = f"only after a commit that led here from these rows:\n{earlier}\n"
    else:
        lines, what = jsonl_lines(moment.data), complaint(graph, moment.data, small, at)
        where = f"only in the course of seed {seed}{' at an old commit' if at else ''}"
    return "\n".join([
        f"engine and naive evaluator differ {where}: {what}",
        "from tests.engine.differential import show",
        "show(",
        f"    {small.text!r},",
        f"    {small.params!r},",
        *(f"    {line!r}," for line in lines),
        ")",
    ])  # fmt: skip


def show(text: str, params: Mapping[str, Any], *lines: str) -> None:
    """Run a query by both readings on a fresh graph of these rows and print what they say."""
    data = jsonl_rows(CATALOG, lines)
    with fresh_graph(data) as graph:
        answer = oracle_answer(text, data, params)
        found = json_rows(graph.query(text, params=params))
        print(f"schema    {SCHEMA}\nplan      {graph.explain(text, params=params)}")
        print(f"expected  {answer.expected()} ({answer.order} order)\nfound     {found}")
        print(f"complaint {answer.complaint(found)}")


@contextmanager
def fresh_graph(data: GraphData) -> Iterator[og.Graph]:
    with tempfile.TemporaryDirectory() as root, rich_graph(root) as graph:
        wanted = changes(data)
        if wanted:
            graph.write(wanted)
        yield graph


def said(data: GraphData, query: GeneratedQuery) -> str | None:
    with fresh_graph(data) as graph:
        return complaint(graph, data, query)


def fails_after_commit(moment: Moment, query: GeneratedQuery) -> bool:
    """Whether one commit on a warm graph is enough."""
    with fresh_graph(moment.before) as graph:
        complaint(graph, moment.before, query)
        keep = {name: {row["id"] for row in rows} for name, rows in _tables(moment.data)}
        step = first_step(moment.data)
        gone = {
            name: [row["id"] for row in rows if row["id"] not in keep[name]] for name, rows in _tables(moment.before)
        }
        wanted = changes_of(type(step)(step.put, gone))
        if wanted:
            graph.write(wanted)
        return complaint(graph, moment.data, query) is not None


def smallest_rows(data: GraphData, query: GeneratedQuery) -> GraphData | None:
    """Few rows on which the query still fails; None when it does not fail on a fresh graph."""
    if said(data, query) is None:
        return None
    until = time.monotonic() + SHRINKING_SECONDS
    improved = True
    while improved and time.monotonic() < until:
        improved = False
        for name, rows in _tables(data):
            for row in rows:
                smaller = without(data, name, row)
                if time.monotonic() < until and said(smaller, query) is not None:
                    data, improved = smaller, True
    return data


def without(data: GraphData, type_name: str, row: Row) -> GraphData:
    """The rows without one of them, and without the edges it takes along."""

    def stays(edge_type: str, edge: Row) -> bool:
        declared = CATALOG.edges[edge_type]
        at_source = declared.source == type_name and edge["src"] == row["id"]
        at_target = declared.target == type_name and edge["dst"] == row["id"]
        return not (at_source or at_target or edge is row)

    return GraphData(
        CATALOG,
        {name: [each for each in rows if each is not row] for name, rows in data.nodes.items()},
        {name: [each for each in rows if stays(name, each)] for name, rows in data.edges.items()},
    )


def jsonl_lines(data: GraphData) -> list[str]:
    """The rows as `jsonl_rows` reads them."""
    nodes = [{"type": name, "data": _present(row)} for name, rows in data.nodes.items() for row in rows]
    edges = [
        {"edge": name, "from": row["src"], "to": row["dst"], "data": _present(row, "src", "dst")}
        for name, rows in data.edges.items()
        for row in rows
    ]
    return [json.dumps(each, ensure_ascii=False) for each in [*nodes, *edges]]


def _tables(data: GraphData) -> list[tuple[str, list[Row]]]:
    return [*data.nodes.items(), *data.edges.items()]


def _present(row: Row, *leave_out: str) -> Row:
    return {name: _json(value) for name, value in row.items() if value is not None and name not in leave_out}


def _json(value: Any) -> Any:
    if isinstance(value, list):
        return [_json(each) for each in value]
    return value.isoformat() if isinstance(value, date | datetime) else value
