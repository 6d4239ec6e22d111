"""Small graphs and the few verbs that tests of storage, writes and history need. No pytest in here."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.write.change import Change, Mode
from tests.support.light_python import run_code

ROOT = Path(__file__).resolve().parents[2]

PEOPLE = """
node Person { handle: String @key  age: I32?  email: String? @unique }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
edge Wrote: Person -> Note
"""


def people(root: Any, *handles: str, actor: str | None = None) -> og.Graph:
    """A graph of people, with these in it."""
    graph = og.init(root, PEOPLE, actor=actor)
    if handles:
        graph.write([persons(*handles)])
    return graph


def persons(*handles: str, mode: Mode = Mode.APPEND, **columns: Sequence[Any]) -> Change:
    """People by handle; further columns are lists of the same length."""
    return Change("node:Person", pa.table({"handle": pa.array(handles, pa.string()), **columns}), mode)


def knows(*pairs: tuple[str, str], mode: Mode = Mode.APPEND, **columns: Sequence[Any]) -> Change:
    """Edges between people, with fresh ids unless ``id`` is among the columns."""
    ends = {"src": pa.array([a for a, _ in pairs], pa.string()), "dst": pa.array([b for _, b in pairs], pa.string())}
    return Change("edge:Knows", pa.table({**ends, **columns}), mode)


def without(table_key: str, *ids: str) -> Change:
    return Change(table_key, remove=pa.array(ids, pa.string()))


def rows_of(graph: og.Graph, type_name: str, branch: str | None = None, at: Any = None) -> dict[str, dict[str, Any]]:
    """Every row of a type by id. Fails when an id occurs twice."""
    rows = graph.snapshot(branch, at).arrow(type_name).to_pylist()
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows), f"an id of {type_name} occurs twice"
    return found


def ids_of(graph: og.Graph, type_name: str, branch: str | None = None, at: Any = None) -> set[str]:
    return set(rows_of(graph, type_name, branch, at))


def count_persons(root: str) -> int:
    """How many persons a graph has; a name that another process can import."""
    with og.open(root, mode="ro") as graph:
        return graph.snapshot().count("Person")


def run_child(
    code: str, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 90
) -> subprocess.CompletedProcess[str]:
    """Run Python code in a fresh process, from the repository's root; never a fork."""
    return subprocess.run(
        run_code(code, *arguments),
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start_child(code: str, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """The same without waiting."""
    return subprocess.Popen(
        run_code(code, *arguments),
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def listing(root: Path) -> dict[str, tuple[int, int, int]]:
    """Every file and directory below a root with mode, size and time of its last change."""
    found = {}
    for place, directories, files in os.walk(root):
        for name in [".", *directories, *files]:
            path = Path(place, name)
            status = path.lstat()
            found[str(path.relative_to(root))] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


def files_below(root: Path) -> set[str]:
    """Relative paths of the files below a root."""
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
