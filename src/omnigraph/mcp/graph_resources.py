"""What an agent can read without calling a tool: schema, branches, graphs, and how to work well with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from omnigraph.errors import InputError
from omnigraph.ids import did_you_mean
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.tools.look_tools import branches_answer, graphs_answer, schema_answer


@dataclass(frozen=True, slots=True)
class GraphResource:
    """One text with an address."""

    uri: str
    name: str
    description: str
    media_type: str
    read: Callable[[Desk], str]


def _json(answer: Mapping[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()


@cache
def best_practices(topic: str) -> str:
    """Our advice on a topic, as Markdown."""
    return files("omnigraph.mcp").joinpath("best_practices", f"{topic}.md").read_text("utf-8")


def _advice(topic: str, name: str, description: str) -> GraphResource:
    uri = f"omnigraph://best-practices/{topic}"
    return GraphResource(uri, name, description, "text/markdown", lambda desk: best_practices(topic))


RESOURCES: tuple[GraphResource, ...] = (
    GraphResource(
        "omnigraph://schema",
        "Schema",
        "Every node and edge type with its properties, keys and rules.",
        "text/plain",
        lambda desk: str(schema_answer(desk)["schema_source"]),
    ),
    GraphResource(
        "omnigraph://branches",
        "Branches",
        "All branches, and the one that this agent works on.",
        "application/json",
        lambda desk: _json(branches_answer(desk)),
    ),
    GraphResource(
        "omnigraph://graphs",
        "Graphs",
        "The graphs that are served here.",
        "application/json",
        lambda desk: _json(graphs_answer(desk)),
    ),
    _advice("queries", "How to query", "The query language for agents, with examples."),
    _advice("writing", "How to write", "Inserts, updates, deletes and loads, and what to do when they are refused."),
    _advice("branches", "How to work on a branch", "From the first write to the merge."),
)


def resource(uri: str) -> GraphResource:
    """The resource with an address, or InputError."""
    for each in RESOURCES:
        if each.uri == uri:
            return each
    raise InputError(f"there is no resource '{uri}'", hint=did_you_mean(uri, [each.uri for each in RESOURCES]))
