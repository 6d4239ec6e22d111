"""Writers and makers of branches that are held in the middle while a cleanup runs, and go on afterwards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import HistoricalVersionReclaimed
from omnigraph.storage.metadata import reclaimed
from omnigraph.write.change import Change
from tests.support.children import running
from tests.support.holding_proxy import Hold, HoldingProxy
from tests.support.kill_runner import CHILD_SECONDS
from tests.support.light_python import run_module
from tests.support.s3_server import S3Server
from tests.support.small_graphs import ids_of, people, persons
from tests.support.waiting import wait_until

_NOW: dict[str, Any] = {"keep": 1, "confirm": True, "grace": 0}

#: A lease that is soon free for others.
_SHORT = {"OMNIGRAPH_LEASE_SECONDS": "0.5"}


def _grown(root: Any) -> og.Graph:
    graph = people(root, "a")
    for number in range(4):
        graph.write([persons(f"p{number}")])
    return graph


def _note(text: str) -> Change:
    return Change("node:Note", pa.table({"text": [text]}))


@pytest.mark.s3
def test_a_publish_that_lands_where_a_cleanup_removed_a_version_is_tried_again(s3: S3Server, s3_root: str) -> None:
    """A merge that only shows main's version of a table: nobody else can finish it from its record."""
    graph = people(s3_root, "a")
    graph.branches.create("dev")
    graph.write([persons("b")])
    slot = graph.snapshot("dev").version + 1
    proxy = HoldingProxy(s3.endpoint)
    command = run_module("tests.support.cleanup_child", "merge", s3_root, "main", "dev")
    hold = Hold(methods=frozenset({"PUT"}), part=rf"__manifest/tree/dev/_versions/{2**64 - 1 - slot:020d}")
    with (
        proxy.serve() as address,
        proxy.holding(hold),
        running(command, {**_SHORT, "AWS_ENDPOINT_URL": address}) as child,
    ):
        wait_until(lambda: proxy.holds, timeout=CHILD_SECONDS, what="the publish")
        for number in range(3):
            graph.write([_note(f"n{number}")], branch="dev")
        graph.cleanup(**_NOW)
        assert reclaimed.is_reclaimed(graph._store.objects, "dev", slot)
        proxy.release()
        said, failed = child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == 0, failed
    with og.open(s3_root) as again:
        assert ids_of(again, "Person", "dev") == {"a", "b"} and len(ids_of(again, "Note", "dev")) == 3
        assert [commit.id for commit in again.commits.list("dev")].count(said.strip()) == 1
        assert again.commits.get(said.strip()).version > slot
        with pytest.raises(HistoricalVersionReclaimed):
            again.snapshot("dev", at=slot)
        assert again.verify(deep=True).ok
        again.write([_note("last")], branch="dev")
        assert again.cleanup(**_NOW).ok
        assert len(ids_of(again, "Note", "dev")) == 4 and again.verify(deep=True).ok


@pytest.mark.s3
@pytest.mark.parametrize("verb", ["write", "merge"])
def test_a_publish_that_begins_when_the_versions_behind_its_head_are_cleaned_up_changes_nothing(
    s3_root: str, tmp_path: Path, verb: str
) -> None:
    """All that replaced its head is gone, so only the newest version can refuse it."""
    graph = _grown(s3_root)
    graph.branches.create("dev")
    graph.write([persons("of-dev")], branch="dev")
    pause = tmp_path / "pause"
    given = ("held",) if verb == "write" else ("dev", "main")
    command = run_module("tests.support.cleanup_child", verb, s3_root, *given)
    with running(command, {**_SHORT, "OMNIGRAPH_FAILPOINTS": f"publish.before_commit=pause:{pause}"}) as child:
        wait_until(Path(f"{pause}.reached").exists, timeout=CHILD_SECONDS, what="the publish")
        for number in range(3):
            graph.write([persons(f"meanwhile{number}")])
        assert graph.cleanup(**_NOW).states_removed > 3
        Path(f"{pause}.release").touch()
        said, failed = child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == 0, failed
    with og.open(s3_root) as again:
        assert again.verify(deep=True).ok
        assert [commit.id for commit in again.commits.list()].count(said.strip()) == 1
        wanted = {"a", "p0", "p1", "p2", "p3", "meanwhile0", "meanwhile1", "meanwhile2"}
        assert ids_of(again, "Person") == wanted | {"held" if verb == "write" else "of-dev"}


