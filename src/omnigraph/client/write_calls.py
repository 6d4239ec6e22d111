"""The verbs that write rows: mutations, loads, stored queries, what undoes them. Their arguments are those of `Graph`.

Each mutation and load names the commit that it makes, so that it is done once however often it is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph import given, ids
from omnigraph.client import rebuilt
from omnigraph.client.address import quoted
from omnigraph.client.plain_values import (
    branch_or_none,
    milliseconds,
    parameters,
    plain_moment,
    plain_params,
    plain_value,
    require_none,
)
from omnigraph.client.read_calls import ResultReader, located
from omnigraph.client.upload import upload_of
from omnigraph.client.wire_call import ARROW, Flow, Repeats, WireCall, ask, json_of
from omnigraph.engine.query_result import Result
from omnigraph.errors import InputError, NotOffered
from omnigraph.history.merge.resolution import Resolve, check_resolve
from omnigraph.history.state_at import At, moment_of
from omnigraph.history.undo import UndoResult
from omnigraph.ids import commit_message, known_branch
from omnigraph.progress import Progress, Stage, reporter
from omnigraph.storage.objects.user_text import text_of
from omnigraph.write.change import Mode
from omnigraph.write.load.gather import request_of
from omnigraph.write.load.load_result import LoadResult
from omnigraph.write.load.load_source import Source, left_out
from omnigraph.write.mutation_result import MutationResult

if TYPE_CHECKING:
    from omnigraph.choices import AbsentColumns, Engine, LoadFormat, LoadMode, OnBadRow, TooFineTimes

#: The header with the head that a conditional write insists on.
IF_COMMIT = "omnigraph-if-graph-commit"

_CANCEL = "leave is_cancelled out, and give a timeout"


def mutate(
    source: str | Path,
    name: str | Mapping[str, object] | None = None,
    params: Mapping[str, object] | None = None,
    *,
    branch: str = ids.MAIN,
    if_commit: str | None = None,
    message: str | None = None,
    commit_id: str | None = None,
    timeout: float | timedelta | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> Flow[MutationResult]:
    """Run a write query as one commit: all its statements or none; see `Graph.mutate`.

    A lost answer is no reason to fear: the mutation is sent again with the id of its commit, and done once.

    Raises:
        OutcomeUnknown: no answer came in time. ``details["commit_id"]`` names the commit that it would have made, for
            `RemoteCommits.get`, or to send it again.
    """
    require_none(is_cancelled, "is_cancelled", _CANCEL)
    text, file = text_of(source, ".gq")
    asked, values = given.named_query(name, params)
    known = ids.given_commit_id(commit_id) or ids.new_commit_id()
    to = known_branch(branch)
    content = {
        "query": text,
        "name": asked,
        "params": plain_params(values),
        "branch": to,
        "message": commit_message(message),
        "commit_id": known,
        "timeout_ms": milliseconds(timeout),
    }
    return (yield from located(ask(_conditional("/mutate", if_commit, content, known, to)), file))


def _conditional(
    path: str, if_commit: str | None, content: Mapping[str, Any], known: str, branch: str
) -> WireCall[MutationResult]:
    given_head = None if if_commit is None else given.text(if_commit, "if_commit")
    return WireCall(
        "POST",
        path if given_head is None else f"{path}/if-graph-commit",
        json_of(rebuilt.mutation_result),
        content=content,
        headers={} if given_head is None else {IF_COMMIT: _header(given_head)},
        repeats=Repeats.BY_COMMIT_ID,
        commit_id=known,
        branch=branch,
        what="the mutation",
    )


def _header(text: str) -> str:
    if not text.isascii() or not text.isprintable() or not text.strip():
        raise InputError(f"if_commit is the id of a commit, not {text!r:.40}")
    return text


def stored(
    name: str,
    params: Mapping[str, object] | None = None,
    *,
    branch: str | None = None,
    at: At | None = None,
    expect_mutation: bool,
    if_commit: str | None = None,
    message: str | None = None,
    commit_id: str | None = None,
    timeout: float | timedelta | None = None,
) -> Flow[Result | MutationResult]:
    """Run a query that the server keeps, by its name.

    Args:
        expect_mutation: whether it writes; one of the other kind is refused.
        if_commit, message, commit_id: of one that writes, as for `mutate`.

    Raises:
        QueryNotFound: there is none of this name, or the actor may not run it.
    """
    path = f"/queries/{quoted(given.text(name, 'the name of a query'))}"
    content = {
        "params": plain_params(params),
        "branch": branch_or_none(branch),
        "at": plain_moment(at),
        "expect_mutation": expect_mutation,
        "timeout_ms": milliseconds(timeout),
    }
    if expect_mutation:
        known = ids.given_commit_id(commit_id) or ids.new_commit_id()
        writing = {**content, "message": commit_message(message), "commit_id": known}
        return (yield from ask(_conditional(path, if_commit, writing, known, branch_or_none(branch) or ids.MAIN)))
    for what, value in (("if_commit", if_commit), ("message", message), ("commit_id", commit_id)):
        if value is not None:
            raise InputError(f"{what} belongs to a query that writes", hint="pass expect_mutation=True")
    moment = None if at is None else moment_of(at)
    return (yield from ask(WireCall("POST", path, lambda: ResultReader(moment), content=content, accept=ARROW)))


def stored_queries() -> Flow[list[dict[str, Any]]]:
    """The queries that the server keeps for this graph, with their parameters."""
    return (yield from ask(WireCall("GET", "/queries", json_of(_queries))))


def _queries(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(found["queries"])


def load(
    source: Source,
    mode: LoadMode | Mode,
    *,
    branch: str = ids.MAIN,
    from_: str | None = None,
    on_error: OnBadRow = "fail",
    max_rejects: int | None = None,
    format: LoadFormat | None = None,
    type: str | None = None,
    columns: AbsentColumns = "replace",
    times: TooFineTimes = "exact",
    engine: Engine = "auto",
    message: str | None = None,
    commit_id: str | None = None,
    progress: bool | Callable[[Progress], None] | None = None,
) -> Flow[LoadResult]:
    """Load files of this machine, or rows in memory, as one commit: all of it or nothing; see `Graph.load`.

    The source goes to the server as it is, piece by piece, and is loaded there by the engine of the server. Like a
    mutation it is sent again after a lost answer, unless it can be read only once.

    Raises:
        OutcomeUnknown: no answer came in time; see `mutate`.
    """
    if engine == "spark":
        raise NotOffered(
            "a server loads by itself, not on Spark", hint="leave engine out, or open the graph by its storage address"
        )
    request_of(source if isinstance(source, str) else "", mode, on_error, max_rejects, times, columns)
    known = ids.given_commit_id(commit_id) or ids.new_commit_id()
    to = known_branch(branch)
    query = parameters(
        branch=to,
        from_=branch_or_none(from_),
        mode=str(mode),
        on_error=str(on_error),
        max_rejects=max_rejects,
        format=format,
        type=type,
        columns=str(columns),
        times=str(times),
        message=commit_message(message),
        commit_id=known,
        shape="mapping" if isinstance(source, Mapping) else None,
    )
    upload = upload_of(source, type)
    call = WireCall(
        "POST",
        "/load/parts",
        json_of(rebuilt.load_result),
        query,
        body=upload,
        repeats=Repeats.BY_COMMIT_ID,
        commit_id=known,
        branch=to,
        what="the load",
    )
    with reporter(progress) as report, Stage("load", report, {}):
        result = yield from ask(call)
    return replace(result, left_out=left_out(source))


# --- what undoes


def plain_resolve(resolve: Resolve | None) -> Any:
    """Decisions about conflicts as the wire has them; a function is asked by the caller first."""
    check_resolve(resolve)
    if resolve is None or isinstance(resolve, str) or callable(resolve):
        return resolve
    try:
        return plain_value(resolve)
    except ValueError as refused:
        raise InputError(f"resolve cannot be sent: {refused}") from None


def revert(
    commit: str,
    *,
    branch: str = ids.MAIN,
    resolve: Resolve | None = None,
    message: str | None = None,
) -> Flow[UndoResult]:
    """Undo what one commit did, as a new commit; see `Graph.revert`.

    Args:
        resolve: a rule or a mapping; a server cannot ask a function.
    """
    if callable(resolve):
        raise NotOffered("a server cannot ask a function about conflicts", hint="decide by a rule or a mapping")
    if not isinstance(commit, str):
        raise InputError(f"a commit is named by its id, not by {commit!r}", hint="pass commit.id")
    to = known_branch(branch)
    content = {
        "commit": commit,
        "branch": to,
        "resolve": plain_resolve(resolve),
        "message": commit_message(message),
    }
    return (yield from ask(_undo("/revert", content, to, "the revert")))


def restore(at: At, *, branch: str = ids.MAIN, message: str | None = None) -> Flow[UndoResult]:
    """Give a branch the rows of an older state, as a new commit; see `Graph.restore`."""
    to = known_branch(branch)
    content = {"at": plain_moment(at), "branch": to, "message": commit_message(message)}
    return (yield from ask(_undo("/restore", content, to, "the restore")))


def _undo(path: str, content: Mapping[str, Any], branch: str, what: str) -> WireCall[UndoResult]:
    return WireCall(
        "POST",
        path,
        json_of(rebuilt.undo_result),
        content=content,
        repeats=Repeats.UNSENT,
        branch=branch,
        what=what,
    )
