"""Arguments of a wrong kind are refused with one sentence of ours, wherever they are given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import InputError
from tests.support.small_graphs import people

#: What is called with a graph, and how the refusal begins.
WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "open": (lambda graph: og.open(3), "the address of a graph is a text or a path, not 3 of type int"),  # type: ignore[call-overload]
    "open bytes": (lambda graph: og.open(b"x"), "the address of a graph is a text or a path, not b'x' of type bytes"),  # type: ignore[call-overload]
    "init": (lambda graph: og.init(3, "node A { k: String @key }"), "the address of a graph is a text or a path"),  # type: ignore[arg-type]
    "commits.list limit": (lambda graph: graph.commits.list(limit="3"), "limit is a whole number, not '3' of type str"),
    "commits.list true": (
        lambda graph: graph.commits.list(limit=True),
        "limit is a whole number, not True of type bool",
    ),
    "commits.list less": (lambda graph: graph.commits.list(limit=-1), "limit is -1, which is less than 0"),
    "commits.list branch": (lambda graph: graph.commits.list(5), "branch name 5 is not allowed: it is no text"),
    "commits.get": (lambda graph: graph.commits.get(5), "the id of a commit is a text, not 5 of type int"),
    "commits.get none": (lambda graph: graph.commits.get(None), "the id of a commit is a text, not None"),
    "snapshot": (lambda graph: graph.snapshot(branch=5), "branch name 5 is not allowed: it is no text"),
    "snapshot at": (lambda graph: graph.snapshot(at=[]), "a moment is a commit id, a tag, a version or a time, not []"),
    "count": (lambda graph: graph.snapshot().count(5), "a type is a text, not 5 of type int"),
    "arrow": (lambda graph: graph.snapshot().arrow("Person", 5), "columns is a list of texts, not 5 of type int"),
    "arrow name": (lambda graph: graph.snapshot().arrow("Person", [5]), "each of columns is a text, not 5 of type int"),
    "query": (lambda graph: graph.query(5), "a text or a path is needed, not a int"),
    "mutate": (lambda graph: graph.mutate(None), "a text or a path is needed, not a NoneType"),
    "load": (lambda graph: graph.load(5, "append"), "a source is a path, not of type int"),
    "load type": (lambda graph: graph.load([{"handle": "x"}], "append", type=5), "a type is a text, not 5 of type int"),
    "load types": (lambda graph: graph.load({5: [{"handle": "x"}]}, "append"), "a type is a text, not 5 of type int"),
    "load rejects": (lambda graph: graph.load([], "append", max_rejects="x"), "max_rejects is a whole number, not 'x'"),
    "export": (lambda graph: graph.export(5), "cannot export into a int"),
    "export types": (lambda graph: graph.export(types=5), "types is a list of texts, not 5 of type int"),
    "export type": (lambda graph: graph.export(types=[5]), "each of types is a text, not 5 of type int"),
    "write": (lambda graph: graph.write(5), "changes is a list of Change, not a int"),
    "create": (lambda graph: graph.branches.create(5), "branch name 5 is not allowed: it is no text"),
    "delete": (lambda graph: graph.branches.delete(5), "the name of a branch is a text, not 5 of type int"),
    "merge": (lambda graph: graph.branches.merge(5), "branch name 5 is not allowed: it is no text"),
    "diff": (lambda graph: graph.diff(5.5, "main"), "a moment is a commit id, a tag, a version or a time, not 5.5"),
    "diff types": (lambda graph: graph.diff(1, "main", types=5), "types is a list of texts, not 5 of type int"),
    "diff kinds": (lambda graph: graph.diff(1, "main", kinds=[5]), "each of kinds is a text, not 5 of type int"),
    "changes": (lambda graph: graph.changes(5), "since is a text, not 5 of type int"),
    "changes limit": (lambda graph: graph.changes(limit="x"), "the most changes of a page is a whole number, not 'x'"),
    "changes less": (lambda graph: graph.changes(limit=-1), "a page holds at least one of its changes, not -1"),
    "changes token": (lambda graph: graph.changes(page_token=5), "a cursor or page token is a text, not 5"),
    "commit_changes": (lambda graph: graph.commit_changes(5), "the id of a commit is a text, not 5 of type int"),
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return people(Path(tmp_path_factory.mktemp("kinds")) / "g", "ann")


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_of_a_wrong_kind_is_an_input_error(name: str, graph: og.Graph) -> None:
    call, said = WRONG[name]
    with pytest.raises(InputError) as caught:
        call(graph)
    assert caught.value.message.startswith(said)


def test_a_limit_of_nothing_gives_nothing(graph: og.Graph) -> None:
    assert graph.commits.list(limit=0) == []
