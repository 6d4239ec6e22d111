"""A query right after a one-row commit, against the same query warm."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import Action, in_turns
from benchmarks.options import Options
from benchmarks.query.engines import ask, ways
from benchmarks.query.omnigraph_engine import OmniGraphEngine
from benchmarks.query.questions import LOOKUP, Parameters
from benchmarks.query.warm import TITLES
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import settle
from omnigraph.write.change import Change

QUESTIONS = (LOOKUP, "hop2", "q1", "q5", "q8", "q9")
ROUNDS = 15


def compare(place: Path, parameters: Parameters, options: Options) -> list[Row]:
    """The commit adds an edge between two persons, so every topology that a query uses is out of date."""
    engine = OmniGraphEngine(place)
    edges = _new_edges(parameters)
    rows = []

    def commit() -> None:
        engine.graph.write([Change("edge:Follows", next(edges))])
        settle(engine.graph)

    for question in QUESTIONS:
        phrasing, params = ways(engine, question)[0], parameters.of(question)[0]

        def run(phrasing=phrasing, params=params) -> None:
            ask(engine, phrasing, params)

        taken = in_turns({"after": Action(run, before=commit), "warm": Action(run)}, options.size(ROUNDS, 3), warm_up=1)
        measure = f"right after a 1-row commit: {TITLES[question]}"
        rows.append(Row(measure, taken["after"].median, taken["warm"].median, "warm", goal=Goal(2)))
    engine.close()
    return rows


def _new_edges(parameters: Parameters) -> Iterator[pa.Table]:
    """Edges between the drawn persons, over and over in other pairs."""
    persons = parameters.many
    since = pa.array([20_000], pa.int32()).cast(pa.date32())
    for number in count():
        source = persons[number % len(persons)]
        target = persons[(number * 7 + 1) % len(persons)]
        yield pa.table({"src": [source], "dst": [target], "since": since})
