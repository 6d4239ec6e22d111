"""A graph that grew by one-row commits and was then optimized and cleaned up, against the same data loaded at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import omnigraph as og
from benchmarks import child
from benchmarks.measure import Action, Samples, in_turns
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import fsync, settle

SCHEMA = """
node Person { handle: String @key  name: String  age: I64? }
node City { name: String @key }
node Note { slug: String @key  text: String? }
edge Knows: Person -> Person { since: I64? }
edge LivesIn: Person -> City
"""
COMMITS = 2_000
KEEP = 10
ROUNDS = 40
OPENS = 9
SPEED, BYTES, FILES = Goal(1.2), Goal(1.5), Goal(3.0)

Q1 = "query q() { match { $p: Person  $p livesIn $c } return { $c.name as city, count($p) as n } order { n desc } }"
TWO_HOPS = (
    "query q($h: String) { match { $p: Person { handle: $h }  $p knows $f  $f knows $g } return { count($g) as n } }"
)
LOOKUP = "query q($h: String) { match { $p: Person { handle: $h } } return { $p.name as name } }"


def kept_against_bulk(options: Options) -> list[Row]:
    """Both hold the same rows, both have their indexes; warm reads take turns, opens are processes of their own."""
    commits = options.size(COMMITS, 50)
    with fsync(False):
        grown, bulk = _grown(options.place / "grown", commits), options.place / "bulk"
        _load(grown, bulk)
        sizes = {name: _size(place) for name, place in (("grown", grown), ("bulk", bulk))}
        graphs = {"grown": og.open(grown, mode="ro"), "bulk": og.open(bulk, mode="ro")}
        rows = [
            _row(f"{name} after {commits:,} one-row commits and upkeep", _turns(graphs, read, options), SPEED)
            for name, read in _reads(commits).items()
        ]
        taken: dict[str, list[float]] = {"grown": [], "bulk": []}
        for _ in range(options.size(OPENS, 1)):
            for name, place in (("grown", grown), ("bulk", bulk)):
                taken[name].append(child.run("benchmarks.storage.opening:open_once", uri=str(place), mode="rw"))
    opened = {name: Samples(tuple(seconds)) for name, seconds in taken.items()}
    (bytes_, files), (least_bytes, least_files) = sizes["grown"], sizes["bulk"]
    return [
        *rows,
        _row(f"cold open after {commits:,} one-row commits and upkeep", opened, SPEED),
        Row("bytes on disk after that", bytes_, least_bytes, "loaded at once", "bytes", BYTES),
        Row("files on disk after that", files, least_files, "loaded at once", "files", FILES),
    ]


def _grown(place: Path, commits: int) -> Path:
    with og.init(place, SCHEMA) as graph:
        graph.load({"City": [{"name": f"c{number}"} for number in range(5)]}, "append")
        for number in range(commits):
            graph.load(_one(number), "append")
        settle(graph)
        graph.optimize()
        graph.cleanup(keep=KEEP, grace=0, confirm=True)
    return place


def _one(number: int) -> dict[str, list[dict[str, Any]]]:
    """One row for one of the tables in turn; every node is there before its edges."""
    turn, kind = divmod(number, 4)
    if kind == 0:
        return {"Person": [{"handle": f"p{turn}", "name": f"Name {turn}", "age": turn % 90}]}
    if kind == 1:
        return {"Note": [{"slug": f"n{turn}", "text": f"about person {turn}"}]}
    if kind == 2:
        return {"Knows": [{"from": f"p{turn}", "to": f"p{turn * 7919 % (turn + 1)}", "since": turn}]}
    return {"LivesIn": [{"from": f"p{turn}", "to": f"c{turn % 5}"}]}


def _load(source: Path, target: Path) -> None:
    with og.open(source, mode="ro") as grown, og.init(target, SCHEMA) as bulk:
        text = target.with_suffix(".jsonl")
        grown.export(text)
        bulk.load(text, "append")
        bulk.ensure_indices()
        settle(bulk)


def _reads(commits: int) -> dict[str, Callable[[og.Graph], Any]]:
    who = {"h": f"p{commits // 8}"}
    types = ("Person", "City", "Note", "Knows", "LivesIn")
    return {
        "full scan": lambda graph: [graph.snapshot().arrow(name) for name in types],
        "count by city": lambda graph: graph.query(Q1).rows(),
        "two hops": lambda graph: graph.query(TWO_HOPS, who).rows(),
        "look-up of a key": lambda graph: graph.query(LOOKUP, who).rows(),
    }


def _turns(graphs: dict[str, og.Graph], read: Callable[[og.Graph], Any], options: Options) -> dict[str, Samples]:
    actions = {name: Action(partial(read, graph)) for name, graph in graphs.items()}
    return in_turns(actions, options.size(ROUNDS, 3))


def _row(measure: str, taken: dict[str, Samples], goal: Goal) -> Row:
    return Row(measure, taken["grown"].median, taken["bulk"].median, "loaded at once", goal=goal)


def _size(place: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in place.rglob("*") if path.is_file()]
    return sum(sizes), len(sizes)
