"""Every refusal is behind a server what it is in this process: class, code, message, hint and details."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError

INSERT = "query add($h: String) { insert Person { handle: $h, name: $h } }"
READ = "query k($h: String) { match { $p: Person { handle: $h } } return { $p.name as name } }"
MANY = "query n($a: I32, $f: F64, $d: Date, $l: [String]) { match { $p: Person { age: $a } } return { $p.name } }"
GIVEN = {"a": 1, "f": 1.0, "d": "2026-01-01", "l": ["x"]}
ULID = "01HZZZZZZZZZZZZZZZZZZZZZZZ"

Refused = Callable[[og.Graph], Any]


def lines(text: str) -> io.StringIO:
    return io.StringIO(text + "\n")


REFUSED: dict[str, Refused] = {
    # queries
    "no query": lambda graph: graph.query("nonsense"),
    "an unknown type": lambda graph: graph.query("query q() { match { $p: Persn } return { $p.name } }"),
    "a file as text": lambda graph: graph.query("people.gq"),
    "a file that is not there": lambda graph: graph.query(Path("nowhere.gq")),
    "two queries": lambda graph: graph.query(READ + READ.replace("query k", "query l"), {"h": "ana"}),
    "an unknown query": lambda graph: graph.query(READ, "m"),
    "a write as a read": lambda graph: graph.query(INSERT, {"h": "di"}),
    "a read as a write": lambda graph: graph.mutate(READ, {"h": "ana"}),
    "a missing parameter": lambda graph: graph.query(READ),
    "an unknown parameter": lambda graph: graph.query(READ, {"h": "ana", "i": 1}),
    "a parameter of another type": lambda graph: graph.query(READ, {"h": 1}),
    "a number that is too large": lambda graph: graph.query(MANY, {**GIVEN, "a": 2**80}),
    "a number of another kind": lambda graph: graph.query(MANY, {**GIVEN, "a": 1.5}),
    "a day that is none": lambda graph: graph.query(MANY, {**GIVEN, "d": "2026-02-31"}),
    "a list that is none": lambda graph: graph.query(MANY, {**GIVEN, "l": "x"}),
    "parameters twice": lambda graph: graph.query(READ, {"h": "ana"}, {"h": "bo"}),
    "an unknown branch": lambda graph: graph.query(READ, {"h": "ana"}, branch="nowhere"),
    "a branch of a forbidden name": lambda graph: graph.query(READ, {"h": "ana"}, branch="a//b"),
    "an unknown commit": lambda graph: graph.query(READ, {"h": "ana"}, at=ULID),
    "a commit that is none": lambda graph: graph.query(READ, {"h": "ana"}, at="soon"),
    "a tag that is none": lambda graph: graph.query(READ, {"h": "ana"}, at="tag:soon"),
    "a version that is none": lambda graph: graph.query(READ, {"h": "ana"}, at=99),
    "a time before the first": lambda graph: graph.query(READ, {"h": "ana"}, at="2001-01-01"),
    "a moment of another kind": lambda graph: graph.query(READ, {"h": "ana"}, at=1.5),  # type: ignore[arg-type]
    "too many rows": lambda graph: graph.query("query q() { match { $p: Person } return { $p.name } }", max_rows=2),
    "no rows at all": lambda graph: graph.query(READ, {"h": "ana"}, max_rows=0),
    "no time": lambda graph: graph.query(READ, {"h": "ana"}, timeout=0),
    "a search without words": lambda graph: graph.search("  "),
    "a search in an unknown type": lambda graph: graph.search("ana", "Persn"),
    "a search with a wrong limit": lambda graph: graph.search("ana", limit=-1),
    "a plan of a wrong query": lambda graph: graph.explain("query q() { match { $p: Person } return { $p.nme } }"),
    "a count of an unknown type": lambda graph: graph.snapshot().count("Persn"),
    "rows of an unknown type": lambda graph: graph.snapshot().arrow("Persn"),
    "rows of an unknown column": lambda graph: graph.snapshot().arrow("Person", ["nme"]),
    "rows of a column twice": lambda graph: graph.snapshot().arrow("Person", ["name", "name"]),
    "a blob of an unknown row": lambda graph: graph.blob("Person", "nobody", "photo"),
    "a blob that is none": lambda graph: graph.blob("Person", "ana", "name"),
    "a blob of no property": lambda graph: graph.blob("Person", "ana", "foto"),
    "a blob that is null": lambda graph: graph.blob("Person", "bo", "photo"),
    "a range behind the end": lambda graph: graph.blob("Person", "ana", "photo").read(7),
    # writes
    "a key that is null": lambda graph: graph.mutate('query q() { insert Person { name: "x" } }'),
    "a value of an enum that is none": lambda graph: graph.mutate(
        'query q() { update Person set { mood: "odd" } where handle = "bo" }'
    ),
    "an edge without its node": lambda graph: graph.mutate('query q() { insert Follows { from: "ana", to: "no" } }'),
    "too many edges": lambda graph: graph.load({"LivesIn": [{"from": "ana", "to": "Rome", "id": "l2"}]}, "append"),
    "a head that is not": lambda graph: graph.mutate(INSERT, {"h": "di"}, if_commit=ULID),
    "a blank message": lambda graph: graph.mutate(INSERT, {"h": "di"}, message=" "),
    "a long message": lambda graph: graph.mutate(INSERT, {"h": "di"}, message="x" * 100_000),
    "an id of a commit that is none": lambda graph: graph.mutate(INSERT, {"h": "di"}, commit_id="x"),
    "a write to an unknown branch": lambda graph: graph.mutate(INSERT, {"h": "di"}, branch="nowhere"),
    # loads
    "a line that is no record": lambda graph: graph.load(lines("nonsense"), "append"),
    "a record of no type": lambda graph: graph.load(lines('{"type":"Persn","data":{"handle":"x"}}'), "append"),
    "a record without a key": lambda graph: graph.load(lines('{"type":"Person","data":{"name":"x"}}'), "append"),
    "a record that exists": lambda graph: graph.load(lines('{"type":"Place","data":{"name":"Rome"}}'), "append"),
    "too many rejects": lambda graph: graph.load(lines("nonsense\nmore"), "append", on_error="reject", max_rejects=1),
    "a mode that is none": lambda graph: graph.load(lines(""), "upsert"),  # type: ignore[arg-type]
    "keep without merge": lambda graph: graph.load(lines(""), "append", columns="keep"),
    "no file": lambda graph: graph.load("nowhere.jsonl", "append"),
    "a pattern without a file": lambda graph: graph.load("nowhere-*.jsonl", "append"),
    "content as a path": lambda graph: graph.load('{"type":"Person"}\n', "append"),
    "bytes": lambda graph: graph.load(b"{}", "append"),
    "rows without a type": lambda graph: graph.load([{"handle": "x"}], "append"),
    "loaded rows of an unknown type": lambda graph: graph.load({"Persn": [{"handle": "x"}]}, "append"),
    "loaded rows of an unknown column": lambda graph: graph.load({"Person": [{"handle": "x", "nme": "X"}]}, "append"),
    "no rows for a type": lambda graph: graph.load({"Person": []}, "append"),
    "a format that is none": lambda graph: graph.load(lines(""), "append", format="xml"),  # type: ignore[arg-type]
    # branches
    "a branch that exists": lambda graph: graph.branches.create("main"),
    "a branch of no branch": lambda graph: graph.branches.create("x", "nowhere"),
    "a branch with a bad name": lambda graph: graph.branches.create("x y"),
    "no branch to delete": lambda graph: graph.branches.delete("nowhere"),
    "main to delete": lambda graph: graph.branches.delete("main"),
    "no branch to rename": lambda graph: graph.branches.rename("nowhere", "x"),
    "a merge into itself": lambda graph: graph.branches.merge("main", "main"),
    "a merge of no branch": lambda graph: graph.branches.merge("nowhere"),
    "a decision that is none": lambda graph: graph.branches.merge("main", "x", resolve="mine"),  # type: ignore[arg-type]
    # history
    "no such commit": lambda graph: graph.commits.get(ULID),
    "no such tag": lambda graph: graph.commits.get("tag:no"),
    "an unknown kind": lambda graph: graph.commits.list(kind="lod"),  # type: ignore[arg-type]
    "a negative limit": lambda graph: graph.commits.list(limit=-1),
    "before no commit": lambda graph: graph.commits.list(before=ULID),
    "a blank actor": lambda graph: graph.commits.list(actor=" "),
    "a version for several branches": lambda graph: graph.commits.graph(since=2),
    "no tag": lambda graph: graph.tags.get("no"),
    "no tag to delete": lambda graph: graph.tags.delete("no"),
    "a tag with a bad name": lambda graph: graph.tags.create("a..b"),
    "a tag of no commit": lambda graph: graph.tags.create("t", ULID),
    "a revert of no commit": lambda graph: graph.revert(ULID),
    "a revert of the first commit": lambda graph: graph.revert(graph.commits.list()[-1].id),
    "a restore of no commit": lambda graph: graph.restore(ULID),
    # changes
    "a diff of no branch": lambda graph: graph.diff("main", "nowhere"),
    "a diff of an unknown type": lambda graph: graph.diff("main", "main", types=["Persn"]),
    "a diff of an unknown kind": lambda graph: graph.diff("main", "main", kinds=["row"]),
    "a cursor that is none": lambda graph: graph.changes("soon"),
    "a page token that is none": lambda graph: graph.changes(page_token="soon"),
    "after no commit": lambda graph: graph.changes(f"after:{ULID}"),
    "a page that is too large": lambda graph: graph.changes(limit=1_000_000),
    "a page of nothing": lambda graph: graph.changes(limit=0),
    "changes of no commit": lambda graph: graph.commit_changes(ULID),
    "changes of the first commit": lambda graph: graph.commit_changes(graph.commits.list()[-1].id),
    "a feed of an unknown type": lambda graph: graph.changes("beginning", types=["Persn"]),
    "a baseline of no branch": lambda graph: graph.baseline(branch="nowhere"),
    "an export of an unknown type": lambda graph: graph.export(types=["Persn"]),
    "an export into no directory": lambda graph: graph.export("nowhere/x.jsonl"),
    "an export in no format": lambda graph: graph.export(format="xml"),  # type: ignore[arg-type]
    # schema
    "a schema that is none": lambda graph: graph.schema.plan("nonsense"),
    "a schema with a mistake": lambda graph: graph.schema.apply("node Person { handle: Strng @key }"),
    "a change that is not safe": lambda graph: graph.schema.apply(
        graph.schema.text.replace("name: String @index", "name: I32")
    ),
    "a hash that is not": lambda graph: graph.schema.apply(
        graph.schema.text.replace("size: U64?", "size: U64?  more: I32?"), if_hash="sha256:0"
    ),
    "statistics of no branch": lambda graph: graph.stats("nowhere"),
}


def told(graph: og.Graph, refused: Refused) -> Any:
    """Everything that an error says."""
    with pytest.raises(OmniGraphError) as caught:
        refused(graph)
    error = caught.value
    return type(error), error.code, error.message, error.hint, error.details, str(error)


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_the_same(refused: Refused, both: tuple[og.Graph, og.Graph]) -> None:
    graph, embedded = both
    assert told(graph, refused) == told(embedded, refused)


def test_a_mistake_in_a_file_is_told_with_its_name(both: tuple[og.Graph, og.Graph], tmp_path: Path) -> None:
    graph, embedded = both
    file = tmp_path / "wrong.gq"
    file.write_text("query q() {\n match { $p: Persn } return { $p.name } }", "utf-8")
    assert told(graph, lambda each: each.query(file)) == told(embedded, lambda each: each.query(file))
    found = graph.lint(file)
    assert (found.query_path, found.results) == (str(file), embedded.lint(file).results)
    records = tmp_path / "wrong.jsonl"
    records.write_text('{"type":"Person","data":{"handle":"x","name":"X"}}\nnonsense\n', "utf-8")
    wrong = told(graph, lambda each: each.load(records, "append"))
    assert wrong == told(embedded, lambda each: each.load(records, "append"))
    assert f"{records}:2" in wrong[3]


def test_a_refused_write_changes_nothing(both: tuple[og.Graph, og.Graph]) -> None:
    graph, embedded = both
    before = embedded.commits.head().id
    with pytest.raises(OmniGraphError):
        graph.mutate(INSERT, {"h": "ana"}, if_commit=ULID)
    assert graph.commits.head().id == before
