"""Clones, backups and moved graphs through the executable: what is said, what is there, what is refused."""

from __future__ import annotations

import json
import shutil

import pytest

import omnigraph as og
from tests.support.command_line import CommandLine
from tests.support.s3_server import S3Server

ALL = ("export", "--branch", "review")


@pytest.fixture
def branched(shell: CommandLine) -> CommandLine:
    """A graph with a branch of its own rows."""
    with og.open(shell.folder / "people.omni") as graph:
        graph.branches.create("review")
        graph.mutate('query q() { insert Person { handle: "di", name: "Di" } }', branch="review")
    return shell


def test_a_clone_is_made_once_and_has_everything(branched: CommandLine) -> None:
    done = branched.ok("clone", "people.omni", "twin.omni")
    first, second = done.out.splitlines()
    assert first.startswith(
        f"cloned {branched.folder}/people.omni to {branched.folder}/twin.omni: 2 branches, 0 tags, 3 commits"
    )
    assert second.startswith("copied ") and "removed" not in second
    assert done.err == "omnigraph clone → twin.omni (direct, local)\n"
    assert branched.ok(*ALL, "twin.omni").out == branched.ok(*ALL, "people.omni").out
    assert branched.ok("verify", "twin.omni").code == 0
    again = branched.run("clone", "people.omni", "twin.omni", "--json")
    assert (again.code, again.json["code"]) == (1, "conflict.initialized")
    assert "hint: choose another place" in branched.run("clone", "people.omni", "twin.omni").err
    shown = branched.ok("clone", "people.omni", "third.omni", "--json", "--quiet")
    assert shown.json["branches"] == 2 and shown.err == ""


def test_a_backup_follows_its_graph_is_only_read_and_is_brought_back_by_a_clone(branched: CommandLine) -> None:
    first = branched.ok("backup", "people.omni", "safe", "--json").json
    assert first["copied_files"] == first["files"]
    assert branched.ok("backup", "people.omni", "safe", "--json").json["copied_files"] == 0
    branched.ok(
        "mutate", "add", "--store", "people.omni", "--query", "people.gq", "--params", '{"handle": "ed", "name": "E"}'
    )
    grown = branched.ok("backup", "people.omni", "safe", "--json").json
    assert 0 < grown["copied_files"] < 20
    assert branched.ok("export", "safe").out == branched.ok("export", "people.omni").out
    refused = branched.run("branch", "create", "new", "--uri", "safe")
    assert refused.code == 1
    assert "is a backup of" in refused.err and "hint: clone it, and write to the clone" in refused.err
    branched.ok("branch", "delete", "review", "--uri", "people.omni")
    pruned = branched.ok("backup", "people.omni", "safe", "--prune")
    assert "; removed " in pruned.out
    assert branched.ok("branch", "list", "safe").out == "main\n"
    branched.ok("clone", "safe", "back.omni")
    branched.ok("branch", "create", "new", "--uri", "back.omni")


def test_a_moved_graph_says_so_and_is_put_in_order(branched: CommandLine) -> None:
    before = branched.ok(*ALL, "people.omni").out
    shutil.move(branched.folder / "people.omni", branched.folder / "moved.omni")
    for words in ((*ALL, "moved.omni"), ("branch", "merge", "review", "--uri", "moved.omni")):
        ended = branched.run(*words)
        assert ended.code == 1
        *_, said, hint = ended.err.splitlines()
        assert said.startswith("error: the branches of ") and "people.omni" in said
        assert hint == f"hint: run `omnigraph relocate {branched.folder}/moved.omni`"
    assert branched.run("verify", "moved.omni").code == 1
    done = branched.ok("relocate", "moved.omni")
    assert done.out.startswith("changed ") and " of " in done.out
    assert branched.ok("relocate", "moved.omni", "--json").json["changed"] == 0
    assert branched.ok(*ALL, "moved.omni").out == before
    assert branched.ok("verify", "moved.omni", "--deep").code == 0


@pytest.mark.s3
def test_the_commands_work_on_s3_and_pruning_there_needs_consent(
    branched: CommandLine, s3: S3Server, s3_root: str
) -> None:
    environment = s3.env()
    made = branched.run("clone", "people.omni", f"{s3_root}/twin", **environment)
    assert made.code == 0, made.err
    shown = branched.run(*ALL, f"{s3_root}/twin", **environment)
    assert shown.out == branched.ok(*ALL, "people.omni").out
    assert branched.run("backup", "people.omni", f"{s3_root}/safe", **environment).code == 0
    refused = branched.run("backup", "people.omni", f"{s3_root}/safe", "--prune", **environment)
    assert (refused.code, refused.err.count("hint: pass --yes")) == (1, 1)
    assert branched.run("backup", "people.omni", f"{s3_root}/safe", "--prune", "--yes", **environment).code == 0
    moved = branched.run("relocate", f"{s3_root}/twin", "--json", **environment)
    assert json.loads(moved.out)["changed"] == 0


def test_wrong_places_are_refused_in_one_sentence(branched: CommandLine) -> None:
    for words, code, said in (
        (("clone", "people.omni"), 2, "Missing argument 'DST'"),
        (("clone", "nothing.omni", "twin.omni"), 1, "error: there is no graph at"),
        (("clone", "people.omni", "people.omni"), 1, "is both the source and the target"),
        (("clone", "people.omni", "people.omni/nodes/x"), 1, "lies inside"),
        (("backup", "people.omni", "people.pg"), 1, "is a file, and a graph is a directory"),
        (("relocate", "nothing.omni"), 1, "error: there is no graph at"),
        (("clone", "people.omni", "x.omni", "--store", "y"), 2, "does not take --store"),
    ):
        ended = branched.run(*words)
        assert ended.code == code, (words, ended)
        assert said in ended.err, (words, ended.err)
