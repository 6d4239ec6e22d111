"""`commit list`: filters, and the history drawn beside its commits."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import omnigraph as og
from omnigraph.cli.commit_text import drawn_lines
from tests.support.command_line import CommandLine

LIST = ("commit", "list", "people.omni")


def _nodes(text: str) -> list[og.CommitNode]:
    """``c:a,b`` is a commit with two parents."""
    parts = [each.partition(":") for each in text.split()]
    return [
        og.CommitNode(
            og.Commit(name, "main", 1, None, None, None, datetime(2026, 1, 1, tzinfo=UTC)),
            tuple(parents.split(",")) if parents else (),
        )
        for name, _, parents in parts
    ]


def _drawn(text: str) -> list[str]:
    return [re.sub(r" (\w) 20.*", r" \1", line) for line in drawn_lines(_nodes(text))]


def test_a_line_of_commits_is_drawn_straight() -> None:
    assert _drawn("c:b b:a a") == ["* c", "* b", "* a"]


def test_a_merge_opens_a_lane_that_joins_where_the_branch_began() -> None:
    assert _drawn("d:c,b c:a b:a a") == ["* d", "├─╮", "* │ c", "│ * b", "├─╯", "* a"]


def test_heads_that_nobody_descends_from_begin_lanes_and_all_of_them_join_at_once() -> None:
    assert _drawn("d:a c:a b:a a") == ["* d", "│ * c", "│ │ * b", "├─┴─╯", "* a"]


def test_a_line_crosses_lanes_and_ends_in_one_that_is_there() -> None:
    assert _drawn("f:e,d e:c,b d:b c:b b") == [
        "* f",
        "├─╮",
        "* │ e",
        "├─┼─╮",
        "│ * │ d",
        "* │ │ c",
        "├─┴─╯",
        "* b",
    ]
    assert _drawn("f:c e:d d:b,c c:a b:a a") == [
        "* f",
        "│ * e",
        "│ * d",
        "├─┤",
        "* │ c",
        "│ * b",
        "├─╯",
        "* a",
    ]


def test_a_place_that_became_free_is_used_again_and_lines_may_lead_out_of_the_list() -> None:
    assert _drawn("e:b d c:b,x") == ["* e", "│ * d", "│ * c", "│ ├─╮"]
    assert _drawn("e d:c c:a,b") == ["* e", "* d", "* c", "├─╮"]


def test_commits_are_listed_by_filter_and_time(shell: CommandLine) -> None:
    with og.open(shell.folder / "people.omni", actor="act-bo") as graph:
        graph.mutate('query q() { insert Team { code: "c2", kind: "core" } }', message="a second team")
        graph.branches.create("review/x")
        graph.mutate('query q() { delete Team where code = "c2" }', branch="review/x", message="not needed")
        graph.branches.merge("review/x", message="merged")
    whole = shell.ok(*LIST, "--json").json["commits"]
    lines = [
        (*LIST, "--json", *words)
        for words in (
            ("--filter", "actor=act-bo"),
            ("--filter", "actor=act-bo", "--filter", "kind=merge"),
            ("--filter", "kind=load", "--filter", "kind=init"),
            ("--filter", "message=team"),
            ("--since", whole[2]["graph_commit_id"]),
            ("--until", str(whole[1]["graph_manifest_version"]), "--limit", "1"),
            ("--since", "1999-01-01", "--until", "1999-12-31"),
            ("--filter", "branch=review/x"),
            ("--filter", "branch=review/x", "--all"),
        )
    ]
    found = [[each["kind"] for each in ended.json["commits"]] for ended in shell.run_all(lines)]
    assert found == [
        ["merge", "mutation"],
        ["merge"],
        ["load", "init"],
        ["mutation"],
        ["merge", "mutation"],
        ["mutation"],
        [],
        [],
        ["mutation"],
    ]
    plain = shell.ok(*LIST, "--filter", "message=team").out
    assert plain.startswith(whole[1]["graph_commit_id"]) and plain.endswith('"a second team"\n')
    drawn = shell.ok(*LIST, "--draw").out.splitlines()
    assert [line.partition(" 0")[0] for line in drawn] == ["*", "├─╮", "│ *", "├─╯", "*", "*", "*"]
    assert re.fullmatch(r'\* 0\w{25} \(main\) \S+ act-bo merge: Team -1 "merged"', drawn[0])
    assert "(review/x)" in shell.ok(*LIST, "--draw", "--all").out
    assert [each["heads"] for each in shell.ok(*LIST, "--draw", "--json").json["commits"]] == [["main"], [], [], [], []]
    missing = shell.run(*LIST, "--since", "01HZZZZZZZZZZZZZZZZZZZZZZZ")
    assert (missing.code, missing.out) == (1, "")
    assert "is not in the history of branch 'main'" in missing.err
