"""Names that try to leave the graph: refused before any file is touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import ids, limits
from omnigraph.errors import BranchExists, BranchNotFound, InvalidName, NotFoundError, OmniGraphError
from omnigraph.write.change import Change
from tests.support.small_graphs import PEOPLE, ids_of, listing, people, persons

TRAVERSAL = [
    *(
        "..",
        "../x",
        "../../etc/passwd",
        "a/../b",
        "a/..",
        "..a/../../b",
        "./x",
        "a/./b",
        ".",
        "a/.",
        "/",
        "/abs",
        "//x",
    ),
    *("a//b", "a/", "/a", "\\..\\x", "a\\b", "C:\\x", "C:/x", "file:///x", "s3://b/x", "~", "~/x", "$HOME", "`id`"),
    *("%2e%2e%2fx", "..%2fx", "%00", "a%2fb", "..%c0%afx", "a\0b", "\0", "a\nb", "a\r\nb", "a\tb", "a b", "a;b", "a|b"),
    *(
        "..／x",
        "．．/x",
        "‥/x",
        "a∕b",
        "maіn",
        "main\u200b",
        "\u202emain",
        "ma\u0131n",
        "ｍain",
        "é",
        "e\u0301",
        "図",
        "😀",
    ),
    *(
        "x.lock",
        "a/x.lock",
        "a..b",
        "..",
        "a...b",
        "__x",
        "__schema_apply_lock__",
        "__run__1",
        "__manifest",
        "a'b",
        'a"b',
    ),
    *("a*", "a?", "a#b", "a:b", "a@b", "a+b", "a=b", "a,b", "<a>", "{a}", "[a]", "(a)", "a!", "a&b", "\ud800"),
    *("", " ", "\t", "x" * 129, "x" * 100_000, "a/" * 65, "/".join(["a"] * 200)),
]
RESERVED_OR_BAD = list(dict.fromkeys(TRAVERSAL))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph inside a directory in which nothing else may appear."""
    graph = people(tmp_path_factory.mktemp("names") / "inner" / "g", "a")
    graph.branches.create("side")
    graph._store.mirror.flush()
    return graph


def _outer(graph: og.Graph) -> Path:
    return Path(graph.uri).parent.parent


@pytest.mark.parametrize("name", RESERVED_OR_BAD, ids=lambda name: ascii(name)[:40])
def test_a_bad_branch_name_is_refused_by_every_operation_before_any_file_call(guarded: og.Graph, name: str) -> None:
    before = listing(_outer(guarded))
    operations: list[Callable[[], object]] = [
        lambda: guarded.branches.create(name),
        lambda: guarded.branches.create("fresh", from_=name),
        lambda: guarded.write([persons("x")], branch=name),
        lambda: guarded.snapshot(name),
        lambda: guarded.commits.list(name),
        lambda: guarded.commits.head(name),
        lambda: guarded.ensure_indices(name),
    ]
    for operation in operations:
        with pytest.raises(InvalidName):
            operation()
    with pytest.raises((InvalidName, BranchNotFound)):  # other software may have made a branch of such a name
        guarded.branches.delete(name)
    assert listing(_outer(guarded)) == before


@pytest.mark.parametrize(
    "name", ["a", "A-1", "review/anna", "v1.2.3", "a_b", "x" * 128, "a/b/c/d", "control", "a.b/c-d"]
)
def test_a_good_name_works_everywhere(tmp_path: Path, name: str) -> None:
    graph = people(tmp_path / "g", "a")
    assert graph.branches.create(f"  {name}\n").name == name
    graph.write([persons("b")], branch=f" {name} ")
    assert ids_of(graph, "Person", name) == {"a", "b"}
    assert graph.branches.list() == ["main", name]
    graph.branches.delete(f" {name} ")
    assert graph.branches.list() == ["main"]
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


@pytest.mark.parametrize("name", ["main", " main ", "main\n"])
def test_main_is_neither_made_nor_deleted(guarded: og.Graph, name: str) -> None:
    with pytest.raises(InvalidName, match="main"):
        guarded.branches.create(name)
    with pytest.raises(InvalidName, match="main"):
        guarded.branches.delete(name)
    assert guarded.snapshot(name).branch == "main"


