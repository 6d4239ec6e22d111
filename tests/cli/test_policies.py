"""`omnigraph policy validate`, `test` and `explain`, through the executable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

FIXTURES = Path(__file__).parents[1] / "policy" / "fixtures"
TEAM, CASES = str(FIXTURES / "team.yaml"), str(FIXTURES / "team.cases.yaml")


def test_a_valid_policy_is_told_with_its_actors(shell: CommandLine) -> None:
    ended = shell.run("policy", "validate", TEAM)
    assert (ended.code, ended.out) == (0, "policy valid: bundle 'team' [4 actors]\n")
    told = shell.run("policy", "validate", TEAM, "--json").json
    assert told == {"ok": True, "bundle": "team", "kind": "graph", "actors": 4, "rules": 9}


def test_a_wrong_policy_is_told_with_its_place(shell: CommandLine) -> None:
    (shell.folder / "p.yaml").write_text("version: 1\nrule: []\n")
    ended = shell.run("policy", "validate", "p.yaml")
    assert ended.code == 1
    assert (
        "the file has no key 'rule'" in ended.err and "did you mean 'rules'?" in ended.err and "p.yaml:2:1" in ended.err
    )
    assert shell.run("policy", "validate", "none.yaml").code == 1
    assert shell.run("policy", "validate", TEAM, "--kind", "server").code == 1


def test_cases_that_hold_are_counted(shell: CommandLine) -> None:
    ended = shell.run("policy", "test", TEAM, "--tests", CASES)
    assert (ended.code, ended.out) == (0, "policy tests passed: 35 cases\n")
    assert shell.run("policy", "test", TEAM, "--tests", CASES, "--json").json["ok"] is True


def test_cases_that_do_not_hold_are_listed_with_exit_code_1(shell: CommandLine) -> None:
    case = "  - {{id: {}, actor: act-bo, action: change, branch: main, expect: {}}}\n"
    (shell.folder / "c.yaml").write_text(
        "version: 1\ncases:\n" + case.format("a", "allow") + case.format("b", "deny") + case.format("c", "allow")
    )
    ended = shell.run("policy", "test", TEAM, "--tests", "c.yaml")
    assert ended.code == 1
    assert ended.out == "a: expected allow, actual deny\nc: expected allow, actual deny\n"
    assert "policy tests failed: 2 of 3 cases" in ended.err
    told = shell.run("policy", "test", TEAM, "--tests", "c.yaml", "--json")
    assert told.code == 1 and [each["id"] for each in told.json["mismatches"]] == ["a", "c"]


def test_a_decision_is_explained_and_a_denial_exits_0(shell: CommandLine) -> None:
    words = ("policy", "explain", TEAM, "--actor", "act-ada", "--action", "branch-merge", "--branch", "x")
    ended = shell.run(*words, "--target-branch", "main")
    assert (ended.code, ended.out.splitlines()) == (
        0,
        [
            "decision: allow",
            "actor: act-ada",
            "action: branch_merge",
            "branch: x",
            "target_branch: main",
            "matched_rule: admin-branches",
            "message: the policy allows action 'branch_merge' on branch 'x' and target branch 'main' "
            "to actor 'act-ada'",
        ],
    )
    denied = shell.run("policy", "explain", TEAM, "--actor", "act-eve", "--action", "read")
    assert denied.code == 0
    assert denied.out == (
        "decision: deny\nactor: act-eve\naction: read\n"
        "message: the policy denies action 'read' to unknown actor 'act-eve': no rule of the policy names this actor\n"
    )
    typed = (*words[:3], "--actor", "act-pay", "--action", "read", "--type", "Person", "--json")
    assert shell.run(*typed).json["decision"] == "deny"


@pytest.mark.parametrize(
    "words",
    [
        ("policy", "validate"),
        ("policy", "test", TEAM),
        ("policy", "explain", TEAM, "--actor", "a"),
        ("policy", "validate", TEAM, "--store", "g"),
    ],
)
def test_missing_and_useless_arguments_are_refused(shell: CommandLine, words: tuple[str, ...]) -> None:
    assert shell.run(*words).code == 2


def test_an_unknown_action_is_refused(shell: CommandLine) -> None:
    ended = shell.run("policy", "explain", TEAM, "--actor", "a", "--action", "reed")
    assert ended.code == 1 and "there is no action 'reed'\nhint: did you mean 'read'?" in ended.err
