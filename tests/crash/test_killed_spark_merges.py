"""Merges on Spark whose driver dies, and loads on Spark whose store misbehaves: all of it is there, or nothing."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

import omnigraph as og
from tests.support.crash_checks import assert_whole, records
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.s3_server import S3Server
from tests.support.spark_job import ROWS, SCHEMA, counts, run_child, run_job, write_input

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("failpoint", "landed"),
    [
        ("write.after_stage", False),
        ("write.after_sidecar", False),
        ("write.after_table_commit", True),
        ("write.after_all_table_commits[BranchMerge]", True),
        ("write.after_publish_before_delete", True),
    ],
)
def test_a_killed_driver_of_a_merge_leaves_all_or_nothing(failpoint: str, landed: bool, tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(write_input(tmp_path / "seed", "seed"), "append", engine="embedded")
        graph.branches.create("side")
        graph.load(write_input(tmp_path / "side", "side"), "append", branch="side", engine="embedded")
        head = graph.commits.head("side")
    command = [sys.executable, "-m", "tests.support.spark_merge", str(tmp_path / "g"), "side", f"{failpoint}=kill"]
    child = run_child(command)
    assert child.returncode == -signal.SIGKILL, child.stderr[-2000:]
    with og.open(tmp_path / "g") as graph:
        assert (counts(graph, "side"), counts(graph, "seed")) == ({ROWS if landed else 0}, {ROWS})
        again = graph.branches.merge("side", engine="embedded")
        assert again.outcome == ("already_up_to_date" if landed else "fast_forward")
        assert graph.commits.head().merged_parent == head.id
        assert counts(graph, "side") == {ROWS}
        graph.recover()
        assert_whole(graph)


@pytest.mark.s3
@pytest.mark.parametrize("kind", ["reset_after", "503", "late"])
def test_a_load_whose_store_misbehaves_now_and_then_is_there_once(
    kind: str, s3: S3Server, s3_root: str, tmp_path: Path
) -> None:
    """Driver and executors talk through the same wire; each job meets one fault, at another of its requests."""
    og.init(s3_root, SCHEMA).close()
    proxy = FaultProxy(s3.endpoint)
    with proxy.serve() as address:
        for number, first in enumerate((2, 7, 13, 19)):
            mark = f"j{number}"
            folder = write_input(tmp_path / mark, mark)
            with proxy.armed(Fault(kind, first)):
                child = run_job(s3_root, folder, f"job-{number}", AWS_ENDPOINT_URL=address)
            proxy.let_late_effects_happen()
            assert child.returncode == 0, child.stderr[-2000:]
            with og.open(s3_root) as graph:
                done = child.stdout.strip() == str(6 * ROWS)
                assert counts(graph, mark) == {ROWS if done else 0}, child.stdout
                assert records(s3_root) == {}
    with og.open(s3_root) as graph:
        graph.recover()
        assert_whole(graph)
