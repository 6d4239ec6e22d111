"""Graphs whose two branches went apart in a chosen way, and the verbs that merge tests share. No pytest in here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.history.merge.merge_result import MergeResult
from omnigraph.write.change import Change, Mode

SCHEMA = """
node Person { handle: String @key  age: I32?  email: String? @unique }
node Note { text: String }
edge Knows: Person -> Person { weight: I32? }
edge Wrote: Person -> Note
"""

Rows = Mapping[str, Mapping[str, Any]]

#: How the two branches came to be: straight from one commit, after an earlier merge, after merges in both directions.
ANCESTRIES = ("plain", "merged before", "criss-cross")

#: Which branch is merged into which.
DIRECTIONS = {"into main": ("a", "main"), "from main": ("main", "a"), "between siblings": ("a", "b")}


@dataclass(frozen=True, slots=True)
class Apart:
    """Two branches that stand on common rows."""

    graph: og.Graph
    source: str
    target: str

    def merge(self, **options: Any) -> MergeResult:
        return self.graph.branches.merge(self.source, self.target, **options)


def apart(root: Path, ancestry: str, direction: str, *base: Change, schema: str = SCHEMA) -> Apart:
    """A graph whose two branches have these rows in common, in the way the ancestry says."""
    source, target = DIRECTIONS[direction]
    graph = og.init(root, schema, actor="act-anna")
    graph.write([people("hub", "rim")])
    if ancestry == "plain" and base:
        graph.write(list(base))
    for name in sorted({source, target} - {"main"}):
        graph.branches.create(name)
    if ancestry == "merged before":
        graph.write([*base, notes("n-before")] if base else [notes("n-before")], branch=source)
        graph.branches.merge(source, target)
    if ancestry == "criss-cross":
        graph.write([*base, notes("n-s")] if base else [notes("n-s")], branch=source)
        graph.write([*base, notes("n-t")] if base else [notes("n-t")], branch=target)
        before = graph.commits.head(target).id
        graph.branches.create("x", target)
        graph.branches.merge(source, target)
        graph.branches.merge("x", source)
        assert graph.commits.head(source).merged_parent == before
    return Apart(graph, source, target)


def people(*handles: str, mode: Mode = Mode.MERGE, **columns: Any) -> Change:
    return Change("node:Person", pa.table({"handle": pa.array(handles, pa.string()), **columns}), mode)


def notes(*ids: str, mode: Mode = Mode.MERGE) -> Change:
    return Change(
        "node:Note", pa.table({"id": pa.array(ids, pa.string()), "text": [f"text of {i}" for i in ids]}), mode
    )


def edges(*ids: str, src: str = "hub", dst: str = "rim", weight: int | None = None) -> Change:
    count = len(ids)
    columns = {
        "id": pa.array(ids, pa.string()),
        "src": pa.array([src] * count, pa.string()),
        "dst": pa.array([dst] * count, pa.string()),
        "weight": pa.array([weight] * count, pa.int32()),
    }
    return Change("edge:Knows", pa.table(columns), Mode.MERGE)


def gone(table_key: str, *ids: str) -> Change:
    return Change(table_key, remove=pa.array(ids, pa.string()))


def state(graph: og.Graph, branch: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Every row of a branch by table and id."""
    snapshot = graph.snapshot(branch)
    found = {}
    for key in snapshot.tables:
        rows = snapshot.arrow(key).to_pylist()
        found[key] = {row["id"]: row for row in rows}
        assert len(found[key]) == len(rows), f"an id of {key} occurs twice"
        assert snapshot.tables[key].row_count == len(rows), f"row count of {key}"
    return found


def fingerprint(graph: og.Graph, branch: str) -> tuple[Any, ...]:
    """All that a failed merge must leave as it is: rows, versions, head."""
    snapshot = graph.snapshot(branch)
    return state(graph, branch), snapshot.version, dict(snapshot.tables), graph.commits.head(branch)
