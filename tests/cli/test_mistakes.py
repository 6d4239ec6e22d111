"""What people get wrong at first: names that nearly exist, the wrong file, the address in the wrong place."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

import omnigraph as og
from omnigraph import limits
from tests.support.command_line import EXECUTABLE, CommandLine

STORE = ("--store", "people.omni")
LOAD = ("load", "people.omni", "--mode", "append", "--quiet", "--engine", "embedded", "--data")


def asking(match: str, returned: str = "$p.name") -> tuple[str, ...]:
    return ("query", *STORE, "-e", f"query q() {{ match {{ {match} }} return {{ {returned} }} }}")


#: Command lines with names that nearly exist, and the hint that ends the answer.
NEARLY = [
    (asking("$p: Persn"), "did you mean 'Person'?"),
    (asking("$p: Robot"), "known: Person, Team"),
    (asking("$p: Person", "$p.nam"), "did you mean 'name'?"),
    (asking('$p: Person { hande: "x" }'), "did you mean 'handle'?"),
    (asking("$p: Person  $p folows $q"), "did you mean 'follows'?"),
    ((*asking("$p: Person"), "--branch", "mian"), "did you mean 'main'?"),
    (("query", "peple", *STORE, "--query", "people.gq"), "did you mean 'people'?"),
    (("query", *STORE, "--query", "people.gq"), "it has people, person, add, rename"),
    (("mutate", *STORE, "-e", 'query q() { insert Persn { handle: "x" } }'), "did you mean 'Person'?"),
    (("query", "person", *STORE, "--query", "people.gq", "--params", '{"wo": "ana"}'), "did you mean 'who'?"),
    (("mutate", "add", *STORE, "--query", "people.gq", "--params", '{"handel": "x"}'), "did you mean 'handle'?"),
    (("query", "people", *STORE, "--query", "people.gq", "--params", '{"x": 1}'), "it takes none"),
    (("export", *STORE, "--type", "Tem"), "did you mean 'Team'?"),
    (("diff", "main", "mian", *STORE), "did you mean 'main'?"),
    (("diff", "1", "main", *STORE, "--type", "Persons"), "did you mean 'Person'?"),
    (("commit", "show", "abc", *STORE), "'omnigraph commit list' shows them"),
    (("--profile", "x", "export"), "none is defined there"),
]


def test_a_name_that_does_not_exist_is_answered_with_what_was_meant(reader: CommandLine) -> None:
    for (words, hint), ended in zip(NEARLY, reader.run_all([words for words, _ in NEARLY]), strict=True):
        assert (ended.code, ended.out) == (1, ""), words
        assert ended.err.endswith(f"hint: {hint}\n"), ended.err


#: Command lines that cannot be meant, their exit code, and what the answer says.
WRONG = [
    (("export", "people.pg"), 1, "people.pg is a file, and a graph is a directory"),
    (("init", "people.pg", "--schema", "people.pg"), 1, "people.pg is a file, and a graph is a directory"),
    (("query", *STORE, "-e", "people.gq"), 2, "hint: pass --query people.gq"),
    (("query", "people.omni", "-e", "query q() {}"), 2, "hint: pass --store people.omni\n"),
    (("commit", "list", "--uri", "people.omni"), 2, "hint: --store URI says which graph is meant"),
    (
        ("query", *STORE, "-e", 'query q() { insert Person { handle: "x" } }'),
        1,
        "on a mutation query; use mutate instead",
    ),
    (
        ("mutate", *STORE, "-e", "query q() { match { $p: Person } return { $p } }"),
        1,
        "on a read query; use query instead",
    ),
    (("mutate", *STORE, "--as", " ", "-e", "query q() {}"), 2, "error: --as names nobody"),
    (("load", *STORE, "--data", "x", "--mode", "put"), 2, "'put' is not one of 'overwrite', 'append', 'merge'\n"),
    (("changes", "poll", *STORE, "--start", "soon"), 2, "error: --start is 'now', 'beginning' or 'after:COMMIT'"),
    ((*asking("$p: Person"), "--branch", ""), 1, "error: branch name '' is not allowed"),
    ((*LOAD, "people.csv"), 1, "hint: people.csv holds no types: name the file after one"),
    ((*LOAD, "people.csv", "--type", "Persn"), 1, "hint: did you mean 'Person'?"),
    ((*LOAD, "types.jsonl"), 1, "error: types.jsonl:2: unknown node type 'Persn'\nhint: did you mean 'Person'?\n"),
    ((*LOAD, "fields.jsonl"), 1, "error: fields.jsonl:1: unknown input field 'nam' for 'node:Person'\nhint: did"),
    ((*LOAD, "ages.csv", "--type", "Person"), 1, "error: ages.csv:2: property 'age' expects I32"),
    ((*LOAD, "nothing"), 1, "error: nothing does not exist\n"),
    ((*LOAD, "nope.csv"), 1, "error: nope.csv does not exist\n"),
    ((*LOAD, "people.unknown", "--type", "Person"), 1, "hint: pass --format FORMAT"),
    (
        (*LOAD, "Person.csv"),
        1,
        "error: Person.csv: unknown input field 'nam' for 'node:Person'\nhint: did you mean 'name'?\n",
    ),
    (
        (*LOAD, "open.csv", "--type", "Person"),
        1,
        "error: open.csv:2: the quote opened on line 2 is never closed\nhint: close",
    ),
    (
        (*LOAD, "twice.jsonl"),
        1,
        "error: twice.jsonl:2: duplicate key 'di' of Person.handle\nhint: the first is twice.jsonl:1\n",
    ),
]


def test_a_mistake_is_answered_with_the_way_out(reader: CommandLine) -> None:
    good, bad = '{"type":"Person","data":{"handle":"di","name":"Di"}}\n', '{"type":"Persn","data":{}}\n'
    for name, text in {
        "people.csv": "handle,name\ndi,Di\n",
        "people.unknown": "x",
        "Person.csv": "handle,nam\ndi,Di\n",
        "open.csv": 'handle,name\n"di,Di\n',
        "twice.jsonl": good + good,
        "ages.csv": "handle,name,age\ndi,Di,seven\n",
        "types.jsonl": good + bad,
        "fields.jsonl": good.replace('"name"', '"nam"'),
    }.items():
        (reader.folder / name).write_text(text, "utf-8")
    for (words, code, said), ended in zip(WRONG, reader.run_all([words for words, _, _ in WRONG]), strict=True):
        assert (ended.code, ended.out) == (code, ""), words
        assert said in ended.err, ended.err
        assert "Traceback" not in ended.err


def test_a_long_file_that_is_refused_at_its_header_ends_the_command(reader: CommandLine) -> None:
    (reader.folder / "Team.csv").write_bytes(b"code,knd\n" + b"c1,core\n" * (4 * limits.LOAD_BLOCK_BYTES // 8))
    ended = reader.run(*LOAD, "Team.csv")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "error: Team.csv: unknown input field 'knd' for 'node:Team'\nhint: did you mean 'kind'?\n"


def test_files_that_a_load_leaves_out_are_named(shell: CommandLine) -> None:
    folder = shell.folder / "in"
    folder.mkdir()
    for name, text in {"Team.csv": "code,kind\nc2,core\n", "notes.txt": "x", "_SUCCESS": ""}.items():
        (folder / name).write_text(text, "utf-8")
    ended = shell.ok(*LOAD, "in")
    assert ended.err == "warning: left out, because the suffix says nothing: in/notes.txt\n"


def test_spark_that_is_not_installed_is_one_sentence_with_the_way_out(shell: CommandLine) -> None:
    words = ["load", *STORE, "--data", "people.jsonl", "--mode", "merge", "--quiet", "--engine", "spark"]
    program = f"import sys; sys.modules['pyspark'] = None; from omnigraph.cli.app import run; run({words!r})"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=shell.folder,
        env=shell.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    first, hint = ended.stderr.splitlines()
    assert first.startswith("error: ") and "pyspark" in first
    assert hint == "hint: pip install 'omnigraph[spark]'"


def test_a_rename_that_has_happened_is_a_warning(shell: CommandLine) -> None:
    text = (shell.folder / "people.pg").read_text("utf-8")
    renamed = text.replace("name: String", 'title: String @rename_from("name")')
    (shell.folder / "next.pg").write_text(renamed, "utf-8")
    change = ("--schema", "next.pg", *STORE, "--quiet")
    applied, planned = shell.run_all([("schema", "apply", *change), ("schema", "plan", *change)])
    assert (applied.code, applied.err) == (0, "")
    assert (planned.code, planned.out.splitlines()[-1]) == (0, "no schema changes")
    assert planned.err.startswith('warning: node:Person.title: @rename_from("name") is ignored: ')


def test_lint_points_into_the_text(reader: CommandLine) -> None:
    (reader.folder / "w.gq").write_text("query a() {\n  match { $p: Persn }\n  return { $p.name }\n}\n", "utf-8")
    shown = reader.run("lint", "--query", "w.gq", "--schema", "people.pg").out
    assert shown.startswith(
        "ERROR a: type error: T1: unknown node type `Persn` (w.gq:2:11)\n"
        "    match { $p: Persn }\n            ^\n  did you mean 'Person'?\n"
    )
    (reader.folder / "w.gq").write_text("query a( {}\n", "utf-8")
    shown = reader.run("lint", "--query", "w.gq", "--schema", "people.pg").out
    assert shown.splitlines()[1:3] == ["  query a( {}", "           ^"]


@pytest.mark.parametrize("words", [("version",), ("--help",), ("export", "people.omni")])
def test_output_that_cannot_be_written_is_one_sentence(words: tuple[str, ...], reader: CommandLine) -> None:
    buffered = {name: value for name, value in reader.environment.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [EXECUTABLE, *words],
            cwd=reader.folder,
            env=buffered,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (1, b"error: cannot write the output: No space left on device\n")


@pytest.mark.parametrize("words", ["version", "export people.omni"])
def test_closed_streams_are_no_reason_to_fail(words: str, reader: CommandLine) -> None:
    command = f"exec {EXECUTABLE} {words} <&- >&- 2>&-"
    ended = subprocess.run(["sh", "-c", command], cwd=reader.folder, env=reader.environment, check=False)
    assert ended.returncode == 0


def test_a_baseline_waits_for_nobody_and_leaves_only_its_file(reader: CommandLine, tmp_path: os.PathLike[str]) -> None:
    out = os.path.join(tmp_path, "state.jsonl")
    words = ("changes", "baseline", *STORE, "--out", out)
    with open(f"{out}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = reader.run(*words)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith(f"error: another process is writing {out}\n")
    assert os.listdir(tmp_path) == ["state.jsonl.lock"]
    assert reader.ok(*words).out.startswith("snapshot_commit_id: ")
    assert os.listdir(tmp_path) == ["state.jsonl"]


def test_the_changes_of_a_commit_come_in_pages(reader: CommandLine) -> None:
    with og.open(reader.folder / "people.omni", mode="ro") as graph:
        newest = graph.commits.head().id
        token = graph.commit_changes(newest, kinds=["node"]).page(3).page_token
    assert token is not None
    words = ("commit", "changes", newest, *STORE, "--kind", "node")
    ways = [(), ("--limit", "1"), ("--page-token", "first", "--limit", "3"), ("--page-token", token)]
    lines = [(*words, *way, *shown) for way in ways for shown in (("--json",), ())]
    whole, text, again, same, first, _, rest, tail = reader.run_all(lines)
    assert again.err == ""
    assert (again.json, same.out) == (whole.json, text.out)
    assert first.json["changes"] + rest.json["changes"] == whole.json["changes"]
    assert (len(rest.json["changes"]), first.json["next_page_token"]) == (1, token)
    assert "next_page_token" not in rest.json
    assert text.out.endswith(tail.out)
    assert reader.run("commit", "changes", newest, *STORE, "--page-token", token).err.startswith("error: change cursor")
