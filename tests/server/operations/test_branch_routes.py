"""Branches, tags and merges over HTTP."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.server.operations.api import ADD, Api, lines, person, refused
from tests.support.http_call import Reply


def delete(shared: Api, name: str, query: str = "") -> Reply:
    return shared.send("DELETE", f"/branches/{quote(name, safe='')}{query}")


def test_a_branch_is_made_listed_renamed_and_deleted(shared: Api) -> None:
    uri = shared.server.app.opened.graphs["alpha"].uri
    made = shared.done("/branches", name=" review/x ")
    assert made == {"uri": uri, "from": "main", "name": "review/x", "actor_id": None, "parent": "main"}
    listed = shared.told("/branches")
    assert listed["branches"] == sorted(listed["branches"]) and listed["parents"]["review/x"] == "main"
    assert listed["parents"]["main"] is None
    renamed = shared.done("/branches/rename", name="review/x", new_name="review/y", message="clearer")
    assert renamed == {"uri": uri, "from": "review/x", "name": "review/y", "actor_id": None, "parent": "main"}
    reply = delete(shared, "review/y")
    assert reply.json() == {"uri": uri, "name": "review/y", "actor_id": None}
    refused(delete(shared, "review/y"), 404, "not_found")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "main"}, 400, "bad_request"),
        ({"name": ""}, 400, "bad_request"),
        ({"name": "a/../b"}, 400, "bad_request"),
        ({"name": "x", "from": "nope"}, 404, "not_found"),
        ({"name": "x", "from": "tag:nope"}, 404, "not_found"),
        ({"name": "x", "at": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, 404, "not_found"),
        ({"from": "main"}, 400, "bad_request"),
    ],
)
def test_what_is_wrong_with_a_new_branch_is_said(shared: Api, body: dict[str, object], status: int, code: str) -> None:
    refused(shared.send("POST", "/branches", body), status, code)


def test_a_name_that_is_taken_is_a_conflict(shared: Api, branch: str) -> None:
    refused(shared.post("/branches", name=branch), 409, "conflict")
    refused(shared.post("/branches/rename", name=branch, new_name="main"), 400, "bad_request")


def test_main_and_what_others_need_stay(shared: Api, branch: str) -> None:
    refused(delete(shared, "main"), 400, "bad_request")
    shared.done("/branches", name=f"{branch}-child", from_=branch)
    refused(delete(shared, branch), 409, "conflict")
    assert delete(shared, f"{branch}-child").status == 200
    shared.done("/tags", name="kept", branch=branch)
    refused(delete(shared, branch), 409, "conflict")
    assert delete(shared, branch, "?force=true").status == 200
    assert shared.told("/tags")["tags"] == []


def test_a_branch_called_merge_is_no_path(shared: Api) -> None:
    refused(delete(shared, "merge"), 405, "method_not_allowed")


def test_a_branch_can_begin_earlier(shared: Api, branch: str) -> None:
    before = shared.head(branch)
    shared.done("/mutate", query=ADD, params={"name": "Eve"}, branch=branch)
    shared.done("/branches", name=f"{branch}-early", from_=branch, at=before)
    assert shared.head(f"{branch}-early") == before and "Eve" not in shared.names(branch=f"{branch}-early")


def test_a_merge_is_told_and_then_there_is_nothing_to_do(own: Api) -> None:
    own.done("/branches", name="x")
    assert own.done("/branches/merge", source="x")["outcome"] in ("fast_forward", "already_up_to_date")
    own.done("/mutate", query=ADD, params={"name": "Eve"}, branch="x")
    dry = own.done("/branches/merge", source="x", dry_run=True)
    assert (dry["dry_run"], dry["commit"]) == (True, None)
    assert dry["tables"]["node:Person"]["entities"]["inserted"] == ["Eve"]
    assert "Eve" not in own.names()
    done = own.done("/branches/merge", source="x", target="main", message="ready", delete_branch=True)
    assert (done["source"], done["target"], done["outcome"]) == ("x", "main", "fast_forward")
    assert (done["branch_deleted"], done["actor_id"], done["conflicts"]) == (True, None, [])
    assert "branch_delete_error" not in done
    assert done["commit"]["graph_commit_id"] == own.head() and done["commit"]["message"] == "ready"
    assert "Eve" in own.names() and own.told("/branches")["branches"] == ["main"]


def test_what_was_not_asked_for_is_not_told(own: Api) -> None:
    own.done("/branches", name="x")
    own.done("/mutate", query=ADD, params={"name": "Eve"}, branch="x")
    done = own.done("/branches/merge", source="x")
    assert "branch_deleted" not in done and "branch_delete_error" not in done
    assert own.done("/branches/merge", source="x")["outcome"] == "already_up_to_date"
    own.done("/branches", name="y", from_="x")
    kept = own.done("/branches/merge", source="x", delete_branch=True)
    assert kept["branch_deleted"] is False and "'y'" in kept["branch_delete_error"]


def test_conflicts_are_told_one_by_one_and_can_be_decided(own: Api) -> None:
    own.done("/branches", name="x")
    for branch, age in (("x", 1), ("main", 2)):
        own.done("/load", data=lines(person("Alice", age=age)), branch=branch)
    envelope = refused(own.post("/branches/merge", source="x"), 409, "conflict")
    (conflict,) = envelope["merge_conflicts"]
    assert {key: conflict[key] for key in ("entity_kind", "type_name", "entity_id", "kind")} == {
        "entity_kind": "node",
        "type_name": "Person",
        "entity_id": "Alice",
        "kind": "divergent_update",
    }
    assert own.done("/branches/merge", source="x", dry_run=True)["outcome"] == "conflicts"
    refused(own.post("/branches/merge", source="x", resolve="mine"), 400, "bad_request")
    refused(own.post("/branches/merge", source="x", resolve={"Alice": "ours"}), 400, "bad_request")
    done = own.done("/branches/merge", source="x", resolve={"node:Person/Alice": "theirs"})
    assert done["outcome"] == "merged" and done["commit"]["merged_parent_commit_id"] == done["source_commit_id"]


def test_tags_are_made_listed_used_and_deleted(shared: Api, branch: str) -> None:
    made = shared.done("/tags", name=" q3 ", branch=branch, message="as told")
    head = shared.head(branch)
    assert (made["name"], made["graph_commit_id"], made["branch"], made["message"]) == ("q3", head, branch, "as told")
    assert shared.told("/tags")["tags"] == [made]
    refused(shared.post("/tags", name="q3"), 409, "conflict")
    shared.done("/mutate", query=ADD, params={"name": "Eve"}, branch=branch)
    assert shared.told("/snapshot", at="tag:q3")["commit_id"] == head
    assert shared.done("/branches", name="from-tag", from_="tag:q3")["from"] == "tag:q3"
    assert shared.send("DELETE", "/tags/q3").json()["name"] == "q3"
    refused(shared.send("DELETE", "/tags/q3"), 404, "not_found")
    refused(shared.post("/tags", name="a b"), 400, "bad_request")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"source": "nope"}, 404, "not_found"),
        ({"source": "main", "target": "nope"}, 404, "not_found"),
        ({"source": "main", "target": "main"}, 400, "bad_request"),
        ({}, 400, "bad_request"),
    ],
)
def test_what_is_wrong_with_a_merge_is_said(shared: Api, body: dict[str, object], status: int, code: str) -> None:
    refused(shared.send("POST", "/branches/merge", body), status, code)
