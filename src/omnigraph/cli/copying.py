"""Commands about whole graphs and where they lie: `clone`, `backup` and `relocate`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.addressing import Accepts, Address
from omnigraph.cli.arguments import Engine
from omnigraph.cli.command import Invocation, Json, Uri, command
from omnigraph.cli.printing import print_json

if TYPE_CHECKING:
    from omnigraph import CloneResult

_Source = Annotated[str, typer.Argument(metavar="SRC", help="Address of the graph.")]
_CopyEngine = Annotated[Engine, typer.Option("--engine", help="This process, or Spark for many files.")]


def register_clone(app: typer.Typer) -> None:
    @command(app, "clone", Accepts.NOTHING, data_frames=True)
    def clone(
        cli: Invocation,
        source: _Source,
        target: Annotated[str, typer.Argument(metavar="DST", help="An empty or new place for the clone.")],
        engine: _CopyEngine = Engine.AUTO,
        json: Json = False,
    ) -> None:
        """Copy a whole graph, with all branches and history, and compare every file; continues where it stopped."""
        import omnigraph

        cli.echo(Address(target))
        _print(omnigraph.clone(source, target, engine=engine.value), "cloned", json=json)


def register_backup(app: typer.Typer) -> None:
    @command(app, "backup", Accepts.NOTHING, data_frames=True, destroys=True)
    def backup(
        cli: Invocation,
        source: _Source,
        target: Annotated[str, typer.Argument(metavar="TARGET", help="The backup, or an empty place for one.")],
        prune: Annotated[bool, typer.Option("--prune", help="Remove what the source has no more.")] = False,
        engine: _CopyEngine = Engine.AUTO,
        json: Json = False,
    ) -> None:
        """Make a backup of a graph, or copy to it what is new. 'omnigraph clone TARGET DST' brings it back."""
        import omnigraph

        address = Address(target)
        cli.echo(address)
        if prune:
            cli.confirm(address, json=json)
        _print(omnigraph.backup(source, target, prune=prune, engine=engine.value), "backed up", json=json)


def register_relocate(app: typer.Typer) -> None:
    @command(app, "relocate", Accepts.DIRECT)
    def relocate(cli: Invocation, uri: Uri = None, json: Json = False) -> None:
        """Make the branches of a graph that was moved name the place where it is now."""
        import omnigraph

        address = cli.address(uri)
        cli.echo(address)
        done = omnigraph.relocate(address.uri)
        if json:
            print_json(done.to_dict())
        else:
            sys.stdout.write(f"changed {done.changed} of {done.files} version files of branches\n")


def _print(done: CloneResult, verb: str, *, json: bool) -> None:
    if json:
        print_json(done.to_dict())
        return
    sys.stdout.write(
        f"{verb} {done.source} to {done.target}: {done.branches} branches, {done.tags} tags, {done.commits} commits, "
        f"{done.files} files, {done.bytes} bytes\ncopied {done.copied_files} files, {done.copied_bytes} bytes"
        f"{f'; removed {done.removed_files}' if done.removed_files else ''}\n"
    )
