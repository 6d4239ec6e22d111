"""`omnigraph stats`: figures in columns for people, the same as JSON for programs."""

from __future__ import annotations

import re

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cli.printing import byte_text, grid
from omnigraph.errors import OmniGraphError
from tests.support.command_line import CommandLine


def test_stats_shows_tables_and_indexes_in_columns_and_the_rest_in_lines(shell: CommandLine) -> None:
    with og.open(shell.folder / "people.omni") as graph:
        graph.ensure_indices()
        graph.branches.create("review/x")
    shown = shell.ok("stats", "people.omni").out
    lines = shown.splitlines()
    assert lines[0] == "branch main at version 4: 3 commits"
    assert re.fullmatch(r"table +\| rows \| fragments \| small \| deleted \| +bytes \| +history", lines[2])
    assert re.fullmatch(r"-+(-\+-+)+", lines[3])
    assert [line.split(" | ")[:2] for line in lines[4:9]] == [
        ["edge:Follows ", "   1"],
        ["edge:MemberOf", "   1"],
        ["node:Person  ", "   3"],
        ["node:Team    ", "   1"],
        ["total        ", "   6"],
    ]
    assert any(re.fullmatch(r"node:Person +\| handle +\| INVERTED +\| +3 \| +0", line) for line in lines)
    assert re.search(r"^manifest: \d+ versions, \d+ rows in \d+ fragments?, [\d.]+ kB$", shown, re.M)
    assert re.search(r"^stored: \d+ files, [\d.]+ kB \(tables [\d.]+ kB, manifest [\d.]+ kB, ", shown, re.M)
    assert lines[-1] == "branches: main, review/x"
    assert shell.on_terminal("stats", "people.omni").out == shown


def test_stats_as_json_is_what_python_gives(reader: CommandLine) -> None:
    shown = reader.ok("stats", "--store", "people.omni", "--json").json
    with og.open(reader.folder / "people.omni", mode="ro") as graph:
        assert shown == graph.stats().to_dict()


def test_stats_says_what_waits_for_upkeep(shell: CommandLine) -> None:
    with og.open(shell.folder / "people.omni") as graph:
        failpoints.arm("write.after_all_table_commits=raise")
        try:
            with pytest.raises(OmniGraphError):
                graph.mutate('query q() { insert Team { code: "c2", kind: "core" } }')
        finally:
            failpoints.arm("")
    shown = shell.ok("stats", "people.omni").out
    waiting = r"^interrupted or running: 0\w{25}, Mutation on main of node:Team, \d+ s old$"
    assert re.search(waiting, shown, re.M), shown
    assert "drift: node:Team is at version 3, shown is 2: recorded\n" in shown
    assert "no index: node:Person on handle: not built yet\n" in shown


def test_the_stats_of_a_branch_that_does_not_exist_are_refused(reader: CommandLine) -> None:
    ended = reader.run("stats", "people.omni", "--branch", "mian")
    assert (ended.code, ended.err) == (1, "error: there is no branch 'mian'\nhint: did you mean 'main'?\n")


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (10**16, "10000.0 TB")],
)
def test_a_size_is_shown_with_one_digit_behind_the_point(size: int, shown: str) -> None:
    assert byte_text(size) == shown


def test_columns_of_numbers_end_at_the_same_place() -> None:
    assert list(grid(("name", "n"), [("日本", "7"), ("a\n", "123")])) == [
        "name |   n",
        "-----+----",
        "日本 |   7",
        "a\\n  | 123",
    ]
