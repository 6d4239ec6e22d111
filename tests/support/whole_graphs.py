"""Graphs with everything that a copy of a whole graph could lose, and their whole content for comparison.

Several data files, deleted rows, blobs, vectors, indexes, a renamed and a dropped type, merged, nested, deleted and
re-created branches.
"""

from __future__ import annotations

from typing import Any

import obstore
import pyarrow as pa

import omnigraph as og
from omnigraph.storage.objects.object_store import ObjectStore, parse_location
from omnigraph.write.change import Change, Mode

FIRST = """
node Person { handle: String @key  name: String @index  face: Vector(4)? @index  photo: Blob? }
node Draft { code: String @key }
node Spot { code: String @key }
edge Knows: Person -> Person { since: Date? }
"""
SECOND = """
node Person { handle: String @key  label: String @index @rename_from("name")  face: Vector(4)? @index  photo: Blob? }
node Place @rename_from("Spot") { code: String @key }
edge Knows: Person -> Person { since: Date? }
"""
ROWS = 40


def people(start: int, count: int = ROWS, name: str = "label") -> Change:
    numbers = range(start, start + count)
    rows = {
        "handle": [f"p{number}" for number in numbers],
        name: [f"person {number} of many" for number in numbers],
        "face": pa.array([[float(number), 1.0, 2.0, 3.0] for number in numbers], pa.list_(pa.float32(), 4)),
        "photo": pa.array([bytes([number % 251]) * (70_000 if number == start else 9) for number in numbers]),
    }
    return Change("node:Person", pa.table(rows), Mode.MERGE)


def know(graph: og.Graph, one: str, other: str, branch: str = "main") -> None:
    """One more edge, as one commit."""
    ends = {"src": pa.array([one]), "dst": pa.array([other])}
    graph.write([Change("edge:Knows", pa.table(ends))], branch=branch)


def forget(graph: og.Graph, *handles: str, branch: str = "main") -> None:
    graph.write([Change("node:Person", remove=pa.array(handles, pa.string()))], branch=branch)


def whole_graph(uri: Any) -> og.Graph:
    """The graph, open."""
    graph = og.init(uri, FIRST, actor="act-first")
    graph.write([people(0, name="name"), Change("node:Spot", pa.table({"code": ["s1"]}))])
    graph.write([people(ROWS, name="name")])
    graph.schema.apply(SECOND)
    graph.ensure_indices()
    forget(graph, "p3", "p4")
    graph.branches.create("review/a")
    graph.write([people(1000)], branch="review/a")
    know(graph, "p1", "p1000", "review/a")
    graph.branches.create("review/b", "review/a")
    forget(graph, "p5", "p1001", branch="review/b")
    graph.write([people(2000)], branch="review/b")
    for start in (3000, 4000):
        graph.branches.create("again")
        graph.write([people(start, 5)], branch="again")
        if start == 3000:
            graph.branches.delete("again")
    graph.branches.create("merged")
    graph.write([people(5000, 5)], branch="merged")
    graph.branches.merge("merged", delete_branch=True)
    know(graph, "p1", "p2")
    graph.branches.create("quiet", at=graph.commits.list()[2].id)
    graph.recover()
    return graph


def content(graph: og.Graph) -> dict[str, dict[str, Any]]:
    """Every branch at every commit of it, rows and schema; and who made the commits when.

    A commit that several branches know is one state; it is read through the first of them, heads through each.
    """
    states: dict[str, tuple[str | None, str]] = {}
    found: dict[str, dict[str, Any]] = {}
    for branch in graph.branches.list():
        commits = graph.commits.list(branch)
        for commit in commits:
            if commit.id not in states:
                states[commit.id] = _state(graph, branch, commit.id)
        found[branch] = {commit.id: (commit, states[commit.id]) for commit in commits}
        found[branch]["head"] = graph.export(branch=branch).text
    return found


def _state(graph: og.Graph, branch: str, at: str) -> tuple[str | None, str]:
    return graph.export(branch=branch, at=at).text, str(graph.catalog_of(branch, at))


def files(uri: Any) -> dict[str, tuple[int, str]]:
    """Every object below a root with its size and tag, without locks and leases."""
    store = ObjectStore(parse_location(uri))._connect()
    return {
        entry["path"]: (entry["size"], str(entry["e_tag"]))
        for page in obstore.list(store)
        for entry in page
        if not entry["path"].endswith((".lock", ".lease"))
    }
