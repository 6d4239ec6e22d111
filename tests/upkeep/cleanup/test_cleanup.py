"""What a cleanup removes and what it leaves: everything that is needed stays readable, everything else is gone."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints, limits
from omnigraph.errors import (
    ChangeFeedGap,
    CleanupRefused,
    HistoricalVersionReclaimed,
    InputError,
    ReadOnly,
    StorageError,
    UncoveredDrift,
)
from omnigraph.storage.metadata import reclaimed
from omnigraph.write.change import Change
from tests.support.small_graphs import PEOPLE, ids_of, knows, people, persons, without

NOW: dict[str, Any] = {"grace": 0}


def _grown(root: Any, commits: int = 6) -> og.Graph:
    """A graph with some commits, each of which adds a person."""
    graph = people(root, "a")
    for number in range(commits):
        graph.write([persons(f"p{number}")])
    return graph


def _files(graph: og.Graph) -> set[str]:
    graph._store.mirror.flush()
    root = Path(graph.uri)
    found = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return {path for path in found if not path.startswith("__recovery/")}


def _bytes(graph: og.Graph) -> int:
    return graph.stats().stored.bytes


def _table(graph: og.Graph, key: str = "node:Person", branch: str = "main") -> Path:
    return Path(graph.uri) / graph.snapshot(branch).tables[key].location


def _reads(graph: og.Graph, commit: og.Commit) -> bool:
    try:
        graph.snapshot(at=commit.id).arrow("Person")
    except HistoricalVersionReclaimed:
        return False
    return True


def test_a_cleanup_without_a_rule_is_refused(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    with pytest.raises(InputError, match="needs a rule"):
        graph.cleanup()
    with pytest.raises(InputError, match="at least the newest commit"):
        graph.cleanup(keep=0)
    with pytest.raises(InputError, match="no length of time"):
        graph.cleanup(older_than="soon")
    with pytest.raises(InputError, match="out of range"):
        graph.cleanup(older_than=-1)


def test_a_preview_changes_nothing_and_tells_what_the_cleanup_does(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    before, size = _files(graph), _bytes(graph)
    told = graph.cleanup(keep=2, **NOW)
    assert _files(graph) == before and not told.confirmed and told.states_removed > 0
    done = graph.cleanup(keep=2, confirm=True, **NOW)
    assert done.confirmed and done.ok
    assert (done.states_removed, done.files_removed, done.bytes_removed) == (
        told.states_removed,
        told.files_removed,
        told.bytes_removed,
    )
    assert _bytes(graph) < size
    assert len(before - _files(graph)) == told.files_removed
    assert graph.verify(deep=True).ok


def test_keep_1_leaves_a_graph_that_reads_writes_and_verifies(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    expected = ids_of(graph, "Person")
    done = graph.cleanup(keep=1, confirm=True, **NOW)
    assert len(done.warnings) == 1 and done.commits.keys() == {"main"}
    assert ids_of(graph, "Person") == expected
    graph.write([persons("new")])
    graph.write([without("node:Person", "a")])
    with og.open(graph.uri) as again:
        assert ids_of(again, "Person") == expected - {"a"} | {"new"}
        assert again.verify(deep=True).ok


def test_keep_more_than_there_is_removes_nothing_and_commits_nothing(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    head = graph.commits.head()
    done = graph.cleanup(keep=100, confirm=True, **NOW)
    assert (done.states_removed, done.files_removed, done.commits) == (0, 0, {})
    assert graph.commits.head() == head


def test_older_than_0_keeps_the_head(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    expected = ids_of(graph, "Person")
    assert graph.cleanup(older_than=0, confirm=True, **NOW).states_removed > 0
    assert ids_of(graph, "Person") == expected
    assert graph.verify().ok


def test_a_commit_goes_only_if_both_parts_of_the_rule_let_it_go(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    assert graph.cleanup(keep=1, older_than="1h", confirm=True, **NOW).states_removed == 0
    assert graph.cleanup(keep=100, older_than=0, confirm=True, **NOW).states_removed == 0
    assert graph.cleanup(keep=2, older_than=timedelta(0), confirm=True, **NOW).states_removed > 0


def test_states_that_were_the_newest_a_moment_ago_stay(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    assert graph.cleanup(keep=1, confirm=True).states_removed == 0
    assert graph.cleanup(keep=1, confirm=True, grace="1h").states_removed == 0


def test_kept_commits_read_and_removed_ones_answer_that_they_are_gone(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    rows = {commit.id: ids_of(graph, "Person", at=commit.id) for commit in graph.commits.list()[:-1]}
    graph.cleanup(keep=3, confirm=True, **NOW)
    listed = graph.commits.list()
    assert len(listed) == len(rows) + 2  # the first one, and that of the cleanup
    assert [commit.readable for commit in listed] == [_reads(graph, commit) for commit in listed]
    readable = [commit for commit in listed if commit.readable]
    assert [commit.kind for commit in readable] == ["cleanup", "mutation", "mutation", "mutation"]
    for commit in readable[1:]:
        assert ids_of(graph, "Person", at=commit.id) == rows[commit.id]
    assert not graph.commits.get(listed[-1].id).readable
    assert [node.commit.readable for node in graph.commits.graph()] == [commit.readable for commit in listed]
    with pytest.raises(HistoricalVersionReclaimed):
        graph.snapshot(at=listed[-1].version)


def test_a_feed_reports_a_gap_and_a_baseline_repairs_it(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 2)
    cursor = graph.changes().cursor
    graph.cleanup(keep=1, confirm=True, **NOW)
    assert [block.commit.kind for block in graph.changes(cursor).blocks if block.changes] == []
    for number in range(3):
        graph.write([persons(f"q{number}")])
    graph.cleanup(keep=1, confirm=True, **NOW)
    with pytest.raises(ChangeFeedGap):
        graph.changes(cursor)
    resumed = graph.baseline(None).resume_cursor
    graph.write([persons("last")])
    assert [change.id for block in graph.changes(resumed).blocks for change in block.changes] == ["last"]


def test_versions_that_a_branch_inherits_from_main_survive(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 2)
    graph.branches.create("lazy")
    early = ids_of(graph, "Person", "lazy")
    graph.write([persons("x", "y"), knows(("x", "y"))])
    graph.branches.create("later")
    late = ids_of(graph, "Person", "later")
    for number in range(4):
        graph.write([persons(f"z{number}")])
    graph.write([without("node:Person", "a")])
    main = ids_of(graph, "Person")
    for _ in range(2):
        graph.cleanup(keep=1, confirm=True, **NOW)
        assert (ids_of(graph, "Person", "lazy"), ids_of(graph, "Person", "later")) == (early, late)
        assert ids_of(graph, "Person") == main
    assert graph.verify(deep=True).ok
    graph.write([persons("on-lazy")], branch="lazy")
    graph.cleanup(keep=1, confirm=True, **NOW)
    graph.branches.merge("lazy")
    graph.branches.merge("later")
    assert ids_of(graph, "Person") == main | {"on-lazy"}
    assert graph.verify(deep=True).ok


def test_merges_after_merges_find_what_they_compare_with(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 1)
    graph.branches.create("dev")
    graph.write([persons("on-main")])
    graph.branches.merge("main", "dev")
    graph.write([persons("on-dev")], branch="dev")
    for number in range(3):
        graph.write([persons(f"m{number}")])
    graph.write([without("node:Person", "m0")])
    graph.cleanup(keep=1, confirm=True, **NOW)
    graph.branches.merge("dev")
    assert ids_of(graph, "Person") == {"a", "p0", "on-main", "on-dev", "m1", "m2"}
    assert graph.verify().ok


def test_a_pinned_version_that_cannot_be_opened_refuses_everything(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 2)
    graph.branches.create("lazy")
    pin = graph.snapshot("lazy").tables["node:Person"]
    for number in range(3):
        graph.write([persons(f"x{number}")])
    lost = _table(graph) / f"_versions/{2**64 - 1 - pin.version:020d}.manifest"
    lost.rename(tmp_path / "elsewhere")
    before = _files(graph)
    with og.open(graph.uri) as again, pytest.raises(CleanupRefused, match="cannot be read"):
        again.cleanup(keep=1, **NOW)
    with og.open(graph.uri) as again, pytest.raises(CleanupRefused, match="cannot be read"):
        again.cleanup(keep=1, confirm=True, **NOW)
    assert before <= _files(graph)


def test_rows_of_other_software_refuse_everything(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 3)
    lance.dataset(str(_table(graph))).delete("id = 'a'")
    before = _files(graph)
    with pytest.raises(UncoveredDrift):
        graph.cleanup(keep=1, confirm=True, **NOW)
    assert before <= _files(graph)
    graph.recover(discard=True)
    assert graph.cleanup(keep=1, confirm=True, **NOW).states_removed > 0
    assert graph.verify().ok


def test_versions_above_the_pin_and_their_files_stay(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 3)
    failpoints.arm("write.after_all_table_commits=raise")
    with pytest.raises(og.OmniGraphError):
        graph.write([persons("never")])
    failpoints.arm("")
    graph.recover()
    expected = ids_of(graph, "Person")
    graph.cleanup(keep=1, confirm=True, **NOW)
    assert ids_of(graph, "Person") == expected
    graph.write([persons("next")])
    graph.cleanup(keep=1, confirm=True, **NOW)
    assert ids_of(graph, "Person") == expected | {"next"}
    assert graph.verify(deep=True).ok


def test_an_unreadable_record_refuses_everything(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 3)
    before = _files(graph)
    record = tmp_path / "g" / "__recovery" / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    record.write_text("{")
    with pytest.raises(og.OmniGraphError):
        graph.cleanup(keep=1, confirm=True, **NOW)
    assert before <= _files(graph)
    record.unlink()
    assert graph.cleanup(keep=1, confirm=True, **NOW).ok


def test_forks_of_branches_that_are_gone_are_reclaimed_and_live_ones_stay(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 1)
    for name in ("live", "dead"):
        graph.branches.create(name)
        graph.write([persons(f"on-{name}")], branch=name)
    failpoints.arm("branch_delete.before_table_cleanup=raise")
    with pytest.raises(og.OmniGraphError):
        graph.branches.delete("dead")
    failpoints.arm("")
    assert graph.stats().unreferenced.files > 0
    done = graph.cleanup(keep=100, confirm=True, **NOW)
    assert {fork.rpartition("@")[2] for fork in done.reclaimed_forks} == {"dead"}
    assert not any("tree/dead" in path for path in _files(graph))
    assert graph.stats().unreferenced.files == 0
    assert ids_of(graph, "Person", "live") == {"a", "p0", "on-live"}
    assert graph.verify(deep=True).ok
    graph.branches.create("dead")
    graph.write([persons("again")], branch="dead")
    assert ids_of(graph, "Person", "dead") == {"a", "p0", "again"}


def test_files_of_unfinished_writes_go_when_they_are_old(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 1)
    stray = [_table(graph) / "data" / "stray.lance", Path(graph.uri) / "__manifest" / "data" / "stray.lance"]
    for path in stray:
        path.write_bytes(b"x" * 100)
    assert graph.cleanup(keep=100, confirm=True).unfinished.files == 0
    old = time.time() - limits.UNFINISHED_FILES_SECONDS - 60
    for path in stray:
        os.utime(path, (old, old))
    done = graph.cleanup(keep=100, confirm=True)
    assert (done.unfinished.files, done.unfinished.bytes) == (2, 200)
    assert not any(path.exists() for path in stray)
    assert graph.verify(deep=True).ok


def test_the_table_of_a_dropped_type_goes_with_the_last_state_that_shows_it(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 1)
    graph.write([knows(("a", "p0"))])
    notes, people_at = _table(graph, "node:Note"), _table(graph)
    schema = PEOPLE.replace("node Note { text: String }", "").replace("edge Wrote: Person -> Note", "")
    graph.schema.apply(schema)
    assert graph.cleanup(keep=2, confirm=True, **NOW).dropped_tables == ()
    graph.write([persons("x")])
    done = graph.cleanup(keep=1, confirm=True, **NOW)
    assert set(done.dropped_tables) == {"node:Note", "edge:Wrote"}
    assert [path.name for path in notes.rglob("*") if path.is_file()] == ["removed"] and people_at.exists()
    graph.schema.apply(schema + "\nnode Note { text: String }")
    graph.write([Change("node:Note", pa.table({"text": ["hi"]}))])
    assert len(ids_of(graph, "Note")) == 1 and graph.verify().ok


def test_tables_of_older_software_go(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g", 1)
    legacy = tmp_path / "g" / "_graph_runs.lance" / "data"
    legacy.mkdir(parents=True)
    (legacy / "x.lance").write_bytes(b"1234")
    assert graph.cleanup(keep=100).legacy.bytes == 4
    assert graph.cleanup(keep=100, confirm=True).legacy.files == 1
    assert not (legacy / "x.lance").exists()


def test_one_tables_failure_is_reported_and_the_others_are_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _grown(tmp_path / "g")
    location = graph.snapshot().tables["node:Person"].location
    real = graph._store.objects.delete_all

    def fail(paths: list[str]) -> None:
        if any(path.startswith(f"{location}/_versions") for path in paths):
            raise StorageError("could not delete")
        real(paths)

    monkeypatch.setattr(graph._store.objects, "delete_all", fail)
    done = graph.cleanup(keep=1, confirm=True, **NOW)
    assert [table.table_key for table in done.tables if table.error] == ["node:Person"] and not done.ok
    assert any(table.table_key == "__manifest" and table.error is None for table in done.tables)
    monkeypatch.undo()
    assert graph.verify(deep=True).ok
    assert graph.cleanup(keep=1, confirm=True, **NOW).ok
    assert len(list((_table(graph) / "_versions").glob("*.manifest"))) == 1


def test_a_cleanup_that_has_nothing_to_do_leaves_no_commit(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    graph.cleanup(keep=2, confirm=True, **NOW)
    head = graph.commits.head()
    for _ in range(3):
        assert graph.cleanup(keep=2, confirm=True, **NOW).commits == {}
    assert graph.commits.head() == head


def test_what_was_given_up_is_never_kept_again(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    old = graph.commits.list()[3]
    graph.cleanup(keep=2, confirm=True, **NOW)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.branches.create("x", at=old.id)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.restore(old.id)
    assert graph.branches.list() == ["main"]
    first = reclaimed.ReclaimedVersions("main", 10, frozenset({3, 5}))
    again = first.grown(8, frozenset({3, 4}))
    assert (again.below, again.keep) == (10, frozenset({3}))
    more = first.grown(12, frozenset({3, 4, 11}))
    assert (more.below, more.keep) == (12, frozenset({3, 11}))


def test_a_read_only_graph_previews_and_removes_nothing(tmp_path: Path) -> None:
    _grown(tmp_path / "g").close()
    with og.open(tmp_path / "g", mode="ro") as graph:
        assert graph.cleanup(keep=1, **NOW).states_removed > 0
        with pytest.raises(ReadOnly):
            graph.cleanup(keep=1, confirm=True)


@pytest.mark.s3
def test_a_cleanup_on_s3_leaves_what_is_needed(s3_root: str) -> None:
    graph = _grown(s3_root, 4)
    graph.branches.create("lazy")
    graph.branches.create("dead")
    graph.write([persons("on-dead")], branch="dead")
    graph.branches.delete("dead")
    graph.write([persons("x")])
    size = _bytes(graph)
    main, lazy = ids_of(graph, "Person"), ids_of(graph, "Person", "lazy")
    done = graph.cleanup(keep=1, confirm=True, **NOW)
    assert done.ok and done.states_removed > 0 and done.commits.keys() == {"main", "lazy"}
    assert any(fork.endswith("@dead") for fork in done.reclaimed_forks)
    assert _bytes(graph) < size
    with og.open(s3_root) as again:
        assert (ids_of(again, "Person"), ids_of(again, "Person", "lazy")) == (main, lazy)
        again.write([persons("y")])
        again.branches.create("dead")
        assert again.verify(deep=True).ok
