"""A small graph to change the schema of, and its content as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import omnigraph as og
from omnigraph.storage.inspect_files import ValueProcess
from omnigraph.storage.metadata.manifest import fold
from omnigraph.write.change import Change

SCHEMA = """
node Person { name: String @key  age: I32  nick: String? @index  note: String? }
node Place { title: String @key }
edge Knows: Person -> Person { since: I32? }
"""


def small_graph(root: Path | str, schema: str = SCHEMA) -> og.Graph:
    graph = og.init(root, schema, actor="act-anna")
    people = {"name": ["Ann", "Bob"], "age": pa.array([3, 4], pa.int32()), "nick": ["A", None], "note": ["x", "y"]}
    knows = {"id": ["e1"], "src": ["Ann"], "dst": ["Bob"], "since": pa.array([7], pa.int32())}
    graph.write(
        [
            Change("node:Person", pa.table(people)),
            Change("node:Place", pa.table({"title": ["Rome"]})),
            Change("edge:Knows", pa.table(knows)),
        ]
    )
    return graph


def rows(graph: og.Graph, type_name: str, at: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = graph.snapshot(at=at).arrow(type_name).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def content(graph: og.Graph, at: str | None = None) -> str:
    """Everything that a state shows, as the lines of its export."""
    return graph.export(at=at).text or ""


def assert_whole(graph: og.Graph) -> None:
    """The graph's own proof finds nothing, both ways to read its present agree, and no file is left staged."""
    graph._store.mirror.flush()
    with patch.object(ValueProcess, "_started", return_value=None):  # undamaged bytes need no process of their own
        found = graph.verify(deep=True).problems
    assert [problem for problem in found if not problem.harmless or problem.check == "digests"] == []
    present = graph._store.snapshot("main")
    folded = fold(present.handle, "main")
    assert (folded.pins, folded.hidden, folded.head) == (present.pins, present.hidden, present.head)
    assert not [name for name in graph._store.objects.names("") if name.endswith(".staging")]
