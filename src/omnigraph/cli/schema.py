"""`omnigraph schema show|plan|apply`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import AllowUnknown, Message, existing_text
from omnigraph.cli.command import Invocation, Json, Uri, command
from omnigraph.cli.error_text import FAILED, warn
from omnigraph.cli.printing import print_json

if TYPE_CHECKING:
    from omnigraph import SchemaPlan

_File = Annotated[str, typer.Option("--schema", metavar="FILE", help="The wanted schema (.pg).")]
_Loss = Annotated[
    bool, typer.Option("--allow-data-loss", help="Also give up older versions of what is dropped (hard drops).")
]


def register_schema(app: typer.Typer) -> None:
    group = typer.Typer(help="Show and change the schema of a graph.", no_args_is_help=True)
    app.add_typer(group, name="schema")
    _show(group)
    _change(group)


def _show(group: typer.Typer) -> None:
    def show(cli: Invocation, uri: Uri = None, json: Json = False) -> None:
        """Print the schema as it was accepted."""
        with cli.graph(cli.address(uri)) as graph:
            text = graph.schema.text
        if json:
            print_json({"schema_source": text})
        else:
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")

    command(group, "schema show", Accepts.WRITE)(show)
    command(group, "schema get", Accepts.WRITE, hidden=True)(show)


def _change(group: typer.Typer) -> None:
    @command(group, "schema plan", Accepts.READ)
    def plan(
        cli: Invocation,
        schema: _File,
        uri: Uri = None,
        allow_data_loss: _Loss = False,
        allow_unknown: AllowUnknown = False,
        json: Json = False,
    ) -> None:
        """Show what a change of the schema would do; changes nothing. Exits with 1 when it is not supported."""
        address = cli.address(uri)
        with cli.graph(address) as graph:
            planned = graph.schema.plan(existing_text(schema), allow_data_loss, allow_unknown_annotations=allow_unknown)
        _warn(planned)
        if json:
            print_json({"uri": address.uri, **planned.to_dict()})
        else:
            sys.stdout.write(f"schema plan for {address.uri}\nsupported: {_yes(planned.supported)}\n")
            _steps(planned.lines())
        if not planned.supported:
            sys.exit(FAILED)

    @command(group, "schema apply", Accepts.WRITE)
    def apply(
        cli: Invocation,
        schema: _File,
        uri: Uri = None,
        allow_data_loss: _Loss = False,
        allow_unknown: AllowUnknown = False,
        message: Message = None,
        json: Json = False,
    ) -> None:
        """Change the schema, as one commit."""
        address = cli.address(uri)
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            done = graph.schema.apply(
                existing_text(schema), allow_data_loss, message=message, allow_unknown_annotations=allow_unknown
            )
        _warn(done.plan)
        if json:
            print_json({"uri": address.uri, **done.to_dict()})
            return
        sys.stdout.write(f"schema apply for {address.uri}\nsupported: {_yes(done.supported)}\n")
        sys.stdout.write(f"applied: {_yes(done.applied)}\ngraph_manifest_version: {done.graph_manifest_version}\n")
        _steps(done.lines())


def _warn(plan: SchemaPlan) -> None:
    for finding in plan.warnings:
        warn(f"{finding.entity}: {finding.message}" if finding.entity else finding.message)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _steps(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"- {line}\n" for line in lines) or "no schema changes\n")
