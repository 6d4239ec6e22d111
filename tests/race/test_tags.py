"""Tags made and deleted by several processes at once, beside branches that are deleted and states that go."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import HistoricalVersionReclaimed
from tests.race.test_branch_control import said, target_at
from tests.support.crash_graph import BRANCH, MAIN
from tests.support.kill_runner import Rendezvous, Target, spawn


def test_of_two_processes_that_make_the_same_tag_on_a_disk_the_second_is_refused(tmp_path: Path) -> None:
    target = target_at(str(tmp_path / "graph"), tmp_path, with_branch=True)
    meeting = Rendezvous(tmp_path / "meeting")
    with spawn(target, "tag=t", failpoints=f"tag_create.after_entry={meeting.action}") as first:
        meeting.wait(first)
        with spawn(target, "tag=t") as second:
            meeting.release()
            assert [said(first), said(second)] == ["tag=t done", "tag=t TagExists"]
    with og.open(target.uri) as graph:
        assert list(graph.tags) == ["t"]


@pytest.mark.s3
def test_a_maker_that_is_overtaken_on_s3_is_refused_and_the_other_tag_stays(s3_root: str, tmp_path: Path) -> None:
    target = Target(target_at(s3_root, tmp_path, with_branch=False).uri, MAIN, tmp_path / "ledger.jsonl")
    meeting = Rendezvous(tmp_path / "meeting")
    with spawn(target, "tag=t", failpoints=f"tag_create.after_entry={meeting.action}") as first:
        meeting.wait(first)
        with og.open(target.uri) as graph:
            made = graph.tags.create("t", message="mine")
            meeting.release()
            assert said(first) == "tag=t TagExists"
            assert graph.tags.get("t") == made


@pytest.mark.s3
def test_a_delete_that_takes_effect_late_leaves_the_next_tag_of_the_name_alone(s3_root: str, tmp_path: Path) -> None:
    target = Target(target_at(s3_root, tmp_path, with_branch=False).uri, MAIN, tmp_path / "ledger.jsonl")
    meeting = Rendezvous(tmp_path / "meeting")
    with og.open(target.uri) as graph:
        graph.tags.create("t")
        with spawn(target, "untag=t", failpoints=f"tag_delete.before_entry={meeting.action}") as late:
            meeting.wait(late)
            graph.tags.delete("t")
            made = graph.tags.create("t")
            meeting.release()
            assert said(late) == "untag=t TagNotFound"
        assert graph.tags.get("t") == made
        assert graph.verify().problems == ()


@pytest.mark.s3
def test_of_a_tag_and_the_delete_of_its_branch_one_sees_the_other(s3_root: str, tmp_path: Path) -> None:
    target = target_at(s3_root, tmp_path, with_branch=True)
    meeting = Rendezvous(tmp_path / "meeting")
    with og.open(target.uri) as graph:
        with spawn(target, "tag=t", failpoints=f"tag_create.after_entry={meeting.action}") as maker:
            meeting.wait(maker)
            with pytest.raises(og.errors.BranchInUse, match="has tag 't'"):
                graph.branches.delete(BRANCH)
            meeting.release()
            assert said(maker) == "tag=t done"
        graph.branches.delete(BRANCH, force=True)
        assert (graph.branches.list(), graph.tags.list()) == (["main"], [])


@pytest.mark.s3
def test_a_tag_whose_state_is_given_up_between_its_two_steps_is_not_made(s3_root: str, tmp_path: Path) -> None:
    target = Target(target_at(s3_root, tmp_path, with_branch=False).uri, MAIN, tmp_path / "ledger.jsonl")
    meeting = Rendezvous(tmp_path / "meeting")
    with og.open(target.uri) as graph:
        with spawn(target, "tag=t", failpoints=f"tag_create.after_entry={meeting.action}") as maker:
            meeting.wait(maker)
            said_to_go = b'{"lineages": {"main": {"identity": "main", "below": 1000, "keep": []}}}'
            graph.internals.store.objects.write("__upkeep/reclaimed.json", said_to_go)
            meeting.release()
            assert said(maker) == f"tag=t {HistoricalVersionReclaimed.__name__}"
        assert graph.tags.list() == []
        assert graph.verify().problems == ()
