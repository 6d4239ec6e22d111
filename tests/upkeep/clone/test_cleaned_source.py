"""Copies of graphs that are cleaned up: between two runs, after a run that was killed, and under a run that stood still
for so long that nobody waited for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints, limits
from omnigraph.errors import StoreUnavailable
from tests.support.small_graphs import ids_of, people, persons

#: Between which steps of a copy the source is cleaned up.
POINTS = (
    "clone.after_claim",
    "clone.between_files",
    "clone.after_data",
    "clone.before_names",
    "clone.before_main",
    "clone.before_schema",
)


def _grown(root: Any) -> og.Graph:
    """Old states on two branches, one of them tagged, and a branch of its own for each kind of fork."""
    graph = people(root, "a")
    graph.branches.create("dev")
    for number in range(3):
        graph.write([persons(f"m{number}")])
        graph.write([persons(f"d{number}")], branch="dev")
    graph.tags.create("kept", graph.commits.list()[1].id)
    graph.write([persons("last")])
    return graph


def _clean_up(graph: og.Graph) -> None:
    """Move on, and let go of what was the newest before; leases have expired."""
    graph.write([persons("moved")])
    graph.write([persons("moved")], branch="dev")
    if graph.internals.store.location.is_local:
        old = time.time() - limits.hold_seconds() - 60
        for path in Path(graph.uri, "__upkeep").glob("*/*.json"):
            os.utime(path, (old, old))
    else:
        for name in graph.internals.store.objects.names("__upkeep/leases"):
            graph.internals.store.objects.delete(f"__upkeep/leases/{name}")
    assert graph.cleanup(keep=1, confirm=True, grace=0).states_removed > 0


def _assert_like(graph: og.Graph, copy: Any) -> None:
    """The copy shows what the graph shows, and can be cleaned up itself."""
    with og.open(copy) as twin:
        for branch in graph.branches.list():
            assert ids_of(twin, "Person", branch) == ids_of(graph, "Person", branch)
        assert ids_of(twin, "Person", at="tag:kept") == {"a", "m0", "m1"}
        for commit in twin.commits.list():
            if commit.readable:
                twin.snapshot(at=commit.id).arrow("Person")
        assert twin.verify(deep=True).ok
        twin.write([persons("own")])
        assert twin.cleanup(keep=1, confirm=True, grace=0).ok
        assert twin.verify(deep=True).ok


def _once(monkeypatch: pytest.MonkeyPatch, point: str, happens: Callable[[], None]) -> None:
    real, waiting = failpoints.reach, [happens]

    def reach(name: str, kind: str = "") -> None:
        real(name, kind)
        if name == point and waiting:
            waiting.pop()()

    monkeypatch.setattr(failpoints, "reach", reach)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("place", ["disk", pytest.param("s3", marks=pytest.mark.s3)])
def test_a_clone_whose_source_is_cleaned_up_under_it_has_what_the_source_has_then(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, point: str
) -> None:
    root = str(tmp_path / "g") if place == "disk" else request.getfixturevalue("s3_root")
    graph = _grown(root)
    _once(monkeypatch, point, lambda: _clean_up(graph))
    og.clone(root, f"{root}-twin")
    if point in ("clone.after_claim", "clone.before_main"):  # before the cut, and when files of the cut are missing
        _assert_like(graph, f"{root}-twin")
        return
    with og.open(f"{root}-twin") as twin:
        assert {"a", "m0", "m1", "m2", "last"} <= ids_of(twin, "Person") <= ids_of(graph, "Person")
        assert twin.verify(deep=True).ok


@pytest.mark.parametrize("point", POINTS[2:])
@pytest.mark.parametrize("place", ["disk", pytest.param("s3", marks=pytest.mark.s3)])
def test_a_clone_that_was_interrupted_is_continued_when_its_source_was_cleaned_up(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, point: str
) -> None:
    root = str(tmp_path / "g") if place == "disk" else request.getfixturevalue("s3_root")
    graph = _grown(root)
    failpoints.arm(f"{point}=raise")
    try:
        with pytest.raises(StoreUnavailable):
            og.clone(root, f"{root}-twin")
    finally:
        failpoints.arm("")
    _clean_up(graph)
    og.clone(root, f"{root}-twin")
    _assert_like(graph, f"{root}-twin")


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("place", ["disk", pytest.param("s3", marks=pytest.mark.s3)])
def test_a_backup_follows_a_graph_whose_old_states_go(
    request: pytest.FixtureRequest, tmp_path: Path, place: str, prune: bool
) -> None:
    """Also when the state that the backup has is none that the graph has any more."""
    root = str(tmp_path / "g") if place == "disk" else request.getfixturevalue("s3_root")
    safe = f"{root}-safe"
    graph = people(root, "a")
    for number in range(3):
        og.backup(root, safe, prune=prune)
        had = graph.commits.head().id
        for each in range(3):
            graph.write([persons(f"p{number}-{each}")])
        graph.cleanup(keep=1, confirm=True, grace=0)
        assert not graph.commits.get(had).readable
    og.backup(root, safe, prune=prune)
    with og.open(safe, mode="ro") as backup:
        assert ids_of(backup, "Person") == ids_of(graph, "Person")
        assert [commit.id for commit in backup.commits.list()] == [commit.id for commit in graph.commits.list()]
        assert backup.verify(deep=True).ok
    og.clone(safe, f"{root}-back")
    with og.open(f"{root}-back") as back:
        assert ids_of(back, "Person") == ids_of(graph, "Person")
        assert back.cleanup(keep=1, confirm=True, grace=0).ok and back.verify(deep=True).ok
