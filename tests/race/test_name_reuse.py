"""A branch name that is used again shows nothing of the branch that had it before, to nobody, by no road."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound, CommitNotFound, ConflictError
from omnigraph.storage.graph_store import BranchRef
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.storage.recovery import sweep
from omnigraph.write.change import Change, Mode
from tests.support.crash_checks import assert_mirrored, assert_pins_are_heads, records
from tests.support.kill_runner import Rendezvous
from tests.support.small_graphs import people, persons, rows_of, run_child, start_child

NAME = "review/a"


def ages(graph: og.Graph, branch: str = NAME, at: Any = None) -> dict[str, int]:
    return {id_: row["age"] for id_, row in rows_of(graph, "Person", branch, at).items()}


def put(graph: og.Graph, age: int, handle: str = "ana", branch: str = NAME, **options: Any) -> Commit:
    commit = graph.write([persons(handle, mode=Mode.MERGE, age=[age])], branch=branch, **options).commit
    assert commit is not None
    return commit


def reuse(graph: og.Graph, age: int) -> None:
    """Delete the branch and make it again with as many commits, so that every version number repeats."""
    graph.branches.delete(NAME)
    graph.branches.create(NAME)
    put(graph, age)
    put(graph, age + 1)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Main with one person; the branch with two commits of its own."""
    made = people(tmp_path / "graph", "ana")
    made.branches.create(NAME)
    put(made, 10)
    put(made, 11)
    return made


def test_a_warm_handle_sees_the_new_branch_by_every_road(graph: og.Graph) -> None:
    warm = og.open(graph.uri, mode="ro")
    old = warm.snapshot(NAME)
    old_head = warm.commits.head(NAME)
    assert ages(warm) == {"ana": 11} and ages(warm, at=old.version - 1) == {"ana": 10}
    reuse(graph, 20)
    assert ages(warm) == {"ana": 21} == ages(warm, at=old.version)
    assert ages(warm, at=old.version - 1) == {"ana": 20}
    assert ages(warm, at=warm.commits.list(NAME)[1].id) == {"ana": 20}
    with pytest.raises(CommitNotFound):
        warm.snapshot(NAME, at=old_head.id)
    assert _old_rows_or_none(old) in ([11], None)


def _old_rows_or_none(old: og.Snapshot) -> list[int] | None:
    """A snapshot of a branch that is gone may still know its rows; if not, it says so in our words."""
    try:
        return [row["age"] for row in old.arrow("Person").to_pylist()]
    except og.OmniGraphError:
        return None


_WARM_READER = """
import json, sys, omnigraph as og
from omnigraph import failpoints
from pathlib import Path
graph = og.open(sys.argv[1], mode="ro")
def look():
    newest = graph.snapshot("review/a")
    states = [newest, graph.snapshot("review/a", at=newest.version), graph.snapshot("review/a", at=newest.version - 1)]
    return [[row["age"] for row in state.arrow("Person").to_pylist()] for state in states]
before = look()
failpoints._pause(Path(sys.argv[2]))
print(json.dumps([before, look()]))
"""


def test_another_process_with_a_warm_handle_sees_the_new_branch(graph: og.Graph, tmp_path: Path) -> None:
    meeting = Rendezvous(tmp_path / "meeting")
    with start_child(_WARM_READER, graph.uri, str(meeting.path)) as reader:
        meeting.wait(reader)
        reuse(graph, 20)
        meeting.release()
        answer, complaint = reader.communicate(timeout=60)
    assert reader.returncode == 0, complaint
    assert json.loads(answer) == [[[11], [11], [10]], [[21], [21], [20]]]


def test_a_change_computed_from_the_old_branch_is_refused_although_every_number_repeats(graph: og.Graph) -> None:
    other = og.open(graph.uri)
    base = other.snapshot(NAME)
    reuse(graph, 20)
    assert graph.snapshot(NAME).version == base.version
    assert graph.snapshot(NAME).tables["node:Person"].version == base.tables["node:Person"].version
    change = Change("node:Person", pa.table({"handle": ["ana"], "age": [12]}), Mode.MERGE, reads_rows=True)
    with pytest.raises(ConflictError):
        other.write([change], branch=NAME, base=base)
    assert ages(graph) == {"ana": 21}


def test_a_base_on_another_branch_never_moves_the_tables_of_that_branch(tmp_path: Path) -> None:
    graph = people(tmp_path / "graph", "ana")
    graph.branches.create(NAME)
    put(graph, 2, base=graph.snapshot("main"))
    put(graph, 3, "bo", branch="main")
    assert ages(graph) == {"ana": 2} and ages(graph, "main") == {"ana": None, "bo": 3}
    for branch in ("main", NAME):
        assert_pins_are_heads(graph, branch)


def test_a_branch_of_a_reused_name_starts_from_the_new_rows(graph: og.Graph) -> None:
    warm = og.open(graph.uri)
    warm.branches.create("child", NAME)
    put(warm, 5, "bo", branch="child")
    warm.branches.delete("child")
    reuse(graph, 20)
    warm.branches.create("child", NAME)
    put(warm, 6, "cy", branch="child")
    assert ages(warm, "child") == {"ana": 21, "cy": 6} == ages(og.open(graph.uri, mode="ro"), "child")


