"""What a merge leaves in the history: two parents, the source's commits, and the same answer the second time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import BranchNotFound, InputError, InvalidName, ReadOnly, ResourceLimitExceeded
from omnigraph.history.branches import delete_branch
from omnigraph.write.change import Mode
from tests.merge.branches import apart, edges, fingerprint, gone, people, state
from tests.support.small_graphs import listing


def test_the_commits_of_a_deleted_branch_stay_in_the_history_of_its_target(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main")
    graph = branches.graph
    made = [graph.write([people(f"p{number}")], branch="a").commit for number in range(3)]
    merged = branches.merge(delete_branch=True)
    assert (merged.branch_deleted, merged.branch_delete_error) == (True, None)
    again = og.open(tmp_path / "g")
    assert merged.commit is not None
    assert again.commits.get(merged.commit.id).merged_parent == made[-1].id  # type: ignore[union-attr]
    assert [again.commits.get(commit.id) for commit in made if commit] == made
    assert [commit.id for commit in again.commits.list()].count(merged.commit.id) == 1
    assert not {commit.id for commit in made if commit} & {commit.id for commit in again.commits.list()}


def test_a_branch_made_from_the_target_later_knows_what_was_merged(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "between siblings")
    graph = branches.graph
    graph.write([people("ann")], branch="a")
    branches.merge()
    graph.branches.create("c", "b")
    assert graph.branches.merge("a", "c").outcome == "already_up_to_date"


def test_a_sibling_merge_does_not_bring_back_a_deleted_edge(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "between siblings", edges("e1", "e2"))
    graph = branches.graph
    graph.write([gone("edge:Knows", "e1")], branch="a")
    graph.branches.merge("a", "main")
    graph.write([people("ben")], branch="b")
    graph.branches.merge("b", "main")
    graph.branches.merge("main", "b")
    graph.branches.merge("b", "a")
    for branch in ("main", "a", "b"):
        assert set(state(graph, branch)["edge:Knows"]) == {"e2"}, branch


def test_a_child_branch_stays_readable_when_its_parent_was_merged_into(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main", people("ann"))
    graph = branches.graph
    graph.branches.create("child", "a")
    graph.write([people("ben")], branch="main")
    graph.branches.merge("main", "a")
    assert set(state(graph, "child")["node:Person"]) == {"hub", "rim", "ann"}
    graph.write([people("cid")], branch="child")
    graph.branches.merge("child", "main")
    assert set(state(graph, "main")["node:Person"]) == {"hub", "rim", "ann", "ben", "cid"}


def test_a_branch_that_was_loaded_anew_with_the_same_rows_can_be_merged(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main", people("ann", "ben"), edges("e1"))
    graph = branches.graph
    graph.export(tmp_path / "whole.jsonl", branch="a")
    graph.load(tmp_path / "whole.jsonl", "overwrite", branch="a")
    graph.write([people("cid")], branch="main")
    result = branches.merge()
    assert (result.outcome, dict(result.tables)) == ("merged", {})
    assert set(state(graph, "main")["node:Person"]) == {"hub", "rim", "ann", "ben", "cid"}


def test_what_is_written_to_the_source_after_the_capture_waits_for_the_next_merge(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main")
    graph = branches.graph
    first = graph.write([people("ann")], branch="a").commit
    result = branches.merge()
    graph.write([people("ben")], branch="a")
    assert first is not None and result.source_commit == first.id
    assert "ben" not in state(graph, "main")["node:Person"]
    assert branches.merge().tables["node:Person"].inserted == 1


def test_a_branch_name_that_was_used_before_is_another_branch(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main", people("ann", age=pa.array([1], pa.int32())))
    graph = branches.graph
    graph.write([people("ann", age=pa.array([2], pa.int32()))], branch="a")
    branches.merge(delete_branch=True)
    graph.branches.create("a")
    graph.write([people("ann", age=pa.array([3], pa.int32()))], branch="a")
    graph.write([people("ben")], branch="main")
    assert branches.merge().outcome == "merged"
    assert state(graph, "main")["node:Person"]["ann"]["age"] == 3


def test_unchanged_rows_keep_their_versions(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main", people(*(f"p{number}" for number in range(50))))
    graph = branches.graph
    columns = ["id", "_row_last_updated_at_version", "_row_created_at_version"]

    def versions() -> dict[str, tuple[int, int]]:
        rows = graph.snapshot().arrow("Person", columns).to_pylist()
        return {row["id"]: (row[columns[1]], row[columns[2]]) for row in rows}

    before = versions()
    graph.write([people("p7", age=pa.array([7], pa.int32()))], branch="a")
    graph.write([people("q")], branch="main")
    branches.merge()
    after = versions()
    assert {id_ for id_ in before if after[id_] != before[id_]} == {"p7"}


@pytest.mark.parametrize("name", ["main", "__schema_apply_lock__", "no-such-branch", "a b"])
def test_a_merge_of_or_into_what_is_no_branch_is_refused(tmp_path: Path, name: str) -> None:
    branches = apart(tmp_path / "g", "plain", "into main")
    for source, target in ((name, "main"), ("main", name)):
        with pytest.raises((InputError, InvalidName, BranchNotFound)):
            branches.graph.branches.merge(source, target)


def test_a_read_only_handle_previews_and_does_not_merge(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main")
    branches.graph.write([people("ann")], branch="a")
    branches.graph.close()
    reader = og.open(tmp_path / "g", mode="ro")
    before = listing(tmp_path / "g")
    assert reader.branches.merge("a", dry_run=True).tables["node:Person"].inserted == 1
    assert listing(tmp_path / "g") == before, "a preview wrote something"
    with pytest.raises(ReadOnly):
        reader.branches.merge("a")


def test_a_delete_that_fails_does_not_fail_the_merge(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main")
    branches.graph.write([people("ann")], branch="a")
    branches.graph.branches.create("child", "a")
    result = branches.merge(delete_branch=True)
    assert result.outcome == "fast_forward" and result.commit is not None
    assert result.branch_deleted is False
    assert result.branch_delete_error is not None and "child" in result.branch_delete_error
    assert "ann" in state(branches.graph, "main")["node:Person"]


def test_the_json_form_of_a_result_has_names_and_counts(tmp_path: Path) -> None:
    branches = apart(tmp_path / "g", "plain", "into main")
    branches.graph.write([people("ann", mode=Mode.APPEND)], branch="a")
    shown = branches.merge().to_dict()
    assert shown["outcome"] == "fast_forward"
    assert shown["tables"] == {"node:Person": {"inserted": 1, "updated": 0, "deleted": 0}}
    assert shown["commit"]["merged_parent_commit_id"] == shown["source_commit_id"]


def test_a_delete_on_the_target_is_not_undone_by_a_branch_that_shares_the_insert(tmp_path: Path) -> None:
    """The shared insert came to main over a long branch, so that a way round it is shorter."""
    branches = apart(tmp_path / "g", "plain", "into main")
    graph = branches.graph
    graph.write([people("ann")], branch="a")
    graph.branches.create("late", "a")
    for number in range(5):
        graph.write([people(f"p{number}")], branch="a")
    graph.write([people("z")], branch="main")
    branches.merge()
    graph.write([gone("node:Person", "ann")], branch="main")
    graph.write([people("ben")], branch="late")
    graph.branches.merge("late", "main")
    found = set(state(graph, "main")["node:Person"])
    assert "ann" not in found
    assert "ben" in found


def test_a_merge_of_more_rows_than_fit_is_refused_before_anything_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    branches = apart(tmp_path / "g", "plain", "into main")
    branches.graph.write([people(*(f"p{number}" for number in range(200)))], branch="a")
    before = fingerprint(branches.graph, "main")
    monkeypatch.setattr(limits, "MERGE_BYTES", 1_000)
    with pytest.raises(ResourceLimitExceeded, match="one merge"):
        branches.merge(engine="embedded")
    assert fingerprint(branches.graph, "main") == before
    monkeypatch.undo()
    assert branches.merge().tables["node:Person"].inserted == 200


@pytest.mark.parametrize("merged", ["by rows", "already there"])
def test_a_branch_that_somebody_committed_to_since_it_was_read_is_not_deleted_after_its_merge(
    tmp_path: Path, merged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit was acknowledged and is in no other branch."""
    with og.init(tmp_path / "g", "node P { k: String @key  v: I64 }") as graph, og.open(tmp_path / "g") as other:
        graph.mutate('query q() { insert P { k: "a", v: 1 } }')
        graph.branches.create("dev")
        if merged == "by rows":
            graph.mutate('query q() { update P set { v: 2 } where k = "a" }', branch="dev")

        def delete(*arguments: Any, **options: Any) -> None:
            other.mutate('query q() { insert P { k: "late", v: 9 } }', branch="dev")
            delete_branch(*arguments, **options)

        monkeypatch.setattr("omnigraph.history.merge.merge.delete_branch", delete)
        done = graph.branches.merge("dev", delete_branch=True)
        assert not done.branch_deleted and "dev" in str(done.branch_delete_error)
        assert graph.snapshot("dev").count("P") == 2
        monkeypatch.undo()
        assert graph.branches.merge("dev", delete_branch=True).branch_deleted
        assert graph.snapshot().count("P") == 2
