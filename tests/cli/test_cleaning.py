"""`cleanup`, `retention` and `upkeep`."""

from __future__ import annotations

from tests.support.command_line import CommandLine

GRAPH = "people.omni"


def test_the_commands_preview_clean_up_and_keep_a_rule(shell: CommandLine) -> None:
    for number in range(3):
        words = ("--query", "people.gq", "--params", f'{{"handle":"x{number}","name":"X"}}')
        assert shell.run("mutate", "add", "--store", GRAPH, *words).code == 0
    refused = shell.run("cleanup", GRAPH)
    assert refused.code == 1 and "cleanup needs a rule" in refused.err and "--keep 10" in refused.err
    told = shell.run("cleanup", GRAPH, "--keep", "1", "--grace", "0", "--json")
    assert told.code == 0 and "pass --confirm" in told.err and "warning: keeping 1 commit" in told.err
    assert told.json["states_removed"] > 0 and (told.json["confirmed"], told.json["keep_versions"]) == (False, 1)
    done = shell.run("cleanup", GRAPH, "--keep", "2", "--older-than", "0s", "--grace", "0", "--confirm")
    assert done.code == 0 and "removed" in done.out and "node:Person" in done.out
    listed = shell.run("commit", "list", GRAPH, "--json").json["commits"]
    assert {commit["readable"] for commit in listed} == {True, False}
    assert "(cleaned up)" in shell.run("commit", "list", GRAPH).out
    assert shell.run("retention", "set", GRAPH, "--keep", "5", "--older-than", "7d").code == 0
    assert shell.run("retention", "show", GRAPH, "--json").json["older_than_secs"] == 604_800
    assert shell.run("upkeep", GRAPH).code == 0
    assert len(shell.run("upkeep", GRAPH, "--list", "--json").json["runs"]) == 1
    assert "cleanup: not due" in shell.run("upkeep", GRAPH, "--list").out
    assert "(default)" in shell.run("retention", "clear", GRAPH).out


def test_a_store_that_is_not_local_asks_for_consent(shell: CommandLine) -> None:
    refused = shell.run("cleanup", "s3://nowhere/g", "--keep", "3", "--confirm")
    assert refused.code == 1 and "--yes" in refused.err
