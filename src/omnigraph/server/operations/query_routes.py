"""Routes that run a read: queries in three forms, their plans, lint, and search."""

from __future__ import annotations

from typing import Any

from omnigraph import ids
from omnigraph.engine.query_result import Result
from omnigraph.server.operation import Answer, Call, Content, HttpOperation, Need, Streamed
from omnigraph.server.operations.asked_branch import bounds, branch_of, hinted, reads, result_bounds, state_of
from omnigraph.wire import answers, arrow_results, json_results, requests

JSON = "application/json"
LINES = "application/x-ndjson"
FORMS = (arrow_results.MEDIA_TYPE, LINES)

#: Hits of a search, unless the request says how many.
_HITS = 10

_ANYTHING = ("*/*", "application/*")


def form_of(accepts: tuple[str, ...]) -> str:
    """The form that a client likes best; JSON for whoever does not know."""
    for media_type in accepts:
        if media_type in FORMS or media_type == JSON:
            return media_type
        if media_type in _ANYTHING:
            return JSON
    return JSON


def shown_result(result: Result, accepts: tuple[str, ...], *, with_commit: bool = True) -> Answer:
    """Rows in the form that the client likes best."""
    form = form_of(accepts)
    if form == arrow_results.MEDIA_TYPE:
        length = arrow_results.length_of(result)
        return Streamed(lambda file: arrow_results.write_result(result, file), form, length=length)
    if form == LINES:
        return Streamed(lambda file: file.writelines(json_results.line_pieces(result)), f"{LINES}; charset=utf-8")
    if json_results.is_small(result):
        return Content(json_results.envelope(result, with_commit=with_commit))
    pieces = json_results.envelope_pieces(result, with_commit=with_commit)
    return Streamed(lambda file: file.writelines(pieces), JSON)


def _query(call: Call) -> Answer:
    asked: requests.QueryRequest = call.body
    state = state_of(asked, asked.snapshot)
    limited = result_bounds(call, asked.timeout_ms, asked.max_rows, asked.max_bytes)
    with hinted(call):
        result = call.graph.query(asked.query, asked.name, asked.params, **state, **limited)
    return shown_result(result, call.accepts)


def _read(call: Call) -> Answer:
    asked: requests.OlderReadRequest = call.body
    whole = requests.QueryRequest(asked.query_source, branch=asked.branch)
    state = state_of(whole, asked.snapshot)
    with hinted(call):
        result = call.graph.query(asked.query_source, asked.query_name, asked.params, **state, **result_bounds(call))
    return shown_result(result, (JSON,), with_commit=False)


def _read_needs(call: Call) -> tuple[Need, ...]:
    return () if call.body.snapshot is not None else (Need("read", branch_of(call.body.branch)),)


def _explain(call: Call) -> Answer:
    asked: requests.ExplainRequest = call.body
    limited = result_bounds(call, asked.timeout_ms, asked.max_rows, asked.max_bytes)
    found = call.graph.explain(asked.query, asked.name, asked.params, **state_of(asked), run=bool(asked.run), **limited)
    return {**found.to_dict(), "text": str(found)}


def _lint(call: Call) -> Answer:
    report = call.graph.lint(call.body.query)
    shown: dict[str, Any] = report.to_dict()
    shown["results"] = [
        {**each.to_dict(), "line": each.line, "column": each.column, "excerpt": each.excerpt, "hint": each.hint}
        for each in report.results
    ]
    shown["findings"] = [{**each.to_dict(), "excerpt": each.excerpt} for each in report.findings]
    return shown


def _search(call: Call) -> Answer:
    asked: requests.SearchRequestBody = call.body
    found = call.graph.search(
        asked.words,
        asked.types,
        hops=asked.hops or 0,
        limit=_HITS if asked.limit is None else asked.limit,
        max_bytes=result_bounds(call, None, None, asked.max_bytes)["max_bytes"],
        **state_of(asked),
        **bounds(call, asked.timeout_ms),
    )
    return found.to_dict()


QUERY_ROUTES = (
    HttpOperation(
        "POST",
        "/query",
        "query",
        "queries",
        "Run a read query",
        _query,
        reads,
        body=requests.QueryRequest,
        answer=answers.ReadOutput,
        media_types=FORMS,
        statuses=(413,),
    ),
    HttpOperation(
        "POST",
        "/read",
        "read",
        "queries",
        "Run a read query, by the names of older clients",
        _read,
        _read_needs,
        body=requests.OlderReadRequest,
        answer=answers.ReadOutput,
        statuses=(413,),
        successor="<query>",
    ),
    HttpOperation(
        "POST",
        "/explain",
        "explain",
        "queries",
        "Show the plan of a read query",
        _explain,
        reads,
        body=requests.ExplainRequest,
        answer=answers.ExplainOutput,
        statuses=(413,),
    ),
    HttpOperation(
        "POST",
        "/lint",
        "lint",
        "queries",
        "Check queries against the schema without running them",
        _lint,
        lambda call: (Need("read", ids.MAIN),),
        body=requests.LintRequest,
        answer=answers.LintOutput,
    ),
    HttpOperation(
        "POST",
        "/search",
        "search",
        "queries",
        "Find nodes by words",
        _search,
        reads,
        body=requests.SearchRequestBody,
        answer=answers.SearchOutput,
        statuses=(413,),
    ),
)
