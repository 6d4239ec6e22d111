"""Errors on the wire: an error becomes a status and an envelope, and the same error again on the other side.

The first part of the envelope is the HTTP contract that clients of other makes read; the key ``problem`` holds our own
error whole. What failed inside the storage is told in one fixed sentence, because its text can name paths and hosts;
the log of the server has the rest under the id of the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

from omnigraph import errors
from omnigraph.errors import (
    BlobRangeError,
    ChangeFeedGap,
    ChangeSchemaBoundary,
    CommitWithoutParent,
    ConflictError,
    DeniedError,
    ExpectedVersionMismatch,
    ExternalBlobUnavailable,
    InputError,
    InternalError,
    InvalidRequest,
    KeyConflict,
    LimitError,
    LockTimeout,
    MergeConflict,
    NotFoundError,
    OmniGraphError,
    PreconditionFailed,
    QueryTimeout,
    ReadSetChanged,
    RecoveryRequired,
    ResourceLimitExceeded,
    StorageError,
    TooManyRequests,
    Unauthenticated,
)

#: Seconds that a client waits before it tries again, where the server says so.
RETRY_AFTER_SECONDS = 60

#: Class → status and ``code`` of the contract. The nearest class above an error counts.
_STATUS: Mapping[type[OmniGraphError], tuple[int, str | None]] = {
    InputError: (400, "bad_request"),
    Unauthenticated: (401, "unauthorized"),
    DeniedError: (403, "forbidden"),
    NotFoundError: (404, "not_found"),
    ConflictError: (409, "conflict"),
    ChangeFeedGap: (410, None),
    PreconditionFailed: (412, None),
    LimitError: (413, "bad_request"),
    BlobRangeError: (416, "bad_request"),
    ExternalBlobUnavailable: (424, None),
    LockTimeout: (429, "too_many_requests"),
    TooManyRequests: (429, "too_many_requests"),
    RecoveryRequired: (503, None),
    OmniGraphError: (500, "internal"),
}

#: Statuses that one class of errors can have, chosen by its detail ``status``.
_OF_REQUEST = {400: "bad_request", 405: "method_not_allowed", 408: "bad_request", 415: "bad_request"}

#: Status → class, for an answer without our own part.
_BY_STATUS: Mapping[int, type[OmniGraphError]] = {
    400: InputError,
    401: Unauthenticated,
    403: DeniedError,
    404: NotFoundError,
    405: InvalidRequest,
    408: InvalidRequest,
    409: ConflictError,
    410: ChangeFeedGap,
    412: PreconditionFailed,
    413: ResourceLimitExceeded,
    415: InvalidRequest,
    416: BlobRangeError,
    424: ExternalBlobUnavailable,
    429: TooManyRequests,
    503: RecoveryRequired,
}

#: What is said instead of the message of an error from inside; details that stay.
_VEILED: Mapping[type[OmniGraphError], tuple[str, tuple[str, ...]]] = {
    StorageError: ("the storage of the graph failed", ()),
    InternalError: ("the server failed", ()),
    RecoveryRequired: ("an interrupted write has to be finished first", ("operation_id", "commit_id")),
    LockTimeout: ("another writer holds the branch for too long", ("branch",)),
}
_OPEN = (ExternalBlobUnavailable,)


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error as an answer.

    Attributes:
        envelope: the JSON body.
        headers: that belong to it.
    """

    status: int
    envelope: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        return msgspec.json.encode(self.envelope)


def problem_of(error: BaseException, request_id: str | None = None) -> ErrorReply:
    """The answer for an error. One that is none of ours is told like a bug of ours.

    Args:
        request_id: named where the text is replaced, so that an operator finds the rest in the log.
    """
    told = error if isinstance(error, OmniGraphError) else InternalError("the server failed")
    status, code = status_of(told)
    message, hint, details = _shown(told, request_id)
    envelope: dict[str, Any] = {"error": f"{message} ({hint})" if hint else message}
    if code is not None:
        envelope["code"] = code
    for kind in type(told).__mro__:
        if kind in _DETAILS:
            envelope |= _DETAILS[kind](details)
            break
    envelope["problem"] = {"code": told.code, "message": message, "hint": hint, "details": details}
    return ErrorReply(status, envelope, {"retry-after": str(RETRY_AFTER_SECONDS)} if status == 429 else {})


