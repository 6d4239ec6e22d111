"""The policy file: what is refused, with its place; what a name may hold; reading again."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import InputError, OmniGraphError, PolicyError, ResourceLimitExceeded
from omnigraph.policy.policy_cases import read_cases
from omnigraph.policy.policy_file import read_bundle

HEAD = "version: 1\ngroups: {team: [act-bo]}\n"


def rule(allow: str) -> str:
    return f"{HEAD}rules:\n  - id: r\n    allow: {{actors: {{group: team}}, {allow}}}\n"


#: The place of the error is marked in the text.
WRONG = [
    ("", "the file is empty"),
    ("¦- 1", "the file must be a mapping, and is a list"),
    ("¦groups: {}", "the file lacks the key 'version'"),
    ("version: ¦2", "version must be 1"),
    ("version: ¦'1'", "version must be 1"),
    ("version: 1\n¦rule: []", "the file has no key 'rule' (did you mean 'rules'?)"),
    ("version: 1\n¦version: 1", "'version' occurs twice in the file"),
    ("version: 1\ngroups: ¦[a]", "groups must be a mapping, and is a list"),
    ("version: 1\ngroups: {team: ¦[]}", "group 'team' has no member"),
    ("version: 1\ngroups: {team: ¦act-bo}", "groups.team must be a list, and is a text"),
    ("version: 1\ngroups: {team: [¦17]}", "groups.team[0] must be a text, and is a number (put it in quotes)"),
    ("version: 1\ngroups: {team: [¦yes]}", "groups.team[0] must be a text, and is true or false"),
    ("version: 1\ngroups: {team: [¦' a']}", "groups.team[0] is blank, or has blanks around it"),
    ("version: 1\ngroups: {team: [a, ¦a]}", "'a' occurs twice in groups.team"),
    ("version: 1\ngroups: {¦' ': [a]}", "a key of groups is blank"),
    ("version: 1\nprotected_branches: ¦main", "protected_branches must be a list, and is a text"),
    ("version: 1\nrules: ¦{}", "rules must be a list, and is a mapping"),
    (f"{HEAD}rules: [¦{{id: r}}]", "rules[0] lacks the key 'allow'"),
    (f"{HEAD}rules: [{{id: r, ¦deny: {{}}}}]", "rules[0] has no key 'deny'"),
    (rule("actions: [¦red]"), "rules[0].allow.actions[0] cannot be 'red' (did you mean 'read'?)"),
    (rule("actions: ¦[]"), "rules[0].allow.actions names no action"),
    (rule("actions: [read, ¦read]"), "'read' occurs twice in rules[0].allow.actions"),
    (rule("actions: [read], ¦branch_scop: any"), "no key 'branch_scop' (did you mean 'branch_scope'?)"),
    (rule("actions: [read], branch_scope: ¦all"), "cannot be 'all' (known: any, protected, unprotected)"),
    (rule("actions: [read], target_branch_scope: ¦any"), "'read' takes no target_branch_scope"),
    (rule("actions: [branch_merge], branch_scope: ¦any"), "'branch_merge' takes no branch_scope"),
    (rule("actions: [read, branch_merge], branch_scope: ¦any"), "'branch_merge' takes no branch_scope"),
    (rule("actions: [admin], branch_scope: ¦any"), "'admin' takes no branch_scope"),
    (rule("actions: [invoke_query], branch_scope: ¦any"), "'invoke_query' takes no branch_scope"),
    (rule("actions: [read], branch_scope: any, target_branch_scope: ¦any"), "a rule has one scope (make two"),
    (rule("actions: [¦graph_list]"), "'graph_list' is an action of a server, and these are the rules of a graph"),
    (rule("actions: [schema_apply], types: ¦[A]"), "'schema_apply' cannot be limited to types"),
    (rule("actions: [read], types: ¦[]"), "a rule for no type grants nothing"),
    (rule("actions: [read], types: ¦Salary"), "rules[0].allow.types must be a list, and is a text"),
    (rule("actions: [read]").replace("group: team", "group: ¦tem"), "cannot be 'tem' (did you mean 'team'?)"),
    (rule("actions: [read]").replace("group: team", "¦actor: a"), "actors has no key 'actor'"),
    ("version: 1\nrules: [{id: r, allow: {actors: {group: ¦a}, actions: [read]}}]", "there is no group 'a'"),
    (rule("actions: [read]") + rule("actions: [read]").partition("rules:\n")[2].replace("id", "¦id"), "two rules with"),
    ("version: 1\nkind: ¦server", "the file is for a server, and is used for a graph"),
    ("version: 1\nkind: ¦cluster", "kind cannot be 'cluster' (known: graph, server)"),
    ("version: 1\ngroups: {a: [b¦", "the file cannot be read"),
    ("version: 1\n¦\tgroups: 1", "the file cannot be read"),
    ("version: 1\ngroups: ¦&a {team: [*a]}", "groups.team[0] must be a text, and is a mapping"),
    ("version: 1\ngroups: {team: [¦!!python/object:os.system x]}", "groups.team[0] must be a text"),
    ('version: 1\ngroups: {team: [¦"\\ud800"]}', "half of a surrogate pair"),
]


@pytest.mark.parametrize(("marked", "message"), WRONG)
def test_a_wrong_file_is_refused_with_its_place(marked: str, message: str) -> None:
    before, mark, after = marked.partition("¦")
    with pytest.raises(PolicyError) as refused:
        read_bundle(before + after)
    assert message in str(refused.value)
    lines = before.split("\n")
    assert (refused.value.line, refused.value.column) == ((len(lines), len(lines[-1]) + 1) if mark else (None, None))


def test_a_server_has_rules_of_its_own() -> None:
    text = rule("actions: [graph_list]")
    policy = og.Policy.from_text(text, kind="server")
    assert policy.decide("act-bo", "graph_list").allowed
    assert not policy.decide("act-eve", "graph_list").allowed
    with pytest.raises(PolicyError, match="'read' is an action of a graph, and these are the rules of a server"):
        read_bundle(rule("actions: [read]"), kind="server")


def test_a_kind_that_agrees_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "omnigraph.policy"):
        assert read_bundle("version: 1\nkind: server", kind="server").kind == "server"
    assert "the key 'kind' is not needed" in caplog.text


def test_a_file_that_is_too_long_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ResourceLimitExceeded, match="policy file bytes"):
        read_bundle("#" * (limits.POLICY_BYTES + 1))


def test_a_file_that_is_nested_deeply_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"nested too deeply|cannot be read|must be"):
        read_bundle("version: " + "[" * 5_000)


HOSTILE = [
    'x"; permit(principal, action, resource); //',
    'Omnigraph::Group::"admins"',
    "two\nlines",
    "quote ' and \" and \\",
    "${actor}",
    "?principal",
    "éß漢\U0001f511",
    "a:read",
    "__entity",
    "{}",
    "a\u2028b",
]


def quoted(text: str) -> str:
    """A text as YAML writes it."""
    return json.dumps(text, ensure_ascii=False).replace("\u2028", "\\L")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_only_ever_names(name: str) -> None:
    given = quoted(name)
    text = f"""
