"""Routes for the schema: show, plan, apply."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from omnigraph import ids
from omnigraph.schema.compiled_schema import compile_schema
from omnigraph.server.operation import Answer, Call, HttpOperation, Need
from omnigraph.server.operations.asked_branch import needs
from omnigraph.server.operations.shown_commit import commit_or_null
from omnigraph.wire import answers, requests


def _schema(call: Call) -> Answer:
    schema = call.graph.schema
    return {"schema_source": schema.text, "hash": schema.hash}


def _plan(call: Call) -> Answer:
    asked: requests.SchemaPlanRequest = call.body
    plan = call.graph.schema.plan(
        asked.schema_source,
        bool(asked.allow_data_loss),
        allow_unknown_annotations=bool(asked.allow_unknown_annotations),
    )
    return {**plan.to_dict(), "warnings": _warnings(asked.schema_source)}


def _apply(call: Call) -> Answer:
    asked: requests.SchemaApplyRequest = call.body
    done = call.graph.schema.apply(
        asked.schema_source,
        bool(asked.allow_data_loss),
        if_hash=asked.if_hash,
        message=asked.message,
        allow_unknown_annotations=bool(asked.allow_unknown_annotations),
    )
    shown = {"uri": call.served.uri, **done.to_dict(), "commit": commit_or_null(done.commit)}
    return {**shown, "warnings": _warnings(asked.schema_source)}


def _warnings(text: str) -> list[dict[str, Any]]:
    return [asdict(finding) for finding in compile_schema(text, allow_unknown_annotations=True).warnings]


def _applies(call: Call) -> tuple[Need, ...]:
    return (Need("schema_apply", target=ids.MAIN),)


SCHEMA_ROUTES = (
    HttpOperation(
        "GET",
        "/schema",
        "getSchema",
        "schema",
        "Show the schema",
        _schema,
        needs("read"),
        answer=answers.SchemaOutput,
    ),
    HttpOperation(
        "POST",
        "/schema/plan",
        "schema_plan",
        "schema",
        "Show what a change to another schema would do",
        _plan,
        _applies,
        body=requests.SchemaPlanRequest,
        answer=answers.SchemaPlanOutput,
    ),
    HttpOperation(
        "POST",
        "/schema/apply",
        "applySchema",
        "schema",
        "Change the schema",
        _apply,
        _applies,
        body=requests.SchemaApplyRequest,
        answer=answers.SchemaApplyOutput,
        pool="write",
        admitted=True,
        statuses=(409, 412, 413),
    ),
)
