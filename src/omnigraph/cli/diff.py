"""`omnigraph diff`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph.cli.changed import Kinds, Ops, Types, diff_head, filters, print_changes, print_stats
from omnigraph.cli.flags import Accepts
from omnigraph.cli.texts import moment_of
from omnigraph.cli.verb import Json, Scope, UriOption, verb

_STATE = "a branch, a commit id, a version or a time"


def register(app: typer.Typer) -> None:
    @verb(app, "diff", Accepts.READ)
    def diff(
        scope: Scope,
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
        with scope.graph(scope.address(uri, how="--uri URI")) as graph:
            changed = graph.diff(moment_of(from_), moment_of(to), **filters(kinds, types, ops))
            if stat:
                print_stats(changed, diff_head(changed), json=json)
            else:
                print_changes(changed, diff_head(changed), json=json)
