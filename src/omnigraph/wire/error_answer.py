"""The shape of an error on the wire, for the description of a server. `problems.py` makes and reads it."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class MergeConflictDetail(msgspec.Struct):
    entity_kind: Literal["node", "edge"]
    type_name: str
    entity_id: str | None
    kind: Literal[
        "divergent_insert",
        "divergent_update",
        "delete_vs_update",
        "orphan_edge",
        "unique_violation",
        "cardinality_violation",
        "value_constraint_violation",
    ]
    message: str


class VersionConflictDetail(msgspec.Struct):
    entity_kind: Literal["node", "edge"]
    type_name: str
    expected_published_dataset_version: int
    actual_published_dataset_version: int


class ReadSetConflictDetail(msgspec.Struct):
    member: str
    expected: str
    actual: str


class KeyConflictDetail(msgspec.Struct):
    entity_kind: Literal["node", "edge"]
    type_name: str
    entity_id: str


class ResourceLimitDetail(msgspec.Struct):
    resource: str
    limit: int | float
    actual: int | float


class BlobRangeDetail(msgspec.Struct):
    start: int
    end: int
    length: int


class ExternalBlobSourceDetail(msgspec.Struct):
    uri: str
    reason: str


class RecoveryRequiredDetail(msgspec.Struct):
    operation_id: str


class PreconditionFailureDetail(msgspec.Struct):
    expected: str
    actual: str


class ChangeFeedGapDetail(msgspec.Struct):
    cursor: str | None = None
    first_unreadable_commit_id: str | None = None


class ChangeDiffRefusalDetail(msgspec.Struct):
    reason: Literal["parentless_commit", "schema_boundary"]
    graph_commit_id: str | UnsetType = UNSET
    type_name: str | UnsetType = UNSET


class ProblemDetail(msgspec.Struct):
    """Our own error, whole."""

    code: str
    message: str
    hint: str | None
    details: dict[str, object]


class ErrorOutput(msgspec.Struct):
    """What went wrong. Only `error` is always there, and at most one of the details."""

    error: str
    code: (
        Literal[
            "unauthorized",
            "forbidden",
            "bad_request",
            "not_found",
            "method_not_allowed",
            "conflict",
            "too_many_requests",
            "internal",
        ]
        | UnsetType
    ) = UNSET
    problem: ProblemDetail | UnsetType = UNSET
    merge_conflicts: list[MergeConflictDetail] | UnsetType = UNSET
    published_dataset_version_conflict: VersionConflictDetail | UnsetType = UNSET
    read_set_conflict: ReadSetConflictDetail | UnsetType = UNSET
    key_conflict: KeyConflictDetail | UnsetType = UNSET
    resource_limit: ResourceLimitDetail | UnsetType = UNSET
    blob_range: BlobRangeDetail | UnsetType = UNSET
    external_blob_source: ExternalBlobSourceDetail | UnsetType = UNSET
    recovery_required: RecoveryRequiredDetail | UnsetType = UNSET
    precondition_failure: PreconditionFailureDetail | UnsetType = UNSET
    change_feed_gap: ChangeFeedGapDetail | UnsetType = UNSET
    change_diff_refusal: ChangeDiffRefusalDetail | UnsetType = UNSET
