"""Help at every level, and command lines that are not understood."""

from __future__ import annotations

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.cli.app import COMMANDS, GROUPS, build
from tests.support.command_line import CommandLine

VERBS = {
    "blob": ("get", "stat"),
    "branch": ("create", "delete", "list", "merge"),
    "changes": ("baseline", "poll"),
    "commit": ("changes", "list", "show"),
    "graphs": ("list",),
    "policy": ("explain", "test", "validate"),
    "profile": ("list", "show"),
    "queries": ("list",),
    "retention": ("clear", "set", "show"),
    "schema": ("apply", "plan", "show"),
    "tag": ("create", "delete", "list"),
}


def test_the_top_level_help_lists_every_command_and_ends_with_a_legend(reader: CommandLine) -> None:
    shown = reader.ok("--help").out
    assert shown == reader.ok("-h").out
    assert [name for name in COMMANDS if f"\n  {name} " not in shown] == []
    assert "Commands by what they need:" in shown
    assert reader.run().code in (0, 2)


def test_a_group_lists_its_verbs(reader: CommandLine) -> None:
    assert set(VERBS) == GROUPS
    shown = reader.ok("branch", "--help").out
    assert [verb for verb in VERBS["branch"] if f"\n  {verb} " not in shown] == []


LINES = [(name,) for name in COMMANDS if name not in GROUPS] + [
    (group, verb) for group in VERBS for verb in VERBS[group]
]


#: Commands that take no --store, those of them that take --server, and those that work on storage only.
STORELESS = {"init", "version", "clone", "backup", "policy", "graphs", "queries", "alias", "login", "logout", "profile"}
STORELESS |= {"serve"}
SERVED = {"graphs", "queries"}
DIRECT = {"embed", "optimize", "verify", "recover", "repair", "cleanup", "retention", "upkeep", "relocate"}


def test_every_command_has_help_that_shows_the_flags_it_takes() -> None:
    """In one process; that the executable shows the same is seen above and below."""
    from typer.testing import CliRunner

    app = build()
    for group, verbs in VERBS.items():
        shown = CliRunner().invoke(app, [group, "--help"]).output
        assert [verb for verb in verbs if f"\n  {verb} " not in shown] == []
    for words in LINES:
        ended = CliRunner().invoke(app, [*words, "--help"])
        assert ended.exit_code == 0, words
        assert ended.output.startswith("Usage: "), words
        assert "--quiet" in ended.output, words
        assert "--cluster" not in ended.output, words
        assert ("--store" in ended.output) is not (words[0] in STORELESS), words
        assert ("--server " in ended.output) is (words[0] in SERVED or words[0] not in STORELESS | DIRECT), words


def test_the_executable_shows_the_help_of_a_verb(reader: CommandLine) -> None:
    shown = reader.ok("branch", "merge", "-h").out
    assert shown.startswith("Usage: omnigraph branch merge [OPTIONS] ")
    assert "--delete-branch" in shown


def test_version_is_two_lines_and_the_flag_one(reader: CommandLine) -> None:
    assert reader.ok("version").out == f"omnigraph {og.__version__}\ninternal-schema {limits.INTERNAL_SCHEMA_VERSION}\n"
    assert reader.ok("--version").out == reader.ok("-v").out == f"omnigraph {og.__version__}\n"
    assert reader.ok("--quiet", "version").out == reader.ok("version").out
    assert reader.run("version", "--store", "x").code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("unknown",), "No such command 'unknown'"),
        (("query", "--colour", "red"), "No such option: --colour"),
        (("branch", "create"), "Missing argument 'NAME'"),
        (("load", "people.omni", "--data", "x", "--mode", "replace"), "'replace' is not one of"),
    ],
)
def test_a_command_line_that_is_not_understood_leaves_with_2(
    words: tuple[str, ...], said: str, reader: CommandLine
) -> None:
    ended = reader.run(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Usage: omnigraph")
    assert said in ended.err
