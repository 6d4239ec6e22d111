"""`omnigraph commit list|show|changes`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph import ids
from omnigraph.cli.changed import Kinds, Ops, Types, commit_head, filters, print_changes, print_page
from omnigraph.cli.flags import Accepts
from omnigraph.cli.output import cell, print_json
from omnigraph.cli.verb import Branch, Json, Scope, Uri, UriOption, verb

if TYPE_CHECKING:
    from omnigraph import CommitChanges, EntityChange

#: Stands for the token of the first page, which nobody has.
_FIRST = "first"

_Id = Annotated[str, typer.Argument(metavar="COMMIT", help="Id of the commit.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Look at the history of a graph.", no_args_is_help=True)
    app.add_typer(group, name="commit")

    @verb(group, "commit list", Accepts.READ)
    def list_(
        scope: Scope,
        uri: Uri = None,
        branch: Branch = ids.MAIN,
        limit: Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Only the newest N.")] = None,
        json: Json = False,
    ) -> None:
        """List the commits of a branch, newest first."""
        with scope.graph(scope.address(uri)) as graph:
            commits = graph.commits.list(branch, limit=limit)
        if json:
            print_json({"commits": [commit.to_dict() for commit in commits]})
            return
        for commit in commits:
            actor = f" actor={commit.actor}" if commit.actor is not None else ""
            sys.stdout.write(
                f"{commit.id} graph_branch={commit.branch} graph_manifest_version={commit.version}{actor}\n"
            )

    @verb(group, "commit show", Accepts.READ)
    def show(scope: Scope, commit_id: _Id, uri: UriOption = None, json: Json = False) -> None:
        """Show one commit."""
        with scope.graph(scope.address(uri, how="--uri URI")) as graph:
            commit = graph.commits.get(commit_id)
        if json:
            print_json(commit.to_dict())
        else:
            shown = {**commit.to_dict(), "graph_branch": commit.branch, "created_at": commit.created_at.isoformat()}
            sys.stdout.write("".join(f"{key}: {cell(value)}\n" for key, value in shown.items()))

    @verb(group, "commit changes", Accepts.READ)
    def changes(
        scope: Scope,
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
        with scope.graph(scope.address(uri, how="--uri URI")) as graph:
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
