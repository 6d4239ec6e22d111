"""Loads as a whole: branches, results, indexes, other writers, memory of nothing after a failure."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints, limits
from omnigraph.errors import BranchNotFound, InvalidName, ReadSetChanged
from omnigraph.write.load.line_blocks import Block
from omnigraph.write.load.parse_lines import Dialect, parse_block
from omnigraph.write.load.reject import Rejection
from tests.support.small_graphs import ids_of, people, persons, rows_of

ANN = '{"type":"Person","data":{"handle":"ann"}}\n'
BAD = '{"edge":"Knows","from":"ann","to":"zz"}\n'


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_the_result_says_what_happened(tmp_path: Path) -> None:
    with people(tmp_path / "g", actor="act-anna") as graph:
        result = graph.load(write(tmp_path / "a.jsonl", ANN + BAD.replace("zz", "ann")), "merge")
        commit = graph.commits.head()
        assert json.loads(json.dumps(result.to_dict())) == {
            "branch": "main",
            "base_branch": None,
            "branch_created": False,
            "mode": "merge",
            "nodes": [{"name": "Person", "entities_loaded": 1}],
            "edges": [{"name": "Knows", "entities_loaded": 1}],
            "total_entities": 2,
            "actor_id": "act-anna",
            "commit": commit.to_dict(),
        }
        assert commit.actor == "act-anna"
        assert result.rejects.num_rows == 0
        assert set(result.timings) == {"read", "commit"}


def test_a_missing_branch_is_forked_first(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", ANN)
    with people(tmp_path / "g", "bob") as graph:
        with pytest.raises(BranchNotFound):
            graph.load(path, "append", branch="review/x")
        result = graph.load(path, "append", branch="review/x", from_="main")
        assert (result.branch, result.base_branch, result.branch_created) == ("review/x", "main", True)
        assert result.commit is not None and result.commit.branch == "review/x"
        again = graph.load(path, "merge", branch="review/x", from_="main")
        assert (again.base_branch, again.branch_created) == ("main", False)
        assert ids_of(graph, "Person", "review/x") == {"ann", "bob"}
        assert ids_of(graph, "Person") == {"bob"}
        with pytest.raises(BranchNotFound):
            graph.load(path, "append", branch="review/y", from_="nope")
        with pytest.raises(InvalidName):
            graph.load(path, "append", branch="a//b", from_="main")
        assert graph.branches.list() == ["main", "review/x"]


@pytest.mark.parametrize("text", ["{", ANN + BAD], ids=["a bad line", "a bad edge"])
def test_a_load_that_fails_leaves_no_branch_behind(tmp_path: Path, text: str) -> None:
    with people(tmp_path / "g") as graph:
        with pytest.raises(og.OmniGraphError):
            graph.load(write(tmp_path / "a.jsonl", text), "append", branch="review/x", from_="main")
        assert graph.branches.list() == ["main"]
        assert graph.load(write(tmp_path / "a.jsonl", ANN), "append", branch="review/x", from_="main").branch_created


def test_an_empty_load_makes_the_branch_and_no_commit(tmp_path: Path) -> None:
    with people(tmp_path / "g") as graph:
        result = graph.load(write(tmp_path / "a.jsonl", ""), "append", branch="review/x", from_="main")
        assert (result.commit, result.branch_created) == (None, True)


def test_a_large_load_ends_with_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOAD_INDEX_ROWS", 2)
    with people(tmp_path / "g") as graph:
        small = graph.load({"Person": pa.table({"handle": ["a", "b"]})}, "append")
        assert small.index_commit is None
        large = graph.load({"Knows": pa.table({"src": ["a", "b", "a"], "dst": ["b", "a", "a"]})}, "append")
        assert large.index_commit is not None
        assert [commit.id for commit in graph.commits.list(limit=2)] == [large.index_commit.id, large.commit.id]  # type: ignore[union-attr]
        assert large.index_commit.actor == "omnigraph:system"
        assert graph.ensure_indices().commit is None, "something was left to build"


def test_a_load_stands_when_its_indexes_cannot_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOAD_INDEX_ROWS", 0)
    with people(tmp_path / "g") as graph:
        failpoints.arm("write.before_table_commit[EnsureIndices]=raise")
        try:
            result = graph.load(write(tmp_path / "a.jsonl", ANN), "append")
        finally:
            failpoints.arm("")
        assert result.commit is not None and result.index_commit is None
        assert ids_of(graph, "Person") == {"ann"}
        graph.write([persons("bob")])
        assert graph.ensure_indices().commit is not None


def test_rejects_are_settled_again_when_another_writer_was_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writer takes an id and brings a node that an edge was missing."""
    lines = '{"type":"Person","data":{"handle":"a"}}\n{"edge":"Knows","from":"b","to":"b"}\n'
    with people(tmp_path / "g") as graph, og.open(tmp_path / "g") as other:
        reject = Rejection.run
        seen: list[list[str]] = []

        def run(rejection: Rejection) -> None:
            reject(rejection)
            seen.append([each.error.message for each in rejection.rejected])
            if len(seen) == 1:
                other.write([persons("a", "b")])

        monkeypatch.setattr(Rejection, "run", run)
        result = graph.load(write(tmp_path / "a.jsonl", lines), "append", on_error="reject")
        assert seen == [["src 'b' not found in Person"], ["node type 'Person' already has this id"]]
        assert [row["line"] for row in result.rejects.to_pylist()] == [1]
        assert (result.nodes, result.edges) == ({"Person": 0}, {"Knows": 1})
        assert len(rows_of(graph, "Knows")) == 1


