"""The part of a schema that somebody may know: the other types are as if they had never been declared."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import replace

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema.ir import ir_of
from omnigraph.schema.parse_schema import parse_schema
from omnigraph.schema.scanner import SPACE, STRING, WORD, SchemaText

_TOKEN = re.compile(rf"{STRING.pattern}|{WORD.pattern}|[^\s]", re.DOTALL)
_SPACE = re.compile(SPACE)


def hidden_types(catalog: Catalog, unknown: Collection[str]) -> frozenset[str]:
    """Table keys of types that cannot be shown when some are unknown: these, and edges from or to them.

    Args:
        unknown: table keys.
    """
    touching = {
        edge.table_key
        for edge in catalog.edges.values()
        if any(f"node:{node}" in unknown for _, node in edge.endpoints)
    }
    return frozenset(unknown) | touching


def shown_part(schema: CompiledSchema, hidden: Collection[str]) -> CompiledSchema:
    """A schema without some types, and without interfaces that only they implement.

    Args:
        hidden: table keys, with those of all edges that touch a hidden node.
    """
    catalog = schema.catalog
    nodes = {name: node for name, node in catalog.nodes.items() if node.table_key not in hidden}
    used = {interface for node in nodes.values() for interface in node.implements}
    digest = hashlib.sha256("\n".join(sorted(hidden)).encode()).hexdigest()[:16]
    shown = Catalog(
        interfaces={name: each for name, each in catalog.interfaces.items() if name in used},
        nodes=nodes,
        edges={name: edge for name, edge in catalog.edges.items() if edge.table_key not in hidden},
        hash=f"{catalog.hash}/{digest}",
    )
    names = {*shown.interfaces, *shown.nodes, *shown.edges}
    return replace(schema, source=_text_of(schema.source, names), catalog=shown, ir=ir_of(shown), hash=shown.hash)


def _text_of(source: str, names: Collection[str]) -> str:
    """The declarations of some types as they were written. What stands between declarations is left out: nobody can
    tell which of them a comment is about."""
    syntax = parse_schema(SchemaText.of(source))
    nodes, edges = [each.name for each in syntax.nodes], [each.name for each in syntax.edges]
    names_at = {name.at: name.text for name in (*(each.name for each in syntax.interfaces), *nodes, *edges)}
    keyword_at, at = 0, 0
    parts: list[tuple[str, int, int]] = []  # name, where its keyword begins, where its last token ends
    while (at := _after_space(source, at)) < len(source):
        token = _TOKEN.match(source, at)
        end = token.end() if token is not None else at + 1
        if at in names_at:
            parts.append((names_at[at], keyword_at, end))
        elif parts and not _begins_declaration(source, end, names_at):
            parts[-1] = (*parts[-1][:2], end)
        keyword_at, at = at, end
    return "".join(f"{source[start:end]}\n" for name, start, end in parts if name in names)


def _after_space(source: str, at: int) -> int:
    match = _SPACE.match(source, at)
    return match.end() if match else at


def _begins_declaration(source: str, end: int, names_at: Collection[int]) -> bool:
    return _after_space(source, end) in names_at
