"""Commands that bring earlier rows back as a new commit: `revert` and `restore`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph import ids
from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import Message, Resolve, rules_of
from omnigraph.cli.command import Branch, Invocation, Json, UriOption, command
from omnigraph.cli.printing import print_json

if TYPE_CHECKING:
    from omnigraph import UndoResult


def register_revert(app: typer.Typer) -> None:
    @command(app, "revert", Accepts.WRITE, data_frames=True)
    def revert(
        cli: Invocation,
        commit: Annotated[str, typer.Argument(metavar="COMMIT", help="Id of the commit to undo, or its tag:NAME.")],
        uri: UriOption = None,
        branch: Branch = ids.MAIN,
        resolve: Resolve = None,
        message: Message = None,
        json: Json = False,
    ) -> None:
        """Undo what one commit did, as a new commit; 'theirs' is what was there before it."""
        address, rules = cli.address(uri, how="--uri URI"), rules_of(resolve)
        cli.echo(address)
        with cli.graph(address, "rw") as graph, cli.interruptible(address, graph, branch):
            done = graph.revert(commit, branch=branch, resolve=rules, message=message)
        _print(done, "reverted commit", json=json)


def register_restore(app: typer.Typer) -> None:
    @command(app, "restore", Accepts.WRITE, data_frames=True)
    def restore(
        cli: Invocation,
        at: Annotated[str, typer.Argument(metavar="AT", help="The state: a commit id, tag:NAME, a version or a time.")],
        uri: UriOption = None,
        branch: Branch = ids.MAIN,
        message: Message = None,
        json: Json = False,
    ) -> None:
        """Give a branch the rows of an older state, as a new commit."""
        address = cli.address(uri, how="--uri URI")
        cli.echo(address)
        with cli.graph(address, "rw") as graph, cli.interruptible(address, graph, branch):
            done = graph.restore(at, branch=branch, message=message)
        _print(done, "restored the state of commit", json=json)


def _print(done: UndoResult, what: str, *, json: bool) -> None:
    if json:
        print_json(done.to_dict())
    elif done.commit is None:
        sys.stdout.write(f"nothing to do: {done.branch} has these rows already\n")
    else:
        sys.stdout.write(f"{what} {done.undone} on {done.branch}\n")
        for key, rows in done.tables.items():
            sys.stdout.write(f"  {key}: {rows.inserted} inserted, {rows.updated} updated, {rows.deleted} deleted\n")
        sys.stdout.write(f"commit_id: {done.commit.id}\n")
