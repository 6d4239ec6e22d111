"""Cleanups that are killed half-way: the graph is sound, and a second run does the rest."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.support.children import running
from tests.support.kill_runner import CHILD_SECONDS
from tests.support.light_python import run_module
from tests.support.small_graphs import ids_of, people, persons

_POINTS = (
    "cleanup.after_listing",
    "cleanup.after_reclaimed",
    "cleanup.between_commits",
    "cleanup.after_commits",
    "cleanup.before_removal",
    "cleanup.after_list",
    "cleanup.between_files",
    "cleanup.between_files@3",
    "cleanup.before_list_removed",
)


def _graph(root: Any) -> dict[str, set[str]]:
    """A graph with a branch that shares an old state of main, one that has rows of its own, and one that is gone."""
    with people(root, "a") as graph:
        graph.write([persons("b")])
        graph.branches.create("lazy")
        graph.branches.create("own")
        graph.write([persons("on-own")], branch="own")
        graph.write([persons("c")])
        graph.write([persons("d")])
        return {name: ids_of(graph, "Person", name) for name in graph.branches}


def _kill(root: Any, point: str) -> None:
    name, _, nth = point.partition("@")
    command = run_module("tests.support.cleanup_child", "cleanup", str(root))
    with running(command, {"OMNIGRAPH_FAILPOINTS": f"{name}=kill@{nth or 1}"}) as child:
        said = child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == -signal.SIGKILL, f"{point} was not reached: {said}"


def _assert_whole(root: Any, expected: dict[str, set[str]]) -> None:
    with og.open(root, mode="ro") as graph:
        assert graph.verify(deep=True).ok
        assert {name: ids_of(graph, "Person", name) for name in graph.branches} == expected


@pytest.mark.parametrize("point", _POINTS)
def test_a_killed_cleanup_leaves_a_sound_graph_and_is_finished_by_the_next(tmp_path: Path, point: str) -> None:
    root = tmp_path / "g"
    expected = _graph(root)
    _kill(root, point)
    _assert_whole(root, expected)
    with og.open(root) as graph:
        graph.write([persons("e")])
        expected["main"] |= {"e"}
        graph.cleanup(keep=1, confirm=True, grace=0)
        assert not list((root / "__upkeep" / "doomed").glob("*"))
        data = {path.name for path in root.glob("nodes/*/data/*")}
        graph.cleanup(keep=1, confirm=True, grace=0)
        assert {path.name for path in root.glob("nodes/*/data/*")} == data
        assert graph.cleanup(keep=1).unfinished.files == 0
    _assert_whole(root, expected)


_DECISIVE = ("cleanup.after_reclaimed", "cleanup.after_commits", "cleanup.between_files@3")


@pytest.mark.s3
@pytest.mark.parametrize(
    "point", [point if point in _DECISIVE else pytest.param(point, marks=pytest.mark.torture) for point in _POINTS]
)
def test_a_killed_cleanup_on_s3_is_finished_by_the_next(s3_root: str, point: str) -> None:
    expected = _graph(s3_root)
    _kill(s3_root, point)
    _assert_whole(s3_root, expected)
    with og.open(s3_root) as graph:
        assert graph.cleanup(keep=1, confirm=True, grace=0).ok
    _assert_whole(s3_root, expected)
