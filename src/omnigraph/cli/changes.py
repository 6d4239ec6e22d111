"""`omnigraph changes poll|baseline`: follow a branch, commit by commit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph import ids
from omnigraph.cli.changed import Kinds, Ops, Types, change_lines, filters
from omnigraph.cli.errors import UsageError
from omnigraph.cli.flags import Accepts
from omnigraph.cli.output import cell, indented, print_json
from omnigraph.cli.verb import Branch, Json, Scope, UriOption, verb

if TYPE_CHECKING:
    from omnigraph import ChangePage, Graph


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Follow what happens on a branch.", no_args_is_help=True)
    app.add_typer(group, name="changes")

    @verb(group, "changes poll", Accepts.READ)
    def poll(
        scope: Scope,
        uri: UriOption = None,
        branch: Branch = ids.MAIN,
        cursor: Annotated[
            str | None, typer.Option("--cursor", metavar="CURSOR", help="Where the last poll ended.")
        ] = None,
        start: Annotated[
            str | None,
            typer.Option("--start", metavar="WHERE", help="'now', 'beginning' or 'after:COMMIT'.  [default: now]"),
        ] = None,
        limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Changes per page.")] = None,
        kinds: Kinds = None,
        types: Types = None,
        ops: Ops = None,
        json: Json = False,
    ) -> None:
        """Show what happened since a position, and where to go on."""
        if cursor is not None and start is not None:
            raise UsageError("--cursor and --start both say where to begin", hint="give one of them")
        if start is not None and start not in ("now", "beginning") and not start.startswith("after:"):
            raise UsageError(f"--start is 'now', 'beginning' or 'after:COMMIT', not '{start}'")
        asked = {"branch": branch, "limit": limit, **filters(kinds, types, ops)}
        with scope.graph(scope.address(uri, how="--uri URI")) as graph:
            pages = _pages(graph, cursor or start or "now", asked)
            _print_json(pages) if json else _print_text(pages)

    @verb(group, "changes baseline", Accepts.READ)
    def baseline(
        scope: Scope,
        out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where the state is written, as JSON lines.")],
        uri: UriOption = None,
        branch: Branch = ids.MAIN,
        kinds: Kinds = None,
        types: Types = None,
        ops: Ops = None,
        json: Json = False,
    ) -> None:
        """Write the newest state and the cursor from which to follow it; poll with the same filters."""
        with scope.graph(scope.address(uri, how="--uri URI")) as graph:
            made = graph.baseline(out, branch, **filters(kinds, types, ops))
        shown = {"snapshot_commit_id": made.snapshot_commit_id, "resume_cursor": made.resume_cursor}
        if json:
            print_json(shown)
        else:
            sys.stdout.write("".join(f"{key}: {value}\n" for key, value in {**shown, "snapshot": out}.items()))


def _pages(graph: Graph, since: str, asked: dict[str, Any]) -> Iterator[ChangePage]:
    """Pages until the branch is caught up. A block that does not fit goes on at the next page."""
    page = graph.changes(since, **asked)
    yield page
    while not page.caught_up:
        if page.page_token is not None:
            page = graph.changes(None, page_token=page.page_token, **asked)
        else:
            page = graph.changes(page.cursor, **asked)
        yield page


def _print_json(pages: Iterator[ChangePage]) -> None:
    """One document; the cursor comes last, so that a poll that fails half-way gives none."""
    sys.stdout.write('{\n  "blocks": [')
    separator, last = "\n", None
    for last in pages:
        for block in last.blocks:
            sys.stdout.write(f"{separator}    {indented(block.to_dict(), 4)}")
            separator = ",\n"
    sys.stdout.write("],\n" if separator == "\n" else "\n  ],\n")
    if last is not None:
        sys.stdout.write(f'  "cursor": {_json(last.cursor)},\n  "caught_up": {_json(last.caught_up)}\n}}\n')


def _json(value: Any) -> str:
    return indented(value, 2)


def _print_text(pages: Iterator[ChangePage]) -> None:
    empty, last = True, None
    for last in pages:
        for block in last.blocks:
            empty = False
            sys.stdout.write(" ".join(f"{key}={cell(value)}" for key, value in block.cause.items()) + "\n")
            for line in change_lines(block.changes):
                sys.stdout.write(f"  {line}")
    if empty:
        sys.stdout.write("(no new commits)\n")
    if last is not None:
        sys.stdout.write(f"cursor: {last.cursor}\ncaught_up: {cell(last.caught_up)}\n")