def test_the_mirror_of_a_reused_name_holds_the_commits_of_the_new_branch_only(graph: og.Graph) -> None:
    graph._store.mirror.flush()
    reuse(graph, 20)
    graph.close()
    with og.open(graph.uri, mode="ro") as reader:
        assert_mirrored(reader, NAME)


_FORK_AND_DIE = """
import sys, pyarrow as pa, omnigraph as og
from omnigraph.write.change import Change
og.open(sys.argv[1]).write([Change("node:Person", pa.table({"handle": ["dead"]}))], branch="child")
"""


def test_the_fork_of_a_dead_write_does_not_stop_its_parent_from_being_used_again(graph: og.Graph) -> None:
    graph.branches.create("child", NAME)
    died = run_child(_FORK_AND_DIE, graph.uri, env={"OMNIGRAPH_FAILPOINTS": "write.after_stage=kill"})
    assert died.returncode == -9, died.stderr
    graph.branches.delete("child")
    reuse(graph, 20)
    graph.branches.create("child", NAME)
    put(graph, 7, "bo", branch="child")
    assert ages(graph) == {"ana": 21} and ages(graph, "child") == {"ana": 21, "bo": 7}


def test_a_fork_that_a_killed_delete_left_is_not_taken_for_that_of_a_new_branch(graph: og.Graph) -> None:
    """It begins at the same number of a branch of the same name, and holds other rows."""
    graph.branches.create("child", NAME)
    died = run_child(_FORK_AND_DIE, graph.uri, env={"OMNIGRAPH_FAILPOINTS": "write.after_stage=kill"})
    assert died.returncode == -9, died.stderr
    graph._store.tables.drop_branch("__manifest", "child")
    graph._store.entries.forget("child")  # as if a process had been killed while deleting
    reuse(graph, 20)
    graph.branches.create("child", NAME)
    put(graph, 7, "bo", branch="child")
    assert ages(graph) == {"ana": 21} and ages(graph, "child") == {"ana": 21, "bo": 7}
    assert graph.verify().ok


@pytest.mark.parametrize("store", ["local", pytest.param("s3", marks=pytest.mark.s3)])
def test_files_without_a_ref_do_not_block_the_name(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What a kill inside the fork of a table, or inside its removal, leaves: versions of the branch, but no ref."""
    graph = people(tmp_path / "graph" if store == "local" else request.getfixturevalue("s3_root"), "ana")
    graph.branches.create(NAME)
    put(graph, 10)
    put(graph, 11)
    graph._store.mirror.flush()
    location = graph.snapshot(NAME).tables["node:Person"].location
    graph._store.tables.drop_branch("__manifest", NAME)
    for path in (location, "_graph_commits.lance"):
        graph._store.objects.delete(f"{path}/_refs/branches/review%2Fa.json")
        assert graph._store.objects.any_below(f"{path}/tree/{NAME}"), "nothing was left behind to test with"
    again = og.open(graph.uri)
    again.branches.create(NAME)
    put(again, 20)
    assert ages(again) == {"ana": 20}
    again.close()
    with og.open(graph.uri, mode="ro") as reader:
        assert_mirrored(reader, NAME)


_DIE_AFTER_SIDECAR = """
import sys, pyarrow as pa, omnigraph as og
from omnigraph.write.change import Change
og.open(sys.argv[1]).write([Change("node:Person", pa.table({"handle": [sys.argv[2]]}))], branch="review/a")
"""


def test_a_sweep_never_drops_the_record_of_a_live_writer_on_a_branch_made_meanwhile(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = run_child(_DIE_AFTER_SIDECAR, graph.uri, "dead", env={"OMNIGRAPH_FAILPOINTS": "write.after_sidecar=kill"})
    assert died.returncode == -9, died.stderr
    graph._store.tables.drop_branch("__manifest", NAME)
    graph._store.entries.forget(NAME)  # as if another process had been killed while deleting
    meeting = Rendezvous(tmp_path / "meeting")
    sweeper = og.open(graph.uri, mode="ro")._store
    writers: list[subprocess.Popen[str]] = []

    def look_too_early(name: str) -> BranchRef:
        if not writers:
            og.open(graph.uri).branches.create(NAME)
            action = {"OMNIGRAPH_FAILPOINTS": f"write.after_all_table_commits={meeting.action}"}
            writers.append(start_child(_DIE_AFTER_SIDECAR, graph.uri, "live", env=action))
            meeting.wait(writers[0])
            monkeypatch.setenv("OMNIGRAPH_LOCK_TIMEOUT", "0.2")
            raise BranchNotFound("not yet")
        return type(sweeper).branch_ref(sweeper, name)

    monkeypatch.setattr(sweeper, "branch_ref", look_too_early)
    assert sweep._sweep_branch(sweeper, NAME) == 0
    left = records(graph.uri)
    with writers[0] as writer:
        writer.kill()
    assert len(left) == 1, "the record of a live writer is gone"
    monkeypatch.undo()
    assert "live" in rows_of(og.open(graph.uri), "Person", NAME)
    assert records(graph.uri) == {}
