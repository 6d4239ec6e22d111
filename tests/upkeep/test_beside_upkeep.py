"""Readers and writers in other processes while optimize and cleanup run one after another, all the time: no read fails,
no write is lost, and every state that somebody holds stays whole."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.children import running
from tests.support.kill_runner import CHILD_SECONDS
from tests.support.light_python import run_module
from tests.support.small_graphs import ids_of, people, persons
from tests.support.waiting import wait_until

#: What the children do. Two branches grow, one is merged into the other, and both are read, now and in the past.
_VERBS = (
    ("write_on", "w1", "main"),
    ("write_on", "w2", "dev"),
    ("merge_on", "dev", "main"),
    ("read_on", "main"),
    ("look_back", "main"),
)

#: How long states stay that were the newest: longer than a reader without a lease takes for one state.
_GRACE = 4


def _run(root: Any, seconds: float) -> None:
    with people(root, "a") as graph, ExitStack() as stack:
        for branch in ("dev", "quiet"):
            graph.branches.create(branch)
        graph.write([persons("on-quiet")], branch="quiet")
        graph.tags.create("first")
        commands = [run_module("tests.support.cleanup_child", verb, str(root), *given) for verb, *given in _VERBS]
        children = [stack.enter_context(running(command, {}, takes_input=True)) for command in commands]
        wait_until(lambda: len(graph.commits.list()) > 4, timeout=CHILD_SECONDS, what="the first writes")
        end, removed, optimized = time.monotonic() + seconds, 0, 0
        while time.monotonic() < end and all(child.poll() is None for child in children):
            optimized += len(graph.optimize().commits)
            removed += graph.cleanup(keep=1, confirm=True, grace=_GRACE).states_removed
        said = [child.communicate("\n", timeout=CHILD_SECONDS) for child in children]
        assert [child.returncode for child in children] == [0] * len(children), said
        counts = [int(out.strip()) for out, _ in said]
        assert removed > 0 and optimized > 0 and all(counts), (removed, optimized, counts)
        graph.branches.merge("dev", "main")
        written = zip(("w1", "w2"), counts[:2], strict=True)
        expected = {"a"} | {f"{name}-{number}" for name, count in written for number in range(count)}
        assert ids_of(graph, "Person") == expected
        assert ids_of(graph, "Person", "quiet") == {"a", "on-quiet"}
        assert ids_of(graph, "Person", at="tag:first") == {"a"}
        assert graph.verify(deep=True).ok


@pytest.mark.slow
def test_readers_and_writers_go_on_while_upkeep_runs(tmp_path: Path) -> None:
    _run(tmp_path / "g", 20.0)


@pytest.mark.torture
def test_readers_and_writers_go_on_while_upkeep_runs_for_ten_minutes(tmp_path: Path) -> None:
    _run(tmp_path / "g", 600.0)


@pytest.mark.s3
@pytest.mark.torture
def test_readers_and_writers_on_s3_go_on_while_upkeep_runs(s3_root: str) -> None:
    _run(s3_root, 120.0)
