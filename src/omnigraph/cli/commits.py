"""Commands about the past: `commit`, `diff` and `changes`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph import ids
from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import writable_file
from omnigraph.cli.change_text import (
    Kinds,
    Ops,
    Types,
    change_lines,
    commit_head,
    diff_head,
    filters,
    print_changes,
    print_page,
    print_stats,
)
from omnigraph.cli.command import Branch, Invocation, Json, Uri, UriOption, command
from omnigraph.cli.commit_filters import CommitFilters, Since, Until, commit_filters
from omnigraph.cli.commit_text import commit_line, drawn_lines
from omnigraph.cli.error_text import UsageError
from omnigraph.cli.printing import cell, indented, local_time, print_json

if TYPE_CHECKING:
    from omnigraph import ChangePage, CommitChanges, EntityChange, Graph


#: Stands for the token of the first page, which nobody has.
_FIRST = "first"

_Id = Annotated[str, typer.Argument(metavar="COMMIT", help="Id of the commit.")]


def register_commit(app: typer.Typer) -> None:
    group = typer.Typer(help="Look at the history of a graph.", no_args_is_help=True)
    app.add_typer(group, name="commit")

    @command(group, "commit list", Accepts.READ)
    def list_(
        cli: Invocation,
        uri: Uri = None,
        branch: Annotated[
            str | None, typer.Option("--branch", metavar="BRANCH", help="Branch to work on.  [default: main]")
        ] = None,
        limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the newest N.")] = None,
        wanted: CommitFilters = None,
        since: Since = None,
        until: Until = None,
        draw: Annotated[
            bool, typer.Option("--draw", help="Draw the history with the branches that were merged.")
        ] = False,
        all_: Annotated[bool, typer.Option("--all", help="Commits of all branches.")] = False,
        json: Json = False,
    ) -> None:
        """List the commits of a branch, newest first: when each was made, and what it did."""
        if all_ and branch is not None:
            raise UsageError("--all and --branch both say which commits to list", hint="give one of them")
        several = draw or all_
        chosen = commit_filters(wanted, since, until, several=several)
        with cli.graph(cli.address(uri)) as graph:
            if several:
                nodes = graph.commits.graph(None if all_ else [branch or ids.MAIN], limit, **chosen)
            else:
                commits = graph.commits.list(branch or ids.MAIN, limit, **chosen)
        if several and json:
            print_json({"commits": [node.to_dict() for node in nodes]})
        elif draw:
            sys.stdout.write("".join(f"{line}\n" for line in drawn_lines(nodes)))
        elif json:
            print_json({"commits": [{**commit.to_dict(), "readable": commit.readable} for commit in commits]})
        else:
            for commit in [node.commit for node in nodes] if several else commits:
                sys.stdout.write(f"{commit_line(commit)}\n")

    @command(group, "commit show", Accepts.READ)
    def show(cli: Invocation, commit_id: _Id, uri: UriOption = None, json: Json = False) -> None:
        """Show one commit."""
        with cli.graph(cli.address(uri, how="--uri URI")) as graph:
            commit = graph.commits.get(commit_id)
        if json:
            print_json({**commit.to_dict(), "readable": commit.readable})
        else:
            shown = {**commit.to_dict(), "graph_branch": commit.branch, "created_at": local_time(commit.created_at)}
            shown["readable"] = commit.readable
            sys.stdout.write("".join(f"{key}: {cell(value)}\n" for key, value in shown.items()))

    @command(group, "commit changes", Accepts.READ)
    def changes(
        cli: Invocation,
        commit_id: _Id,
        uri: UriOption = None,
        limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Changes per page.")] = None,
        page_token: Annotated[
            str | None,
            typer.Option("--page-token", metavar="TOKEN", help="One page only: 'first', or where the last one ended."),
        ] = None,
        kinds: Kinds = None,
        types: Types = None,
        ops: Ops = None,
        json: Json = False,
    ) -> None:
        """Show what a commit changed against its first parent."""
        with cli.graph(cli.address(uri, how="--uri URI")) as graph:
            changed = graph.commit_changes(commit_id, **filters(kinds, types, ops))
            if page_token is not None:
                begin = None if page_token == _FIRST else page_token
                print_page(changed.page(limit, page_token=begin), json=json)
            else:
                pages = None if limit is None else _paged(changed, limit)
                print_changes(changed, commit_head(changed), pages, json=json)


def _paged(changed: CommitChanges, limit: int) -> Iterator[EntityChange]:
    """All changes, read a page at a time."""
    page = changed.page(limit)
    yield from page.changes
    while page.page_token is not None:
        page = changed.page(limit, page_token=page.page_token)
        yield from page.changes


_STATE = "a branch, a commit id, tag:NAME, a version or a time"


def register_diff(app: typer.Typer) -> None:
    @command(app, "diff", Accepts.READ)
    def diff(
        cli: Invocation,
        from_: Annotated[str, typer.Argument(metavar="FROM", help=f"The older state: {_STATE}.")],
        to: Annotated[str, typer.Argument(metavar="TO", help=f"The newer state: {_STATE}.")],
        uri: UriOption = None,
        kinds: Kinds = None,
        types: Types = None,
        ops: Ops = None,
        stat: Annotated[bool, typer.Option("--stat", help="Only count the changes.")] = False,
        json: Json = False,
    ) -> None:
        """Show what changed from one state of a graph to another."""
        with cli.graph(cli.address(uri, how="--uri URI")) as graph:
            changed = graph.diff(from_, to, **filters(kinds, types, ops))
            if stat:
                print_stats(changed, diff_head(changed), json=json)
            else:
                print_changes(changed, diff_head(changed), json=json)


def register_changes(app: typer.Typer) -> None:
    group = typer.Typer(help="Follow what happens on a branch.", no_args_is_help=True)
    app.add_typer(group, name="changes")

    @command(group, "changes poll", Accepts.READ)
    def poll(
        cli: Invocation,
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
        arguments = {"branch": branch, "limit": limit, **filters(kinds, types, ops)}
        with cli.graph(cli.address(uri, how="--uri URI")) as graph:
            pages = _pages(graph, cursor or start or "now", arguments)
            _print_pages_json(pages) if json else _print_pages_text(pages)

    @command(group, "changes baseline", Accepts.READ)
    def baseline(
        cli: Invocation,
        out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where the state is written, as JSON lines.")],
        uri: UriOption = None,
        branch: Branch = ids.MAIN,
        kinds: Kinds = None,
        types: Types = None,
        ops: Ops = None,
        json: Json = False,
    ) -> None:
        """Write the newest state and the cursor from which to follow it; poll with the same filters."""
        writable_file(out)
        with cli.graph(cli.address(uri, how="--uri URI")) as graph:
            made = graph.baseline(out, branch, **filters(kinds, types, ops))
        shown = {"snapshot_commit_id": made.snapshot_commit_id, "resume_cursor": made.resume_cursor}
        if json:
            print_json(shown)
        else:
            sys.stdout.write("".join(f"{key}: {value}\n" for key, value in {**shown, "snapshot": out}.items()))


def _pages(graph: Graph, since: str, arguments: dict[str, Any]) -> Iterator[ChangePage]:
    """Pages until the branch is caught up. A block that does not fit goes on at the next page."""
    page = graph.changes(since, **arguments)
    yield page
    while not page.caught_up:
        if page.page_token is not None:
            page = graph.changes(None, page_token=page.page_token, **arguments)
        else:
            page = graph.changes(page.cursor, **arguments)
        yield page


def _print_pages_json(pages: Iterator[ChangePage]) -> None:
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


def _print_pages_text(pages: Iterator[ChangePage]) -> None:
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
