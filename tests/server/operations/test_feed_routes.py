"""Changes over HTTP: of a commit, of a branch, between states; and the baseline."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.operations.api import ADD, Api, lines, person, refused

LINES = "application/x-ndjson"
EDGE = {"edge": "Knows", "from": "Eve", "to": "Alice", "data": {"id": "ke"}}


def two_changes(shared: Api, branch: str) -> str:
    """A commit with a node and an edge, and one that changes nothing but a value."""
    done = shared.done("/load", data=lines(person("Eve"), EDGE), branch=branch)
    shared.done("/mutate", query='query q() { update Person set { age: 1 } where name = "Eve" }', branch=branch)
    return str(done["commit"]["graph_commit_id"])


def test_a_commit_is_paged_change_by_change(shared: Api, branch: str) -> None:
    commit = two_changes(shared, branch)
    path = f"/commits/{commit}/changes"
    whole = shared.told(path)
    node, edge = whole["changes"]
    assert (node["kind"], node["type"]["name"], node["id"], node["op"]) == ("node", "Person", "Eve", "insert")
    assert "before" not in node and node["after"]["properties"]["name"] == "Eve"
    assert (edge["kind"], edge["after"]["endpoints"]) == ("edge", {"from": "Eve", "to": "Alice"})
    assert whole["cause"]["graph_commit_id"] == commit and whole["cause"]["authored_branch"] == branch
    assert whole["commit"] == shared.told(f"/commits/{commit}") and "next_page_token" not in whole
    first = shared.told(path, limit=1)
    rest = shared.told(path, limit=1, page_token=first["next_page_token"])
    assert first["changes"] + rest["changes"] == whole["changes"] and "next_page_token" not in rest
    assert shared.told(path, kind="edge")["changes"] == [edge]
    assert shared.told(path, kind=["node", "edge"], type="Person", op="insert")["changes"] == [node]


def test_an_update_has_both_images_and_what_changed(shared: Api, branch: str) -> None:
    two_changes(shared, branch)
    (change,) = shared.told(f"/commits/{shared.head(branch)}/changes")["changes"]
    assert (change["op"], change["changed"]) == ("update", ["age"])
    assert (change["before"]["properties"]["age"], change["after"]["properties"]["age"]) == (None, 1)


def test_a_feed_begins_now_and_goes_on_from_its_cursor(shared: Api, branch: str) -> None:
    now = shared.told("/changes", branch=f" {branch} ")
    assert now["blocks"] == [] and now["caught_up"] is True
    commit = two_changes(shared, branch)
    page = shared.told("/changes", branch=branch, cursor=now["cursor"])
    assert [len(block["changes"]) for block in page["blocks"]] == [2, 1]
    assert page["caught_up"] is True and "next_page_token" not in page
    assert page["blocks"][0]["commit"]["graph_commit_id"] == commit
    after = shared.told("/changes", branch=branch, start=f"after:{commit}")
    assert [block["cause"]["graph_commit_id"] for block in after["blocks"]] == [shared.head(branch)]
    cut = shared.told("/changes", branch=branch, cursor=now["cursor"], limit=1)
    assert "cursor" not in cut and "caught_up" not in cut
    rest = shared.told("/changes", branch=branch, page_token=cut["next_page_token"])
    assert cut["blocks"][0]["changes"] + rest["blocks"][0]["changes"] == page["blocks"][0]["changes"]
    assert shared.told("/changes", branch=branch, start="beginning")["blocks"][0]["commit"]["kind"] == "load"


@pytest.mark.parametrize(
    ("query", "status", "says"),
    [
        ({"cursor": "x", "start": "now"}, 400, "both say where to begin"),
        ({"start": "soon"}, 400, "start is now"),
        ({"cursor": "now"}, 400, "change cursor rejected:"),
        ({"cursor": "x"}, 400, "change cursor rejected:"),
        ({"cursor": "x" * 5000}, 400, "change cursor rejected:"),
        ({"page_token": "x"}, 400, "change cursor rejected:"),
        ({"limit": 0}, 400, "at least one"),
        ({"limit": "x"}, 400, "whole number"),
        ({"limit": 8193}, 413, "commit_changes_page_changes"),
        ({"limit": [1, 2]}, 400, "more than once"),
        ({"kind": "party"}, 400, "no kind"),
        ({"op": "upsert"}, 400, "no op"),
        ({"type": "Nothing"}, 400, "unknown type"),
        ({"colour": "red"}, 400, "no query parameter"),
        ({"branch": "nope"}, 404, "no branch"),
        ({"branch": " "}, 400, "it is empty"),
        ({"start": "after:01ARZ3NDEKTSV4RRFFQ69G5FAV"}, 404, "not in the history"),
    ],
)
def test_what_is_wrong_with_a_poll_is_said(shared: Api, query: dict[str, object], status: int, says: str) -> None:
    code = "not_found" if status == 404 else "bad_request"
    assert says in refused(shared.get("/changes", **query), status, code)["error"]


def test_a_page_of_a_commit_knows_its_parameters(shared: Api, branch: str) -> None:
    path = f"/commits/{two_changes(shared, branch)}/changes"
    for query in ({"branch": "main"}, {"limit": 0}, {"page_token": "x"}, {"type": "Nothing"}):
        refused(shared.get(path, **query), 400, "bad_request")
    limit = refused(shared.get(path, limit=9000), 413, "bad_request")["resource_limit"]
    assert limit == {"resource": "commit_changes_page_changes", "limit": 8192, "actual": 9000}
    refused(shared.get("/commits/01ARZ3NDEKTSV4RRFFQ69G5FAV/changes"), 404, "not_found")


def test_the_first_commit_has_nothing_to_compare_with(shared: Api) -> None:
    first = shared.told("/commits", kind="init")["commits"][0]["graph_commit_id"]
    envelope = refused(shared.get(f"/commits/{first}/changes"), 409, "conflict")
    assert envelope["change_diff_refusal"] == {"reason": "parentless_commit", "graph_commit_id": first}


def test_a_changed_schema_is_a_boundary(own: Api) -> None:
    own.done(
        "/schema/apply",
        schema_source=own.told("/schema")["schema_source"].replace("age: I32?", "age: I32?  nick: String?"),
    )
    envelope = refused(own.get(f"/commits/{own.head()}/changes"), 409, "conflict")
    assert envelope["change_diff_refusal"]["reason"] == "schema_boundary"
    assert envelope["change_diff_refusal"]["type_name"] == "Person"


def test_a_baseline_ends_with_its_cursor(shared: Api, branch: str) -> None:
    reply = shared.post("/changes/baseline", branch=branch)
    assert reply.headers["content-type"] == f"{LINES}; charset=utf-8"
    *records, last = [json.loads(line) for line in reply.text.splitlines()]
    assert sum("type" in each for each in records) == 5 and sum("edge" in each for each in records) == 4
    assert set(last) == {"baseline"} and last["baseline"]["snapshot_commit_id"] == shared.head(branch)
    two_changes(shared, branch)
    page = shared.told("/changes", branch=branch, cursor=last["baseline"]["resume_cursor"])
    assert len(page["blocks"]) == 2


def test_a_baseline_has_the_filters_of_its_polls(shared: Api, branch: str) -> None:
    text = shared.post("/changes/baseline", branch=branch, kind=["edge"], type=["Knows"], op=[]).text
    *records, last = [json.loads(line) for line in text.splitlines()]
    assert [each["edge"] for each in records] == ["Knows"] * 3
    cursor = last["baseline"]["resume_cursor"]
    refused(shared.get("/changes", branch=branch, cursor=cursor), 400, "bad_request")
    assert shared.told("/changes", branch=branch, cursor=cursor, kind="edge", type="Knows")["caught_up"]


def test_a_baseline_of_nothing_special_needs_no_body(shared: Api) -> None:
    assert '{"baseline":' in shared.send("POST", "/changes/baseline").text
    assert '{"baseline":' in shared.send("POST", "/changes/baseline", b"null").text


@pytest.mark.parametrize(("body", "status"), [({"branch": "nope"}, 404), ({"branch": ""}, 400), ({"kind": ["x"]}, 400)])
def test_what_is_wrong_with_a_baseline_is_said_before_it_begins(
    shared: Api, body: dict[str, object], status: int
) -> None:
    refused(shared.send("POST", "/changes/baseline", body), status, "not_found" if status == 404 else "bad_request")


def test_a_diff_as_a_document_as_lines_and_as_counts(shared: Api, branch: str) -> None:
    two_changes(shared, branch)
    whole = shared.done("/diff", from_="main", to=branch)
    assert [change["id"] for change in whole["changes"]] == ["Eve", "ke"]
    assert whole["stats"] == {"inserts": 2, "updates": 0, "deletes": 0, "types_affected": ["Person", "Knows"]}
    assert (whole["from_commit_id"], whole["to_commit_id"]) == (shared.head(), shared.head(branch))
    reply = shared.post("/diff", {"Accept": LINES}, from_="main", to=branch, ops=["insert"])
    assert [json.loads(line) for line in reply.text.splitlines()] == whole["changes"]
    counted = shared.done("/diff", from_="main", to=branch, summary=True)
    assert counted == {key: value for key, value in whole.items() if key != "changes"}
    assert shared.done("/diff", from_="main", to="main")["changes"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"from": "main", "to": "nope"}, 404),
        ({"from": "main"}, 400),
        ({"from": "main", "to": "main", "types": ["Nothing"]}, 400),
        ({"from": "main", "to": "main", "kinds": ["x"]}, 400),
        ({"from": "main", "to": "main", "kinds": []}, 400),
    ],
)
def test_what_is_wrong_with_a_diff_is_said(shared: Api, body: dict[str, Any], status: int) -> None:
    refused(shared.send("POST", "/diff", body), status, "not_found" if status == 404 else "bad_request")


def test_a_branch_that_is_called_null_is_one(shared: Api) -> None:
    shared.done("/branches", name="null")
    shared.done("/mutate", query=ADD, params={"name": "Eve"}, branch="null")
    assert shared.told("/snapshot", branch="null")["graph_branch"] == "null"
    assert len(shared.told("/changes", branch="null", start=f"after:{shared.head()}")["blocks"]) == 1
