"""What the package says to `logging`: commits, retries, recoveries and loads; nothing by default, and never a value."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.write.change import Mode
from tests.support.small_graphs import people, persons, run_child
from tests.write.together import together

SECRET = "ann-the-secret"
ADD = f'query q() {{ insert Person {{ handle: "{SECRET}" }} }}'


def test_a_commit_and_a_load_are_told_without_their_values(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = people(tmp_path / "g", actor="act-anna")
    source = tmp_path / "more.jsonl"
    source.write_text(f'{{"type":"Person","data":{{"handle":"{SECRET}2"}}}}\n', encoding="utf-8")
    with caplog.at_level(logging.DEBUG, "omnigraph"):
        commit = graph.mutate(ADD).commit
        graph.load(source, "append", engine="embedded")
    assert commit is not None
    told = [(record.name, record.getMessage()) for record in caplog.records]
    assert ("omnigraph.commit", f"commit {commit.id} on branch 'main': mutation of node:Person by act-anna") in told
    assert any(
        name == "omnigraph.load" and "append on branch 'main': 1 records, 0 rejected" in text for name, text in told
    )
    assert SECRET not in caplog.text


def test_commits_that_are_published_together_are_told_one_by_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    graph = people(tmp_path / "g", actor="act-anna")
    with caplog.at_level(logging.INFO, "omnigraph.commit"):
        done = together(graph, [partial(graph.mutate, ADD.replace(SECRET, name)) for name in "abcd"])
    told = {record.getMessage() for record in caplog.records}
    commits = [each.commit for each in done]
    assert told == {f"commit {each.id} on branch 'main': mutation of node:Person by act-anna" for each in commits}


def test_a_write_that_is_computed_again_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = people(tmp_path / "g", "ann")
    base = graph.snapshot()
    graph.write([persons("bob")])
    with caplog.at_level(logging.INFO, "omnigraph.commit"):
        graph.write([persons("cid", mode=Mode.MERGE)], base=base)
    assert "write on branch 'main' is computed again: another writer was faster" in caplog.text


def test_the_recovery_of_a_dead_writer_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    people(tmp_path / "g", "ann").close()
    code = "import sys, omnigraph as og; og.open(sys.argv[1]).mutate(sys.argv[2])"
    ended = run_child(
        code, str(tmp_path / "g"), ADD, env={"OMNIGRAPH_FAILPOINTS": "write.after_all_table_commits=kill"}
    )
    assert ended.returncode == -9, ended.stderr
    with caplog.at_level(logging.WARNING, "omnigraph.recovery"), og.open(tmp_path / "g"):
        assert "resolving the interrupted write" in caplog.text
    assert "(Mutation on branch 'main')" in caplog.text


def test_nothing_is_printed_until_somebody_listens(tmp_path: Path) -> None:
    code = """
import logging, sys, omnigraph as og
og.init(sys.argv[1], "node Person { handle: String @key }").mutate('query q() { insert Person { handle: "a" } }')
logging.getLogger("omnigraph.recovery").warning("somebody died")
"""
    ended = run_child(code, str(tmp_path / "g"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
