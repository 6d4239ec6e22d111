"""The same command lines on a store and on a server over a copy of it: the same words, the same exit codes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from tests.cli.conftest import shell_in
from tests.support.command_line import CommandLine, Ended
from tests.support.served import served

BY_NAME = ("--query", "people.gq")
LOAD = ("load", "--quiet", "--data")


def reads(first: str, head: str) -> list[tuple[str, ...]]:
    """Command lines that change nothing; ``{…}`` stands for what the graphs have."""
    return [
        *(("query", "people", *BY_NAME, "--format", each) for each in ("table", "kv", "csv", "jsonl", "json")),
        ("query", "person", *BY_NAME, "--params", '{"who": "ana"}', "--json"),
        ("query", "person", *BY_NAME, "--params", '{"who": "nobody"}'),
        ("query", "people", *BY_NAME, "--snapshot", head),
        ("query", "people", *BY_NAME, "--snapshot", first, "--json"),
        ("explain", "people", *BY_NAME),
        ("search", "Ana"),
        ("search", "Ana", "--hops", "1", "--json"),
        ("lint", *BY_NAME),
        ("lint", *BY_NAME, "--json"),
        ("lint", "--query", "wrong.gq"),
        ("export",),
        ("export", "--type", "Person", "--type", "Follows", "--snapshot", "2"),
        ("snapshot",),
        ("snapshot", "--json"),
        ("stats",),
        ("schema", "show"),
        ("schema", "show", "--json"),
        ("schema", "plan", "--schema", "next.pg"),
        ("schema", "plan", "--schema", "next.pg", "--json"),
        ("branch", "list"),
        ("branch", "list", "--json"),
        ("tag", "list"),
        ("commit", "list"),
        ("commit", "list", "--json"),
        ("commit", "list", "--draw"),
        ("commit", "list", "--all", "--filter", "kind=load", "--since", first, "--json"),
        ("commit", "show", head),
        ("commit", "show", head, "--json"),
        ("commit", "changes", head),
        ("commit", "changes", head, "--json"),
        ("commit", "changes", head, "--limit", "2", "--kind", "node"),
        ("diff", first, "main"),
        ("diff", first, "main", "--type", "Team", "--json"),
        ("diff", first, "main", "--stat"),
        ("changes", "poll", "--start", "beginning"),
        ("changes", "poll", "--start", "beginning", "--op", "insert", "--limit", "2", "--json"),
        ("changes", "poll"),
        ("changes", "baseline", "--out", "state.jsonl"),
        ("blob", "stat", "node", "Person", "ana", "photo", "--json"),
        ("blob", "get", "node", "Person", "ana", "photo"),
        ("blob", "get", "node", "Person", "ana", "photo", "--offset", "1", "--length", "3"),
        # and what is refused
        ("query", "person", *BY_NAME),
        ("query", "people", *BY_NAME, "--branch", "mian"),
        ("query", "people", *BY_NAME, "--branch", "mian", "--json"),
        ("query", "people", *BY_NAME, "--snapshot", "nothing"),
        ("query", "-e", "query q() { match { $p: Persn } return { $p.name } }"),
        ("query", "-e", "query q( {", "--json"),
        ("query", "--query", "wrong.gq"),
        ("query", "-e", 'query q() { insert Team { code: "x", kind: core } }'),
        ("search", "Ana", "--type", "Persn"),
        ("export", "--type", "Tem"),
        ("commit", "show", "nothing"),
        ("commit", "changes", first),
        ("diff", "main", "mian"),
        ("changes", "poll", "--cursor", "nonsense"),
        ("blob", "get", "node", "Person", "bo", "photo"),
        ("blob", "get", "node", "Person", "ana", "name"),
    ]


def writes(first: str, head: str) -> list[tuple[str, ...]]:
    """A story in one order."""
    rename = ("mutate", "rename", *BY_NAME, "--params")
    return [
        ("mutate", "add", *BY_NAME, "--params", '{"handle": "di", "name": "Di"}', "-m", "new"),
        (*rename, '{"handle": "di", "name": "Dina"}', "--json"),
        (*rename, '{"handle": "nobody", "name": "D"}', "--json"),
        ("mutate", "add", *BY_NAME, "--params", '{"handle": "di", "name": "Di"}'),
        (*rename, '{"handle": "di", "name": "D"}', "--if-commit", first),
        (*rename, '{"handle": "di", "name": "D"}', "--if-commit", first, "--json"),
        ("branch", "create", "review/x"),
        ("branch", "create", "review/y", "--from", "main", "--snapshot", head, "--json"),
        ("branch", "create", "review/x"),
        (*LOAD, "more.jsonl", "--mode", "merge", "--branch", "review/x"),
        (*LOAD, "more.jsonl", "--mode", "append", "--branch", "review/x"),
        (*LOAD, "more.jsonl", "--mode", "merge", "--branch", "new", "--from", "main", "--json"),
        (*LOAD, "more.jsonl", "--mode", "merge", "--branch", "missing"),
        (*LOAD, "Team.csv", "--mode", "append", "-m", "teams"),
        (*LOAD, "bad.jsonl", "--mode", "append"),
        (*LOAD, "bad.jsonl", "--mode", "append", "--json"),
        (*LOAD, "bad.jsonl", "--mode", "append", "--on-error", "reject", "--rejects", "rejects.jsonl", "--json"),
        (*LOAD, "Team.csv", "--mode", "overwrite", "--branch", "review/y", "--yes"),
        (*rename, '{"handle": "ana", "name": "A"}', "--branch", "review/x"),
        (*rename, '{"handle": "ana", "name": "B"}'),
        ("branch", "merge", "review/x", "--dry-run"),
        ("branch", "merge", "review/x", "--dry-run", "--json"),
        ("branch", "merge", "review/x"),
        ("branch", "merge", "review/x", "--resolve", "theirs"),
        ("branch", "merge", "new", "--delete-branch", "--resolve", "ours", "--json"),
        ("branch", "rename", "review/x", "review/z"),
        ("branch", "rename", "nothing", "review/z", "--json"),
        ("tag", "create", "q1", "--snapshot", head, "-m", "first"),
        ("tag", "create", "q2", "--branch", "review/z", "--json"),
        ("tag", "create", "q1"),
        ("tag", "list"),
        ("tag", "list", "--json"),
        ("query", "people", *BY_NAME, "--snapshot", "tag:q1", "--json"),
        ("branch", "delete", "review/z", "--yes"),
        ("branch", "delete", "review/z", "--yes", "--force"),
        ("branch", "delete", "review/y", "--yes", "--json"),
        ("branch", "delete", "main", "--yes"),
        ("tag", "delete", "q1"),
        ("tag", "delete", "nothing", "--json"),
        ("schema", "apply", "--schema", "next.pg"),
        ("schema", "apply", "--schema", "next.pg", "--json"),
        ("schema", "apply", "--schema", "worse.pg"),
        ("revert", "nothing"),
        ("restore", head),
        ("restore", head, "--json"),
        ("query", "people", *BY_NAME),
        ("commit", "list", "--limit", "9"),
    ]


#: What is never the same twice.
MASKS = [
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"), "<time>"),
    (re.compile(r"\b\d{16}\b"), "<micros>"),
    (re.compile(r"\b(sha256:)?[0-9a-f]{32,64}\b"), "<hash>"),
    (re.compile(r"cursor\"?: \S+"), "cursor: <cursor>"),
    (re.compile(r"\((served|direct, local)\)"), "(<access>)"),
]


def shown(ended: Ended, *addresses: str) -> tuple[int, str, str]:
    texts = []
    for text in (ended.out, ended.err):
        for address in addresses:
            text = text.replace(address, "<graph>")
        for mask, instead in MASKS:
            text = mask.sub(instead, text)
        texts.append(text)
    return ended.code, texts[0], texts[1]


@pytest.fixture
def twice(tmp_path: Path, people: Path) -> CommandLine:
    """Two copies of a graph, and files to work with."""
    folder = tmp_path / "work"
    shutil.copytree(people, folder)
    schema = (folder / "people.pg").read_text("utf-8")
    (folder / "photos.pg").write_text(schema.replace("name: String", "name: String @index  photo: Blob?"), "utf-8")
    (folder / "next.pg").write_text(
        (folder / "photos.pg").read_text("utf-8").replace("age: I32?", "age: I32?  nick: String?"), "utf-8"
    )
    (folder / "worse.pg").write_text("node Person { handle: I32 @key }\n", "utf-8")
    (folder / "wrong.gq").write_text("query a() {\n  match { $p: Persn }\n  return { $p.name }\n}\n", "utf-8")
    (folder / "more.jsonl").write_text('{"type":"Person","data":{"handle":"ed","name":"Ed"}}\n', "utf-8")
    (folder / "Team.csv").write_text("code,kind\nc2,core\n", "utf-8")
    (folder / "bad.jsonl").write_text(
        '{"type":"Person","data":{"handle":"fa","name":"Fa"}}\n{"type":"Persn","data":{"handle":"ga"}}\n'
        '{"type":"Person","data":{"handle":"ha","name":"Ha","age":900}}\n',
        "utf-8",
    )
    shutil.rmtree(folder / "people.omni")
    with og.init(folder / "people.omni", folder / "photos.pg") as graph:
        graph.load(folder / "people.jsonl", "append")
        graph.load({"Person": [{"handle": "ana", "name": "Ana Ruiz", "age": 34, "photo": b"pixels"}]}, "merge")
    shutil.copytree(folder / "people.omni", folder / "copy.omni")
    return shell_in(folder)


@pytest.mark.parametrize("lines", [reads, writes])
def test_a_command_says_the_same_of_a_store_and_of_a_server(
    lines: Callable[[str, str], list[tuple[str, ...]]], twice: CommandLine
) -> None:
    with og.open(twice.folder / "people.omni", mode="ro") as graph:
        commits = [commit.id for commit in graph.commits.list()]
    table = lines(commits[-1], commits[0])
    with served({"people": twice.folder / "copy.omni"}) as server:
        url = server.graph_url()
        here = twice.run_all([(*words, "--store", "people.omni") for words in table])
        there = twice.run_all([(*words, "--server", server.url, "--graph", "people") for words in table])
    folder = str(twice.folder)
    for words, stored, remote in zip(table, here, there, strict=True):
        expected = shown(stored, f"{folder}/people.omni", "people.omni")
        assert shown(remote, url, f"{folder}/copy.omni") == expected, words
    assert sum(ended.code == 0 for ended in here) > len(table) / 2
