"""What a policy does to routes: hidden types, denied branches, and answers that tell nothing of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.operations.api import ADD, NAMES, Api, api, lines, person, refused

TOKENS = {"act-all": "t-all", "act-people": "t-people", "act-draft": "t-draft", "act-nobody": "t-nobody"}
TOKENS |= {"act-reader": "t-reader"}
POLICY = """
version: 1
groups: {all: [act-all], people: [act-people], draft: [act-draft], readers: [act-reader]}
protected_branches: [main]
rules:
  - {id: all-data, allow: {actors: {group: all}, actions: [read, export, change]}}
  - id: all-branches
    allow: {actors: {group: all}, actions: [branch_create, branch_delete, branch_merge, schema_apply]}
  - {id: all-stored, allow: {actors: {group: all}, actions: [invoke_query]}}
  - {id: people-see, allow: {actors: {group: people}, actions: [read, export], types: [Company]}}
  - {id: people-stored, allow: {actors: {group: people}, actions: [invoke_query]}}
  - {id: readers-read, allow: {actors: {group: readers}, actions: [read]}}
  - {id: draft-read, allow: {actors: {group: draft}, actions: [read], branch_scope: unprotected}}
  - {id: draft-write, allow: {actors: {group: draft}, actions: [change], branch_scope: unprotected}}
"""
SECRETS = ("Person", "Alice", "find_person", "avatar")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "policy.yaml").write_text(POLICY)
    with api(folder, tokens=TOKENS, policy=folder / "policy.yaml") as found:
        found.as_("act-all").done("/branches", name="draft")
        yield found


def test_a_hidden_type_is_in_no_answer(guarded: Api) -> None:
    people = guarded.as_("act-people")
    assert [each["type_name"] for each in people.told("/snapshot")["datasets"]] == ["Company"]
    assert "Person" not in people.told("/schema")["schema_source"]
    assert people.told("/queries")["queries"] == []
    for text in (
        people.send("POST", "/export").text,
        people.send("POST", "/changes/baseline").text,
        json.dumps(people.told("/commits")),
        json.dumps(people.told("/commit-graph")),
        json.dumps(people.told("/stats")),
        json.dumps(people.told(f"/commits/{people.head()}/changes")),
    ):
        assert [word for word in SECRETS if word in text] == []


def test_a_hidden_type_is_unknown_wherever_it_is_named(guarded: Api) -> None:
    people = guarded.as_("act-people")
    refused(people.post("/query", query=NAMES), 400, "bad_request")
    refused(people.post("/export", type_names=["Person"]), 400, "bad_request")
    refused(people.post("/rows", type="Person"), 404, "not_found")
    refused(people.get("/blob", entity="node", type="Person", id="Alice", property="photo"), 400, "bad_request")
    hidden = refused(people.post("/queries/find_person", params={"name": "Alice"}), 404, "not_found")
    unknown = refused(people.post("/queries/nothing"), 404, "not_found")
    assert hidden == unknown


def test_stored_queries_that_may_not_be_run_do_not_exist(guarded: Api) -> None:
    draft = guarded.as_("act-draft")
    known = refused(draft.post("/queries/find_person", params={"name": "Alice"}, branch="draft"), 404, "not_found")
    unknown = refused(draft.post("/queries/nothing"), 404, "not_found")
    assert known["error"] == unknown["error"] == "stored query not found" and known == unknown


def test_the_catalog_is_empty_for_who_may_run_none_of_it(guarded: Api) -> None:
    reader = guarded.as_("act-reader")
    assert "Alice" in reader.names() and reader.told("/queries") == {"queries": []}
    assert len(guarded.as_("act-all").told("/queries")["queries"]) == 4


def test_a_branch_that_may_not_be_read_is_forbidden_and_its_commits_unknown(guarded: Api) -> None:
    draft, every = guarded.as_("act-draft"), guarded.as_("act-all")
    done = every.done("/mutate", query=ADD, params={"name": "Mia"})["commit"]["graph_commit_id"]
    assert "Alice" in draft.names(branch="draft")
    for branch in ("main", " main ", "main\t"):
        refused(draft.post("/query", query=NAMES, branch=branch), 403, "forbidden")
        refused(draft.get("/snapshot", branch=branch), 403, "forbidden")
        refused(draft.get("/changes", branch=branch), 403, "forbidden")
    refused(draft.get("/branches"), 403, "forbidden")
    refused(draft.get("/schema"), 403, "forbidden")
    missing = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    for commit in (done, missing):
        refused(draft.post("/query", query=NAMES, snapshot=commit), 404, "not_found")
        refused(draft.get(f"/commits/{commit}/changes"), 404, "not_found")


def test_a_protected_branch_is_not_written_under_any_spelling(guarded: Api) -> None:
    draft, head = guarded.as_("act-draft"), guarded.as_("act-all").head()
    body = {"query": ADD, "params": {"name": "Eve"}}
    data = lines(person("Eve"))
    for branch in ("main", " main", "main\n"):
        refused(draft.post("/mutate", **body, branch=branch), 403, "forbidden")
        refused(draft.post("/load", data=data, branch=branch), 403, "forbidden")
        refused(draft.post("/revert", commit=head, branch=branch), 403, "forbidden")
    headers = {"Content-Type": "application/x-ndjson"}
    reply = draft.send("POST", "/load/ndjson?branch=%20main", data.encode(), headers=headers)
    refused(reply, 403, "forbidden")
    done = draft.done("/mutate", **body, branch=" draft ")
    assert (done["actor_id"], done["commit"]["actor_id"]) == ("act-draft", "act-draft")
    assert guarded.as_("act-all").head() == head


def test_a_load_that_would_make_a_branch_needs_that_right(guarded: Api) -> None:
    draft = guarded.as_("act-draft")
    refused(draft.post("/load", data=lines(person("Fay")), branch="new", from_="draft"), 403, "forbidden")
    assert "new" not in guarded.as_("act-all").told("/branches")["branches"]


def test_a_source_that_may_not_be_deleted_is_merged_and_stays(guarded: Api, tmp_path: Path) -> None:
    rules = POLICY.replace("branch_create, branch_delete, branch_merge", "branch_create, branch_merge")
    (tmp_path / "policy.yaml").write_text(rules)
    with api(tmp_path, tokens=TOKENS, policy=tmp_path / "policy.yaml") as found:
        every = found.as_("act-all")
        every.done("/branches", name="x")
        every.done("/mutate", query=ADD, params={"name": "Eve"}, branch="x")
        done = every.done("/branches/merge", source="x", delete_branch=True)
        assert (done["outcome"], done["branch_deleted"], done["actor_id"]) == ("fast_forward", False, "act-all")
        assert "branch_delete" in done["branch_delete_error"] and "x" in every.told("/branches")["branches"]


def test_nobody_may_do_anything(guarded: Api) -> None:
    nobody = guarded.as_("act-nobody")
    for path in ("/snapshot", "/branches", "/commits", "/schema", "/queries", "/tags", "/stats", "/commit-graph"):
        refused(nobody.get(path), 403, "forbidden")
    refused(nobody.send("POST", "/export"), 403, "forbidden")
    refused(nobody.post("/schema/plan", schema_source="node X { a: String }"), 403, "forbidden")
    refused(nobody.post("/diff", from_="main", to="draft"), 403, "forbidden")
