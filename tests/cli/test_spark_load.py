"""A bulk load through the executable. Starts a JVM, so it is one of the long tests; the demo loads with Spark too."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

import omnigraph as og
from tests.support.command_line import EXECUTABLE, CommandLine
from tests.support.waiting import wait_until

pytestmark = pytest.mark.torture


def _directory(shell: CommandLine) -> None:
    (shell.folder / "in").mkdir()
    rows = "".join(f'{{"type":"Person","data":{{"handle":"p{i}","name":"P {i}"}}}}\n' for i in range(500))
    (shell.folder / "in" / "more.jsonl").write_text(rows, "utf-8")


def test_a_directory_goes_through_spark_as_one_commit(shell: CommandLine) -> None:
    _directory(shell)
    done = shell.ok("load", "people.omni", "--data", "in", "--mode", "append", "--engine", "spark", "--json").json
    assert done["nodes"] == [{"name": "Person", "entities_loaded": 500}]
    commits = shell.ok("commit", "list", "people.omni", "--json").json["commits"]
    assert commits[0]["graph_commit_id"] == done["commit"]["graph_commit_id"]
    assert commits[0]["parent_commit_id"] == commits[1]["graph_commit_id"]


def test_a_merge_goes_through_spark_when_it_is_asked_for(shell: CommandLine) -> None:
    _directory(shell)
    load = ("load", "people.omni", "--data", "in/more.jsonl", "--mode", "append", "--branch", "x", "--from", "main")
    shell.ok(*load, "--engine", "embedded")
    done = shell.ok("branch", "merge", "x", "--uri", "people.omni", "--engine", "spark", "--json").json
    assert (done["outcome"], done["tables"]["node:Person"]["inserted"]) == ("fast_forward", 500)


def test_ctrl_c_stops_a_spark_load_without_a_trace(shell: CommandLine, tmp_path: Path) -> None:
    _directory(shell)
    words = (
        "load",
        "people.omni",
        "--data",
        "in",
        "--mode",
        "append",
        "--engine",
        "spark",
        "--branch",
        "x",
        "--from",
        "main",
    )
    process = subprocess.Popen(
        [EXECUTABLE, *words],
        cwd=shell.folder,
        env={**shell.environment, "OMNIGRAPH_FAILPOINTS": f"write.after_stage=pause:{tmp_path / 'mark'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    reached = tmp_path / "mark.reached"
    wait_until(lambda: reached.exists() or process.poll() is not None, timeout=240, what="the end of the Spark jobs")
    process.send_signal(signal.SIGINT)
    (tmp_path / "mark.release").touch()
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, b"")
    assert err.decode().endswith("interrupted: nothing was written\n")
    assert b"Traceback" not in err
    with og.open(shell.folder / "people.omni") as graph:
        assert graph.branches.list() == ["main"]
        assert graph.snapshot().count("Person") == 3
