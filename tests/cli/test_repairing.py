"""`omnigraph repair`: tells, adopts and takes back, with exit codes that a script can use."""

from __future__ import annotations

import omnigraph as og
from tests.support.command_line import CommandLine
from tests.support.foreign_steps import append, raw_table

PERSON = "node:Person"


def _drift(shell: CommandLine, handle: str) -> None:
    with og.open(shell.folder / "people.omni", mode="ro") as graph:
        table = raw_table(graph, PERSON)
        append(table, handle, name="Eve")


def test_repair_tells_then_refuses_then_does_what_it_is_told(shell: CommandLine) -> None:
    assert shell.ok("repair", "people.omni").out == "no drift: every table is at the version that the graph shows\n"
    _drift(shell, "eve")
    told = shell.ok("repair", "people.omni")
    assert told.out.startswith("preview: node type 'Person' on main is at version ")
    assert ": suspicious (Append)\nnothing was done; --confirm adopts" in told.out
    assert told.err == ""
    refused = shell.run("repair", "people.omni", "--confirm", "--json")
    assert refused.code == 1
    [shown] = [each for each in refused.json["datasets"] if each["type_key"] == PERSON]
    assert (shown["classification"], shown["action"], shown["operations"]) == ("suspicious", "refused", ["Append"])
    assert (refused.json["confirm"], refused.json["force"], refused.json["commits"]) == (True, False, [])
    write = shell.run("mutate", "-e", 'query q() { delete Person where handle = "cy" }', "--store", "people.omni")
    assert (write.code, "look at it with 'omnigraph repair'" in write.err) == (1, True)
    assert "'omnigraph repair --confirm --discard'" in write.err and "'omnigraph repair --confirm --force'" in write.err
    back = shell.ok("repair", "people.omni", "--confirm", "--discard")
    assert back.out.startswith("discarded: node type 'Person' on main") and "commit_id: " in back.out
    assert back.err == "omnigraph repair → people.omni (direct, local)\n"
    _drift(shell, "fay")
    forced = shell.ok("repair", "people.omni", "--confirm", "--force", "--branch", "main")
    assert forced.out.startswith("forced: node type 'Person' on main")
    assert "omnigraph:repair:force" in shell.ok("commit", "list", "people.omni", "--filter", "kind=repair").out


def test_options_of_repair_that_contradict_each_other_are_refused(shell: CommandLine) -> None:
    for words in (("--force",), ("--confirm", "--force", "--discard")):
        ended = shell.run("repair", "people.omni", *words)
        assert (ended.code, ended.err.startswith("error: --force ")) == (2, True)
