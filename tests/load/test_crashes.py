"""Loads whose process is killed: after the next open all of it is there or nothing, and the next load works."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

import omnigraph as og
from tests.support.crash_checks import settled
from tests.support.crash_graph import ACTOR, SCHEMA, TABLES, marks
from tests.support.ledger import Ledger, name
from tests.support.small_graphs import run_child

CHILD = """
import json, sys
import omnigraph as og
from omnigraph import failpoints, limits
from tests.support.crash_graph import ACTOR
from tests.support.ledger import Ledger
uri, ledger, step, arm = sys.argv[1:]
step = json.loads(step)
limits.LOAD_INDEX_ROWS = step["index_rows"]
with og.open(uri, actor=ACTOR) as graph:
    failpoints.arm(arm)
    Ledger(ledger).start(step["op"], step["adds"], step["removes"])
    result = graph.load(step["path"], step["mode"], branch=step["branch"], from_="main")
    Ledger(ledger).acknowledge(step["op"], result.commit.id)
"""
MAIN, BRANCH = "main", "review/a"

#: Mode, branch, failpoint, and whether the load is there afterwards.
KILLS = [
    ("append", MAIN, "write.after_stage", False),
    ("overwrite", MAIN, "write.after_gate_checks", False),
    ("merge", BRANCH, "write.after_sidecar", False),
    ("overwrite", MAIN, "write.after_table_commit[Load]", True),
    ("append", BRANCH, "write.after_table_commit[Load]", True),
    ("merge", MAIN, "write.after_table_commit", True),
    ("overwrite", BRANCH, "write.after_all_table_commits", True),
    ("overwrite", MAIN, "publish.before_commit", True),
    ("append", MAIN, "write.after_publish_before_delete", True),
    ("append", MAIN, "write.before_table_commit[EnsureIndices]", True),
]


def records(op: str) -> tuple[list[str], dict[str, list[str]]]:
    """Lines of four types, marked with the operation, and the marks by table."""
    one, two, firm, knows, works = (name(op, 0, row) for row in range(5))
    lines = [
        {"edge": "Knows", "from": one, "to": two, "data": {"id": knows, "mark": knows}},
        *({"type": "Person", "data": {"name": each, "mark": each}} for each in (one, two)),
        {"type": "Company", "data": {"name": firm, "mark": firm}},
        {"edge": "WorksAt", "from": one, "to": firm, "data": {"id": works, "mark": works}},
    ]
    adds = {"node:Person": [one, two], "node:Company": [firm], "edge:Knows": [knows], "edge:WorksAt": [works]}
    return [json.dumps(line) for line in lines], adds


def seed(root: Path) -> None:
    lines, adds = records("seed")
    (root / "seed.jsonl").write_text("\n".join(lines))
    ledger = Ledger(root / "ledger")
    with og.init(root / "g", SCHEMA, actor=ACTOR) as graph:
        ledger.start("seed", adds, {})
        commit = graph.load(root / "seed.jsonl", "append").commit
        assert commit is not None
        ledger.acknowledge("seed", commit.id)


@pytest.mark.parametrize(("mode", "branch", "point", "happens"), KILLS, ids=str)
def test_a_killed_load_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path, mode: str, branch: str, point: str, happens: bool
) -> None:
    seed(tmp_path)
    lines, adds = records("op")
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    removes = records("seed")[1] if mode == "overwrite" else {}
    step = {
        "op": "op",
        "adds": adds,
        "removes": removes,
        "path": str(tmp_path / "in.jsonl"),
        "mode": mode,
        "branch": branch,
        "index_rows": 0 if "EnsureIndices" in point else 1_000,
    }
    ended = run_child(CHILD, str(tmp_path / "g"), str(tmp_path / "ledger"), json.dumps(step), f"{point}=kill")
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    with settled(str(tmp_path / "g"), branch, tmp_path / "ledger", mirrored=False) as graph:
        there = {table for table in TABLES if set(adds[table]) <= set(marks(graph, branch)[table])}
        assert there == (set(TABLES) if happens else set())
        (tmp_path / "next.jsonl").write_text("\n".join(records("next")[0]))
        assert graph.load(tmp_path / "next.jsonl", "append", branch=branch).total == 5
