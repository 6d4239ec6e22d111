"""A failed call as an agent gets it: the words of the HTTP interface, and its whole body."""

from __future__ import annotations

from typing import Any

from omnigraph.errors import OmniGraphError
from omnigraph.logs import MCP
from omnigraph.wire.problems import problem_of


def problem_answer(error: BaseException, request_id: str) -> dict[str, Any]:
    """The answer of a call that failed. What is not shown to an agent is in the log, under the id of the request."""
    problem = problem_of(error, request_id)
    if problem.status >= 500:
        MCP.error("request %s failed: %s", request_id, _told(error), exc_info=not isinstance(error, OmniGraphError))
    return {
        "error": problem.envelope["error"],
        "status": problem.status,
        "code": problem.envelope.get("code"),
        "requestId": request_id,
        "body": problem.envelope,
    }


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
