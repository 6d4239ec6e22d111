"""Making a branch of a wide and large graph against making one Lance branch of one table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import lance

import omnigraph as og
from benchmarks.measure import Action, in_turns
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import PEOPLE, fsync, people, settle
from omnigraph.write.change import Change

TYPES = 100
ROWS = 1_000_000
ROUNDS = 25


def branch_against_lance(options: Options) -> list[Row]:
    """Without fsync, because Lance never syncs. Fails when a branch copies data."""
    types, rows = options.size(TYPES, 10), options.size(ROWS, 1_000)
    with fsync(False):
        graph = _wide_graph(options, types, rows)
        raw = lance.write_dataset(people(range(rows)), options.place / "raw-branches.lance")
        added = _files_of_one_branch(graph)
        taken = in_turns({"ours": _ours(graph), "lance": _lance(raw)}, options.size(ROUNDS, 3))
    return [
        Row(
            f"branch of {types} types and {rows:,} rows",
            taken["ours"].median,
            taken["lance"].median,
            "raw Lance branch",
            goal=Goal(4),
            note=f"adds {len(added)} files, {sum(added.values()):,} bytes, no data",
        )
    ]


def _wide_graph(options: Options, types: int, rows: int) -> og.Graph:
    names = [f"Person{number}" for number in range(types)]
    graph = og.init(options.place / "wide", "".join(PEOPLE.replace("Person", name) for name in names))
    each = rows // types
    changes = [
        Change(f"node:{name}", people(range(number * each, (number + 1) * each))) for number, name in enumerate(names)
    ]
    graph.write(changes)
    settle(graph)
    return graph


def _files_of_one_branch(graph: og.Graph) -> dict[str, int]:
    """Make a branch and return the files it added, with their sizes."""
    before = _files(graph.uri)
    graph.branches.create("copies-nothing")
    after = _files(graph.uri)
    added = {name: size for name, size in after.items() if name not in before}
    own = ("__manifest/", "__branches/")
    copied = [name for name in added if "/data/" in name or "/_indices/" in name or not name.startswith(own)]
    if copied or any(after.get(name) != size for name, size in before.items()):
        raise AssertionError(f"a new branch copied or changed files: {copied[:5]}")
    return added


def _files(root: str) -> dict[str, int]:
    return {path.relative_to(root).as_posix(): path.stat().st_size for path in Path(root).rglob("*") if path.is_file()}


def _names() -> Iterator[str]:
    return (f"branch-{number}" for number in count())


def _ours(graph: og.Graph) -> Action:
    names, made = _names(), []

    def run() -> None:
        made.append(next(names))
        graph.branches.create(made[-1])

    return Action(run, after=lambda: graph.branches.delete(made[-1]))


def _lance(raw: lance.LanceDataset) -> Action:
    names, made = _names(), []

    def run() -> None:
        made.append(next(names))
        raw.create_branch(made[-1])

    return Action(run, after=lambda: raw.branches.delete(made[-1]))
