"""Tags whose maker, remover or branch dies half-way: the tag is there or not, and its name can be used again."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import TagNotFound
from omnigraph.storage.metadata.tag_entries import read_tag
from tests.support.crash_graph import ACTOR, BRANCH, MAIN, SCHEMA, perform
from tests.support.kill_runner import Target, kill_child
from tests.support.ledger import Ledger

POINTS = [
    ("tag", "tag_create.after_entry", False),
    ("tag", "tag_create.after_live", True),
    ("untag", "tag_delete.before_entry", True),
    ("untag", "tag_delete.after_entry", False),
]


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    """A graph with a row on main."""
    uri = str(tmp_path / "g") if request.param == "disk" else request.getfixturevalue("s3_root")
    with og.init(uri, SCHEMA, actor=ACTOR) as graph:
        perform(graph, "seed", MAIN, Ledger(tmp_path / "ledger.jsonl"), "seed")
    return Target(uri, MAIN, tmp_path / "ledger.jsonl")


def test_a_killed_maker_or_remover_leaves_a_tag_or_none_and_the_name_usable(target: Target) -> None:
    for verb, point, is_there in POINTS:
        name = point.replace(".", "-").replace("_", "-")
        if verb == "untag":
            with og.open(target.uri) as graph:
                graph.tags.create(name)
        kill_child(target, f"{verb}={name}", point)
        with og.open(target.uri, actor=ACTOR) as graph:
            assert (name in list(graph.tags)) is is_there, point
            assert graph.verify().ok
            if is_there:
                assert graph.snapshot(at=f"tag:{name}").version == graph.snapshot().version
                graph.tags.delete(name)
            with pytest.raises(TagNotFound):
                graph.tags.get(name)
            graph.tags.create(name)
            assert graph.tags.get(name).commit_id == graph.commits.head().id
            assert graph.verify().problems == ()


def test_a_tag_that_was_begun_by_a_dead_process_is_reported_and_can_be_deleted(target: Target) -> None:
    kill_child(target, "tag=half", "tag_create.after_entry")
    with og.open(target.uri) as graph:
        [problem] = graph.verify().problems
        assert (problem.check, problem.harmless) == ("tags", True)
        assert problem.message == "tag 'half' was begun and not finished: make or delete it"
        graph.tags.delete("half")
        found = read_tag(graph.internals.store.objects, "half")
        assert found is None or found[0].state == "deleted"
        assert graph.verify().problems == ()


def test_a_branch_that_died_while_it_was_deleted_with_its_tags_comes_back_without_them(target: Target) -> None:
    with og.open(target.uri) as graph:
        graph.branches.create(BRANCH)
        graph.tags.create("kept", branch=BRANCH)
    branch = Target(target.uri, BRANCH, target.ledger)
    kill_child(branch, "force_delete", "branch_delete.before_table_cleanup")
    with og.open(target.uri) as graph:
        assert (graph.branches.list(), list(graph.tags)) == (["main"], [])
        graph.branches.create(BRANCH)
        graph.branches.delete(BRANCH)
        assert graph.verify().ok
