"""Reads over HTTP: states, forms of answers, values, and what is wrong with a request."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.server.server_limits import ServerLimits
from omnigraph.wire.arrow_results import MEDIA_TYPE, read_result
from tests.server.operations.api import NAMES, ULID, Api, api, person, refused

ONE = 'query q() { match { $p: Person { name: "Alice" } } return { $p.name, $p.age as age } }'
LINES = "application/x-ndjson"


def test_an_answer_has_the_keys_of_the_contract(shared: Api) -> None:
    answer = shared.done("/query", query=ONE)
    assert answer == {
        "query_name": "q",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
        "columns": ["p.name", "age"],
        "rows": [{"p.name": "Alice", "age": 30}],
        "graph_commit_id": shared.head(),
    }


def test_the_older_path_answers_without_the_commit_and_names_its_successor(shared: Api) -> None:
    reply = shared.post("/read", query_source=ONE)
    assert reply.json()["rows"] == [{"p.name": "Alice", "age": 30}]
    assert "graph_commit_id" not in reply.json()
    assert reply.headers["deprecation"] == "true"
    assert reply.headers["link"] == '<query>; rel="successor-version"'


def test_values_are_written_as_json_has_them(shared: Api, branch: str) -> None:
    values = {"age": -1, "born": "2020-02-29", "seen": "2020-02-29T12:00:00.5Z", "ratio": 0.1, "tags": ["a", "b"]}
    shared.done("/load", data=json.dumps(person("Eve", **values)), branch=branch)
    shown = ", ".join(f"$p.{name} as {name}" for name in (*values, "big"))
    text = f'query q() {{ match {{ $p: Person {{ name: "%s" }} }} return {{ {shown} }} }}'
    (eve,) = shared.done("/query", query=text % "Eve", branch=branch)["rows"]
    assert eve == {**values, "seen": "2020-02-29T12:00:00.500Z", "big": None}
    raw = shared.post("/query", query=text % "Alice").text
    assert f'"big":{2**64 - 1}' in raw


def test_a_snapshot_is_the_id_of_a_commit(shared: Api, branch: str) -> None:
    before = shared.head(branch)
    shared.done("/load", data=json.dumps(person("Eve")), branch=branch)
    assert "Eve" in shared.names(branch=branch)
    answer = shared.done("/query", query=NAMES, snapshot=before)
    assert answer["target"] == {"branch": None, "snapshot": before}
    assert answer["graph_commit_id"] == before
    assert answer["row_count"] == 4
    assert shared.names(at=before) == shared.names(snapshot=before)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"query": NAMES, "branch": "main", "snapshot": "01J"}, "both say what to read"),
        ({"query": NAMES, "at": 1, "snapshot": "01J"}, "both say what to read"),
        ({"query": NAMES, "snapshot": "tag:x"}, "the id of a commit"),
        ({"query": NAMES, "snapshot": "3"}, "the id of a commit"),
        ({"query": "nonsense"}, "expected `query name"),
        ({"query": 'query q() { insert Company { name: "x" } }'}, "use mutate"),
        ({"query": NAMES + ONE}, "names"),
        ({"query": "some/file.gq"}, "name of a file"),
        ({"query": NAMES, "params": {"x": 1}}, "no parameter 'x'"),
        ({"query": NAMES, "params": [1]}, "expected `object"),
        ({"query": NAMES, "branch": ""}, "it is empty"),
        ({"query": NAMES, "branch": "a//b"}, "not allowed"),
        ({"query": NAMES, "timeout_ms": 0}, "no time"),
        ({"name": "q"}, "missing required field `query`"),
    ],
)
def test_what_is_wrong_with_a_read_is_said(shared: Api, body: dict[str, object], says: str) -> None:
    reply = shared.post("/query", **body)
    status = 404 if body.get("query") == NAMES + ONE else 400
    envelope = refused(reply, status, "bad_request" if status == 400 else "not_found")
    assert says in envelope["error"]


def test_what_is_not_there_is_404(shared: Api) -> None:
    for where in (
        {"branch": "nope"},
        {"snapshot": "01ARZ3NDEKTSV4RRFFQ69G5FAV"},
        {"at": "tag:nope"},
        {"snapshot": "x"},
    ):
        refused(shared.post("/query", query=NAMES, **where), 404, "not_found")
    assert shared.names(branch=" main ") == shared.names()


def test_a_time_that_is_over_is_a_limit(shared: Api) -> None:
    text = "query q() { match { $a: Person  $b: Person  $c: Person  $d: Person } return { count($a) as n } }"
    reply = shared.post("/query", query=text, timeout_ms=1)
    if reply.status != 200:  # a machine may be that fast
        envelope = refused(reply, 413, "bad_request")
        assert envelope["resource_limit"]["resource"] == "query_milliseconds"
    assert reply.status in (200, 413)


def test_more_rows_than_the_server_allows_are_refused_with_what_the_client_can_do(tmp_path: Path) -> None:
    with api(tmp_path, limits=ServerLimits(result_rows=1)) as small:
        envelope = refused(small.post("/query", query=NAMES), 413, "bad_request")
        assert envelope["resource_limit"]["resource"] == "query_rows"
        assert envelope["problem"]["hint"] == "ask for fewer rows with limit, or raise the server's limit"


def test_arrow_has_types_and_repeated_names(shared: Api) -> None:
    text = "query q() { match { $p: Person } return { $p.name as x, $p.age as x, $p.born } order { $p.name } }"
    reply = shared.post("/query", {"Accept": f"{MEDIA_TYPE}, application/json"}, query=text)
    assert reply.headers["content-type"] == MEDIA_TYPE
    head = json.loads(pa.ipc.open_stream(reply.body).schema.metadata[b"omnigraph"])
    assert head == {
        "query_name": "q",
        "branch": "main",
        "at": None,
        "graph_commit_id": shared.head(),
        "columns": ["x", "x", "p.born"],
        "types": ["String", "I32?", "Date?"],
    }
    result = read_result(io.BytesIO(reply.body))
    assert [str(each) for each in result.types] == head["types"]
    assert next(result.values()) == ("Alice", 30, None)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("application/json, application/x-ndjson", "application/json"),
        ("application/x-ndjson, application/json", LINES),
        ("*/*", "application/json"),
        ("text/html", "application/json"),
        (f"application/json;q=0.5, {LINES}", LINES),
        (f"{LINES};q=0, application/json", "application/json"),
    ],
)
def test_the_form_is_what_the_client_likes_best(shared: Api, accept: str, form: str) -> None:
    reply = shared.post("/query", {"Accept": accept}, query=NAMES)
    assert reply.headers["content-type"].partition(";")[0] == form
    if form == LINES:
        found = [json.loads(line)["p.name"] for line in reply.text.splitlines()]
        assert found == ["Alice", "Bob", "Carol", "Dave"]


def test_an_empty_answer_is_one_in_every_form(shared: Api) -> None:
    text = 'query q() { match { $p: Person { name: "Nobody" } } return { $p.name } }'
    assert shared.done("/query", query=text)["rows"] == []
    assert shared.post("/query", {"Accept": LINES}, query=text).text == ""
    assert len(read_result(shared.post("/query", {"Accept": MEDIA_TYPE}, query=text).body)) == 0


def test_plans_lint_and_search(shared: Api) -> None:
    plan = shared.done("/explain", query=ONE, run=True)
    assert plan["row_count"] == 1 and plan["steps"][0]["text"] in plan["text"]
    assert shared.done("/explain", query=ONE)["row_count"] is None
    report = shared.done("/lint", query="query q() { match { $p: Persn } return { $p.name } }")
    (wrong,) = report["results"]
    assert report["status"] == "error" and (wrong["line"], wrong["column"]) == (1, 21)
    assert "did you mean" in wrong["hint"] and "Persn" in wrong["excerpt"]
    found = shared.done("/search", words="alice", hops=1)
    assert found["graph_commit_id"] == shared.head() and len(found["graph_commit_id"]) == ULID
    assert [(hit["type"], hit["id"]) for hit in found["hits"]] == [("Person", "Alice")]
    assert found["hits"][0]["neighbour_count"] == 2
    refused(shared.post("/search", words="x", types=["Nothing"]), 404, "not_found")
    refused(shared.post("/explain", query="nonsense"), 400, "bad_request")
