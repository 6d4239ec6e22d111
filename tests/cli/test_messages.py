"""Every mistake of `mistakes.txt`: a command line, its exit code and all that it says on stderr."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from omnigraph.cli.error_text import UsageError, document, exit_code
from omnigraph.cli.hints import in_cli_words
from omnigraph.errors import MergeConflict, PreconditionFailed, UncoveredDrift
from tests.cli.conftest import shell_in
from tests.support.command_line import CommandLine

FIXTURE = Path(__file__).with_name("mistakes.txt")


def _cases() -> list[tuple[list[str], int, str]]:
    """Blocks of ``$ command``, ``exit CODE`` and the lines of stderr; ``{folder}`` is where the command ran."""
    cases = []
    for block in FIXTURE.read_text("utf-8").split("\n$ omnigraph ")[1:]:
        command, code, said = block.split("\n", 2)
        lines = [line for line in said.split("\n") if not line.startswith("# ")]
        cases.append((shlex.split(command), int(code.removeprefix("exit ")), "\n".join(lines).strip("\n")))
    return cases


def test_every_mistake_is_answered_with_these_words_and_this_exit_code(people: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    shutil.copytree(people, folder)
    (folder / "latin1.pg").write_bytes("node A { n: String } // é".encode("latin-1"))
    (folder / "people.unknown").write_text("x", "utf-8")
    cases = _cases()
    assert len(cases) > 80
    for (words, code, said), ended in zip(
        cases, shell_in(folder).run_all([words for words, _, _ in cases]), strict=True
    ):
        shown = ended.err.replace(str(folder), "{folder}").rstrip("\n")
        assert (shown, ended.code, ended.out) == (said, code, ""), shlex.join(words)


def test_an_error_is_a_document_where_the_result_would_be_one(reader: CommandLine) -> None:
    store = ("--store", "people.omni")
    asking = ("query", *store, "-e", "query q() { match { $p: Persn } return { $p.name } }", "--json")
    add = ("mutate", "add", *store, "--query", "people.gq", "--params", '{"handle": "x", "name": "x"}')
    wrong, missing, usage, parsed, lost = reader.run_all(
        [
            asking,
            ("branch", "list", "peple.omni", "--json"),
            ("branch", "list", "--json"),
            ("branch", "list", "people.omni", "--json", "--zzz"),
            (*add, "--if-commit", "nope", "--json"),
        ]
    )
    shown = wrong.json
    assert (wrong.code, shown["code"], shown["hint"]) == (1, "query.type", "did you mean 'Person'?")
    assert (shown["details"]["line"], shown["details"]["column"]) == (1, 21)
    assert wrong.err.startswith("error: <text>:1:21: ")
    assert (missing.code, missing.json["code"]) == (1, "not_found.graph")
    assert missing.json["hint"] == "did you mean people.omni?"
    assert (usage.code, usage.json["code"], usage.json["error"]) == (2, "usage", "which graph?")
    assert (parsed.code, parsed.json["code"], parsed.json["error"]) == (2, "usage", "No such option: --zzz")
    assert (lost.code, lost.json["code"]) == (4, "conflict.precondition")
    assert lost.json["precondition_failure"]["expected"] == "nope"


def test_the_hint_of_a_document_is_that_of_the_text(shell: CommandLine) -> None:
    """The place is in the details, and not at the end of the hint."""
    (shell.folder / "twice.csv").write_text("handle,name\nzoe,Zoe\nzoe,Zoe\n")
    (shell.folder / "other.csv").write_text("handle,nam\nzoe,Zoe\n")
    load = ("load", "people.omni", "--type", "Person", "--mode", "append", "--json", "--data")
    twice, unknown = shell.run(*load, "twice.csv"), shell.run(*load, "other.csv")
    assert (twice.json["hint"], twice.json["details"]["line"]) == ("the first is twice.csv:2", 3)
    assert "error: twice.csv:3: duplicate key 'zoe'" in twice.err
    assert (unknown.json["hint"], unknown.json["details"]["file"]) == ("did you mean 'name'?", "other.csv")


def test_the_document_of_a_conflict_names_the_options_of_the_command_line(shell: CommandLine) -> None:
    name = 'query q($n: String) { update Person set { name: $n } where handle = "ana" }'
    store = ("--store", "people.omni")
    shell.run("branch", "create", "side", *store)
    shell.run("mutate", *store, "-e", name, "--params", '{"n": "A"}', "--branch", "side")
    shell.run("mutate", *store, "-e", name, "--params", '{"n": "B"}')
    refused = shell.run("branch", "merge", "side", *store, "--json")
    assert (refused.code, refused.json["code"]) == (1, "conflict.merge")
    assert refused.json["hint"].startswith("settle each by one of its --resolve options")
    assert refused.err.endswith(f"\nerror: {refused.json['error']}\n") and "--resolve" not in refused.err


def test_a_bug_is_one_sentence_and_a_document() -> None:
    bug = ZeroDivisionError("division by zero\nand more")
    assert exit_code(bug) == 1
    shown = document(bug)
    assert shown["error"] == "this should not have happened: ZeroDivisionError: division by zero"
    assert (shown["code"], shown["hint"]) == ("internal", None)
    assert exit_code(UsageError("x")) == 2
    assert exit_code(PreconditionFailed("x")) == 4


#: Hints of Python, and what the command line says instead.
HINTS = {
    "pass type=": "pass --type TYPE",
    "pass type= or a mapping": "pass --type TYPE",
    "leave out type=": "leave out --type TYPE",
    "repair the installation of pyspark, or pass engine='embedded'": (
        "repair the installation of pyspark, or pass --engine embedded"
    ),
    'load it with on_error="reject"': "load it with --on-error reject",
    "pass dry_run=True": "pass --dry-run",
    "choose another state with at=": "choose another state with --snapshot SNAPSHOT",
    "list them with branches.list()": "list them with 'omnigraph branch list'",
    "list branches with branches.list(), commits with commits.list()": (
        "list branches with 'omnigraph branch list', commits with 'omnigraph commit list'"
    ),
    "read `schema.plan(...)` first": "read 'omnigraph schema plan' first",
    "create one with init": "create one with 'omnigraph init'",
    "write node:Person/Eve or edge:Knows/<id>": "write node:Person/Eve or edge:Knows/<id>",
    "add `or … is null`": "add `or … is null`",
    "there are sum, count(x) and exists": "there are sum, count(x) and exists",
}


@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_of_python_is_said_in_the_words_of_the_command_line(hint: str) -> None:
    assert in_cli_words(hint) == HINTS[hint]


def test_hints_of_errors_name_commands_and_options() -> None:
    drift = document(UncoveredDrift("node:Person", 3, 2))
    assert drift["hint"] == (
        "look at it with 'omnigraph repair', take it back with 'omnigraph repair --confirm --discard', "
        "or adopt it with 'omnigraph repair --confirm --force'"
    )
    merge = document(MergeConflict("x", hint="decide them with resolve="))
    assert str(merge["hint"]).startswith("decide them with --resolve ours or --resolve theirs")


def test_times_are_those_of_the_place_with_their_zone(reader: CommandLine) -> None:
    there = reader.ok("commit", "list", "people.omni", "--limit", "1", TZ="Asia/Tokyo").out
    here = reader.ok("commit", "list", "people.omni", "--limit", "1", TZ="UTC").out
    assert there.split(" created_at=")[1].split()[0].endswith("+09:00")
    assert here.split(" created_at=")[1].split()[0].endswith("+00:00")
    assert there.split(" created_at=")[0] == here.split(" created_at=")[0]


def test_branches_are_listed_by_either_way_to_name_the_graph(reader: CommandLine) -> None:
    ways = [("people.omni",), ("--uri", "people.omni"), ("--store", "people.omni")]
    ended = reader.run_all([("branch", "list", *way) for way in ways])
    assert [(each.code, each.out) for each in ended] == [(0, "main\n")] * 3
    assert json.loads(reader.ok("branch", "list", "people.omni", "--json").out) == {"branches": ["main"]}
