"""The history of a graph, and states of any moment in it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound, CommitNotFound, HistoricalVersionReclaimed, InputError, NotFoundError
from omnigraph.storage.tables.datasets import version_file
from omnigraph.write.change import Change, Mode
from tests.support import foreign_writer
from tests.support.small_graphs import ids_of, people, persons

pd = pytest.importorskip("pandas")


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Genesis, then a, then b, then c; and a branch `side` made at b with x on it."""
    graph = people(tmp_path / "g", "a", actor="act-anna")
    graph.write([persons("b")])
    graph.branches.create("side")
    graph.write([persons("x")], branch="side")
    graph.write([persons("c")])
    return graph


def test_the_list_is_the_first_parent_chain_newest_first(graph: og.Graph) -> None:
    chain = graph.commits.list()
    assert len(chain) == 4
    assert [commit.parent for commit in chain] == [commit.id for commit in chain[1:]] + [None]
    assert [commit.version for commit in chain] == sorted((commit.version for commit in chain), reverse=True)
    assert {commit.actor for commit in chain} == {"act-anna"}
    assert {(commit.branch, commit.merged_parent) for commit in chain} == {("main", None)}
    assert all(commit.created_at.tzinfo is UTC for commit in chain)


def test_a_branch_shares_the_history_before_its_fork(graph: og.Graph) -> None:
    side, main = graph.commits.list("side"), graph.commits.list()
    assert side[1:] == main[1:]
    assert (side[0].branch, side[0].parent) == ("side", main[1].id)
    graph.branches.create("deeper", "side")
    assert graph.commits.list("deeper") == side


def test_limit_and_before_page_through_the_list(graph: og.Graph) -> None:
    whole = graph.commits.list()
    assert graph.commits.list(limit=2) == whole[:2]
    assert graph.commits.list(limit=0) == []
    assert graph.commits.list(limit=99) == whole
    pages, before = [], None
    while page := graph.commits.list(limit=1, before=before):
        pages += page
        before = page[-1].id
    assert pages == whole
    with pytest.raises(CommitNotFound):
        graph.commits.list(before=graph.commits.head("side").id)


def test_get_finds_a_commit_of_any_branch(graph: og.Graph) -> None:
    for branch in ("main", "side"):
        for commit in graph.commits.list(branch):
            assert graph.commits.get(commit.id) == commit
    with pytest.raises(CommitNotFound, match="01HZZZZZZZZZZZZZZZZZZZZZZZ"):
        graph.commits.get("01HZZZZZZZZZZZZZZZZZZZZZZZ")


def test_a_state_is_named_by_commit_version_time_or_synthetic_id(graph: og.Graph) -> None:
    chain = graph.commits.list()
    expected = [{"a", "b", "c"}, {"a", "b"}, {"a"}, set()]
    for commit, people_then in zip(chain, expected, strict=True):
        assert ids_of(graph, "Person", at=commit.id) == people_then
        assert ids_of(graph, "Person", at=commit.version) == people_then
        assert ids_of(graph, "Person", at=commit.created_at) == people_then
        assert ids_of(graph, "Person", at=commit.created_at + timedelta(microseconds=1)) == people_then
        assert ids_of(graph, "Person", at=f"manifest:main:v{commit.version}") == people_then
        assert ids_of(graph, "Person", at=commit.created_at.isoformat()) == people_then
        assert ids_of(graph, "Person", at=f" {commit.created_at.replace(tzinfo=None).isoformat(' ')} ") == people_then
        assert ids_of(graph, "Person", at=str(commit.version)) == people_then
        assert ids_of(graph, "Person", at=pd.Timestamp(commit.created_at)) == people_then
    for later in (datetime.now(UTC) + timedelta(days=1), date(2999, 1, 1), "2999-01-01", "2999-01-01T00:00:00+02:00"):
        assert ids_of(graph, "Person", at=later) == expected[0], "the newest state that was there by then"
    own = graph.commits.head("side").id
    assert ids_of(graph, "Person", at=own) == {"a", "b", "x"}, "a commit id names its own branch"
    assert ids_of(graph, "Person", "side", at=graph.commits.list("side")[0].version) == {"a", "b", "x"}


def test_a_time_on_a_branch_follows_its_own_chain(graph: og.Graph) -> None:
    late = graph.commits.head().created_at
    assert ids_of(graph, "Person", "side", at=late) == {"a", "b", "x"}
    fork = graph.commits.list("side")[1].created_at
    assert ids_of(graph, "Person", "side", at=fork) == {"a", "b"}
    naive = late.replace(tzinfo=None)
    assert ids_of(graph, "Person", at=naive) == {"a", "b", "c"}, "a time without zone is UTC"


