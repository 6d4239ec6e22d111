"""`optimize`: what it does to the files, and that nobody who asks for rows can tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import BranchNotFound, InputError, ReadOnly, TypeNotFound
from omnigraph.storage.delta import Method, table_delta
from omnigraph.storage.table_reader import TableReader
from omnigraph.storage.tables.compaction import fragment_groups, fragment_rows
from omnigraph.write.change import Change
from tests.support.whole_graphs import content, whole_graph
from tests.upkeep.optimize.grown_graph import QUERIES, answers, grown, knows, layout, put, searched


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return grown(tmp_path / "g")


def test_small_fragments_become_one_and_every_index_covers_them(graph: og.Graph) -> None:
    before = answers(graph)
    report = graph.optimize(message="weekly")
    assert layout(graph) == {"node:Person": (1, 0, 0), "edge:Knows": (1, 0, 0)}
    assert answers(graph) == before
    person = next(table for table in report.tables if table.table_key == "node:Person")
    assert (person.fragments_added, person.committed, person.skipped) == (1, True, None)
    assert person.fragments_removed > 1 and person.deleted_rows_dropped > 0
    assert set(person.indexes_built) == {"id", "handle", "age", "about", "face"}
    commits = graph.commits.list()[: len(report.commits)]
    assert [commit.id for commit in reversed(commits)] == [commit.id for commit in report.commits]
    assert {(commit.kind, commit.message, commit.actor) for commit in commits} == {
        ("optimize", "weekly", "omnigraph:system")
    }
    assert graph.verify(deep=True).ok


def test_a_second_run_commits_nothing(graph: og.Graph) -> None:
    graph.optimize()
    version = graph.snapshot().version
    report = graph.optimize()
    assert (report.commits, [table.committed for table in report.tables]) == ((), [False, False])
    assert graph.snapshot().version == version


def test_a_fresh_graph_needs_nothing(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node A { k: String @key }")
    assert graph.optimize().commits == ()


def test_every_branch_and_every_old_commit_of_a_whole_graph_stays_as_it_was(tmp_path: Path) -> None:
    graph = whole_graph(tmp_path / "g")
    before = content(graph)
    report = graph.optimize()
    after = content(graph)
    assert {table.branch for table in report.tables if table.committed} >= {"main", "review/a", "review/b"}
    for branch, states in before.items():
        kept = {name: after[branch][name] for name in states}
        assert kept == states
    assert graph.optimize().commits == ()
    assert graph.verify(deep=True).ok


def test_a_branch_optimizes_what_is_its_own_and_shares_the_rest(graph: og.Graph) -> None:
    graph.branches.create("side")
    graph.write([put(100, 3)], branch="side")
    graph.write([put(110, 3)], branch="side")
    main, side = answers(graph), answers(graph, "side")
    report = graph.optimize("side")
    assert {(table.branch, table.table_key) for table in report.tables} == {("side", "node:Person")}
    assert layout(graph, "side")["node:Person"] == (1, 0, 0)
    assert layout(graph)["node:Person"][0] > 1
    assert (answers(graph), answers(graph, "side")) == (main, side)


def test_only_the_types_that_are_named_are_touched(graph: og.Graph) -> None:
    report = graph.optimize(types=["Knows"])
    assert [table.table_key for table in report.tables] == ["edge:Knows"]
    assert layout(graph)["node:Person"][0] > 1
    with pytest.raises(TypeNotFound, match="unknown type 'Knwos'"):
        graph.optimize(types=["Knwos"])


def test_wrong_arguments_are_refused_and_nothing_happens(graph: og.Graph) -> None:
    version = graph.snapshot().version
    with pytest.raises(BranchNotFound):
        graph.optimize("nowhere")
    with pytest.raises(InputError, match="engine 'abacus'"):
        graph.optimize(engine="abacus")  # type: ignore[arg-type]
    with og.open(graph.uri, mode="ro") as reader, pytest.raises(ReadOnly):
        reader.optimize()
    assert graph.snapshot().version == version


def test_rows_keep_their_row_ids_and_their_versions(graph: og.Graph) -> None:
    before = _identities(graph)
    graph.optimize()
    assert _identities(graph) == before


def _identities(graph: og.Graph) -> list[dict[str, object]]:
    store = graph.internals.reader()
    handle = store.table(store.snapshot("main").pins["node:Person"])
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = handle.scanner(columns=columns, with_row_id=True).to_table().sort_by("id")
    return list(rows.to_pylist())


def test_diffs_and_feeds_see_nothing_of_it(graph: og.Graph) -> None:
    start = graph.commits.list()[0].id
    graph.optimize()
    middle = graph.commits.list()[0].id
    assert list(graph.diff(start, middle)) == [] and list(graph.diff(middle, start)) == []
    graph.write([put(7, 1, "late")])
    graph.optimize()
    assert [(change.op, change.id) for change in graph.diff(start, "main")] == [("update", "p7")]
    optimized = [commit.id for commit in graph.commits.list() if commit.kind == "optimize"]
    assert [list(graph.commit_changes(commit)) for commit in optimized] == [[] for _ in optimized]


def test_a_difference_across_it_is_found_without_comparing_the_rows(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = graph.internals.reader()
    monkeypatch.setattr(limits, "DELTA_REWRITTEN_ROWS", 4)
    first = store.snapshot("main").pins["node:Person"]
    graph.optimize()
    second = store.snapshot("main").pins["node:Person"]
    assert table_delta(store.tables, first, second).method is Method.FRAGMENTS
    graph.write([put(7, 1, "late")])
    found = table_delta(store.tables, first, store.snapshot("main").pins["node:Person"])
    assert (found.method, found.updated.to_pylist()) == (Method.VERSIONS, ["p7"])


def test_a_merge_across_it_gives_what_it_would_have_given_without(tmp_path: Path) -> None:
    plain, kept = (grown(tmp_path / name, 4) for name in ("plain", "kept"))
    for graph in (plain, kept):
        graph.branches.create("side")
        graph.write([put(5, 2, "side"), knows(1, 1)], branch="side")
        graph.write([put(9, 2, "main")])
        if graph is kept:
            graph.optimize()
        graph.branches.merge("side")
    assert answers(kept)[:4] == answers(plain)[:4]
    assert searched(kept) == searched(plain)


def test_a_reader_that_has_the_rows_in_memory_keeps_them(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with og.open(graph.uri, mode="ro") as reader:
        before = [reader.query(query).rows() for query in QUERIES]
        graph.optimize()
        read = 0
        scan = TableReader.scan

        def counted(self: TableReader, *given: Any, **options: Any) -> pa.Table:
            nonlocal read
            found = scan(self, *given, **options)
            read += found.num_rows
            return found

        monkeypatch.setattr(TableReader, "scan", counted)
        assert [reader.query(query).rows() for query in QUERIES] == before
        assert read == 0


def test_a_replaced_text_is_not_found_through_an_extended_index(tmp_path: Path) -> None:
    graph = grown(tmp_path / "g")
    graph.ensure_indices()
    graph.write([put(3, 1, "changed")])
    graph.ensure_indices()
    words = searched(graph)
    assert (words[0], words[1]) == ([], ["p3"])


def test_how_fragments_are_chosen(tmp_path: Path) -> None:
    assert (fragment_rows(1000), fragment_rows(24_000_000), fragment_rows(10**9)) == (131_072, 375_000, 1_048_576)
    graph = grown(tmp_path / "g", 3)
    graph.optimize()
    store = graph.internals.reader()
    assert fragment_groups(store.table(store.snapshot("main").pins["node:Person"])) == []
    graph.write([put(200, 4)])
    graph.optimize()
    graph.write([Change("node:Person", remove=pa.array(["p200", "p201", "p202"]))])
    (group,) = fragment_groups(store.table(store.snapshot("main").pins["node:Person"]))
    assert len(group) == 1