def test_an_append_goes_on_when_another_writer_was_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.write import stage_changes

    with people(tmp_path / "g") as graph, og.open(tmp_path / "g") as other:
        stage, calls = stage_changes._stage, []

        def staged(*given: object) -> object:
            calls.append(1)
            if len(calls) == 1:
                other.mutate('query q() { insert Person { handle: "bob" } }')
            return stage(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(stage_changes, "_stage", staged)
        graph.load(write(tmp_path / "a.jsonl", ANN), "append")
        assert ids_of(graph, "Person") == {"ann", "bob"}


def test_an_overwrite_of_rows_that_changed_meanwhile_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.write import stage_changes

    with people(tmp_path / "g", "bob") as graph, og.open(tmp_path / "g") as other:
        stage, calls = stage_changes._stage, []

        def staged(*given: object) -> object:
            calls.append(1)
            if len(calls) == 1:
                other.write([persons("cid")])
            return stage(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(stage_changes, "_stage", staged)
        with pytest.raises((og.errors.ExpectedVersionMismatch, ReadSetChanged)):
            graph.load(write(tmp_path / "a.jsonl", ANN), "overwrite")
        assert ids_of(graph, "Person") == {"bob", "cid"}


def test_the_row_path_can_be_sent_to_another_process(tmp_path: Path) -> None:
    with people(tmp_path / "g") as graph:
        block, dialect = pickle.loads(
            pickle.dumps((Block("a.jsonl", 1, (ANN + "{\n").encode()), Dialect(graph.catalog)))
        )
        parsed = pickle.loads(pickle.dumps(parse_block(block, dialect)))
        assert [batch.rows.num_rows for batch in parsed.rows["node:Person"]] == [1]
        assert parsed.violations[0].error.message.startswith("invalid strict JSON at line 2")


@pytest.mark.s3
def test_load_and_export_work_on_an_object_store(s3_root: str, tmp_path: Path) -> None:
    with people(s3_root) as graph:
        graph.load(write(tmp_path / "a.jsonl", ANN + BAD.replace("zz", "ann")), "append", branch="b", from_="main")
        text = graph.export(branch="b", types=["Person"]).text
        assert text == '{"type":"Person","data":{"id":"ann","age":null,"email":null,"handle":"ann"}}\n'
        assert graph.export().text == ""
