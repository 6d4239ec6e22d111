"""The OpenAPI document: valid, complete for the clients that exist, and the same as what is served."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import validate

from omnigraph.server.openapi import OpenApi
from omnigraph.server.operation import HttpOperation
from omnigraph.server.operation_notes import BLOBS, FOLLOWS, REQUEST_HEADERS, TAGS
from omnigraph.server.operations import OPERATIONS

BELOW = "/graphs/{graph_id}"

#: What generated clients depend on: operation id, method, path, tag.
CONTRACT = """
health                                get     /healthz                            health
listGraphs                            get     /graphs                             management
cluster_getSnapshot                   get     /snapshot                           snapshots
cluster_getBlob                       get     /blob                               blobs
cluster_headBlob                      head    /blob                               blobs
cluster_read                          post    /read                               queries
cluster_query                         post    /query                              queries
cluster_export                        post    /export                             queries
cluster_change                        post    /change                             mutations
cluster_mutate                        post    /mutate                             mutations
cluster_mutate_if_graph_commit        post    /mutate/if-graph-commit             mutations
cluster_list_queries                  get     /queries                            queries
cluster_invoke_query                  post    /queries/{}                         queries
cluster_invoke_query_if_graph_commit  post    /queries/{}/if-graph-commit         queries
cluster_getSchema                     get     /schema                             schema
cluster_applySchema                   post    /schema/apply                       schema
cluster_load                          post    /load                               mutations
cluster_loadNdjson                    post    /load/ndjson                        mutations
cluster_ingest                        post    /ingest                             mutations
cluster_listBranches                  get     /branches                           branches
cluster_createBranch                  post    /branches                           branches
cluster_deleteBranch                  delete  /branches/{}                        branches
cluster_mergeBranches                 post    /branches/merge                     branches
cluster_listCommits                   get     /commits                            commits
cluster_getCommit                     get     /commits/{}                         commits
cluster_getCommitChanges              get     /commits/{}/changes                 changes
cluster_pollChanges                   get     /changes                            changes
cluster_captureChangeBaseline         post    /changes/baseline                   changes
"""
ROWS = [line.split() for line in CONTRACT.strip().splitlines()]

#: Fields of answers that the clients read.
READ_BY_CLIENTS = {
    "health": "status version internal_schema_version",
    "cluster_getSnapshot": "graph_branch graph_manifest_version datasets",
    "cluster_query": "query_name target row_count columns rows graph_commit_id",
    "cluster_mutate": "branch query_name affected_nodes affected_edges actor_id commit",
    "cluster_mutate_if_graph_commit": "branch query_name affected_nodes affected_edges actor_id commit",
    "cluster_list_queries": "queries",
    "cluster_getSchema": "schema_source",
    "cluster_load": "uri branch base_branch branch_created mode nodes edges total_entities actor_id commit",
    "cluster_loadNdjson": "branch base_branch branch_created mode nodes edges total_entities actor_id commit",
    "cluster_listBranches": "branches",
    "cluster_createBranch": "uri from name actor_id",
    "cluster_deleteBranch": "uri name actor_id",
    "cluster_mergeBranches": "source target outcome actor_id branch_deleted branch_delete_error",
    "cluster_listCommits": "commits",
    "cluster_getCommit": "graph_commit_id graph_branch graph_manifest_version parent_commit_id merged_parent_commit_id "
    "actor_id created_at",
    "cluster_getCommitChanges": "cause changes next_page_token",
    "cluster_pollChanges": "blocks next_page_token cursor caught_up",
}

#: Fields of bodies and query parameters that the clients send.
SENT_BY_CLIENTS = {
    "cluster_getSnapshot": "branch",
    "cluster_query": "query name params branch snapshot",
    "cluster_read": "query_source query_name params branch snapshot",
    "cluster_mutate": "query name params branch",
    "cluster_change": "query name params branch",
    "cluster_mutate_if_graph_commit": "query name params branch",
    "cluster_invoke_query": "params branch snapshot expect_mutation",
    "cluster_invoke_query_if_graph_commit": "params branch expect_mutation",
    "cluster_applySchema": "schema_source allow_data_loss",
    "cluster_load": "data branch from mode",
    "cluster_ingest": "data branch from mode",
    "cluster_loadNdjson": "branch from mode",
    "cluster_export": "branch type_names",
    "cluster_createBranch": "from name",
    "cluster_mergeBranches": "source target delete_branch",
    "cluster_listCommits": "branch",
    "cluster_getCommitChanges": "page_token limit kind type op",
    "cluster_pollChanges": "branch cursor start page_token limit kind type op",
    "cluster_captureChangeBaseline": "branch kind type op",
    "cluster_getBlob": "entity type id property branch snapshot",
    "cluster_headBlob": "entity type id property branch snapshot",
}


def document(with_tokens: bool = True, operations: tuple[HttpOperation, ...] = OPERATIONS) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(OpenApi(operations, with_tokens=with_tokens).text())
    return made


def operations_of(text: dict[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Path, method and description by operation id."""
    return {
        described["operationId"]: (path, method, described)
        for path, methods in text["paths"].items()
        for method, described in methods.items()
    }


