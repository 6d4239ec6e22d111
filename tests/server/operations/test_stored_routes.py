"""Stored queries over HTTP: the catalog, running them, and files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import InputError, OmniGraphError, QueryTypeError
from omnigraph.server.stored_queries import QueryFiles, StoredQueries
from omnigraph.wire.arrow_results import MEDIA_TYPE, read_result
from tests.server.operations.api import QUERIES, SCHEMA, Api, refused

HEADER = "Omnigraph-If-Graph-Commit"
READ = "query a() { match { $p: Person } return { $p.name } }"


def test_the_catalog_tells_parameters_and_notes(shared: Api) -> None:
    found = shared.told("/queries")["queries"]
    assert [each["name"] for each in found] == ["add_person", "find_person", "kinds", "set_age"]
    find = found[1]
    assert find == {
        "name": "find_person",
        "tool_name": "find_person",
        "description": "Finds a person",
        "instruction": "Give the whole name",
        "mutation": False,
        "params": [{"name": "name", "kind": "string", "nullable": False}],
    }
    assert found[0]["mutation"] is True and "description" not in found[0]
    assert found[2]["params"] == [
        {"name": "i", "kind": "bigint", "nullable": False},
        {"name": "l", "kind": "list", "nullable": True, "item_kind": "string"},
        {"name": "d", "kind": "date", "nullable": False},
        {"name": "t", "kind": "datetime", "nullable": True},
        {"name": "f", "kind": "float", "nullable": False},
        {"name": "b", "kind": "bool", "nullable": False},
    ]


def test_a_read_answers_like_a_query(shared: Api) -> None:
    before = shared.head()
    done = shared.done("/queries/find_person", params={"name": "Alice"}, expect_mutation=False)
    assert (done["rows"], done["graph_commit_id"]) == ([{"p.name": "Alice", "p.age": 30}], before)
    assert done["target"] == {"branch": "main", "snapshot": None}
    then = shared.done("/queries/find_person", params={"name": "Alice"}, snapshot=before)
    assert then["target"] == {"branch": None, "snapshot": before}
    reply = shared.post("/queries/find_person", {"Accept": MEDIA_TYPE}, params={"name": "Bob"})
    assert read_result(reply.body).rows() == [{"p.name": "Bob", "p.age": 25}]


def test_parameters_may_be_written_as_json_can(shared: Api) -> None:
    given = {"i": str(2**63 - 1), "l": ["a"], "d": "2020-02-29", "t": "2020-02-29T12:00:00Z", "f": 0.5, "b": True}
    (row,) = shared.done("/queries/kinds", params=given)["rows"]
    assert row == {"p.name": "Alice", **given, "i": 2**63 - 1, "t": "2020-02-29T12:00:00.000Z"}


def test_a_mutation_answers_like_a_mutation(shared: Api, branch: str) -> None:
    body = {"params": {"name": "Eve", "age": None}, "branch": branch, "message": "stored", "expect_mutation": True}
    done = shared.done("/queries/add_person", **body)
    assert (done["affected_nodes"], done["branch"], done["commit"]["message"]) == (1, branch, "stored")
    head = shared.head(branch)
    path = "/queries/set_age/if-graph-commit"
    body = {"params": {"name": "Eve", "age": 3}, "branch": branch}
    assert shared.post(path, {HEADER: head}, **body).json()["commit"]["parent_commit_id"] == head
    envelope = refused(shared.post(path, {HEADER: head}, **body), 412)
    assert envelope["precondition_failure"]["expected"] == head
    newest = shared.head(branch)
    nothing = shared.post(path, {HEADER: newest}, branch=branch, params={"name": "Nobody", "age": 1}).json()
    assert nothing["commit"] is None and shared.head(branch) == newest


def test_what_is_wrong_with_a_call_is_said(shared: Api) -> None:
    path, params = "/queries/find_person", {"name": "Alice"}
    refused(shared.post(path, params=params, expect_mutation=True), 400, "bad_request")
    refused(shared.post(path, {HEADER: shared.head()}, params=params), 400, "bad_request")
    refused(shared.post(f"{path}/if-graph-commit", {HEADER: shared.head()}, params=params), 400, "bad_request")
    refused(shared.post("/queries/set_age/if-graph-commit", params={"name": "Bob", "age": 1}), 400, "bad_request")
    refused(shared.post("/queries/set_age", params={"name": "Bob", "age": 1}, snapshot="x"), 400, "bad_request")
    refused(shared.post("/queries/set_age", params={"name": "Bob"}), 400, "bad_request")
    refused(shared.post(path, params=params, message="x"), 400, "bad_request")
    refused(shared.post(path, params=params, branch="main", snapshot=shared.head()), 400, "bad_request")
    refused(shared.send("POST", path), 400, "bad_request")
    refused(shared.send("POST", path, b"null"), 400, "bad_request")
    refused(shared.post(path, params=params, branch="nope"), 404, "not_found")


def test_an_unknown_query_is_not_found(shared: Api) -> None:
    for name in ("nothing", "find_person%20", "..%2Fqueries.gq"):
        assert refused(shared.post(f"/queries/{name}"), 404, "not_found")["error"] == "stored query not found"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g", SCHEMA)


def test_queries_come_from_files_directories_and_names(graph: og.Graph, tmp_path: Path) -> None:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "b.gq").write_text(QUERIES)
    (folder / "a.gq").write_text(READ)
    (folder / "note.txt").write_text("nothing")
    every = ["a", "add_person", "find_person", "kinds", "set_age"]

    def names(files: QueryFiles) -> list[str]:
        return [query.name for query in StoredQueries.read(files, graph).listed(graph)]

    assert names(QueryFiles.at(folder)) == every
    assert names(QueryFiles.at(folder / "a.gq")) == ["a"]
    assert names(QueryFiles((folder / "a.gq", folder / "b.gq"))) == every
    assert names(QueryFiles(named={"set_age": folder / "b.gq"})) == ["set_age"]
    assert names(QueryFiles.at(None)) == []


@pytest.mark.parametrize(
    ("files", "kind", "says"),
    [
        ({"a.gq": "query"}, OmniGraphError, "a.gq:1"),
        ({"a.gq": READ.replace("Person", "Persn")}, QueryTypeError, "unknown node type `Persn`"),
        ({"a.gq": READ, "b.gq": READ}, InputError, "stored query 'a' is in"),
        ({"a.gq": "\udc80"}, InputError, "not UTF-8"),
    ],
)
def test_a_file_that_is_wrong_is_named(
    graph: og.Graph, tmp_path: Path, files: dict[str, str], kind: type[OmniGraphError], says: str
) -> None:
    (tmp_path / "q").mkdir()
    for name, text in files.items():
        (tmp_path / "q" / name).write_text(text, errors="surrogateescape")
    with pytest.raises(kind) as caught:
        StoredQueries.read(QueryFiles.at(tmp_path / "q"), graph)
    assert says in str(caught.value)


def test_a_file_that_is_missing_or_lacks_its_query_is_named(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "a.gq").write_text(READ)
    with pytest.raises(InputError, match=r"cannot read .*nothing\.gq"):
        StoredQueries.read(QueryFiles.at(tmp_path / "nothing.gq"), graph)
    with pytest.raises(OmniGraphError, match="b"):
        StoredQueries.read(QueryFiles(named={"b": tmp_path / "a.gq"}), graph)


def test_a_query_that_fits_the_schema_no_more_says_so(own: Api) -> None:
    own.done("/mutate", query='query q() { delete Company where name = "Acme" }')
    changed = own.told("/schema")["schema_source"].replace("age: I32?", "years: I32? @rename_from(age)")
    reply = own.post("/schema/apply", schema_source=changed)
    assert reply.status == 200, reply.text
    envelope = refused(own.post("/queries/find_person", params={"name": "Alice"}), 400, "bad_request")
    assert "age" in envelope["error"] and len(own.told("/queries")["queries"]) == 4
