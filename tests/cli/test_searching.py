"""`omnigraph search`: lines for people, JSON for programs, highlights on a terminal only."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from tests.support.command_line import CommandLine

SCHEMA = """
node Note   { slug: String @key  body: String? @index }
node Person { name: String @key }
edge Wrote: Person -> Note
"""


@pytest.fixture
def notes(shell: CommandLine) -> CommandLine:
    with og.init(Path(shell.folder) / "notes.omni", SCHEMA) as graph:
        graph.load(
            {
                "Note": [
                    {"slug": "n1", "body": "a café\nin Paris\x1b[31m"},
                    {"slug": "n2", "body": "a caf\u202eé"},
                    {"slug": "n3", "body": "nothing"},
                ],
                "Person": [{"name": "ann"}],
                "Wrote": [{"from": "ann", "to": "n1"}],
            },
            "append",
        )
    return shell


SEARCH = ("search", "Paris cafes", "--store", "notes.omni")


def test_hits_are_lines_with_what_matched_and_what_is_near(notes: CommandLine) -> None:
    ended = notes.ok(*SEARCH, "--hops", "1")
    assert ended.out == (
        "1 hit for Paris cafes\n"
        "\n"
        "1. Note n1  (score 0.0164)\n"
        "   body  a café in Paris [31m\n"
        "   1 hop by Wrote: Person ann\n"
    )
    assert notes.ok("search", "owl", "--store", "notes.omni").out == "0 hits for owl\n"


def test_what_matched_is_bold_on_a_terminal_unless_colour_is_not_wanted(notes: CommandLine) -> None:
    assert "a \x1b[1mcafé\x1b[0m in \x1b[1mParis\x1b[0m [31m" in notes.on_terminal(*SEARCH).out
    assert "\x1b[1m" not in notes.on_terminal(*SEARCH, NO_COLOR="1").out
    assert "\x1b" not in notes.ok(*SEARCH).out


def test_a_text_cannot_steer_the_terminal(notes: CommandLine) -> None:
    out = notes.on_terminal("search", "caf", "--store", "notes.omni").out
    assert "\u202e" not in out and "\\u202e" in out


def test_json_is_what_python_gives(notes: CommandLine) -> None:
    ended = notes.ok(*SEARCH, "--json", "--type", "Note", "--limit", "3")
    with og.open(Path(notes.folder) / "notes.omni", mode="ro") as graph:
        assert ended.json == graph.search("Paris cafes", ["Note"], limit=3).to_dict()


def test_mistakes_are_one_sentence(notes: CommandLine) -> None:
    wrong = notes.run(*SEARCH, "--type", "Nots")
    assert (wrong.code, wrong.err) == (1, "error: there is no node type 'Nots'\nhint: did you mean 'Note'?\n")
    both = notes.run(*SEARCH, "--branch", "main", "--snapshot", "1")
    assert both.code == 2 and "--branch and --snapshot both say what to read" in both.err
    far = notes.run(*SEARCH, "--hops", "9")
    assert (far.code, far.err) == (1, "error: hops is 9, which is more than 5\n")