@pytest.mark.parametrize("name", ["side/x", "side"])
def test_a_name_may_not_overlap_with_another(guarded: og.Graph, name: str) -> None:
    with pytest.raises(BranchExists):
        guarded.branches.create(name)


def test_case_makes_two_names(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    for name, handle in (("Side", "b"), ("side", "c")):
        graph.branches.create(name)
        graph.write([persons(handle)], branch=name)
    assert (ids_of(graph, "Person", "Side"), ids_of(graph, "Person", "side")) == ({"a", "b"}, {"a", "c"})


ACTORS = [
    "",
    " ",
    " a",
    "a ",
    "a\nb",
    "a\0b",
    "\u200b",
    "\u202ea",
    "omnigraph:recovery",
    "omnigraph:x",
    "x" * 257,
    "é" * 129,
    5,
]


@pytest.mark.parametrize("actor", ACTORS, ids=lambda actor: ascii(actor)[:40])
def test_a_bad_actor_is_refused_before_anything_is_made(tmp_path: Path, guarded: og.Graph, actor: Any) -> None:
    with pytest.raises(InvalidName):
        og.init(tmp_path / "g", PEOPLE, actor=actor)
    assert not (tmp_path / "g").exists()
    before = listing(_outer(guarded))
    with pytest.raises(InvalidName):
        og.open(guarded.uri, actor=actor)
    assert listing(_outer(guarded)) == before


@pytest.mark.parametrize(
    "actor", ["act-anna", "anna@example.org", "Ünï 図", "../x", "a'b\"c", "x" * limits.ACTOR_BYTES]
)
def test_an_actor_is_kept_as_given(tmp_path: Path, actor: str) -> None:
    with people(tmp_path / "g", "a", actor=actor) as graph:
        assert [commit.actor for commit in graph.commits.list()] == [actor, actor]
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


TYPES = [
    "Nope",
    "person",
    "PERSON",
    "Person ",
    "",
    "../Person",
    "node:Person",
    "Person\0",
    "Persоn",
    "_rowid",
    "x" * 10_000,
]


@pytest.mark.parametrize("name", TYPES, ids=lambda name: ascii(name)[:40])
def test_an_unknown_type_is_a_typed_error_and_touches_nothing(guarded: og.Graph, name: str) -> None:
    before = listing(_outer(guarded))
    for key in (f"node:{name}", f"edge:{name}", name):
        if key == "node:Person":
            continue
        with pytest.raises(OmniGraphError, match=r"unknown|does not exist|is no table of the graph"):
            guarded.write([Change(key, persons("x").put)])
    if name != "node:Person":
        with pytest.raises(NotFoundError):
            guarded.snapshot().count(name)
        with pytest.raises(NotFoundError):
            guarded.snapshot().arrow(name)
    assert listing(_outer(guarded)) == before


@pytest.mark.parametrize(
    "at", ["", "x", "../x", "main", "manifest:main:v99", "manifest:../x:v1", "manifest:nope:v1", "manifest:main:v-1"]
)
def test_an_unknown_moment_is_a_typed_error(guarded: og.Graph, at: str) -> None:
    before = listing(_outer(guarded))
    with pytest.raises(OmniGraphError):
        guarded.snapshot(at=at)
    with pytest.raises(OmniGraphError):
        guarded.commits.get(at)
    assert listing(_outer(guarded)) == before


def test_unknown_branches_are_not_found(guarded: og.Graph) -> None:
    for call in (
        lambda: guarded.snapshot("nope"),
        lambda: guarded.write([persons("x")], branch="nope"),
        lambda: guarded.branches.delete("nope"),
        lambda: guarded.branches.create("x", from_="nope"),
        lambda: guarded.commits.list("nope"),
    ):
        with pytest.raises(NotFoundError, match="nope"):
            call()


@pytest.mark.parametrize("name", [None, 1, b"main", ["main"]])
def test_a_name_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises((InvalidName, TypeError, AttributeError)):
        ids.branch_name(name)  # type: ignore[arg-type]