def status_of(error: OmniGraphError) -> tuple[int, str | None]:
    """Status and ``code`` of the contract."""
    if isinstance(error, InvalidRequest):
        status = error.details.get("status", 400)
        return (status, _OF_REQUEST[status]) if status in _OF_REQUEST else (400, "bad_request")
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def error_of(status: int, envelope: object) -> OmniGraphError:
    """The error that an answer tells of.

    Args:
        envelope: the body as JSON; anything else is told by the status alone.
    """
    body = envelope if isinstance(envelope, Mapping) else {}
    problem = body.get("problem")
    if isinstance(problem, Mapping) and isinstance(problem.get("message"), str):
        kind = _class_of(problem.get("code"), status)
        details = problem.get("details")
        hint = problem.get("hint")
        return _made(kind, problem["message"], hint if isinstance(hint, str) else None, details)
    said = body.get("error")
    message = said if isinstance(said, str) and said else f"the server answered with status {status}"
    return _made(*_foreign(status, body, message))


def _shown(error: OmniGraphError, request_id: str | None) -> tuple[str, str | None, dict[str, Any]]:
    """Message, hint and details as a stranger may see them."""
    details = {name: _plain(value) for name, value in error.details.items()}
    for kind, (text, kept) in _VEILED.items():
        if isinstance(error, kind) and not isinstance(error, _OPEN):
            named = {name: details[name] for name in kept if details.get(name) is not None}
            if request_id is None:
                return text, None, named
            return f"{text}; the log of the server tells more about request {request_id}", None, named
    return error.message, error.hint, details


def _plain(value: object) -> Any:
    """A value as JSON can hold it."""
    try:
        plain = msgspec.to_builtins(value, enc_hook=_of_object, str_keys=True)
        msgspec.json.encode(plain)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)
    return plain


def _of_object(value: object) -> Any:
    to_dict = getattr(value, "to_dict", None)
    return to_dict() if callable(to_dict) else str(value)


@cache
def _classes() -> dict[str, type[OmniGraphError]]:
    """Every class of errors by its code."""
    found = (each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, OmniGraphError))
    return {kind.code: kind for kind in found}


def _class_of(code: object, status: int) -> type[OmniGraphError]:
    """The class of a code; of a code that a newer server has made, the class above it that is known here."""
    name = code if isinstance(code, str) else ""
    while name:
        if name in _classes():
            return _classes()[name]
        name = name.rpartition(".")[0]
    return _BY_STATUS.get(status, InternalError if status >= 500 else OmniGraphError)


def _made(kind: type[OmniGraphError], message: str, hint: str | None, details: object) -> OmniGraphError:
    """An error of a class, whatever the signature of its constructor."""
    given = details.items() if isinstance(details, Mapping) else ()
    safe = {name: value for name, value in given if isinstance(name, str) and name not in ("self", "message", "hint")}
    error = kind.__new__(kind)
    OmniGraphError.__init__(error, message, hint=hint, **safe)
    return error


# --- the details of the contract, from ours and back


def _ends(key: object) -> dict[str, Any]:
    kind, _, name = str(key).partition(":")
    return {"entity_kind": kind, "type_name": name} if name else {"entity_kind": "node", "type_name": kind}


def _some(key: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: dict(values)} if all(value is not None for value in values.values()) else {}


def _merge(details: Mapping[str, Any]) -> dict[str, Any]:
    told = [
        {
            **_ends(each["table_key"]),
            "entity_id": each["row_id"],
            "kind": re.sub(r"(?<=.)(?=[A-Z])", "_", each["kind"]).lower(),
            "message": each["message"],
        }
        for each in details.get("conflicts") or ()
    ]
    return {"merge_conflicts": told} if told else {}


def _key(details: Mapping[str, Any]) -> dict[str, Any]:
    id_ = details.get("id")
    named = {"entity_kind": details.get("kind", "node"), "type_name": details.get("type")}
    return _some("key_conflict", {**named, "entity_id": None if id_ is None else str(id_)})


def _version(details: Mapping[str, Any]) -> dict[str, Any]:
    versions = {f"{side}_published_dataset_version": details.get(side) for side in ("expected", "actual")}
    return _some("published_dataset_version_conflict", {**_ends(details.get("table_key")), **versions})


def _read_set(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"read_set_conflict": {name: str(details.get(name)) for name in ("member", "expected", "actual")}}


