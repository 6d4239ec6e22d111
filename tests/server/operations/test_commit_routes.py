"""The history over HTTP: list, show, draw, undo; and what a state consists of."""

from __future__ import annotations

import pytest

from tests.server.operations.api import ADD, ULID, Api, refused


def test_a_snapshot_lists_the_tables_edges_first(shared: Api) -> None:
    found = shared.told("/snapshot", branch=" main ")
    assert (found["graph_branch"], found["branch"], found["version"]) == (
        "main",
        "main",
        found["graph_manifest_version"],
    )
    assert len(found["commit_id"]) == ULID and found["internal_schema_version"] == 3
    shown = [(each["entity_kind"], each["type_name"], each["entity_count"]) for each in found["datasets"]]
    assert shown == [("edge", "Knows", 3), ("edge", "WorksAt", 1), ("node", "Company", 1), ("node", "Person", 4)]
    assert all(not each["dataset_path"].startswith("/") for each in found["datasets"])
    assert {each["native_dataset_branch"] for each in found["datasets"]} == {None}


def test_a_table_that_a_branch_changed_has_a_branch_of_its_own(shared: Api, branch: str) -> None:
    shared.done("/mutate", query=ADD, params={"name": "Eve"}, branch=branch)
    found = shared.told("/snapshot", branch=branch)
    assert [each["type_name"] for each in found["datasets"] if each["native_dataset_branch"]] == ["Person"]


def test_figures_of_the_graph(shared: Api) -> None:
    found = shared.told("/stats")
    assert found["totals"]["rows"] == 9 and found["embeddings"] == [] and "main" in found["branches"]
    assert shared.told("/stats", embeddings="true")["embeddings"] == []
    refused(shared.get("/stats", branch="nope"), 404, "not_found")
    refused(shared.get("/stats", embeddings="maybe"), 400, "bad_request")


def test_commits_are_listed_newest_first_and_by_what_they_are(shared: Api, branch: str) -> None:
    for name in ("Eve", "Fay"):
        shared.done("/mutate", query=ADD, params={"name": name}, branch=branch, message=f"for {name}")
    found = shared.told("/commits", branch=branch)["commits"]
    assert [commit["kind"] for commit in found] == ["mutation", "mutation", "load", "init"]
    assert all(commit["readable"] for commit in found)
    assert found[0]["parent_commit_id"] == found[1]["graph_commit_id"]
    assert shared.told("/commits", branch=branch, limit=1)["commits"] == found[:1]
    assert shared.told("/commits", branch=branch, before=found[1]["graph_commit_id"])["commits"] == found[2:]
    assert shared.told("/commits", branch=branch, kind=["load", "init"])["commits"] == found[2:]
    assert shared.told("/commits", branch=branch, message="Fay", made_on=branch)["commits"] == found[:1]
    assert shared.told("/commits", branch=branch, since=found[2]["graph_commit_id"])["commits"] == found[:2]
    assert shared.told("/commits")["commits"] == found[2:]


def test_a_graph_of_commits(shared: Api, branch: str) -> None:
    shared.done("/mutate", query=ADD, params={"name": "Eve"}, branch=branch)
    found = shared.told("/commit-graph", branch=["main", branch])["commits"]
    assert found[0]["heads"] == [branch] and found[1]["heads"] == ["main"]
    assert found[0]["shown_parent_ids"] == [found[1]["graph_commit_id"]]
    assert len(shared.told("/commit-graph", limit=1)["commits"]) == 1
    refused(shared.get("/commit-graph", branch="nope"), 404, "not_found")


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/commits", {"branch": "nope"}, 404),
        ("/commits", {"branch": ""}, 400),
        ("/commits", {"branch": "null"}, 404),
        ("/commits", {"limit": "many"}, 400),
        ("/commits", {"kind": "party"}, 400),
        ("/commits", {"branch": ["a", "b"]}, 400),
        ("/commits", {"before": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, 404),
        ("/commits/01ARZ3NDEKTSV4RRFFQ69G5FAV", {}, 404),
        ("/commits/%20", {}, 404),
        ("/snapshot", {"branch": "nope"}, 404),
        ("/snapshot", {"at": "nope"}, 404),
    ],
)
def test_what_is_wrong_is_said(shared: Api, path: str, query: dict[str, object], status: int) -> None:
    refused(shared.get(path, **query), status, "bad_request" if status == 400 else "not_found")


def test_a_commit_is_undone_and_a_state_is_restored(own: Api) -> None:
    before = own.head()
    done = own.done("/mutate", query=ADD, params={"name": "Eve"})["commit"]["graph_commit_id"]
    undone = own.done("/revert", commit=done, message="a mistake")
    assert (undone["branch"], undone["undone_commit_id"], undone["actor_id"]) == ("main", done, None)
    assert undone["tables"] == {"node:Person": {"inserted": 0, "updated": 0, "deleted": 1}}
    assert undone["commit"]["message"] == "a mistake" and own.head() == undone["commit"]["graph_commit_id"]
    restored = own.done("/restore", at=done)
    assert restored["tables"]["node:Person"]["inserted"] == 1
    assert own.done("/restore", at=done)["commit"] is None
    assert own.done("/restore", at=before)["tables"]["node:Person"]["deleted"] == 1
    refused(own.post("/revert", commit="01ARZ3NDEKTSV4RRFFQ69G5FAV"), 404, "not_found")
    refused(own.post("/restore", at="nonsense"), 404, "not_found")
    refused(own.post("/restore"), 400, "bad_request")
