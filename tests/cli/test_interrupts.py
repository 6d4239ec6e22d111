"""Ctrl-C and readers that go away: one line or none, and never half a change."""

from __future__ import annotations

import subprocess
from pathlib import Path

import omnigraph as og
from tests.support.command_line import EXECUTABLE, CommandLine

LOAD = ("load", "people.omni", "--data", "more.jsonl", "--mode", "append", "--quiet")


def _more(shell: CommandLine) -> None:
    (shell.folder / "more.jsonl").write_text('{"type":"Person","data":{"handle":"di","name":"Di"}}\n', "utf-8")


def _people(shell: CommandLine, branch: str = "main") -> int:
    with og.open(shell.folder / "people.omni") as graph:
        assert graph.verify().ok
        return graph.snapshot(branch).count("Person")


def test_a_load_that_is_interrupted_before_its_commit_leaves_nothing(shell: CommandLine, tmp_path: Path) -> None:
    _more(shell)
    words = (*LOAD, "--branch", "new", "--from", "main")
    ended = shell.interrupted_at("write.after_stage", tmp_path / "mark", *words)
    assert (ended.code, ended.out) == (130, "")
    assert ended.err == "\ninterrupted: nothing was written\n"
    assert _people(shell) == 3
    assert shell.ok("branch", "list", "--uri", "people.omni").out == "main\n"
    assert shell.ok(*words).code == 0


def test_a_load_that_is_interrupted_in_its_commit_is_finished_first(shell: CommandLine, tmp_path: Path) -> None:
    _more(shell)
    ended = shell.interrupted_at("write.after_sidecar", tmp_path / "mark", *LOAD)
    assert (ended.code, ended.out) == (130, "")
    head = shell.ok("commit", "list", "people.omni").out.split()[0]
    assert ended.err == f"\ninterrupted: the change was complete by then; branch 'main' is at commit {head}\n"
    assert _people(shell) == 4


def test_a_merge_that_is_interrupted_is_whole_or_not_there(shell: CommandLine, tmp_path: Path) -> None:
    with og.open(shell.folder / "people.omni") as graph:
        graph.branches.create("x")
        graph.mutate('query q() { insert Person { handle: "di", name: "Di" } }', branch="x")
        graph.mutate('query q() { insert Person { handle: "ed", name: "Ed" } }')
    words = ("branch", "merge", "x", "--store", "people.omni", "--quiet")
    early = shell.interrupted_at("write.after_stage", tmp_path / "early", *words)
    assert (early.code, early.out, early.err) == (130, "", "\ninterrupted: nothing was written\n")
    assert _people(shell) == 4
    late = shell.interrupted_at("write.after_all_table_commits[BranchMerge]", tmp_path / "late", *words)
    assert (late.code, late.out) == (130, "")
    assert late.err.startswith("\ninterrupted: the change was complete by then; branch 'main' is at commit ")
    assert _people(shell) == 5


def test_a_reader_that_goes_away_ends_the_command_quietly(shell: CommandLine) -> None:
    with og.open(shell.folder / "people.omni") as graph:
        rows = "".join(
            f'{{"type":"Person","data":{{"handle":"p{i:05d}","name":"{"x" * 50}"}}}}\n' for i in range(4_000)
        )
        (shell.folder / "many.jsonl").write_text(rows, "utf-8")
        graph.load(shell.folder / "many.jsonl", "append")
    query = ("query", "people", "--store", "people.omni", "--query", "people.gq", "--format", "csv")
    for words in (("export", "people.omni"), query, (*query[:-1], "table")):
        process = subprocess.Popen(
            [EXECUTABLE, *words],
            cwd=shell.folder,
            env=dict(shell.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
        assert process.wait(60) == 141
