"""Loads on Spark that die: the driver by SIGKILL at every step, workers and tasks in the middle of their work.

Afterwards all of a job is there or nothing, files that nobody commits can be reclaimed, and running the job again
under its name brings it to its end exactly once.
"""

from __future__ import annotations

import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph import spark as ogs
from tests.support.spark_job import ROWS, SCHEMA, counts, run_child, run_job, write_input

pytestmark = pytest.mark.timeout(900)

#: Where the driver dies, and whether the job is there afterwards.
QUICK = [("spark.after_staging", False), ("write.after_table_commit", True)]
LONG = [
    ("write.after_stage", False),
    ("write.after_gate_checks", False),
    ("write.after_sidecar", False),
    ("write.after_all_table_commits", True),
    ("publish.before_commit", True),
    ("write.after_publish_before_delete", True),
]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    og.init(tmp_path / "g", SCHEMA).close()
    return str(tmp_path / "g")


def _data_files(uri: str) -> set[Path]:
    return {path for kind in ("nodes", "edges") for path in Path(uri, kind).rglob("data/*.lance")}


def _committed_files(graph: og.Graph) -> int:
    """Files of the tables that the graph shows; each was written once."""
    tables = [
        path for path in Path(graph.uri).rglob("*") if (path / "_versions").is_dir() and "_graph" not in str(path)
    ]
    return sum(len(lance.dataset(str(path)).get_fragments()) for path in tables if path.name != "__manifest")


@pytest.mark.parametrize(("failpoint", "landed"), QUICK)
def test_a_killed_driver_leaves_all_or_nothing(
    failpoint: str, landed: bool, uri: str, tmp_path: Path, spark: Any
) -> None:
    _kill_and_retry(failpoint, landed, uri, tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize(("failpoint", "landed"), LONG)
def test_a_driver_killed_anywhere_leaves_all_or_nothing(
    failpoint: str, landed: bool, uri: str, tmp_path: Path, spark: Any
) -> None:
    _kill_and_retry(failpoint, landed, uri, tmp_path)


def _kill_and_retry(failpoint: str, landed: bool, uri: str, tmp_path: Path) -> None:
    folder = write_input(tmp_path / "in", "j1")
    child = run_job(uri, folder, "job-1", f"{failpoint}=kill")
    assert child.returncode == -signal.SIGKILL, child.stderr[-2000:]
    with og.open(uri) as graph:
        found = counts(graph, "j1")
        assert found == ({ROWS} if landed else {0})
        head = graph.commits.head().id
        again = ogs.load(graph, folder, "append", job_id="job-1")
        assert again.commit is not None and again.commit.labels["job"] == "job-1"
        assert (again.commit.id == head) == landed
        assert (again.total, counts(graph, "j1")) == (6 * ROWS, {ROWS})
        orphans = len(_data_files(uri)) - _committed_files(graph)
        assert orphans == 0 if landed else orphans > 0
    for table in {path.parent.parent for path in _data_files(uri)}:
        lance.dataset(str(table)).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    with og.open(uri) as graph:
        assert len(_data_files(uri)) == _committed_files(graph)
        assert counts(graph, "j1") == {ROWS}
        assert graph.verify(deep=True).problems == ()


def test_a_task_that_fails_for_good_fails_the_job_and_leaves_the_graph_free(uri: str, tmp_path: Path) -> None:
    folder = write_input(tmp_path / "in", "j1")
    child = run_job(uri, folder, "job-1", OMNIGRAPH_FAILPOINTS="spark.before_fragment=raise")
    assert child.stdout == "StoreUnavailable injected fault at spark.before_fragment\n", child.stderr[-2000:]
    with og.open(uri) as graph:
        assert counts(graph, "j1") == {0}
        assert len(graph.commits.list()) == 1
        path = tmp_path / "next.jsonl"
        path.write_text('{"type":"Firm","data":{"name":"f","mark":"next"}}\n')
        assert graph.load(path, "append").total == 1


FLAKY = """
import os, signal, sys
import pyarrow as pa
import omnigraph as og
from omnigraph import spark as ogs
uri = sys.argv[1]
spark = ogs.session("local[2,4]", **{"spark.driver.memory": "1g"})

def flaky(kind):
    def run(batches):
        from pyspark import TaskContext
        attempt = TaskContext.get().attemptNumber()
        for batch in batches:
            names = [f"{kind}{number}" for number in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"name": names, "mark": [kind] * len(names)})
        if attempt < 2 and kind == "raises":
            raise OSError("the disk is on fire")
        if attempt < 1 and kind == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
    return run

with og.open(uri) as graph:
    for kind in ("raises", "dies"):
        frame = spark.range(0, 300, 1, 2).mapInArrow(flaky(kind), "name string, mark string")
        result = ogs.load(graph, {"Person": frame}, "append")
        marks = graph.snapshot().arrow("Person", columns=["name", "mark"]).to_pylist()
        names = [row["name"] for row in marks if row["mark"] == kind]
        print(kind, result.total, len(names), len(set(names)))
"""


def test_tasks_that_fail_or_die_and_are_tried_again_duplicate_nothing(uri: str, tmp_path: Path) -> None:
    child = run_child([sys.executable, "-c", FLAKY, uri])
    assert child.stdout == "raises 300 300 300\ndies 300 300 300\n", child.stderr[-3000:]


def test_a_job_that_is_done_stages_nothing_when_it_is_run_again(uri: str, tmp_path: Path, spark: Any) -> None:
    folder = write_input(tmp_path / "in", "j1")
    with og.open(uri) as graph:
        before = _data_files(uri)
        first = ogs.load(graph, folder, "append", job_id="a")
        again = ogs.load(graph, folder, "append", job_id="a")
        assert again.commit == first.commit
        assert (again.nodes, again.edges) == (first.nodes, first.edges)
        assert len(_data_files(uri) - before) == _committed_files(graph)


def test_a_refused_job_removes_its_files_and_its_branch(uri: str, tmp_path: Path, spark: Any) -> None:
    folder = write_input(tmp_path / "in", "j1")
    (folder / "z.jsonl").write_text('{"edge":"Knows","from":"j1-p0","to":"nobody","data":{"mark":"j1"}}\n')
    with og.open(uri) as graph:
        for branch in ("main", "review"):
            with pytest.raises(og.errors.EndpointMissing, match="dst 'nobody' not found in Person"):
                ogs.load(graph, folder, "append", branch=branch, from_="main")
        assert _data_files(uri) == set()
        assert graph.branches.list() == ["main"]
        (folder / "z.jsonl").unlink()
        result = ogs.load(graph, folder, "append", branch="review", from_="main")
        assert result.branch_created and counts(graph, "j1", "review") == {ROWS} and counts(graph, "j1") == {0}
