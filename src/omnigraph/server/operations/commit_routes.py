"""Routes for the history: list, show, draw, undo."""

from __future__ import annotations

from typing import Any, cast

from omnigraph.history.undo import UndoResult
from omnigraph.server.operation import Answer, Call, HttpOperation, Need
from omnigraph.server.operations.asked_branch import branch_of, changes, needs
from omnigraph.server.operations.shown_commit import commit_or_null, shown_commit
from omnigraph.wire import answers, requests


def _list(call: Call) -> Answer:
    asked: requests.CommitsQuery = call.query
    found = call.graph.commits.list(
        branch_of(asked.branch),
        asked.limit,
        asked.before,
        actor=asked.actor,
        kind=asked.kind,
        message=asked.message,
        made_on=asked.made_on,
        since=asked.since,
        until=asked.until,
    )
    return {"commits": [shown_commit(commit) for commit in found]}


def _get(call: Call) -> Answer:
    return shown_commit(call.graph.commits.get(call.path["commit_id"]))


def _draw(call: Call) -> Answer:
    asked: requests.CommitGraphQuery = call.query
    found = call.graph.commits.graph(
        asked.branch,
        asked.limit,
        actor=asked.actor,
        kind=asked.kind,
        message=asked.message,
        made_on=asked.made_on,
        since=asked.since,
        until=asked.until,
    )
    return {"commits": [node.to_dict() for node in found]}


def _draws(call: Call) -> tuple[Need, ...]:
    if call.query.branch is None:
        return (Need("read"),)
    return tuple(Need("read", branch_of(name)) for name in call.query.branch)


def _revert(call: Call) -> Answer:
    asked: requests.RevertRequest = call.body
    return _undone(
        call,
        call.graph.revert(
            asked.commit,
            branch=branch_of(asked.branch),
            resolve=cast(Any, asked.resolve),  # the merge checks it
            message=asked.message,
        ),
    )


def _restore(call: Call) -> Answer:
    asked: requests.RestoreRequest = call.body
    return _undone(call, call.graph.restore(asked.at, branch=branch_of(asked.branch), message=asked.message))


def _undone(call: Call, done: UndoResult) -> dict[str, Any]:
    return {**done.to_dict(), "commit": commit_or_null(done.commit), "actor_id": call.actor}


COMMIT_ROUTES = (
    HttpOperation(
        "GET",
        "/commits",
        "listCommits",
        "commits",
        "List the history of a branch, newest first",
        _list,
        lambda call: (Need("read", branch_of(call.query.branch)),),
        query=requests.CommitsQuery,
        answer=answers.CommitsOutput,
    ),
    HttpOperation(
        "GET",
        "/commits/{commit_id}",
        "getCommit",
        "commits",
        "Show one commit",
        _get,
        needs("read"),
        answer=answers.CommitOutput,
    ),
    HttpOperation(
        "GET",
        "/commit-graph",
        "commit_graph",
        "commits",
        "List the commits of several branches and of what was merged into them",
        _draw,
        _draws,
        query=requests.CommitGraphQuery,
        answer=answers.CommitGraphOutput,
    ),
    HttpOperation(
        "POST",
        "/revert",
        "revert",
        "commits",
        "Undo one commit by a new one",
        _revert,
        changes,
        body=requests.RevertRequest,
        answer=answers.UndoOutput,
        pool="write",
        admitted=True,
        statuses=(409,),
    ),
    HttpOperation(
        "POST",
        "/restore",
        "restore",
        "commits",
        "Give a branch the rows of an older state",
        _restore,
        changes,
        body=requests.RestoreRequest,
        answer=answers.UndoOutput,
        pool="write",
        admitted=True,
        statuses=(409,),
    ),
)
