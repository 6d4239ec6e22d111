"""What a poll of the change feed and a look at the newest commits read: the commits asked for, not all of history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.storage.metadata import commit_rows
from omnigraph.storage.metadata.manifest import Commit
from tests.support.small_graphs import people, persons

FEW, MANY = 12, 90

#: Rows that a look may read whatever the number of commits: two states, a first piece of history, one twice as large.
MOST = 2 * 6 + 8 + 16


@pytest.fixture
def manifest_rows(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Rows of the manifest that were read since the last call, by a process that knows nothing yet."""
    read: list[int] = []
    original = lance.LanceScanner.to_table

    def counted(scanner: lance.LanceScanner) -> pa.Table:
        table = original(scanner)
        if "object_id" in table.column_names:
            read.append(table.num_rows)
        return table

    def since_last_call() -> int:
        rows = sum(read)
        read.clear()
        monkeypatch.setattr(commit_rows, "_kept", commit_rows._CommitCache())
        return rows

    monkeypatch.setattr(lance.LanceScanner, "to_table", counted)
    return since_last_call


def _write(graph: og.Graph, commits: int) -> None:
    for number in range(len(graph.commits.list()), commits):
        graph.write([persons(f"p{number}")])


def _cost(graph: og.Graph, manifest_rows: Callable[[], int], look: Callable[[og.Graph], object]) -> int:
    """What a new process reads of the manifest for this, besides opening the graph."""
    opened = og.open(graph.uri, mode="ro")
    manifest_rows()
    look(opened)
    return manifest_rows()


def test_polls_and_newest_commits_cost_as_much_after_many_commits_as_after_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manifest_rows: Callable[[], int]
) -> None:
    monkeypatch.setattr(limits, "MANIFEST_FRAGMENTS", 8)  # history is gathered in large files, as after 1,000 commits
    monkeypatch.setattr(limits, "MANIFEST_RECENT_ROWS", 4)
    monkeypatch.setattr(limits, "COMMIT_ROWS_AT_A_TIME", 8)
    graph = people(tmp_path / "g")
    costs = []
    for commits in (FEW, MANY):
        _write(graph, commits)
        known = graph.commits.list(limit=3)
        cursor = graph.changes(f"after:{known[2].id}", max_commits=1).cursor

        def poll(opened: og.Graph, cursor: str | None = cursor, newest: str = known[0].id) -> None:
            page = opened.changes(cursor)
            assert [block.commit.id for block in page.blocks] == [newest] and page.caught_up

        def idle(opened: og.Graph) -> None:
            assert not opened.changes(opened.changes().cursor).blocks

        def newest(opened: og.Graph, wanted: list[Commit] = known) -> None:
            assert opened.commits.list(limit=3) == wanted

        def filtered(opened: og.Graph, wanted: list[Commit] = known) -> None:
            assert opened.commits.list(limit=2, kind="mutation", since="1999-01-01") == wanted[:2]
            assert opened.commits.list(since=wanted[1].id) == wanted[:1]

        def drawn(opened: og.Graph, wanted: list[Commit] = known) -> None:
            assert [node.commit for node in opened.commits.graph(limit=2, kind="mutation")] == wanted[:2]

        costs.append([_cost(graph, manifest_rows, look) for look in (poll, idle, newest, filtered, drawn)])
    assert max(map(max, costs)) <= MOST, costs
    everything = _cost(graph, manifest_rows, lambda opened: opened.changes("beginning", max_commits=1))
    assert everything > MANY, "the counter counts"


def test_commits_are_found_in_any_order_of_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MANIFEST_FRAGMENTS", 4)
    monkeypatch.setattr(limits, "MANIFEST_RECENT_ROWS", 4)
    graph = people(tmp_path / "g")
    _write(graph, 14)
    graph.branches.create("side")
    for name in "xyz":
        graph.write([persons(name)], branch="side")
    graph.write([persons("m")])
    graph.branches.merge("side")
    whole = {branch: graph.commits.list(branch) for branch in ("main", "side")}
    for at_a_time in (1, 3, 1000):
        monkeypatch.setattr(limits, "COMMIT_ROWS_AT_A_TIME", at_a_time)
        for branch, expected in whole.items():
            for limit in (1, 2, 9, None):
                monkeypatch.setattr(commit_rows, "_kept", commit_rows._CommitCache())
                assert graph.commits.list(branch, limit=limit) == expected[:limit]
            monkeypatch.setattr(commit_rows, "_kept", commit_rows._CommitCache())
            assert graph.commits.list(branch, limit=2, before=expected[4].id) == expected[5:7]
            assert graph.changes("beginning", branch=branch, max_commits=1).blocks[0].commit == expected[-2]
