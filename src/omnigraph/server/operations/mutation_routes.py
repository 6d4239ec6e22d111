"""Routes that run a write query."""

from __future__ import annotations

from typing import Any

from omnigraph.server.operation import Answer, Call, HttpOperation
from omnigraph.server.operations.asked_branch import bounds, branch_of, changes
from omnigraph.server.operations.precondition import expected_head, refuse_condition
from omnigraph.server.operations.shown_commit import commit_or_null
from omnigraph.wire import answers, requests
from omnigraph.write.mutation_result import MutationResult


def shown_change(done: MutationResult) -> dict[str, Any]:
    """What a write query did."""
    return {**done.to_dict(), "commit": commit_or_null(done.commit)}


def _mutate(call: Call) -> Answer:
    refuse_condition(call)
    return _changed(call, None)


def _mutate_if(call: Call) -> Answer:
    return _changed(call, expected_head(call))


def _changed(call: Call, if_commit: str | None) -> Answer:
    asked: requests.ChangeRequest = call.body
    done = call.graph.mutate(
        asked.text,
        asked.chosen,
        asked.params,
        branch=branch_of(asked.branch),
        if_commit=if_commit,
        message=asked.message,
        commit_id=asked.commit_id,
        **bounds(call, asked.timeout_ms),
    )
    return shown_change(done)


MUTATION_ROUTES = (
    HttpOperation(
        "POST",
        "/mutate",
        "mutate",
        "mutations",
        "Run a write query",
        _mutate,
        changes,
        body=requests.ChangeRequest,
        answer=answers.ChangeOutput,
        pool="write",
        admitted=True,
        statuses=(409, 413),
    ),
    HttpOperation(
        "POST",
        "/mutate/if-graph-commit",
        "mutate_if_graph_commit",
        "mutations",
        "Run a write query if the branch still has the given head",
        _mutate_if,
        changes,
        body=requests.ChangeRequest,
        answer=answers.ChangeOutput,
        pool="write",
        admitted=True,
        statuses=(409, 412, 413),
    ),
    HttpOperation(
        "POST",
        "/change",
        "change",
        "mutations",
        "Run a write query, by the path of older clients",
        _mutate,
        changes,
        body=requests.ChangeRequest,
        answer=answers.ChangeOutput,
        pool="write",
        admitted=True,
        statuses=(409, 413),
        successor="<mutate>",
    ),
)
