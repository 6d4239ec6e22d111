"""Routes for changes: of a commit, of a branch since a position, between two states; and the baseline to begin with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from omnigraph.errors import ChangeCursorRejected, InputError
from omnigraph.history.diff import Diff
from omnigraph.history.feed.page import ChangePage
from omnigraph.server.operation import Answer, Call, HttpOperation, Need, Streamed
from omnigraph.server.operations.asked_branch import branch_of
from omnigraph.server.operations.query_routes import JSON, LINES, form_of
from omnigraph.server.operations.refused_name import unknown_type_is_400
from omnigraph.server.operations.shown_commit import shown_commit
from omnigraph.wire import answers, requests

_LINES = f"{LINES}; charset=utf-8"
_NAMED_STARTS = ("now", "beginning")
_AFTER = "after:"


def _commit_changes(call: Call) -> Answer:
    asked: requests.CommitChangesQuery = call.query
    found = call.graph.commit_changes(call.path["commit_id"], kinds=asked.kind, types=asked.type, ops=asked.op)
    page = found.page(asked.limit, page_token=asked.page_token, max_bytes=asked.max_bytes)
    return {**page.to_dict(), "commit": shown_commit(page.commit)}


def _poll(call: Call) -> Answer:
    asked: requests.ChangeFeedQuery = call.query
    page = call.graph.changes(
        _position(asked),
        branch=branch_of(asked.branch),
        page_token=asked.page_token,
        limit=asked.limit,
        max_bytes=asked.max_bytes,
        max_commits=asked.max_commits,
        kinds=asked.kind,
        types=asked.type,
        ops=asked.op,
    )
    return _shown_page(page)


def _shown_page(page: ChangePage) -> dict[str, Any]:
    blocks = [{**block.to_dict(), "commit": shown_commit(block.commit)} for block in page.blocks]
    return {**page.to_dict(), "blocks": blocks}


def _position(asked: requests.ChangeFeedQuery) -> str | None:
    """Where the feed begins, from at most one of three parameters."""
    given = [name for name in ("cursor", "start", "page_token") if getattr(asked, name) is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(given)} both say where to begin", hint="give one of them")
    if asked.start is not None and asked.start not in _NAMED_STARTS and not asked.start.startswith(_AFTER):
        raise InputError("start is now, beginning or after:<commit id>", hint="give a cursor as cursor")
    if asked.cursor is not None and (asked.cursor in _NAMED_STARTS or asked.cursor.startswith(_AFTER)):
        raise ChangeCursorRejected("it is none; such a position is given as start")
    return asked.start if asked.start is not None else asked.cursor


def _baseline(call: Call) -> Answer:
    asked: requests.BaselineRequest = call.body
    branch = branch_of(asked.branch)
    filters = {"kinds": asked.kind or None, "types": asked.type or None, "ops": asked.op or None}

    def write(file: BinaryIO) -> None:
        call.graph.baseline(file, branch, **filters)  # what is wrong with the request is found before the first line

    return Streamed(write, _LINES)


def _diff(call: Call) -> Answer:
    asked: requests.DiffRequest = call.body
    found = call.graph.diff(
        asked.from_,
        asked.to,
        branch=branch_of(asked.branch),
        kinds=asked.kinds,
        types=asked.types,
        ops=asked.ops,
    )
    if asked.summary:
        return {**_head(found), "stats": found.stats.to_dict()}
    if form_of(call.accepts) == LINES:
        return Streamed(lambda file: file.writelines(_lines(found)), _LINES)
    return Streamed(lambda file: file.writelines(_document(found)), JSON)


def _head(found: Diff) -> dict[str, Any]:
    return {
        "from_commit_id": found.from_commit,
        "to_commit_id": found.to_commit,
        "from_version": found.from_version,
        "to_version": found.to_version,
        "branch": found.branch,
    }


def _lines(found: Diff) -> Iterator[bytes]:
    for line in found.jsonl():
        yield line.encode()


def _document(found: Diff) -> Iterator[bytes]:
    """One JSON text, written change by change; the counts are known at the end."""
    yield json.dumps(_head(found), ensure_ascii=False, separators=(",", ":")).encode()[:-1] + b',"changes":['
    for place, line in enumerate(found.jsonl()):
        yield (b"," if place else b"") + line.encode().rstrip(b"\n")
    yield b'],"stats":' + json.dumps(found.stats.to_dict(), separators=(",", ":")).encode() + b"}"


def _exports(call: Call) -> tuple[Need, ...]:
    return (Need("export", branch_of(call.body.branch)),)


FEED_ROUTES = (
    HttpOperation(
        "GET",
        "/commits/{commit_id}/changes",
        "getCommitChanges",
        "changes",
        "List what a commit changed",
        unknown_type_is_400(_commit_changes),
        query=requests.CommitChangesQuery,
        answer=answers.CommitChangesOutput,
        statuses=(409, 413),
    ),
    HttpOperation(
        "GET",
        "/changes",
        "pollChanges",
        "changes",
        "List what changed on a branch, commit by commit, since a position",
        unknown_type_is_400(_poll),
        lambda call: (Need("read", branch_of(call.query.branch)),),
        query=requests.ChangeFeedQuery,
        answer=answers.ChangeFeedOutput,
        statuses=(409, 410, 413),
    ),
    HttpOperation(
        "POST",
        "/changes/baseline",
        "captureChangeBaseline",
        "changes",
        "Get a whole branch, and the cursor that goes on from there",
        _baseline,
        _exports,
        body=requests.BaselineRequest,
        body_optional=True,
        media_types=(LINES,),
        pool="stream",
        statuses=(413,),
    ),
    HttpOperation(
        "POST",
        "/diff",
        "diff",
        "changes",
        "List the changes that lead from one state to another",
        unknown_type_is_400(_diff),
        body=requests.DiffRequest,
        answer=answers.DiffOutput,
        media_types=(LINES,),
        statuses=(409,),
    ),
)
