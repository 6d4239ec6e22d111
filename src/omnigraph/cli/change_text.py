"""How changes of entities look, and the filters that every command with changes takes.

A change is shown as ``<op> <kind> <Type> <id>``, then its properties: ``+`` for new ones, ``-`` for gone ones,
``key: old -> new`` for changed ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph.cli.printing import compact, indented, print_json

if TYPE_CHECKING:
    from omnigraph import CommitChanges, CommitPage, Diff, EntityChange


class Kind(StrEnum):
    """What an entity is."""

    NODE = "node"
    EDGE = "edge"


class Op(StrEnum):
    """What happened to it."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


Kinds = Annotated[
    list[Kind] | None, typer.Option("--kind", metavar="node|edge", help="Only nodes or only edges; may be repeated.")
]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.")]
Ops = Annotated[
    list[Op] | None, typer.Option("--op", metavar="insert|update|delete", help="Only such changes; may be repeated.")
]


def filters(kinds: list[Kind] | None, types: list[str] | None, ops: list[Op] | None) -> dict[str, Any]:
    """The filters as the graph takes them; options that were not given do not filter."""
    return {
        "kinds": [str(kind) for kind in kinds] if kinds else None,
        "types": list(types) if types else None,
        "ops": [str(op) for op in ops] if ops else None,
    }


def change_lines(changes: Iterable[EntityChange]) -> Iterator[str]:
    """The lines of changes for people."""
    for change in changes:
        before, after = change.before or {}, change.after or {}
        yield f"{change.op} {change.kind} {change.type} {change.id}{_endpoints(before, after)}\n"
        yield from _properties(change.op, _plain(before), _plain(after))


def _plain(image: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = image.get("properties", {})
    return found


def _endpoints(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    pairs = [f"{ends['from']} -> {ends['to']}" for ends in (before.get("endpoints"), after.get("endpoints")) if ends]
    return f" {' => '.join(dict.fromkeys(pairs))}" if pairs else ""


def _properties(op: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if op == Op.INSERT:
        yield from (f"  + {name}: {_value(value)}\n" for name, value in after.items())
    elif op == Op.DELETE:
        yield from (f"  - {name}: {_value(value)}\n" for name, value in before.items())
    else:
        for name in dict.fromkeys([*before, *after]):
            old, new = (_value(image[name]) if name in image else "<absent>" for image in (before, after))
            if old != new:
                yield f"  {name}: {old} -> {new}\n"


def _value(value: Any) -> str:
    return "<null>" if value is None else value if isinstance(value, str) else compact(value)


def print_changes(
    changed: Diff, head: Mapping[str, Any], pages: Iterable[EntityChange] | None = None, *, json: bool
) -> None:
    """Every change as it is read; in JSON between what is known before and the counts.

    Args:
        head: what the JSON form says before the changes.
        pages: the same changes, if they are to be read page by page.
    """
    if json:
        _print_document(changed, head, changed if pages is None else pages)
    else:
        _print_lines(changed if pages is None else pages)


def print_page(page: CommitPage, *, json: bool) -> None:
    """Some of the changes, and the token that gives the next ones."""
    if json:
        print_json(page.to_dict())
        return
    _print_lines(page.changes)
    if page.page_token is not None:
        sys.stdout.write(f"next_page_token: {page.page_token}\n")


def _print_lines(changes: Iterable[EntityChange]) -> None:
    empty = True
    for line in change_lines(changes):
        sys.stdout.write(line)
        empty = False
    if empty:
        sys.stdout.write("(no changes)\n")


def diff_head(changed: Diff) -> dict[str, Any]:
    return {"from_commit_id": changed.from_commit, "to_commit_id": changed.to_commit}


def commit_head(changed: CommitChanges) -> dict[str, Any]:
    return {"cause": changed.cause}


def _print_document(changed: Diff, head: Mapping[str, Any], changes: Iterable[EntityChange]) -> None:
    sys.stdout.write("{\n")
    for name, value in head.items():
        sys.stdout.write(f'  "{name}": {indented(value, 2)},\n')
    sys.stdout.write('  "changes": [')
    separator = "\n"
    for change in changes:
        sys.stdout.write(f"{separator}    {indented(change.to_dict(), 4)}")
        separator = ",\n"
    sys.stdout.write("],\n" if separator == "\n" else "\n  ],\n")
    sys.stdout.write(f'  "stats": {indented(changed.stats.to_dict(), 2)}\n}}\n')


def print_stats(changed: Diff, head: Mapping[str, Any], *, json: bool) -> None:
    if json:
        print_json({**head, "stats": changed.stats.to_dict()})
    else:
        sys.stdout.write(f"{changed.stats}\n")
