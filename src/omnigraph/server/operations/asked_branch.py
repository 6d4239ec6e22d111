"""Which branch or state a request means, and what a policy is asked about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypedDict

from omnigraph import ids
from omnigraph.errors import InputError, ResourceLimitExceeded
from omnigraph.server.operation import Call, Need

_FEWER_ROWS = "ask for fewer rows with limit, or raise the server's limit"


class HasState(Protocol):
    """A body or a query string that names a state."""

    @property
    def branch(self) -> str | None: ...
    @property
    def at(self) -> str | int | None: ...


class AskedState(TypedDict):
    """The arguments of `Graph.query` that say which state."""

    branch: str | None
    at: str | int | None


def branch_of(text: str | None) -> str:
    """A branch as a request names it, in its normal form; main when it names none."""
    return ids.MAIN if text is None else ids.known_branch(text)


def state_of(asked: HasState, snapshot: str | None = None) -> AskedState:
    """The state that a request asks for.

    Args:
        snapshot: the id of a commit, wherever it was made.

    Raises:
        InputError: a snapshot and something else are given.
    """
    if snapshot is None:
        return {"branch": None if asked.branch is None else ids.known_branch(asked.branch), "at": asked.at}
    if asked.branch is not None or asked.at is not None:
        other = "branch" if asked.branch is not None else "at"
        raise InputError(f"snapshot and {other} both say what to read", hint="give one of them")
    return {"branch": None, "at": commit_id_of(snapshot)}


def commit_id_of(snapshot: str) -> str:
    """A snapshot of the contract is a commit id, and nothing else that `at` may be."""
    text = snapshot.strip()
    if not text or (ids.moment_in(text) is not None and not (ids.is_ulid(text) or ids.parse_synthetic_commit_id(text))):
        raise InputError("a snapshot is the id of a commit", hint="for tags, versions and times give at")
    return text


def reads(call: Call) -> tuple[Need, ...]:
    """To read a branch that is named. A state that is named otherwise is found first; then the graph asks."""
    asked = call.body if call.body is not None else call.query
    if getattr(asked, "snapshot", None) is not None:
        return ()
    if asked.branch is None and isinstance(asked.at, str):
        return ()
    return (Need("read", branch_of(asked.branch)),)


def changes(call: Call) -> tuple[Need, ...]:
    """To change the branch of a body."""
    return (Need("change", branch_of(call.body.branch)),)


def needs(action: str) -> Callable[[Call], tuple[Need, ...]]:
    """An action on the graph as a whole."""
    found = (Need(action),)
    return lambda call: found


def bounds(call: Call, timeout_ms: int | None = None) -> dict[str, Any]:
    """How long a read may take and who may stop it. A request may have less time than the server gives, never more."""
    most = call.served.limits.query_timeout_ms
    if timeout_ms is not None and timeout_ms < 1:
        raise InputError(f"timeout_ms is {timeout_ms}, which is no time", hint="leave it out, or give more")
    return {"timeout": min(most, timeout_ms or most) / 1000, "is_cancelled": call.is_cancelled}


def result_bounds(
    call: Call, timeout_ms: int | None = None, max_rows: int | None = None, max_bytes: int | None = None
) -> dict[str, Any]:
    """The same with the size of the result."""
    most = call.served.limits
    for what, asked in (("max_rows", max_rows), ("max_bytes", max_bytes)):
        if asked is not None and asked < 1:
            raise InputError(f"{what} is {asked}, which is less than 1", hint="leave it out for no bound")
    sizes = {
        "max_rows": min(most.result_rows, max_rows or most.result_rows),
        "max_bytes": min(most.result_bytes, max_bytes or most.result_bytes),
    }
    return {**bounds(call, timeout_ms), **sizes}


@contextmanager
def hinted(call: Call) -> Iterator[None]:
    """Inside, a result with more rows than the server allows is refused with what the client can do about it."""
    try:
        yield
    except ResourceLimitExceeded as error:
        told = error.details
        if told.get("resource") == "query_rows" and told.get("limit") == call.served.limits.result_rows:
            error.hint = _FEWER_ROWS
        raise
