"""The verbs about the schema. Their arguments are those of `SchemaControl`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph import ids
from omnigraph.client import rebuilt_reports
from omnigraph.client.control_calls import list_commits
from omnigraph.client.read_calls import located
from omnigraph.client.wire_call import Flow, Repeats, WireCall, ask, json_of
from omnigraph.errors import OmniGraphError, OutcomeUnknown
from omnigraph.history.schema_apply import SchemaApplied
from omnigraph.ids import commit_message
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import compile_accepted
from omnigraph.schema.evolve import SchemaPlan
from omnigraph.storage.objects.user_text import text_of


@dataclass(frozen=True, slots=True)
class AcceptedSchema:
    """The schema of main as a server tells it."""

    text: str
    hash: str


def accepted() -> Flow[AcceptedSchema]:
    """The schema of main as it was accepted."""
    return (yield from ask(WireCall("GET", "/schema", json_of(_accepted))))


def _accepted(found: Mapping[str, Any]) -> AcceptedSchema:
    return AcceptedSchema(found["schema_source"], found["hash"])


def text() -> Flow[str]:
    """The schema of main as it was accepted."""
    return (yield from accepted()).text


def hash() -> Flow[str]:
    """Names the schema; see `SchemaControl.hash`."""
    return (yield from accepted()).hash


def catalog() -> Flow[Catalog]:
    """The types of main."""
    return compile_accepted((yield from text())).catalog


def plan(
    schema: str | Path, allow_data_loss: bool = False, *, allow_unknown_annotations: bool = False
) -> Flow[SchemaPlan]:
    """What a change to another schema would do; changes nothing. See `SchemaControl.plan`."""
    source, file = text_of(schema, ".pg")
    content = {
        "schema_source": source,
        "allow_data_loss": allow_data_loss,
        "allow_unknown_annotations": allow_unknown_annotations,
    }
    call = WireCall("POST", "/schema/plan", json_of(rebuilt_reports.schema_plan), content=content)
    return (yield from located(ask(call), file))


def apply(
    schema: str | Path,
    allow_data_loss: bool = False,
    *,
    if_hash: str | None = None,
    message: str | None = None,
    allow_unknown_annotations: bool = False,
) -> Flow[SchemaApplied]:
    """Change the schema as one commit. The graph may have no branch but main. See `SchemaControl.apply`."""
    source, file = text_of(schema, ".pg")
    content = {
        "schema_source": source,
        "allow_data_loss": allow_data_loss,
        "if_hash": if_hash,
        "message": commit_message(message),
        "allow_unknown_annotations": allow_unknown_annotations,
    }
    call = WireCall(
        "POST",
        "/schema/apply",
        json_of(rebuilt_reports.schema_applied),
        content=content,
        repeats=Repeats.UNSENT,
        branch=ids.MAIN,
        what="the change of the schema",
    )
    try:
        return (yield from located(ask(call), file))
    except OutcomeUnknown as lost:
        return (yield from _found_change(source, lost))


def _found_change(source: str, lost: OutcomeUnknown) -> Flow[SchemaApplied]:
    """A change whose answer was lost: the graph has the wanted schema or not. Which steps led there nobody tells."""
    try:
        if (yield from text()) != source:
            raise lost
        made = yield from list_commits(limit=1, kind="schema_change")
    except OmniGraphError:
        raise lost from None
    if not made:
        raise lost
    return SchemaApplied(SchemaPlan(True, ()), made[0], made[0].version)
