"""Branches made and deleted by several processes at once, also while others write to them."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

import omnigraph as og
from tests.support import race_graph
from tests.support.crash_checks import assert_mirrored, assert_pins_are_heads, records
from tests.support.crash_graph import BRANCH, SCHEMA, marks
from tests.support.kill_runner import Rendezvous, Target, spawn
from tests.support.light_python import run_module
from tests.support.source_tree import ROOT

CHILD_SECONDS = 60.0


def target_at(root: str, folder: Path, *, with_branch: bool) -> Target:
    with og.init(root, SCHEMA) as graph:
        if with_branch:
            graph.branches.create(BRANCH)
    return Target(root, BRANCH, folder / "ledger.jsonl")


def said(child: subprocess.Popen[str]) -> str:
    output, complaint = child.communicate(timeout=CHILD_SECONDS)
    assert child.returncode == 0, complaint[-2000:]
    return output.strip()


def assert_quiet(uri: str, branches: list[str]) -> None:
    """Nothing is left behind: these branches, no record, every table at its pin."""
    with og.open(uri) as graph:
        assert graph.branches.list() == branches
        assert records(uri) == {}
        for branch in branches:
            assert_pins_are_heads(graph, branch)


def test_of_two_processes_that_make_the_same_branch_one_is_refused(tmp_path: Path) -> None:
    target = target_at(str(tmp_path / "graph"), tmp_path, with_branch=False)
    meeting = Rendezvous(tmp_path / "meeting")
    with spawn(target, "create", failpoints=f"branch_create.before_ref={meeting.action}") as first:
        meeting.wait(first)
        with spawn(target, "create") as second:
            meeting.release()
            assert [said(first), said(second)] == ["create done", "create BranchExists"]
    assert_quiet(target.uri, ["main", BRANCH])


def test_a_delete_waits_for_the_create_that_runs(tmp_path: Path) -> None:
    target = target_at(str(tmp_path / "graph"), tmp_path, with_branch=False)
    meeting = Rendezvous(tmp_path / "meeting")
    with spawn(target, "create", failpoints=f"branch_create.after_ref={meeting.action}") as maker:
        meeting.wait(maker)
        with spawn(target, "delete") as remover:
            meeting.release()
            assert [said(maker), said(remover)] == ["create done", "delete done"]
    assert_quiet(target.uri, ["main"])


def test_a_branch_is_not_deleted_under_a_writer_in_its_section(tmp_path: Path) -> None:
    target = target_at(str(tmp_path / "graph"), tmp_path, with_branch=True)
    meeting = Rendezvous(tmp_path / "meeting")
    with spawn(target, "insert_one=a", failpoints=f"write.after_sidecar={meeting.action}") as writer:
        meeting.wait(writer)
        with spawn(target, "delete", env={"OMNIGRAPH_LOCK_TIMEOUT": "0.2"}) as remover:
            assert said(remover) == "delete LockTimeout"
        meeting.release()
        assert said(writer) == "insert_one=a done"
    with og.open(target.uri) as graph:
        assert len(marks(graph, BRANCH)["node:Person"]) == 2
        graph.branches.delete(BRANCH)
    assert_quiet(target.uri, ["main"])


def test_a_writer_whose_branch_went_away_is_told_so(tmp_path: Path) -> None:
    target = target_at(str(tmp_path / "graph"), tmp_path, with_branch=True)
    meeting = Rendezvous(tmp_path / "meeting")
    with spawn(target, "insert_many=a", failpoints=f"write.after_stage={meeting.action}") as writer:
        meeting.wait(writer)
        with og.open(target.uri) as graph:
            graph.branches.delete(BRANCH)
        meeting.release()
        assert said(writer) == "insert_many=a BranchNotFound"
    assert_quiet(target.uri, ["main"])


@pytest.mark.parametrize("written_anew", [False, True], ids=["untouched", "written anew"])
def test_a_writer_does_not_commit_files_that_went_away_with_the_branch_it_staged_them_for(
    written_anew: bool, tmp_path: Path
) -> None:
    target = target_at(str(tmp_path / "graph"), tmp_path, with_branch=True)
    meeting = Rendezvous(tmp_path / "meeting")
    with spawn(target, "insert_one=late", failpoints=f"write.after_stage={meeting.action}") as writer:
        meeting.wait(writer)
        with spawn(target, "insert_one=old", "delete", "create") as remaker:
            assert said(remaker).splitlines() == ["insert_one=old done", "delete done", "create done"]
        if written_anew:
            with spawn(target, "insert_one=new") as other:
                assert said(other) == "insert_one=new done"
        meeting.release()
        assert said(writer) == "insert_one=late done"
    with og.open(target.uri) as graph:
        operations = {mark.split("-")[1] for mark in marks(graph, BRANCH)["node:Person"]}
        assert operations == ({"late", "new"} if written_anew else {"late"})
    with og.open(target.uri, mode="ro") as reader:
        assert_mirrored(reader, BRANCH)
    assert_quiet(target.uri, ["main", BRANCH])


#: Also a version that the branch of this name does not have yet, now that it is another one.
_OF_A_BRANCH_THAT_IS_GONE = {"BranchNotFound", "StoreUnavailable", "HistoricalVersionReclaimed", "CommitNotFound"}


def storm(uri: str, folder: Path, generations: int, writers: int, env: dict[str, str] | None = None) -> None:
    """A branch that comes and goes under writers and a reader; none of them may fail in a way that is not ours."""
    race_graph.init(uri)
    roles = [("maker", str(generations)), ("reader", "0"), *(("writer", str(number)) for number in range(writers))]
    with ExitStack() as stack:
        children = []
        for role, number in roles:
            child = subprocess.Popen(
                run_module("tests.support.branch_storm", role, uri, str(folder), number),
                cwd=ROOT,
                env={**os.environ, **(env or {})},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(child)
            stack.callback(child.kill)
            children.append(child)
        for (role, _), child in zip(roles, children, strict=True):
            errors, complaint = child.communicate(timeout=900)
            assert child.returncode == 0, f"the {role} failed: {complaint[-3000:]}"
            surprising = set(errors.split()) - _OF_A_BRANCH_THAT_IS_GONE
            assert not surprising, f"the {role} met {surprising}"
    assert_quiet(uri, ["main"])


def test_a_branch_may_come_and_go_while_others_write_and_read_it(tmp_path: Path) -> None:
    storm(str(tmp_path / "graph"), tmp_path, generations=5, writers=2)


@pytest.mark.torture
@pytest.mark.parametrize("turn", range(5))
def test_a_branch_may_come_and_go_many_times(turn: int, tmp_path: Path) -> None:
    storm(str(tmp_path / "graph"), tmp_path, generations=100, writers=4)


@pytest.mark.torture
@pytest.mark.s3
def test_a_branch_may_come_and_go_on_an_object_store(s3_root: str, tmp_path: Path) -> None:
    storm(s3_root, tmp_path, generations=6, writers=2)