def _limit(details: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {name: details.get(name) for name in ("resource", "limit", "actual")}
    return _some("resource_limit", numbers)


def _timeout(details: Mapping[str, Any]) -> dict[str, Any]:
    """It was stopped when its time was over, so no more is known of what it would have taken."""
    seconds = details.get("seconds")
    milliseconds = round(seconds * 1000) if isinstance(seconds, int | float) else 0
    return {"resource_limit": {"resource": "query_milliseconds", "limit": milliseconds, "actual": milliseconds}}


def _precondition(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"precondition_failure": {name: str(details.get(name) or "") for name in ("expected", "actual")}}


def _range(details: Mapping[str, Any]) -> dict[str, Any]:
    return _some("blob_range", {name: details.get(name) for name in ("start", "end", "length")})


def _source(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"external_blob_source": {name: str(details.get(name, "")) for name in ("uri", "reason")}}


def _recovery(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"recovery_required": {"operation_id": str(details.get("operation_id") or details.get("commit_id") or "")}}


def _gap(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"change_feed_gap": {name: details.get(name) for name in ("cursor", "first_unreadable_commit_id")}}


def _refusal(reason: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    def told(details: Mapping[str, Any]) -> dict[str, Any]:
        type_name = details.get("type_name") or details.get("type")
        named = {"graph_commit_id": details.get("graph_commit_id"), "type_name": type_name}
        given = {name: value for name, value in named.items() if value is not None}
        return {"change_diff_refusal": {"reason": reason, **given}}

    return told


_DETAILS: Mapping[type[OmniGraphError], Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    MergeConflict: _merge,
    KeyConflict: _key,
    ExpectedVersionMismatch: _version,
    ReadSetChanged: _read_set,
    LimitError: _limit,
    QueryTimeout: _timeout,
    TooManyRequests: lambda details: {},
    PreconditionFailed: _precondition,
    BlobRangeError: _range,
    ExternalBlobUnavailable: _source,
    RecoveryRequired: _recovery,
    ChangeFeedGap: _gap,
    ChangeSchemaBoundary: _refusal("schema_boundary"),
    CommitWithoutParent: _refusal("parentless_commit"),
}

#: Key of the envelope → the class that it stands for, where the status alone does not say it.
_OF_DETAIL: Mapping[str, type[OmniGraphError]] = {
    "merge_conflicts": MergeConflict,
    "key_conflict": KeyConflict,
    "published_dataset_version_conflict": ExpectedVersionMismatch,
    "read_set_conflict": ReadSetChanged,
    "resource_limit": ResourceLimitExceeded,
    "blob_range": BlobRangeError,
    "external_blob_source": ExternalBlobUnavailable,
    "recovery_required": RecoveryRequired,
    "precondition_failure": PreconditionFailed,
    "change_feed_gap": ChangeFeedGap,
}


def _foreign(
    status: int, body: Mapping[str, Any], message: str
) -> tuple[type[OmniGraphError], str, str | None, dict[str, Any]]:
    """Class, message, hint and details of an answer that only has the part of the contract."""
    for key, kind in _OF_DETAIL.items():
        if key in body:
            return kind, message, None, dict(_details_of(key, body[key]))
    refusal = body.get("change_diff_refusal")
    if isinstance(refusal, Mapping):
        kind = CommitWithoutParent if refusal.get("reason") == "parentless_commit" else ChangeSchemaBoundary
        return kind, message, None, dict(_details_of("change_diff_refusal", refusal))
    kind = _BY_STATUS.get(status, InternalError if status >= 500 else OmniGraphError)
    return kind, message, None, {"status": status} if kind is InvalidRequest else {}


def _details_of(key: str, told: object) -> Iterator[tuple[str, Any]]:
    """Our details from one of the contract."""
    if key == "merge_conflicts" and isinstance(told, list):
        yield "conflicts", [_conflict(each) for each in told if isinstance(each, Mapping)]
    if not isinstance(told, Mapping):
        return
    if key == "published_dataset_version_conflict":
        yield "table_key", f"{told.get('entity_kind')}:{told.get('type_name')}"
        for side in ("expected", "actual"):
            yield side, told.get(f"{side}_published_dataset_version")
        return
    renamed = {"entity_kind": "kind", "type_name": "type", "entity_id": "id"}
    for name, value in told.items():
        yield renamed.get(name, str(name)), value


def _conflict(told: Mapping[str, Any]) -> dict[str, Any]:
    kind = "".join(word.capitalize() for word in str(told.get("kind", "")).split("_"))
    table_key = f"{told.get('entity_kind')}:{told.get('type_name')}"
    return {"table_key": table_key, "row_id": told.get("entity_id"), "kind": kind, "message": str(told.get("message"))}