@pytest.mark.parametrize(
    ("at", "error"),
    [
        (0, CommitNotFound),
        (-1, CommitNotFound),
        (99, CommitNotFound),
        (datetime(1990, 1, 1, tzinfo=UTC), CommitNotFound),
        ("nope", CommitNotFound),
        ("manifest:main:v0", NotFoundError),
        ("manifest:main:v99", HistoricalVersionReclaimed),
        ("manifest:nope:v1", BranchNotFound),
        (True, InputError),
        (1.5, InputError),
        (np.datetime64("NaT"), InputError),
        (pd.NaT, InputError),
        ("2026-13-01", CommitNotFound),
        ("1990-01-01", CommitNotFound),
        (b"x", InputError),
    ],
)
def test_a_moment_that_never_was_is_a_typed_error(graph: og.Graph, at: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        graph.snapshot(at=at)  # type: ignore[arg-type]


def test_a_branch_starts_at_any_moment(graph: og.Graph) -> None:
    chain = graph.commits.list()
    graph.branches.create("early", at=chain[2].id)
    graph.branches.create("by-version", at=chain[1].version)
    graph.branches.create("by-time", at=chain[1].created_at)
    graph.branches.create("from-side", at=graph.commits.head("side").id)
    assert ids_of(graph, "Person", "early") == {"a"}
    assert ids_of(graph, "Person", "by-version") == ids_of(graph, "Person", "by-time") == {"a", "b"}
    assert ids_of(graph, "Person", "from-side") == {"a", "b", "x"}
    done = graph.write([persons("z")], branch="early").commit
    assert done is not None
    assert done.parent == chain[2].id
    assert graph.commits.list("early")[1:] == chain[2:]
    assert ids_of(graph, "Person", "early") == {"a", "z"}


def test_a_snapshot_does_not_move(graph: og.Graph) -> None:
    seen = graph.snapshot()
    graph.write([persons("later")])
    graph.write([Change("node:Person", remove=pa.array(["a"]))])
    assert sorted(seen.arrow("Person").column("id").to_pylist()) == ["a", "b", "c"]
    assert seen.count("Person") == 3


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["nope"], "no column .nope"),
        (["id", "id"], "column 'id' is named twice"),
        ([""], "no column ."),
        (["id", "handle "], "no column .handle "),
    ],
)
def test_a_column_that_is_not_there_is_a_typed_error(graph: og.Graph, columns: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        graph.snapshot().arrow("Person", columns)
    assert graph.snapshot().arrow("Person", ["handle", "id"]).column_names == ["handle", "id"]


def test_a_removed_manifest_version_is_reclaimed_not_corrupt(graph: og.Graph) -> None:
    root = Path(graph.uri)
    old = graph.commits.list()[2]
    (root / "__manifest" / version_file(old.version)).unlink()
    with og.open(root) as fresh:
        for at in (old.id, old.version):
            with pytest.raises(HistoricalVersionReclaimed, match="no longer stored"):
                fresh.snapshot(at=at)
        assert ids_of(fresh, "Person") == {"a", "b", "c"}
        assert len(fresh.commits.list()) == 4, "the record of a commit outlives its state"


def test_a_removed_table_version_is_reclaimed_and_the_rest_of_its_state_readable(graph: og.Graph) -> None:
    root, old = Path(graph.uri), graph.commits.list()[2]
    pin = graph.snapshot(at=old.id).tables["node:Person"]
    (root / pin.location / version_file(pin.version)).unlink()
    with og.open(root) as fresh:
        state = fresh.snapshot(at=old.id)
        assert state.count("Person") == 1
        with pytest.raises(HistoricalVersionReclaimed) as caught:
            state.arrow("Person")
        assert caught.value.details["version"] == pin.version
        assert state.arrow("Note").num_rows == 0
        assert ids_of(fresh, "Person") == {"a", "b", "c"}


def test_a_foreign_commit_is_part_of_the_history(graph: og.Graph) -> None:
    root = Path(graph.uri)
    graph._store.mirror.flush()
    head = graph.commits.head()
    version = graph.snapshot().tables["node:Person"].version
    schema = graph.snapshot().arrow("Person").schema
    rows = pa.Table.from_pylist([{"id": "f", "handle": "f"}], schema=schema)
    foreign_writer.append_and_publish(root, "node:Person", rows)
    moment = datetime.now()
    foreign_writer.append_commit(root, "01ZZZZZZZZZZZZZZZZZZZZZZZZ", head.version + 1, head.id, moment)
    assert graph.snapshot().tables["node:Person"].version == version + 1
    assert [commit.id for commit in graph.commits.list()][:2] == ["01ZZZZZZZZZZZZZZZZZZZZZZZZ", head.id]
    done = graph.write([persons("g")]).commit
    assert done is not None
    assert done.parent == "01ZZZZZZZZZZZZZZZZZZZZZZZZ"
    assert [commit.id for commit in graph.commits.list()][:3] == [done.id, "01ZZZZZZZZZZZZZZZZZZZZZZZZ", head.id]
    assert ids_of(graph, "Person", at="01ZZZZZZZZZZZZZZZZZZZZZZZZ") == {"a", "b", "c", "f"}


def test_another_handle_sees_new_commits_at_once(graph: og.Graph) -> None:
    other = og.open(graph.uri)
    for number in range(5):
        done = graph.write([persons(f"n{number}")]).commit
        assert other.commits.head() == done
        assert f"n{number}" in ids_of(other, "Person")
        back = other.write([persons(f"m{number}", mode=Mode.MERGE)]).commit
        assert back is not None
        assert graph.commits.head() == back
        assert back.parent == done.id
