"""A field or a query parameter that no route knows is refused, whatever the route: it may be a misspelt one."""

from __future__ import annotations

import pytest

from omnigraph.errors import InvalidRequest
from omnigraph.server.operation import HttpOperation
from omnigraph.server.operations import OPERATIONS
from omnigraph.server.request_body import decoded_json
from omnigraph.wire.query_string import parameters
from tests.server.operations.api import Api, refused


@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if each.body is not None], ids=lambda each: str(each.id)
)
def test_a_field_that_nobody_knows_is_an_error(operation: HttpOperation) -> None:
    assert operation.body is not None
    with pytest.raises(InvalidRequest, match="unknown field `brnch`"):
        decoded_json(b'{"brnch": "x"}', operation.body)


@pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if each.query is not None], ids=lambda each: str(each.id)
)
def test_a_parameter_that_nobody_knows_is_an_error(operation: HttpOperation) -> None:
    assert operation.query is not None
    with pytest.raises(InvalidRequest, match="no query parameter 'brnch'"):
        parameters(operation.query, [("brnch", "x")])


def test_a_misspelt_branch_writes_nothing(shared: Api) -> None:
    before = shared.told("/commits")["commits"][0]["graph_commit_id"]
    body = {"query": 'query q() { insert Person { name: "Zed" } }', "brnch": "draft"}
    assert "`brnch`" in refused(shared.post("/mutate", **body), 400, "bad_request")["error"]
    assert refused(shared.send("POST", "/mutate?branch=draft", {"query": body["query"]}), 400, "bad_request")
    assert shared.told("/commits")["commits"][0]["graph_commit_id"] == before
