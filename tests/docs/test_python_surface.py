"""What a person meets in a Python prompt: docstrings with examples that run, short reprs, clear refusals."""

from __future__ import annotations

import doctest
import inspect
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.graph.schema_control import SchemaControl
from omnigraph.history.control import Branches, Commits

SCHEMA = """
node Person { handle: String @key  name: String  age: I32?  photo: Blob? }
edge Follows: Person -> Person { since: Date? }
"""
PEOPLE = """{"type":"Person","data":{"handle":"ana","name":"Ana","photo":"base64:cGl4ZWxz"}}
{"type":"Person","data":{"handle":"bo","name":"Bo"}}
{"edge":"Follows","from":"ana","to":"bo","data":{"id":"f1"}}
"""
CLASSES = (
    og.Graph,
    og.Snapshot,
    og.Blob,
    og.Result,
    Branches,
    Commits,
    og.Tags,
    og.Retention,
    og.Upkeep,
    SchemaControl,
)

#: Public names whose sentence says it all, or whose example would be longer than they are worth.
WITHOUT_EXAMPLE = {
    *(
        "uri",
        "catalog",
        "schema",
        "branches",
        "tags",
        "retention",
        "upkeep",
        "commits",
        "recoveries",
        "is_committing",
        "internals",
        "write",
        "ensure_indices",
    ),
    *("internals",),
    *(
        "recover",
        "close",
        "branch",
        "version",
        "values",
        "buffer_bytes",
        "json_rows",
        "to_pandas",
        "to_polars",
        "to_dict",
        "head",
        "text",
        "hash",
        "size",
    ),
}


def public_names() -> Iterator[tuple[str, Any]]:
    yield from (("omnigraph.init", og.init), ("omnigraph.open", og.open))
    for owner in CLASSES:
        for name, member in inspect.getmembers(owner):
            if not name.startswith("_") and (callable(member) or isinstance(member, property)):
                yield f"{owner.__name__}.{name}", member


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    (folder / "more.jsonl").write_text('{"type":"Person","data":{"handle":"cy","name":"Cy"}}\n', "utf-8")
    (folder / "people.jsonl").write_text(PEOPLE, "utf-8")
    with og.init(folder / "people.omni", SCHEMA, actor="act-first") as graph:
        graph.load(folder / "people.jsonl", "append")
    return folder


def test_every_public_name_says_what_it_is_and_most_show_it() -> None:
    silent = [name for name, member in public_names() if not inspect.getdoc(member)]
    assert silent == []
    without = {name.split(".")[-1] for name, member in public_names() if ">>> " not in (inspect.getdoc(member) or "")}
    assert without <= WITHOUT_EXAMPLE


def test_the_examples_of_the_docstrings_run(
    people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    for number, (name, member) in enumerate(public_names()):
        text = inspect.getdoc(member) or ""
        if ">>> " not in text:
            continue
        folder = tmp_path / str(number)
        shutil.copytree(people, folder)
        monkeypatch.chdir(folder)
        with og.open("people.omni") as graph:
            case = doctest.DocTestParser().get_doctest(text, {"og": og, "graph": graph}, name, None, None)
            runner.run(case)
    assert runner.summarize(verbose=False).failed == 0, capsys.readouterr().out
    assert runner.tries > 30


def test_what_a_verb_answers_with_is_short_in_a_prompt(people: Path, tmp_path: Path) -> None:
    shutil.copytree(people / "people.omni", tmp_path / "g.omni")
    read = "query q() { match { $p: Person } return { $p.name } }"
    with og.open(tmp_path / "g.omni") as graph:
        graph.branches.create("x")
        changed = graph.mutate('query q() { update Person set { age: 7 } where handle = "bo" }', branch="x")
        answers = [graph, graph.snapshot(), graph.query(read), graph.branches, graph.commits, graph.schema, changed]
        answers += [graph.diff("main", "x"), graph.branches.merge("x", dry_run=True)]
        answers += [graph.branches.merge("x", delete_branch=True)]
        loaded = graph.load(people / "more.jsonl", "append")
        assert (loaded.counts, loaded.total) == ({"node:Person": 1}, 1)
        answers += [loaded]
        answers += [graph.schema.plan(SCHEMA), graph.schema.apply(SCHEMA), graph.verify(), graph.lint(read)]
        answers += [graph.changes("beginning"), graph.commit_changes(graph.commits.head().id), graph.baseline()]
        answers += [graph.stats(), *graph.stats().tables]
        answers += [graph.catalog, graph.commits.head(), graph.ensure_indices(), graph.explain(read)]
        shown = {type(answer).__name__: repr(answer) for answer in answers}
    assert {name: text for name, text in shown.items() if len(text) > 160 or " object at 0x" in text} == {}
    assert shown["Graph"].endswith("g.omni', mode='rw')")
    assert shown["SchemaPlan"] == "SchemaPlan(supported, 0 steps)"
    assert shown["VerifyReport"].startswith("VerifyReport(ok, ")
    assert shown["MergeResult"].startswith("MergeResult(fast_forward: x → main; node:Person +0 ~1 -0; commit 0")
    assert shown["ChangePage"] == "ChangePage(3 commits, 5 changes, caught up)"


def test_a_value_of_the_wrong_kind_is_refused_in_one_sentence(people: Path, tmp_path: Path) -> None:
    with og.open(people / "people.omni", mode="ro") as graph:
        wrong: list[tuple[Callable[[], object], str]] = [
            (lambda: graph.query("people.gq"), "'people.gq' is the name of a file, given as text"),
            (lambda: graph.query(Path("nothing.gq")), "cannot read nothing.gq: No such file or directory"),
            (lambda: graph.query(7), "a text or a path is needed, not a int"),  # type: ignore[arg-type]
            (lambda: graph.schema.plan("people.pg"), "'people.pg' is the name of a file, given as text"),
            (lambda: graph.snapshot().arrow("Person", "name"), "columns is a list of names, not the text 'name'"),
            (lambda: graph.snapshot().arrow("Person", ["nmae"]), "'node:Person' has no column 'nmae'"),
            (lambda: graph.snapshot().arrow("Person", ["name", "name"]), "column 'name' is named twice"),
            (lambda: graph.snapshot().count("Persn"), "type 'Persn' does not exist at this version"),
            (lambda: og.init(tmp_path / "x.omni", "people.pg"), "'people.pg' is the name of a file, given as text"),
            (lambda: og.open(people / "people.jsonl"), "people.jsonl is a file, and a graph is a directory"),
        ]
        for call, said in wrong:
            with pytest.raises(og.OmniGraphError) as refused:
                call()
            assert said in refused.value.message


def test_the_front_door_lists_its_names_and_nothing_of_the_house() -> None:
    assert [name for name in dir(og) if not name.startswith("__")] == sorted([*og.__all__, "aio", "spark"])


def test_a_notebook_shows_values_as_text(people: Path) -> None:
    with og.open(people / "people.omni", mode="ro") as graph:
        text = 'query q() { match { $p: Person } return { $p.name as who, "<b>" as mark } order { who } limit 1 }'
        shown = graph.query(text)._repr_html_()
    assert "<td>Ana</td><td>&lt;b&gt;</td>" in shown
