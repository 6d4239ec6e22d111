"""A mistake of a user is one error: no other one, of ours, of Arrow or of Lance, stands behind it in the trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import errors
from tests.support.small_graphs import knows, people, persons


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return people(tmp_path_factory.mktemp("chains") / "g", "ann")


def q(text: str, **params: Any) -> Callable[[og.Graph], object]:
    return lambda graph: graph.query(f"query q{text}", params=params)


def m(text: str, **params: Any) -> Callable[[og.Graph], object]:
    return lambda graph: graph.mutate(f"query q{text}", params=params)


def put(change: og.Change) -> Callable[[og.Graph], object]:
    return lambda graph: graph.write([change])


def loads(content: Any, name: str = "x.jsonl", **options: Any) -> Callable[[og.Graph], object]:
    def run(graph: og.Graph) -> object:
        source = Path(graph.uri).parent / name
        source.write_text(content if isinstance(content, str) else json.dumps(content) + "\n", encoding="utf-8")
        return graph.load(source, "append", engine="embedded", **options)

    return run


MISTAKES: dict[str, Callable[[og.Graph], object]] = {
    "a query that does not parse": q("() { match"),
    "an unknown type": q("() { match { $p: Persn } return { $p.handle } }"),
    "an unknown property": q("() { match { $p: Person } return { $p.hndle } }"),
    "a missing parameter": q("($a: I32) { match { $p: Person { age: $a } } return { $p.handle } }"),
    "a parameter of another type": q("($a: I32) { match { $p: Person { age: $a } } return { $p.handle } }", a="x"),
    "an integer out of range": q("($a: I32) { match { $p: Person { age: $a } } return { $p.handle } }", a=2**40),
    "a date that is none": m('() { insert Knows { from: "ann", to: "ann", since: date("20-1") } }'),
    "no such query": lambda graph: graph.query("query a() { match { $p: Person } return { $p.handle } }", "b"),
    "no such file": lambda graph: graph.query(Path("nothing.gq")),
    "no such branch": lambda graph: graph.snapshot("nothing"),
    "no such commit": lambda graph: graph.snapshot(at="01M7NTJ24MED9AFFR38CXJKK7A"),
    "no such version": lambda graph: graph.snapshot(at=10_000),
    "a time before the graph": lambda graph: graph.snapshot(at=datetime(1999, 1, 1)),
    "no such type in a snapshot": lambda graph: graph.snapshot().arrow("Persn"),
    "a bad name": lambda graph: graph.branches.create("a b"),
    "a branch that exists": lambda graph: graph.branches.create("main"),
    "a branch to delete that does not exist": lambda graph: graph.branches.delete("nothing"),
    "a missing endpoint": m('() { insert Knows { from: "ann", to: "nobody" } }'),
    "a wrong literal": m("() { insert Person { handle: 1 } }"),
    "a value that is missing": m("() { insert Person { age: 1 } }"),
    "a key that exists": put(persons("ann")),
    "a column of another type": put(persons("bob", age=["x"])),
    "a number that does not fit": put(persons("bob", age=[2**40])),
    "a column that is unknown": put(persons("bob", agee=[1])),
    "an edge without an end": put(og.Change("edge:Knows", pa.table({"src": ["ann"]}))),
    "a wrong date": put(knows(("ann", "ann"), since=["x"])),
    "a type in the place of a table key": put(og.Change("Person", pa.table({"handle": ["x"]}))),
    "a table key of nothing": put(og.Change("node:Persn", pa.table({"handle": ["x"]}))),
    "JSON that is none": loads("{"),
    "a record of no type": loads({"type": "Persn", "data": {}}),
    "a record with a wrong value": loads({"type": "Person", "data": {"handle": "x", "age": "y"}}),
    "a record with an unknown member": loads({"type": "Person", "data": {"handle": "x", "agee": 1}}),
    "a record with a number that does not fit": loads({"type": "Person", "data": {"handle": "x", "age": 2**70}}),
    "a record without an end": loads({"edge": "Knows", "to": "ann"}),
    "a CSV with a number that does not fit": loads("handle,age\nx,99999999999\n", "x.csv", type="Person"),
    "a CSV with a date that is none": loads("src,dst,since\nann,ann,x\n", "x.csv", type="Knows"),
    "dates in memory that are none": lambda graph: graph.load(
        {"Knows": [{"from": "ann", "to": "ann", "since": "x"}]}, "append"
    ),
    "a frame with a column of two types": lambda graph: graph.load(
        pd.DataFrame({"handle": ["x", 1]}), "append", type="Person"
    ),
    "a CSV with an unknown column": loads("handl\nx\n", "x.csv", type="Person"),
    "a Parquet that is none": loads("x", "x.parquet", type="Person"),
    "a file that does not exist": lambda graph: graph.load("nothing.jsonl", "append", engine="embedded"),
    "a mode that does not exist": lambda graph: graph.load("nothing.jsonl", "apend"),  # type: ignore[arg-type]
    "a schema that does not parse": lambda graph: graph.schema.plan("node {"),
    "a schema with a wrong rule": lambda graph: graph.schema.plan("node A { x: Strng }"),
    "a graph that exists": lambda graph: og.init(graph.uri, "node A { x: String @key }"),
    "no graph": lambda graph: og.open(f"{graph.uri}-nothing"),
    "an address of nothing": lambda graph: og.open("ftp://x/y"),
    "a cursor that is none": lambda graph: graph.changes("nonsense"),
    "a diff with nothing": lambda graph: graph.diff("main", "nothing"),
    "a merge of nothing": lambda graph: graph.branches.merge("nothing"),
    "an export of nothing": lambda graph: graph.export(types=["Persn"]),
}


def chain_of(error: BaseException) -> list[str]:
    """What a trace shows above an error."""
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [] if behind is None else [*chain_of(behind), f"{type(behind).__module__}.{type(behind).__name__}"]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_error(graph: og.Graph, mistake: str) -> None:
    with pytest.raises(errors.OmniGraphError) as caught:
        MISTAKES[mistake](graph)
    assert chain_of(caught.value) == [], caught.value