@pytest.mark.s3
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("point", ["branch_create.before_ref", "branch_create.after_ref"])
def test_a_branch_that_is_made_beside_a_cleanup_is_whole_or_not_there(
    s3_root: str, tmp_path: Path, point: str, old: bool
) -> None:
    graph = _grown(s3_root)
    at = graph.commits.list()[2].id if old else ""
    command = run_module("tests.support.cleanup_child", "branch", s3_root, "new", at)
    pause = tmp_path / "pause"
    with running(command, {**_SHORT, "OMNIGRAPH_FAILPOINTS": f"{point}=pause:{pause}"}) as child:
        wait_until(Path(f"{pause}.reached").exists, timeout=CHILD_SECONDS, what="the branch")
        graph.write([persons("x")])
        graph.cleanup(**_NOW)
        Path(f"{pause}.release").touch()
        said, failed = child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == 0, failed
    with og.open(s3_root) as again:
        if old:
            assert said.strip() == "HistoricalVersionReclaimed" and again.branches.list() == ["main"]
        else:
            assert set(said.strip().split(",")) == ids_of(again, "Person", "new") == ids_of(again, "Person")
        assert again.verify(deep=True).ok
        again.branches.create("other")
        assert again.cleanup(**_NOW).ok and again.verify(deep=True).ok


@pytest.mark.parametrize("point", ["after_reclaimed", "after_commits", "before_removal"])
def test_a_branch_of_an_old_commit_waits_for_a_cleanup_on_a_disk_and_learns_what_it_did(
    tmp_path: Path, point: str
) -> None:
    graph = _grown(tmp_path / "g")
    old = graph.commits.list()[2].id
    pause = tmp_path / "pause"
    cleaning = run_module("tests.support.cleanup_child", "cleanup", graph.uri)
    making = run_module("tests.support.cleanup_child", "branch", graph.uri, "new", old)
    with running(cleaning, {"OMNIGRAPH_FAILPOINTS": f"cleanup.{point}=pause:{pause}"}) as first:
        wait_until(Path(f"{pause}.reached").exists, timeout=CHILD_SECONDS, what="the cleanup")
        with running(making, dict(os.environ)) as second:
            Path(f"{pause}.release").touch()
            said, failed = second.communicate(timeout=CHILD_SECONDS)
        first.communicate(timeout=CHILD_SECONDS)
    assert (first.returncode, second.returncode) == (0, 0), failed
    assert said.strip() == "HistoricalVersionReclaimed"
    with og.open(graph.uri) as again:
        assert again.branches.list() == ["main"] and again.verify(deep=True).ok


@pytest.mark.parametrize("point", ["write.after_stage", "write.after_gate_checks"])
def test_a_write_that_is_held_beside_a_cleanup_on_a_disk_is_not_lost(tmp_path: Path, point: str) -> None:
    graph = _grown(tmp_path / "g")
    pause = tmp_path / "pause"
    command = run_module("tests.support.cleanup_child", "write", graph.uri, "held")
    with running(command, {"OMNIGRAPH_FAILPOINTS": f"{point}=pause:{pause}"}) as child:
        wait_until(Path(f"{pause}.reached").exists, timeout=CHILD_SECONDS, what="the write")
        if point == "write.after_stage":
            graph.write([persons("x")])
            graph.cleanup(**_NOW)
        Path(f"{pause}.release").touch()
        said, failed = child.communicate(timeout=CHILD_SECONDS)
        graph.cleanup(**_NOW)
    assert child.returncode == 0 and said.strip(), failed
    assert "held" in ids_of(graph, "Person") and graph.verify(deep=True).ok