def schema_of(text: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema with its references and choices taken together."""
    if "$ref" in schema:
        return schema_of(text, text["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    found: dict[str, Any] = {"properties": {**schema.get("properties", {})}}
    for choice in schema.get("anyOf", ()):
        found["properties"] |= schema_of(text, choice)["properties"]
    return found


@pytest.mark.parametrize("with_tokens", [True, False])
def test_the_document_is_valid(with_tokens: bool) -> None:
    text = document(with_tokens)
    validate(text)
    assert text["openapi"] == "3.1.0" and text["info"]["title"] == "Omnigraph API"


@pytest.mark.parametrize(("name", "method", "path", "tag"), ROWS, ids=[row[0] for row in ROWS])
def test_what_generated_clients_depend_on_is_there(name: str, method: str, path: str, tag: str) -> None:
    where, how, described = operations_of(document())[name]
    own = (
        [parameter["name"] for parameter in described["parameters"] if parameter["in"] == "path"][1:]
        if (name.startswith("cluster_"))
        else []
    )
    prefix = BELOW if name.startswith("cluster_") else ""
    for parameter in own:
        where = where.replace(f"{{{parameter}}}", "{}")
    assert (where, how, described["tags"]) == (prefix + path, method, [tag])


@pytest.mark.parametrize("name", READ_BY_CLIENTS)
def test_answers_have_what_clients_read(name: str) -> None:
    text = document()
    answer = operations_of(text)[name][2]["responses"]["200"]["content"]["application/json"]["schema"]
    assert set(READ_BY_CLIENTS[name].split()) <= set(schema_of(text, answer)["properties"])


@pytest.mark.parametrize("name", SENT_BY_CLIENTS)
def test_requests_take_what_clients_send(name: str) -> None:
    text = document()
    described = operations_of(text)[name][2]
    taken = {parameter["name"] for parameter in described["parameters"] if parameter["in"] == "query"}
    body = described.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None:
        taken |= set(schema_of(text, body["schema"])["properties"])
    assert set(SENT_BY_CLIENTS[name].split()) <= taken


def test_every_operation_of_the_tables_is_described_once() -> None:
    names = [operation.id for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    described = operations_of(document())
    assert {f"cluster_{name}" for name in names} == {name for name in described if name.startswith("cluster_")}
    assert all(set(one["tags"]) <= set(TAGS) for _, _, one in described.values())
    assert all(one["summary"] for _, _, one in described.values())


def test_every_note_belongs_to_an_operation() -> None:
    named = {*REQUEST_HEADERS, *BLOBS, *FOLLOWS} | {one.operation for many in FOLLOWS.values() for one in many}
    assert named <= {operation.id for operation in OPERATIONS}


def test_links_name_parameters_that_exist() -> None:
    text = document()
    described = operations_of(text)
    links = [link for _, _, one in described.values() for link in one["responses"]["200"].get("links", {}).values()]
    assert len(links) >= 20
    for link in links:
        target = described[link["operationId"]][2]
        known = {f"{parameter['in']}.{parameter['name']}" for parameter in target["parameters"]}
        assert set(link["parameters"]) <= known, link


def test_conditions_and_ranges_are_headers_of_their_operations() -> None:
    described = operations_of(document())
    headers = {
        name: {one["name"]: one["required"] for one in operation["parameters"] if one["in"] == "header"}
        for name, (_, _, operation) in described.items()
        if name.startswith("cluster_")
    }
    condition = {"Omnigraph-If-Graph-Commit": True}
    assert headers["cluster_mutate_if_graph_commit"] == headers["cluster_invoke_query_if_graph_commit"] == condition
    assert headers["cluster_mutate"] == {}
    assert set(headers["cluster_getBlob"]) == {"If-Match", "If-None-Match", "Range", "If-Range"}


def test_what_is_replaced_says_so() -> None:
    text = document()
    described = operations_of(text)
    old = {name for name, (_, _, one) in described.items() if one.get("deprecated")}
    assert old == {"cluster_read", "cluster_change", "cluster_ingest"}
    for name in old:
        assert {"Deprecation", "Link"} <= set(described[name][2]["responses"]["200"]["headers"])


def test_a_server_without_tokens_says_nothing_of_them() -> None:
    guarded, free = document(True), document(False)
    assert guarded["components"]["securitySchemes"] == {"bearer_token": {"type": "http", "scheme": "bearer"}}
    open_ones = {name for name, (_, _, one) in operations_of(guarded).items() if "security" not in one}
    assert open_ones == {"health", "ready"}
    assert "securitySchemes" not in free["components"]
    for name, (_, _, one) in operations_of(free).items():
        assert "security" not in one and "401" not in one["responses"], name
    assert operations_of(free).keys() == operations_of(guarded).keys()


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    more: dict[str, object] | None = None


class _Parameters(msgspec.Struct):
    limit: int | None = None
    kind: list[str] = []


class _One(msgspec.Struct):
    one: int


class _Other(msgspec.Struct):
    other: _One


def test_a_table_becomes_paths_schemas_and_statuses() -> None:
    operation = HttpOperation(
        *("POST", "/things/{name}", "make_thing", "queries", "Make a thing", lambda call: {}),
        body=_Body,
        body_optional=True,
        query=_Parameters,
        answer=_One | _Other,
        media_types=("application/vnd.apache.arrow.stream",),
        statuses=(409,),
    )
    text = document(operations=(operation,))
    validate(text)
    path, method, described = operations_of(text)["cluster_make_thing"]
    assert (path, method) == ("/graphs/{graph_id}/things/{name}", "post")
    parameters = {one["name"]: (one["in"], one["required"], one["schema"]["type"]) for one in described["parameters"]}
    assert parameters == {
        "graph_id": ("path", True, "string"),
        "name": ("path", True, "string"),
        "limit": ("query", False, "integer"),
        "kind": ("query", False, "array"),
    }
    assert described["requestBody"]["required"] is False
    assert text["components"]["schemas"]["_Body"]["additionalProperties"] is False
    content = described["responses"]["200"]["content"]
    assert set(content) == {"application/json", "application/vnd.apache.arrow.stream"}
    assert [one["$ref"].rpartition("/")[2] for one in content["application/json"]["schema"]["anyOf"]] == [
        "_One",
        "_Other",
    ]
    assert {"401", "403", "404", "409", "413", "415", "429", "500", "503"} <= set(described["responses"])


def test_a_class_that_has_no_form_in_json_is_refused() -> None:
    class Odd(msgspec.Struct):
        value: complex

    operation = HttpOperation("GET", "/odd", "odd", "queries", "Odd", lambda call: {}, answer=Odd)
    with pytest.raises(TypeError, match="complex"):
        OpenApi((operation,), with_tokens=True)
