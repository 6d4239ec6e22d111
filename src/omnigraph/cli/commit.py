"""`omnigraph commit list|show|changes`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph import ids
from omnigraph.cli.changed import Kinds, Ops, Types, commit_head, filters, print_changes
from omnigraph.cli.flags import Accepts
from omnigraph.cli.output import cell, print_json
from omnigraph.cli.verb import Branch, Json, Scope, Uri, UriOption, verb

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
            sys.stdout.write("".join(f"{key}: {cell(value)}\n" for key, value in commit.to_dict().items()))

    @verb(group, "commit changes", Accepts.READ)
    def changes(
        scope: Scope,
        commit_id: _Id,
        uri: UriOption = None,
        kinds: Kinds = None,
        types: Types = None,
        ops: Ops = None,
        json: Json = False,
    ) -> None:
        """Show what a commit changed against its first parent."""
        with scope.graph(scope.address(uri, how="--uri URI")) as graph:
            changed = graph.commit_changes(commit_id, **filters(kinds, types, ops))
            print_changes(changed, commit_head(changed), json=json)
