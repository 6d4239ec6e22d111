"""`omnigraph export`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph import ids
from omnigraph.cli.errors import warn
from omnigraph.cli.flags import Accepts
from omnigraph.cli.verb import Branch, Scope, Uri, verb


def register(app: typer.Typer) -> None:
    @verb(app, "export", Accepts.WRITE)
    def export(
        scope: Scope,
        uri: Uri = None,
        branch: Branch = ids.MAIN,
        types: Annotated[
            list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.")
        ] = None,
        jsonl: Annotated[bool, typer.Option("--jsonl", hidden=True)] = False,
    ) -> None:
        """Write a graph as JSON lines that `load` reads."""
        if jsonl:
            warn("--jsonl says nothing new: an export always is JSON lines")
        with scope.graph(scope.address(uri)) as graph:
            graph.export(sys.stdout.buffer, types or None, branch=branch)
        sys.stdout.buffer.flush()
