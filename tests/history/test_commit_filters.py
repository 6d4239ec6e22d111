"""Commits by author, kind, words, branch and time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

import omnigraph as og
from omnigraph.choices import CommitKind
from omnigraph.errors import CommitNotFound, InputError
from omnigraph.storage.commit import protocol
from omnigraph.storage.metadata import commit_log
from tests.support.small_graphs import people, persons


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """init, a by anna, b by bo, then on `side` c by bo and on main a load by anna."""
    graph = people(tmp_path / "g", actor="act-anna")
    graph.write([persons("a")], message="first people")
    with og.open(graph.uri, actor="act-bo") as other:
        other.write([persons("b")], message="more people")
        other.branches.create("side")
        other.write([persons("c")], branch="side", message="aside")
    graph.load({"Person": [{"handle": "d"}]}, "append", message="nicknames")
    return graph


def _said(commits: list[og.Commit]) -> list[str | None]:
    return [commit.message for commit in commits]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"actor": "act-anna"}, ["nicknames", "first people", None]),
        ({"actor": ["act-bo", "act-nobody"]}, ["more people"]),
        ({"kind": "load"}, ["nicknames"]),
        ({"kind": ["init", "mutation"]}, ["more people", "first people", None]),
        ({"message": "people"}, ["more people", "first people"]),
        ({"message": ("nick", "first")}, ["nicknames", "first people"]),
        ({"message": "People"}, []),
        ({"made_on": "side"}, []),
        ({"branch": "side", "made_on": "side"}, ["aside"]),
        ({"branch": "side", "made_on": ["side", "main"], "actor": "act-bo"}, ["aside", "more people"]),
        ({"actor": "act-anna", "message": "people"}, ["first people"]),
        ({"actor": "act-anna", "limit": 1}, ["nicknames"]),
        ({"actor": "act-anna", "limit": 0}, []),
    ],
)
def test_only_commits_that_fit_every_filter_are_listed(
    graph: og.Graph, wanted: dict[str, Any], said: list[str | None]
) -> None:
    assert _said(graph.commits.list(**wanted)) == said


def test_commits_since_one_come_after_it_and_those_until_one_end_with_it(graph: og.Graph) -> None:
    whole = graph.commits.list()
    for place, commit in enumerate(whole):
        assert graph.commits.list(since=commit.id) == whole[:place]
        assert graph.commits.list(until=commit.id) == whole[place:]
        assert graph.commits.list(since=commit.version) == whole[:place]
        assert graph.commits.list(until=str(commit.version)) == whole[place:]
        assert graph.commits.list(since=commit.created_at) == whole[: place + 1], "a time counts itself"
        assert graph.commits.list(until=commit.created_at) == whole[place:]
        assert graph.commits.list(since=commit.created_at + timedelta(microseconds=1)) == whole[:place]
        assert graph.commits.list(until=commit.created_at.isoformat()) == whole[place:]
    assert graph.commits.list(since=whole[3].id, until=whole[1].id) == whole[1:3]
    assert graph.commits.list(since=whole[1].id, until=whole[3].id) == []
    assert graph.commits.list(since="2999-01-01") == graph.commits.list(until="1999-01-01") == []
    assert graph.commits.list(since=whole[3].id, until=whole[1].id, limit=1) == whole[1:2]
    assert graph.commits.list(before=whole[0].id, since=whole[2].id) == whole[1:2]


def test_the_history_since_a_time_is_what_was_not_there_at_that_time(graph: og.Graph) -> None:
    """Also when a writer's clock was behind: both stop at the first commit that is old enough."""
    moment = graph.commits.list()[1].created_at
    newer = graph.commits.list(since=moment + timedelta(microseconds=1))
    then = graph.snapshot(at=moment)
    assert newer[-1].version == then.version + 1


def test_a_bound_that_the_history_does_not_have_is_not_found(graph: og.Graph) -> None:
    aside = graph.commits.head("side").id
    for bound in ("since", "until"):
        for missing in (aside, "01HZZZZZZZZZZZZZZZZZZZZZZZ"):
            with pytest.raises(CommitNotFound, match=f"{missing}.*main"):
                graph.commits.list(**{bound: missing})  # type: ignore[arg-type]
    assert len(graph.commits.list("side", until=aside)) == 4


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"kind": "lod"}, "there is no kind of commit 'lod'"),
        ({"kind": ["load", 3]}, "kind is a text or several, not 3 of type int"),
        ({"actor": " "}, "actor is blank"),
        ({"actor": 3}, "actor is a text or several, not 3 of type int"),
        ({"message": [""]}, "message is blank"),
        ({"made_on": "a b"}, "branch name 'a b' is not allowed"),
        ({"since": "soon"}, "since is a commit id, a tag, a version or a time, not 'soon'"),
        ({"until": True}, "a moment is a commit id, a tag, a version or a time, not True"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused_in_one_sentence(
    graph: og.Graph, wanted: dict[str, Any], said: str
) -> None:
    list_: Callable[..., object]
    for list_ in (graph.commits.list, graph.commits.graph):
        with pytest.raises(InputError) as refused:
            list_(**wanted)
        assert refused.value.message.startswith(said)


def test_every_kind_of_commit_can_be_asked_for(graph: og.Graph) -> None:
    assert set(protocol._DONE.values()) < set(get_args(CommitKind))
    for kind in get_args(CommitKind):
        assert all(commit.kind == kind for commit in graph.commits.list(kind=kind))


def test_a_commit_of_unknown_time_is_in_no_span_of_time(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = graph.commits.list()
    unknown = og.Commit("manifest:main:v99", "main", 99, whole[0].id, None, None, datetime.fromtimestamp(0, UTC))
    monkeypatch.setattr(commit_log, "history", lambda *_: iter([unknown, *whole]))
    assert graph.commits.list(until="2999-01-01") == whole
    assert graph.commits.list(since=whole[1].created_at)[1:] == whole[:2]
