"""Commands about the storage and the software: `verify`, `recover` and `version`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.command import Invocation, Json, Uri, command
from omnigraph.cli.error_text import FAILED
from omnigraph.cli.main import version_text
from omnigraph.cli.printing import print_json


def register_verify(app: typer.Typer) -> None:
    @command(app, "verify", Accepts.DIRECT)
    def verify(
        cli: Invocation,
        uri: Uri = None,
        deep: Annotated[bool, typer.Option("--deep", help="Also read every value and compare it.")] = False,
        json: Json = False,
    ) -> None:
        """Check that a graph is whole; changes nothing. Exit code 1 when it is not."""
        with cli.graph(cli.address(uri)) as graph:
            report = graph.verify(deep=deep)
        if json:
            print_json(report.to_dict())
        else:
            sys.stdout.write(f"{report}\n")
        if not report.ok:
            sys.exit(FAILED)


def register_recover(app: typer.Typer) -> None:
    @command(app, "recover", Accepts.DIRECT)
    def recover(
        cli: Invocation,
        uri: Uri = None,
        discard: Annotated[
            bool, typer.Option("--discard", help="Also take back what other software wrote to the tables.")
        ] = False,
        json: Json = False,
    ) -> None:
        """Finish what dead writers left, and put the copies of the commits in order."""
        address = cli.address(uri)
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            graph.recover(discard=discard)
        if json:
            print_json({"ok": True})
        else:
            sys.stdout.write("no interrupted write is left, the copies of the commits are complete\n")


def register_version(app: typer.Typer) -> None:
    @command(app, "version", Accepts.NOTHING)
    def version(cli: Invocation) -> None:
        """Print the version of the software and of the storage layout."""
        sys.stdout.write(version_text(long=True))
