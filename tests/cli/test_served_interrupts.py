"""Ctrl-C while a server works on a write: the message says what is known, and what it says is true."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import omnigraph as og
from tests.support.command_line import EXECUTABLE, CommandLine, Ended
from tests.support.server_process import ServerProcess, server_process
from tests.support.waiting import wait_until

ADD = ("mutate", "add", "--query", "people.gq", "--params", '{"handle": "di", "name": "Di"}')


@contextmanager
def paused_server(shell: CommandLine, failpoint: str, mark: Path) -> Iterator[ServerProcess]:
    """A server whose next write stands at a failpoint until the mark is released."""
    armed = {"OMNIGRAPH_FAILPOINTS": f"{failpoint}=pause:{mark}", "OMNIGRAPH_FSYNC": "0"}
    with server_process(shell.folder / "people.omni", env=armed) as server:
        try:
            yield server
        finally:
            release(mark)


def release(mark: Path) -> None:
    mark.with_name(f"{mark.name}.release").touch()


def interrupted(shell: CommandLine, mark: Path, *words: str) -> Ended:
    """Send Ctrl-C to a command while the server stands at the failpoint."""
    process = subprocess.Popen(
        [EXECUTABLE, *words],
        cwd=shell.folder,
        env=dict(shell.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    reached = mark.with_name(f"{mark.name}.reached")
    wait_until(lambda: reached.exists() or process.poll() is not None, timeout=60, what="the server at work")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out.decode(), err.decode())


def test_a_write_that_the_server_still_works_on_is_not_called_lost(shell: CommandLine, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with paused_server(shell, "write.after_stage", mark) as server:
        ended = interrupted(shell, mark, *ADD, "--store", server.graph_url())
        assert (ended.code, ended.out) == (130, "")
        said, _, look = ended.err.partition("still be at it; 'omnigraph ")
        assert said == "\ninterrupted: nothing was written by then, but the server may "
        words = look.removesuffix("' tells\n").split()
        assert words[:2] == ["commit", "show"]
        release(mark)
        assert server.stop() == 0
    found = shell.run(*words, "--uri", "people.omni")
    with og.open(shell.folder / "people.omni", mode="ro") as graph:
        assert graph.snapshot().count("Person") == (4 if found.code == 0 else 3)


def test_a_write_that_was_complete_by_then_is_named(shell: CommandLine, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with paused_server(shell, "write.after_publish_before_delete", mark) as server:
        ended = interrupted(shell, mark, *ADD, "--store", server.graph_url())
    assert (ended.code, ended.out) == (130, "")
    with og.open(shell.folder / "people.omni", mode="ro") as graph:
        head = graph.commits.head().id
        assert graph.snapshot().count("Person") == 4
    assert ended.err == f"\ninterrupted: the change was complete by then; it is commit {head}\n"


def test_a_merge_is_judged_by_the_head_of_its_branch(shell: CommandLine, tmp_path: Path) -> None:
    with og.open(shell.folder / "people.omni") as graph:
        graph.branches.create("x")
        for branch, handle in (("x", "di"), ("main", "ed")):
            graph.mutate(f'query q() {{ insert Person {{ handle: "{handle}", name: "N" }} }}', branch=branch)
    mark = tmp_path / "mark"
    merge = ("branch", "merge", "x", "--quiet")
    with paused_server(shell, "write.after_publish_before_delete", mark) as server:
        ended = interrupted(shell, mark, *merge, "--store", server.graph_url())
    assert (ended.code, ended.out) == (130, "")
    with og.open(shell.folder / "people.omni", mode="ro") as graph:
        head = graph.commits.head().id
    assert ended.err == (
        f"\ninterrupted: the server may have made the change: branch 'main' is at commit {head} now; "
        "'omnigraph commit list --branch main' tells\n"
    )
