"""The same graph and the same questions in OmniGraph, Ladybug and DuckDB.

`questions.*` hold the texts, `*_engine.py` the databases. `warm.py` compares answers and times, `fresh.py` the first
answer of a new process and its memory, `after_commit.py` a query right after a commit.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import social
from benchmarks.measure import seconds_of
from benchmarks.options import Options
from benchmarks.query import after_commit, fresh, warm
from benchmarks.query.engines import LADYBUG, OURS, available, engine_class
from benchmarks.query.questions import draw_parameters
from benchmarks.report import Report


def run(options: Options) -> Report:
    """Build every database that can be built here, and measure."""
    graph = social.make(options.scale)
    places = {name: options.place / name.lower() for name in available()}
    facts = [(f"{name} load", f"{_build(name, graph, place):.1f} s") for name, place in places.items()]
    facts += [(name, f"{table.num_rows:,} rows") for name, table in graph.tables.items()]
    parameters = draw_parameters(graph.nodes["Person"].num_rows, handles=options.size(20, 3))
    warmed = warm.compare(places, parameters, options)
    rows = [*warmed.rows, *fresh.compare(places, warmed.best, parameters, options)]
    if OURS in places:
        rows += after_commit.compare(places[OURS], parameters, options)
    else:
        facts.append((OURS, "not measured: Graph.query does not exist yet"))
    if LADYBUG not in places:
        facts.append((LADYBUG, "not measured: it is not installed"))
    return Report("query", tuple(rows), facts=tuple(facts))


def _build(name: str, graph: social.Social, place: Path) -> float:
    return seconds_of(lambda: engine_class(name).build(graph, place))
