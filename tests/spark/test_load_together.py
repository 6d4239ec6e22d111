"""Loads on Spark beside other writers, on branches, and with graph and input on S3."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

import omnigraph as og
from omnigraph import spark as ogs
from omnigraph.progress import Progress
from tests.support.spark_job import ROWS, SCHEMA, counts, write_input

pytestmark = pytest.mark.usefixtures("spark")


def _side_by_side(*actions: Callable[[], Any]) -> list[Any]:
    results: list[Any] = [None] * len(actions)

    def run(number: int) -> None:
        try:
            results[number] = actions[number]()
        except og.OmniGraphError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_two_jobs_and_an_embedded_writer_at_once_lose_nothing(tmp_path: Path) -> None:
    folders = [write_input(tmp_path / mark, mark) for mark in ("j1", "j2")]
    with og.init(tmp_path / "g", SCHEMA) as graph:

        def job(number: int) -> Any:
            return ogs.load(graph, folders[number], "append")

        def embedded() -> int:
            for number in range(5):
                path = tmp_path / f"w{number}.jsonl"
                path.write_text(json.dumps({"type": "Person", "data": {"name": f"w{number}", "mark": "w"}}))
                graph.load(path, "append", engine="embedded")
            return 5

        results = _side_by_side(lambda: job(0), lambda: job(1), embedded)
        for mark, result in zip(("j1", "j2"), results[:2], strict=True):
            landed = not isinstance(result, og.OmniGraphError)
            assert landed or isinstance(result, og.errors.ConflictError), result
            assert counts(graph, mark) == ({ROWS} if landed else {0})
        assert results[2] == 5
        marks = graph.snapshot().arrow("Person", columns=["mark"]).column("mark").to_pylist()
        assert marks.count("w") == 5
        assert any(not isinstance(result, og.OmniGraphError) for result in results[:2])


def test_a_job_that_was_overtaken_checks_its_rows_against_the_new_state(tmp_path: Path) -> None:
    """The same keys by another writer between staging and commit: one of them is refused."""
    folder = write_input(tmp_path / "in", "j1")
    (tmp_path / "other.jsonl").write_text('{"type":"Person","data":{"name":"j1-p0","mark":"other"}}')
    with og.init(tmp_path / "g", SCHEMA) as graph:
        done = threading.Event()

        def overtake(progress: Progress) -> None:
            if progress.stage == "commit" and not done.is_set():
                done.set()
                graph.load(tmp_path / "other.jsonl", "append", engine="embedded")

        with pytest.raises(og.errors.KeyConflict, match="node type 'Person' already has this id"):
            ogs.load(graph, folder, "append", progress=overtake)
        assert done.is_set() and counts(graph, "j1") == {0}
        merged = ogs.load(graph, folder, "merge")
        assert counts(graph, "j1") == {ROWS} and merged.total == 6 * ROWS


def test_a_merge_keeps_row_ids_of_replaced_rows_and_adds_the_others(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node P { k: String @key  n: I32? }") as graph:
        graph.load({"P": pa.table({"k": [f"k{n}" for n in range(10)], "n": list(range(10))})}, "append")
        before = graph.snapshot().arrow("P").to_pylist()
        rows = pa.table({"k": [f"k{n}" for n in range(5, 15)], "n": [100 + n for n in range(10)]})
        pq.write_table(rows, tmp_path / "P.parquet")
        result = ogs.load(graph, tmp_path / "P.parquet", "merge")
        assert result.nodes == {"P": 10}
        after = {row["k"]: row["n"] for row in graph.snapshot().arrow("P").to_pylist()}
        assert after == {row["k"]: row["n"] for row in before} | {f"k{n}": 95 + n for n in range(5, 15)}
        changes = {(change.id, change.op) for change in graph.diff(graph.commits.list()[1].id, "main")}
        assert changes == {(f"k{n}", "update" if n < 10 else "insert") for n in range(5, 15)}
        assert graph.verify(deep=True).problems == (), "the files that tasks wrote have digests too"


@pytest.mark.s3
def test_graph_and_input_on_s3(s3: Any, s3_root: str) -> None:
    bucket, _, prefix = s3_root.removeprefix("s3://").partition("/")
    store = S3Store(bucket, client_options={"allow_http": True})
    lines = [{"type": "Person", "data": {"name": f"p{n}", "mark": "s3"}} for n in range(20)]
    text = "\n".join(map(json.dumps, lines))
    obstore.put(store, f"{prefix}/in/people.jsonl", text.encode())
    obstore.put(store, f"{prefix}/in/Firm.csv", b"name,mark\nf1,s3\n")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"src": ["p1", "p2"], "dst": ["f1", "f1"], "mark": ["s3", "s3"]}), sink)
    obstore.put(store, f"{prefix}/in/WorksAt.parquet", sink.getvalue().to_pybytes())
    with og.init(f"{s3_root}/g", SCHEMA) as graph:
        result = ogs.load(graph, f"{s3_root}/in", "append")
        assert (result.nodes, result.edges) == ({"Person": 20, "Firm": 1}, {"WorksAt": 2})
        assert ogs.load(graph, f"{s3_root}/in/*.jsonl", "merge").nodes == {"Person": 20}
        assert graph.snapshot().count("Person") == 20
        with pytest.raises(og.errors.KeyConflict) as caught:
            ogs.load(graph, f"{s3_root}/in/people.jsonl", "append")
        assert (caught.value.details["file"], caught.value.details["line"]) == (f"{s3_root}/in/people.jsonl", 1)
        local = graph.load(f"{s3_root}/in/Firm.csv", "merge", engine="embedded")
        assert (local.nodes, local.engine) == ({"Firm": 1}, "embedded")


def test_progress_tells_stages_rows_and_rates(tmp_path: Path) -> None:
    folder = write_input(tmp_path / "in", "j1")
    told: list[Progress] = []
    with og.init(tmp_path / "g", SCHEMA) as graph:
        result = ogs.load(graph, folder, "append", progress=told.append)
    finished = [each for each in told if each.finished]
    assert [each.stage for each in finished] == ["read", "check", "commit"]
    assert all(each.rows == 6 * ROWS and each.rate > 0 for each in finished)
    assert set(result.timings) == {"read", "check", "commit"}


def test_a_new_branch_has_the_schema_of_the_one_it_is_made_from(tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"type":"P","data":{"k":"a","n":1}}')
    with og.init(tmp_path / "g", "node P { k: String @key }") as graph:
        before = graph.commits.head().id
        graph.schema.apply("node P { k: String @key  n: I32? }")
        graph.branches.create("old", at=before)
        for engine in ("embedded", "spark"):
            with pytest.raises(og.errors.InputError, match="'n'"):
                graph.load(path, "append", branch=f"from-{engine}", from_="old", engine=engine)
        assert graph.branches.list() == ["main", "old"]
        assert graph.load(path, "append", branch="new", from_="main", engine="spark").nodes == {"P": 1}
