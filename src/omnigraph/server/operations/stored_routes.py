"""Routes for stored queries: their catalog, and running them by name."""

from __future__ import annotations

from omnigraph import ids
from omnigraph.errors import InputError
from omnigraph.server.authorize import INVOKE_QUERY
from omnigraph.server.operation import Answer, Call, HttpOperation, Need
from omnigraph.server.operations.asked_branch import bounds, branch_of, hinted, result_bounds, state_of
from omnigraph.server.operations.mutation_routes import shown_change
from omnigraph.server.operations.precondition import expected_head, refuse_condition
from omnigraph.server.operations.query_routes import FORMS, shown_result
from omnigraph.server.stored_queries import StoredQuery
from omnigraph.wire import answers, requests


def _list(call: Call) -> Answer:
    """The catalog; empty for who may not call any of it, as each of them is then said not to exist."""
    guard = call.graph.internals.guard
    if guard is not None and not guard.may(INVOKE_QUERY, None):
        return {"queries": []}
    return {"queries": [query.to_dict() for query in call.served.stored.listed(call.graph)]}


def _invoke(call: Call) -> Answer:
    query = _known(call)
    refuse_condition(call)
    return _change(call, query, None) if query.is_mutation else _read(call, query)


def _invoke_if(call: Call) -> Answer:
    query = _known(call)
    expected = expected_head(call)
    if not query.is_mutation:
        raise InputError(f"stored query '{query.name}' reads, and only mutations have a condition")
    return _change(call, query, expected)


def _known(call: Call) -> StoredQuery:
    query = call.served.stored.get(call.path["name"], call.graph)
    expected: bool | None = call.body.expect_mutation
    if expected is not None and expected != query.is_mutation:
        kind = "a mutation" if query.is_mutation else "a read"
        raise InputError(f"stored query '{query.name}' is {kind}, and expect_mutation is {str(expected).lower()}")
    return query


def _read(call: Call, query: StoredQuery) -> Answer:
    asked: requests.InvokeRequest = call.body
    if asked.message is not None or asked.commit_id is not None:
        raise InputError(f"stored query '{query.name}' reads, and message and commit_id are for mutations")
    limited = result_bounds(call, asked.timeout_ms)
    with hinted(call):
        result = call.graph.query(query.text, query.name, asked.params, **state_of(asked, asked.snapshot), **limited)
    return shown_result(result, call.accepts)


def _change(call: Call, query: StoredQuery, if_commit: str | None) -> Answer:
    asked: requests.InvokeRequest = call.body
    if asked.snapshot is not None or asked.at is not None:
        raise InputError(f"stored query '{query.name}' is a mutation, and those run on the newest state of a branch")
    done = call.graph.mutate(
        query.text,
        query.name,
        asked.params,
        branch=branch_of(asked.branch),
        if_commit=if_commit,
        message=asked.message,
        commit_id=asked.commit_id,
        **bounds(call, asked.timeout_ms),
    )
    return shown_change(done)


def _invokes(call: Call) -> tuple[Need, ...]:
    """To run stored queries at all, then what this one does."""
    asked: requests.InvokeRequest = call.body
    query = call.served.stored.find(call.path["name"])
    invoke = Need(INVOKE_QUERY)
    if query is None:
        return (invoke,)
    if query.is_mutation:
        return (invoke, Need("change", branch_of(asked.branch)))
    if asked.snapshot is not None or (asked.branch is None and isinstance(asked.at, str)):
        return (invoke,)
    return (invoke, Need("read", branch_of(asked.branch)))


def _writes(call: Call) -> bool:
    query = call.served.stored.find(call.path["name"])
    return query is not None and query.is_mutation


STORED_ROUTES = (
    HttpOperation(
        "GET",
        "/queries",
        "list_queries",
        "queries",
        "List the stored queries",
        _list,
        lambda call: (Need("read", ids.MAIN),),
        answer=answers.QueriesOutput,
    ),
    HttpOperation(
        "POST",
        "/queries/{name}",
        "invoke_query",
        "queries",
        "Run a stored query",
        _invoke,
        _invokes,
        body=requests.InvokeRequest,
        body_optional=True,
        answer=answers.ReadOutput | answers.ChangeOutput,
        media_types=FORMS,
        writes=_writes,
        statuses=(409, 413),
    ),
    HttpOperation(
        "POST",
        "/queries/{name}/if-graph-commit",
        "invoke_query_if_graph_commit",
        "queries",
        "Run a stored mutation if the branch still has the given head",
        _invoke_if,
        _invokes,
        body=requests.InvokeRequest,
        body_optional=True,
        answer=answers.ChangeOutput,
        pool="write",
        admitted=True,
        statuses=(409, 412, 413),
    ),
)
