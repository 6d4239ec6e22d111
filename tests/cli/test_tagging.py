"""`omnigraph tag`, and tags in the place of commits on the command line."""

from __future__ import annotations

import json

from tests.support.command_line import CommandLine, Ended

STORE = ("--store", "people.omni")
COUNT = ("-e", "query q() { match { $p: Person } return { count($p) as n } }", "--format", "csv")


def failed(shell: CommandLine, *words: str) -> Ended:
    ended = shell.run(*words)
    assert ended.code == 1, ended
    return ended


def test_tags_are_made_listed_read_and_deleted(shell: CommandLine) -> None:
    made = shell.ok("tag", "create", "2026-q3", "-m", "as reported\nand more", "--as", "act-eve", *STORE)
    assert made.out.startswith("created tag 2026-q3 of main at version 3\ncommit_id: ")
    assert made.err == "omnigraph tag create → people.omni (direct, local)\n"
    shell.ok("mutate", "-e", 'query q() { delete Person where handle = "cy" }', *STORE)
    listed = shell.ok("tag", "list", "people.omni").out
    assert "2026-q3" in listed and "act-eve" in listed and "as reported\n" in listed and "and more" not in listed
    [shown] = shell.ok("tag", "list", "people.omni", "--json").json["tags"]
    assert (shown["name"], shown["branch"], shown["message"]) == ("2026-q3", "main", "as reported\nand more")
    assert shell.ok("query", *COUNT, *STORE).out == "n\n2\n"
    assert shell.ok("query", *COUNT, *STORE, "--snapshot", "tag:2026-q3").out == "n\n3\n"
    assert len(shell.ok("export", "people.omni", "--type", "Person", "--snapshot", "tag:2026-q3").out.splitlines()) == 3
    assert (
        shell.ok("snapshot", "people.omni", "--snapshot", "tag:2026-q3", "--json").json["graph_manifest_version"] == 3
    )
    assert "Person" in shell.ok("diff", "tag:2026-q3", "main", "--stat", *STORE).out
    shell.ok("branch", "create", "then", "--from", "tag:2026-q3", *STORE)
    shell.ok("branch", "create", "too", "--snapshot", "tag:2026-q3", *STORE)
    assert shell.ok("query", *COUNT, *STORE, "--branch", "then").out == "n\n3\n"
    assert "tags: 2026-q3" in shell.ok("stats", "people.omni").out
    shell.ok("restore", "tag:2026-q3", *STORE)
    assert shell.ok("query", *COUNT, *STORE).out == "n\n3\n"
    assert shell.ok("tag", "delete", "2026-q3", *STORE).out == "deleted tag 2026-q3\n"
    assert shell.ok("tag", "list", "people.omni").out == "(no tags)\n"


def test_mistakes_with_tags_are_one_sentence_and_a_way_out(shell: CommandLine) -> None:
    shell.ok("tag", "create", "2026-q3", *STORE)
    unknown = failed(shell, "query", *COUNT, *STORE, "--snapshot", "tag:2026-q2")
    assert unknown.err == "error: there is no tag '2026-q2'\nhint: did you mean '2026-q3'?\n"
    taken = failed(shell, "tag", "create", "2026-q3", *STORE, "--json", "--quiet")
    assert json.loads(taken.out)["code"] == "conflict.tag_exists"
    assert "hint: choose another name, or delete it with 'omnigraph tag delete 2026-q3'" in taken.err
    assert "tag name 'a b' is not allowed" in failed(shell, "tag", "create", "a b", *STORE).err
    shell.ok("branch", "create", "draft", *STORE)
    shell.ok("tag", "create", "drafted", "--branch", "draft", *STORE)
    refused = failed(shell, "branch", "delete", "draft", *STORE).err
    assert "error: branch 'draft' has tag 'drafted'\n" in refused
    assert "or the branch with them: --force" in refused
    shell.ok("branch", "delete", "draft", "--force", *STORE)
    assert [tag["name"] for tag in shell.ok("tag", "list", "people.omni", "--json").json["tags"]] == ["2026-q3"]
