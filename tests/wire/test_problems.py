"""Every error becomes an answer, and the same error again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omnigraph import errors
from omnigraph.errors import (
    BlobRangeError,
    BranchNotFound,
    ChangeCursorRejected,
    ChangeFeedGap,
    ChangeSchemaBoundary,
    CommitWithoutParent,
    CorruptGraph,
    ExpectedVersionMismatch,
    ExternalBlobUnavailable,
    InputError,
    InvalidRequest,
    KeyConflict,
    LockTimeout,
    MergeConflict,
    OmniGraphError,
    OutcomeUnknown,
    PolicyDenied,
    PreconditionFailed,
    QuerySyntaxError,
    ReadSetChanged,
    RecoveryRequired,
    ResourceLimitExceeded,
    TooManyRequests,
    Unauthenticated,
)
from omnigraph.wire.problems import error_of, problem_of, status_of
from tests.guards.test_errors import KINDS, sample

CODES = {
    "unauthorized",
    "forbidden",
    "bad_request",
    "not_found",
    "method_not_allowed",
    "conflict",
    "too_many_requests",
    "internal",
}
VEILED = (errors.StorageError, errors.InternalError, RecoveryRequired, LockTimeout)


def over_the_wire(error: BaseException) -> tuple[int, dict[str, Any]]:
    problem = problem_of(error, "request-1")
    return problem.status, json.loads(problem.body())


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_class_comes_back_as_itself(kind: type[OmniGraphError]) -> None:
    error = sample(kind)
    again = error_of(*over_the_wire(error))
    assert type(again) is kind
    if not isinstance(error, VEILED) or isinstance(error, ExternalBlobUnavailable):
        assert (str(again), again.hint, again.details) == (str(error), error.hint, error.details)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_class_has_a_status_and_a_code_of_the_contract(kind: type[OmniGraphError]) -> None:
    status, envelope = over_the_wire(sample(kind))
    assert 400 <= status < 600 and isinstance(envelope["error"], str)
    assert envelope.get("code") in CODES | {None}
    details = set(envelope) - {"error", "code", "problem"}
    assert len(details) <= 1


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        (InputError("x"), 400, {"code": "bad_request"}),
        (Unauthenticated("missing bearer token"), 401, {"error": "missing bearer token", "code": "unauthorized"}),
        (PolicyDenied("x"), 403, {"code": "forbidden"}),
        (BranchNotFound("x"), 404, {"code": "not_found"}),
        (InvalidRequest("x", status=405), 405, {"code": "method_not_allowed"}),
        (InvalidRequest("x", status=408), 408, {"code": "bad_request"}),
        (InvalidRequest("x", status=415), 415, {"code": "bad_request"}),
        (TooManyRequests("x"), 429, {"code": "too_many_requests"}),
        (LockTimeout("x", path="secret"), 429, {"code": "too_many_requests"}),
        (OutcomeUnknown("x"), 500, {"code": "internal"}),
        (
            ChangeCursorRejected("it is damaged"),
            400,
            {"code": "bad_request", "error": "change cursor rejected: it is damaged (start again from a baseline)"},
        ),
        (
            KeyConflict("x", kind="edge", type="Knows", id="e1", row=3),
            409,
            {"code": "conflict", "key_conflict": {"entity_kind": "edge", "type_name": "Knows", "entity_id": "e1"}},
        ),
        (
            ExpectedVersionMismatch("edge:Knows", 7, 9),
            409,
            {
                "code": "conflict",
                "published_dataset_version_conflict": {
                    "entity_kind": "edge",
                    "type_name": "Knows",
                    "expected_published_dataset_version": 7,
                    "actual_published_dataset_version": 9,
                },
            },
        ),
        (
            ReadSetChanged("branch 'main'", 1, 2),
            409,
            {"code": "conflict", "read_set_conflict": {"member": "branch 'main'", "expected": "1", "actual": "2"}},
        ),
        (
            PreconditionFailed("x", expected="a", actual=None),
            412,
            {"precondition_failure": {"expected": "a", "actual": ""}},
        ),
        (
            ResourceLimitExceeded("bytes", 11, 10),
            413,
            {"code": "bad_request", "resource_limit": {"resource": "bytes", "limit": 10, "actual": 11}},
        ),
        (BlobRangeError(9, 3, 5), 416, {"code": "bad_request", "blob_range": {"start": 9, "end": 12, "length": 5}}),
        (
            ExternalBlobUnavailable("x", uri="s3://b/k", reason="gone"),
            424,
            {"external_blob_source": {"uri": "s3://b/k", "reason": "gone"}},
        ),
        (RecoveryRequired("x", operation_id="op"), 503, {"recovery_required": {"operation_id": "op"}}),
        (
            ChangeFeedGap("x", cursor="c", first_unreadable_commit_id="i"),
            410,
            {"change_feed_gap": {"cursor": "c", "first_unreadable_commit_id": "i"}},
        ),
        (
            CommitWithoutParent("x", graph_commit_id="i"),
            409,
            {"code": "conflict", "change_diff_refusal": {"reason": "parentless_commit", "graph_commit_id": "i"}},
        ),
        (
            ChangeSchemaBoundary("x", graph_commit_id="i", type="Person"),
            409,
            {
                "code": "conflict",
                "change_diff_refusal": {"reason": "schema_boundary", "graph_commit_id": "i", "type_name": "Person"},
            },
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_the_envelope_of_the_contract(error: OmniGraphError, status: int, expected: dict[str, Any]) -> None:
    found, envelope = over_the_wire(error)
    assert found == status
    without = {name: value for name, value in envelope.items() if name != "problem"}
    assert without == {"error": without["error"]} | expected
    bare = error_of(status, without)
    assert status_of(bare)[0] == status and isinstance(error, type(bare) | type(error))


def test_conflicts_of_a_merge_are_told_in_both_forms() -> None:
    conflict = {
        "table_key": "node:Person",
        "row_id": "ana",
        "kind": "DivergentUpdate",
        "message": "both changed it",
        "base": {"name": "A"},
        "ours": {"name": "B"},
        "theirs": {"name": "C"},
        "arises": None,
        "settled_by": ["node:Person/ana=ours"],
    }
    status, envelope = over_the_wire(MergeConflict("two sides", conflicts=[conflict], count=1))
    assert status == 409
    assert envelope["merge_conflicts"] == [
        {
            "entity_kind": "node",
            "type_name": "Person",
            "entity_id": "ana",
            "kind": "divergent_update",
            "message": "both changed it",
        }
    ]
    again = error_of(status, envelope)
    assert isinstance(again, MergeConflict) and again.conflicts[0].to_dict() == conflict
    foreign = error_of(status, {"error": "two sides", "merge_conflicts": envelope["merge_conflicts"]})
    assert isinstance(foreign, MergeConflict)
    assert [(each.entity, each.kind) for each in foreign.conflicts] == [("node:Person/ana", "DivergentUpdate")]


def test_what_the_storage_says_stays_inside() -> None:
    for error in (
        CorruptGraph("the file is broken: s3cret", hint="look at s3cret", file="s3cret"),
        RuntimeError("s3cret"),
    ):
        status, envelope = over_the_wire(error)
        assert status == 500
        assert "s3cret" not in json.dumps(envelope) and "request-1" in envelope["error"]


def test_details_that_json_does_not_know_become_texts() -> None:
    class Thing:
        def __str__(self) -> str:
            return "a thing"

    _, envelope = over_the_wire(InputError("x", thing=Thing(), many=(1, 2), big=2**200, nested={"a": {1}}))
    assert envelope["problem"]["details"]["thing"] == "a thing"
    assert envelope["problem"]["details"]["many"] == [1, 2]


def test_the_place_in_a_text_survives() -> None:
    error = QuerySyntaxError("unexpected sign", source="query q() {\n  ?\n}", offset=14)
    again = error_of(*over_the_wire(error))
    assert isinstance(again, QuerySyntaxError) and (again.line, again.column) == (2, 3) and str(again) == str(error)


@pytest.mark.parametrize("envelope", [None, "text", 3, [], {}, {"problem": 1}, {"problem": {"message": 3}}])
def test_an_answer_that_is_no_envelope_is_told_by_its_status(envelope: object) -> None:
    error = error_of(404, envelope)
    assert isinstance(error, errors.NotFoundError) and "404" in error.message
    assert isinstance(error_of(502, envelope), OmniGraphError)


def test_a_code_of_a_newer_server_is_the_nearest_class() -> None:
    envelope = {
        "error": "x",
        "problem": {"code": "conflict.precondition.odd", "message": "m", "hint": None, "details": {}},
    }
    assert type(error_of(412, envelope)) is PreconditionFailed
    unknown = {"error": "x", "problem": {"code": "brand_new", "message": "m", "hint": "h", "details": {"self": 1}}}
    assert type(error_of(409, unknown)) is errors.ConflictError