version: 1
groups: {{ {given}: [{given}], admins: [act-root] }}
protected_branches: [{given}]
rules:
  - id: {given}
    allow: {{actors: {{group: {given}}}, actions: [read], branch_scope: protected, types: [{given}]}}
  - id: root
    allow: {{actors: {{group: admins}}, actions: [change]}}
"""
    policy = og.Policy.from_text(text, graph=name)
    assert policy.decide(name, "read", branch=name, type=name).rules == (name,)
    for actor, action, branch, type_ in [
        (name, "read", "main", name),
        (name, "read", name, "Person"),
        (name, "change", name, name),
        (name, "admin", None, None),
        ("act-eve", "read", name, name),
        ("admins", "change", None, None),
    ]:
        assert not policy.decide(actor, action, branch=branch, type=type_).allowed
    assert policy.cedar.count("permit(") - name.count("permit(") * 4 <= 2


@given(st.text(max_size=200))
def test_any_text_is_a_policy_or_a_typed_error(text: str) -> None:
    for read in (read_bundle, read_cases):
        try:
            read(text)
        except OmniGraphError as error:
            assert error.code in ("policy", "limit.resource", "limit"), error


@given(st.data())
def test_a_changed_policy_is_a_policy_or_a_typed_error(data: st.DataObject) -> None:
    text = (Path(__file__).parent / "fixtures" / "team.yaml").read_text("utf-8")
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(at + 20, len(text))))
    changed = text[:at] + data.draw(st.text("abc:{}[]-,'\"\n #&*!|> 0é\t", max_size=6)) + text[until:]
    with contextlib.suppress(PolicyError):
        read_bundle(changed)


def test_a_policy_follows_its_file(tmp_path: Path) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(rule("actions: [read]"))
    policy = og.Policy.from_file(file)
    assert policy.decide("act-bo", "read").allowed
    file.write_text(rule("actions: [change]"))
    assert not policy.decide("act-bo", "read").allowed
    assert policy.decide("act-bo", "change").allowed


def test_a_file_that_is_replaced_under_its_name_is_read_again(tmp_path: Path) -> None:
    file, other = tmp_path / "team.yaml", tmp_path / "other.yaml"
    file.write_text(rule("actions: [read]  "))
    policy = og.Policy.from_file(file)
    other.write_text(rule("actions: [change]"))
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))  # same size and time, another file
    os.replace(other, file)
    assert policy.decide("act-bo", "change").allowed


@pytest.mark.parametrize("damage", ["version: 2", "", "a: [", None])
def test_a_file_that_became_wrong_leaves_the_last_good_rules(
    tmp_path: Path, damage: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(rule("actions: [read]"))
    policy = og.Policy.from_file(file)
    if damage is None:
        file.unlink()
    else:
        file.write_text(damage)
    with caplog.at_level(logging.ERROR, "omnigraph.policy"):
        assert policy.decide("act-bo", "read").allowed
        assert not policy.decide("act-bo", "change").allowed
    assert caplog.text.count("the rules from before hold") == 1
    file.write_text(rule("actions: [change]"))
    assert policy.decide("act-bo", "change").allowed


def test_a_path_given_as_text_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is the name of a file, given as text"):
        og.Policy.from_text("team.yaml")
    with pytest.raises(InputError, match="cannot read"):
        og.Policy.from_file(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"version: 1 # \xe9")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        og.Policy.from_file(tmp_path / "latin.yaml")


CASE = "version: 1\ncases: [{id: a, actor: act-bo, action: read, expect: allow}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CASE.replace("allow", "yes"), "expect must be a text"),
        (CASE.replace("allow", "denied"), "expect cannot be 'denied'"),
        (CASE.replace("read", "red"), "action cannot be 'red' .did you mean 'read'"),
        (CASE.replace("id: a, ", ""), "lacks the key 'id'"),
        (CASE.replace("actor: act-bo", "user: act-bo"), "has no key 'user'"),
        (CASE.replace("]", ", {id: a, actor: b, action: read, expect: deny}]"), "two cases with the id 'a'"),
        ("version: 1", "lacks the key 'cases'"),
    ],
)
def test_wrong_cases_are_refused(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        read_cases(text)


def test_a_report_lists_every_mismatch() -> None:
    policy = og.Policy.from_text(rule("actions: [read]"))
    assert policy.test(CASE).ok
    report = policy.test(CASE.replace("]", ", {id: b, actor: act-bo, action: read, branch: x, expect: deny}]"))
    assert [str(each) for each in report.mismatches] == ["b: expected deny, actual allow"]
    assert report.to_dict()["cases"] == 2
