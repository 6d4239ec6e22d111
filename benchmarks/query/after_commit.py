"""A query right after a one-row commit, against the same query warm.

A commit leaves the processor's caches cold, which alone doubles the time of a short query. So the query is also asked
after a commit to another graph, which it has nothing to do with.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa

import omnigraph as og
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

    elsewhere = _elsewhere(place.with_name("elsewhere"))
    for question in QUESTIONS:
        phrasing, params = ways(engine, question)[0], parameters.of(question)[0]
        run = partial(ask, engine, phrasing, params)
        actions = {
            "after": Action(run, before=commit),
            "warm": Action(run),
            "after a commit to another graph": Action(run, before=lambda: next(elsewhere)),
        }
        taken = {name: samples.median for name, samples in in_turns(actions, options.size(ROUNDS, 3), 1).items()}
        measure = f"right after a 1-row commit: {TITLES[question]}"
        ours = taken.pop("after")
        rows += [
            Row(measure, ours, peer, name, goal=Goal(2) if name == "warm" else None) for name, peer in taken.items()
        ]
    engine.close()
    elsewhere.close()
    return rows


def _elsewhere(place: Path) -> Generator[None, None, None]:
    """Commits to a small graph, one each time."""
    with og.init(place, "node P { k: String @key }\nedge E: P -> P") as graph:
        graph.write([Change("node:P", pa.table({"k": ["a", "b"]}))])
        while True:
            graph.write([Change("edge:E", pa.table({"src": ["a"], "dst": ["b"]}))])
            settle(graph)
            yield


def _new_edges(parameters: Parameters) -> Iterator[pa.Table]:
    """Edges between the drawn persons, over and over in other pairs."""
    persons = parameters.many
    since = pa.array([20_000], pa.int32()).cast(pa.date32())
    for number in count():
        source = persons[number % len(persons)]
        target = persons[(number * 7 + 1) % len(persons)]
        yield pa.table({"src": [source], "dst": [target], "since": since})
