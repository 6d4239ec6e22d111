"""Readers and writers in other processes while cleanups run one after another: no read fails, no write is lost."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.children import running
from tests.support.kill_runner import CHILD_SECONDS
from tests.support.light_python import run_module
from tests.support.small_graphs import ids_of, people, persons
from tests.support.waiting import wait_until


def _run(root: Path, seconds: float) -> None:
    with people(root, "a") as graph, ExitStack() as stack:
        graph.branches.create("quiet")
        graph.write([persons("on-quiet")], branch="quiet")
        verbs = (("write_on", "w1"), ("write_on", "w2"), ("read_on", "r"))
        commands = [run_module("tests.support.cleanup_child", verb, str(root), name) for verb, name in verbs]
        children = [stack.enter_context(running(command, {}, takes_input=True)) for command in commands]
        wait_until(lambda: len(graph.commits.list()) > 4, timeout=CHILD_SECONDS, what="the first writes")
        end, removed = time.monotonic() + seconds, 0
        while time.monotonic() < end and all(child.poll() is None for child in children):
            removed += graph.cleanup(keep=1, confirm=True, grace=0).states_removed
        said = [child.communicate("\n", timeout=CHILD_SECONDS) for child in children]
        assert [child.returncode for child in children] == [0, 0, 0], said
        counts = [int(out.strip()) for out, _ in said]
        assert removed > 0 and all(counts)
        written = zip(("w1", "w2"), counts[:2], strict=True)
        expected = {"a"} | {f"{name}-{number}" for name, count in written for number in range(count)}
        assert ids_of(graph, "Person") == expected
        assert ids_of(graph, "Person", "quiet") == {"a", "on-quiet"}
        assert graph.verify(deep=True).ok


def test_readers_and_writers_go_on_while_cleanups_run(tmp_path: Path) -> None:
    _run(tmp_path / "g", 6.0)


@pytest.mark.torture
def test_readers_and_writers_go_on_while_cleanups_run_for_ten_minutes(tmp_path: Path) -> None:
    _run(tmp_path / "g", 600.0)
