"""Every verb of an open graph is held to the policy: nothing is left out, and each needs just what it says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import CommitNotFound, NotFoundError, OmniGraphError, PolicyDenied, PolicyError, TagNotFound
from omnigraph.policy.actions import ACTIONS
from tests.policy.verbs import PEOPLE, RENAME, VERBS, Staff, Verb, granting, public_verbs, staff
from tests.support.light_python import run_code
from tests.support.source_tree import ROOT

HELD = {name: verb for name, verb in VERBS.items() if verb.call is not None}
#: A schema changes only where there is no branch but main, and its own refusal says so.
BLOCKED = {"SchemaControl.apply"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Staff:
    """For calls that are refused: they leave it as it is."""
    return staff(tmp_path_factory.mktemp("shared"))


def refused(verb: Verb, graph: og.Graph, place: Staff) -> None:
    assert verb.call is not None
    with pytest.raises((PolicyDenied, NotFoundError) if verb.by_commit else PolicyDenied) as raised:
        verb.call(graph, place)
    if isinstance(raised.value, PolicyDenied):
        assert raised.value.code == "denied.policy"
        assert raised.value.details["action"] in verb.actions
    else:
        assert str(raised.value) == f"there is no commit '{place.commit}'"


def test_every_public_verb_has_its_actions() -> None:
    assert public_verbs() == set(VERBS), "say in tests/policy/verbs.py which action the verb needs"
    assert {action for verb in VERBS.values() for action in verb.actions} <= set(ACTIONS)


@pytest.mark.parametrize("name", HELD)
def test_a_verb_is_refused_when_nothing_is_granted(name: str, shared: Staff) -> None:
    with shared.open(policy=granting()) as graph:
        refused(HELD[name], graph, shared)


@pytest.mark.parametrize("name", HELD)
def test_a_verb_is_refused_without_its_own_actions(name: str, shared: Staff) -> None:
    verb = HELD[name]
    for missing in verb.actions:
        with shared.open(
            policy=granting(*[action for action in ACTIONS if action not in (missing, "graph_list")])
        ) as graph:
            refused(verb, graph, shared)


@pytest.mark.parametrize("name", HELD)
def test_a_verb_is_refused_on_a_branch_of_another_scope(name: str, shared: Staff) -> None:
    verb = HELD[name]
    scoped = [action for action in verb.actions if ACTIONS[action].scope_key]
    other = "unprotected" if "schema_apply" in scoped or name == "Graph.lint" else "protected"
    if scoped:
        with shared.open(policy=granting(*verb.actions, scope=other)) as graph:
            refused(verb, graph, shared)


@pytest.mark.parametrize("name", HELD)
def test_a_verb_is_refused_without_an_actor(name: str, shared: Staff) -> None:
    with shared.open(actor=None, policy=granting(*HELD[name].actions)) as graph:
        refused(HELD[name], graph, shared)


@pytest.mark.parametrize("name", HELD)
def test_a_verb_works_with_its_actions_alone_as_without_a_policy(name: str, tmp_path: Path) -> None:
    verb = HELD[name]
    assert verb.call is not None
    needed = {"Transaction.query": ("change", "read")}.get(name, verb.actions)
    for policy in (None, granting(*needed)):
        folder = tmp_path / ("free" if policy is None else "held")
        folder.mkdir()
        place = staff(folder)
        with place.open(policy=policy) as graph:
            try:
                verb.call(graph, place)
            except OmniGraphError as error:
                assert name in BLOCKED and error.code == "conflict.schema_apply", error


def test_a_branch_that_may_not_be_read_is_denied_whether_it_exists_or_not(shared: Staff) -> None:
    with shared.open(policy=granting("read", scope="protected")) as graph:
        said = []
        for branch in ("x", "none"):
            with pytest.raises(PolicyDenied) as raised:
                graph.query(PEOPLE, branch=branch)
            said.append(str(raised.value).replace(f"'{branch}'", "it"))
        assert said[0] == said[1]


@pytest.mark.parametrize("moment", ["commit", "tag"])
def test_a_state_that_may_not_be_read_is_as_if_it_did_not_exist(shared: Staff, moment: str) -> None:
    at = shared.commit if moment == "commit" else "tag:t"
    unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV" if moment == "commit" else "tag:none"
    with shared.open(policy=granting("read", scope="protected")) as graph:
        for call in (
            lambda at: graph.query(PEOPLE, at=at),
            lambda at: graph.snapshot(at=at),
            lambda at: graph.catalog_of(at=at),
            lambda at: graph.diff("main", at),
            lambda at: graph.commit_changes(at),
        ):
            errors = []
            for each in (at, unknown):
                with pytest.raises(NotFoundError) as raised:
                    call(each)
                said = raised.value.message.replace(f"'{each.removeprefix('tag:')}'", "it")
                errors.append((type(raised.value), said, raised.value.hint))
            assert errors[0] == errors[1]


def test_statistics_and_hints_leave_out_branches_that_may_not_be_read(shared: Staff) -> None:
    with shared.open(policy=granting("read", scope="protected")) as graph:
        found = graph.stats()
        assert (found.branches, found.tags) == (("main",), ())
        for ask in (
            lambda tag: graph.commits.list(before=tag),
            lambda tag: graph.commits.list(since=tag),
            lambda tag: graph.commits.graph(["main"], until=tag),
            lambda tag: graph.changes(f"after:{tag}"),
        ):
            with pytest.raises(TagNotFound) as hidden:
                ask("tag:t")
            with pytest.raises(TagNotFound) as unknown:
                ask("tag:u")
            assert str(hidden.value).replace("'t'", "'u'") == str(unknown.value)
    with shared.open() as graph:
        assert (graph.stats().branches, graph.stats().tags) == (("main", "x"), ("t",))


@pytest.mark.parametrize("padded", ["{}", " {} "])
def test_an_unknown_commit_is_named_alike_whether_it_is_hidden_or_not(shared: Staff, padded: str) -> None:
    other = shared.commit[:-1] + ("0" if shared.commit[-1] != "0" else "1")
    with shared.open(policy=granting("read", scope="protected")) as graph:
        told = []
        for commit in (shared.commit, other):
            with pytest.raises(CommitNotFound) as refused:
                graph.diff(padded.format(commit), "main")
            told.append(str(refused.value).replace(commit, "…"))
    assert told[0] == told[1]


def test_a_version_of_the_time_before_a_branch_belongs_to_the_branch_that_had_it(shared: Staff) -> None:
    with shared.open(policy=granting("read", "change", scope="unprotected")) as graph:
        assert graph.query(PEOPLE, branch="x").rows()
        assert graph.query(PEOPLE, at=shared.commit).rows()
        with pytest.raises(CommitNotFound):
            graph.query(PEOPLE, branch="x", at=1)
        with pytest.raises(CommitNotFound):
            graph.restore(1, branch="x")


@pytest.mark.parametrize("branch", [" main", "main ", "\tmain\n"])
def test_another_spelling_of_a_protected_branch_is_the_same_branch(shared: Staff, branch: str) -> None:
    with shared.open(policy=granting("change", "branch_delete", "branch_merge", scope="unprotected")) as graph:
        for call in (
            lambda: graph.mutate(RENAME, branch=branch),
            lambda: graph.transaction(branch),
            lambda: graph.branches.merge("x", branch),
            lambda: graph.branches.delete(branch),
        ):
            with pytest.raises(PolicyDenied):
                call()


def test_a_load_that_makes_its_branch_needs_both(tmp_path: Path) -> None:
    place, rows = staff(tmp_path), {"Person": [{"handle": "di", "name": "D"}]}
    with place.open(policy=granting("change")) as graph:
        with pytest.raises(PolicyDenied, match="'branch_create' on branch 'main' and target branch 'new'"):
            graph.load(rows, "append", branch="new", from_="main")
        assert graph.load(rows, "append", branch="x", from_="main").total == 1
    with place.open(policy=granting("change", "branch_create")) as graph:
        assert graph.load(rows, "append", branch="new", from_="main").branch_created


def test_a_merge_whose_branch_may_not_be_deleted_says_so(tmp_path: Path) -> None:
    place = staff(tmp_path)
    with place.open(policy=granting("branch_merge")) as graph:
        merged = graph.branches.merge("x", delete_branch=True, engine="embedded")
    assert merged.commit is not None and merged.commit.actor == "act-bo"
    assert merged.branch_deleted is False
    assert "the policy denies action 'branch_delete' on target branch 'x'" in str(merged.branch_delete_error)


def test_a_policy_file_that_changes_holds_for_an_open_graph(shared: Staff, tmp_path: Path) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(granting("read"))
    with og.open(shared.uri, actor="act-bo", policy=file) as graph:
        assert graph.query(PEOPLE, branch="x").rows()
        file.write_text(granting("export"))
        with pytest.raises(PolicyDenied):
            graph.query(PEOPLE, branch="x")


def test_a_wrong_policy_opens_nothing(shared: Staff) -> None:
    with pytest.raises(PolicyError):
        shared.open(policy="version: 2")


def test_without_a_policy_nothing_of_it_is_imported(shared: Staff) -> None:
    code = f"""
import sys, omnigraph as og
with og.open({str(shared.uri)!r}) as graph:
    graph.query({PEOPLE!r}).rows()
    graph.snapshot().count("Person")
print([name for name in sys.modules if name.startswith(("cedarpy", "omnigraph.policy", "omnigraph.graph.guard"))])
"""
    ended = subprocess.run(run_code(code), cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.strip() == "[]"
