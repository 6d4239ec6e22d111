"""`omnigraph branch create|list|rename|delete|merge`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph import ids
from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import Engine, Message, Resolve, rules_of
from omnigraph.cli.command import Invocation, Json, Uri, UriOption, command
from omnigraph.cli.error_text import FAILED, UsageError, conflict_lines, warn
from omnigraph.cli.printing import print_json

if TYPE_CHECKING:
    from omnigraph import MergeResult

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the branch.")]


def register_branch(app: typer.Typer) -> None:
    group = typer.Typer(help="Make, list, rename, merge and delete branches.", no_args_is_help=True)
    app.add_typer(group, name="branch")
    _control(group)
    _merge(group)


def _control(group: typer.Typer) -> None:
    @command(group, "branch create", Accepts.WRITE)
    def create(
        cli: Invocation,
        name: _Name,
        uri: UriOption = None,
        from_: Annotated[
            str, typer.Option("--from", metavar="BRANCH", help="Branch, or tag:NAME, to start from.")
        ] = ids.MAIN,
        snapshot: Annotated[
            str | None,
            typer.Option(
                "--snapshot", metavar="ID", help="Earlier state of it: a commit id, tag:NAME, a version or a time."
            ),
        ] = None,
        json: Json = False,
    ) -> None:
        """Make a branch; nothing is copied."""
        address = cli.address(uri, how="--uri URI")
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            made = graph.branches.create(name, from_, snapshot)
        if json:
            print_json({"uri": address.uri, "from": from_, "name": made.name, "actor_id": cli.author(address, graph)})
        else:
            sys.stdout.write(f"created branch {made.name} from {from_}\n")

    @command(group, "branch list", Accepts.WRITE)
    def list_(cli: Invocation, address: Uri = None, uri: UriOption = None, json: Json = False) -> None:
        """List the branches by name."""
        with cli.graph(cli.address(address, uri)) as graph:
            names = sorted(graph.branches.list())
        if json:
            print_json({"branches": names})
        else:
            sys.stdout.write("".join(f"{name}\n" for name in names))

    @command(group, "branch rename", Accepts.WRITE)
    def rename(
        cli: Invocation,
        name: _Name,
        new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="Name that it gets.")],
        uri: UriOption = None,
        message: Message = None,
        json: Json = False,
    ) -> None:
        """Give a branch another name; its history and what was made from it stay."""
        address = cli.address(uri, how="--uri URI")
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            renamed = graph.branches.rename(name, new_name, message=message)
        if json:
            shown = {"uri": address.uri, "from": name.strip(), "name": renamed.name}
            print_json({**shown, "actor_id": cli.author(address, graph)})
        else:
            sys.stdout.write(f"renamed branch {name.strip()} to {renamed.name}\n")

    @command(group, "branch delete", Accepts.WRITE, destroys=True)
    def delete(
        cli: Invocation,
        name: _Name,
        uri: UriOption = None,
        force: Annotated[bool, typer.Option("--force", help="Delete the tags on its states too.")] = False,
        json: Json = False,
    ) -> None:
        """Delete a branch and what only it holds; one that has tags only with --force."""
        address = cli.address(uri, how="--uri URI")
        cli.confirm(address, json=json)
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            graph.branches.delete(name, force=force)
        if json:
            print_json({"uri": address.uri, "name": name.strip(), "actor_id": cli.author(address, graph)})
        else:
            sys.stdout.write(f"deleted branch {name.strip()}\n")


def _merge(group: typer.Typer) -> None:
    @command(group, "branch merge", Accepts.WRITE, data_frames=True)
    def merge(
        cli: Invocation,
        source: Annotated[str, typer.Argument(metavar="SOURCE", help="Branch whose changes are wanted.")],
        uri: UriOption = None,
        into: Annotated[str, typer.Option("--into", metavar="BRANCH", help="Branch that receives them.")] = ids.MAIN,
        delete_branch: Annotated[
            bool, typer.Option("--delete-branch", help="Delete the source branch afterwards.")
        ] = False,
        resolve: Resolve = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what a merge would do.")] = False,
        engine: Annotated[
            Engine, typer.Option("--engine", help="This process, or Spark for big merges.")
        ] = Engine.AUTO,
        message: Message = None,
        json: Json = False,
    ) -> None:
        """Merge a branch into another one, as one commit."""
        if dry_run and delete_branch:
            raise UsageError("--dry-run changes nothing, --delete-branch does", hint="give one of them")
        address = cli.address(uri, how="--uri URI")
        rules = rules_of(resolve)
        if dry_run:
            with cli.graph(address) as graph:
                planned = graph.branches.merge(source, into, dry_run=True, resolve=rules, engine=engine.value)
            _print_plan(planned, json=json)
            if planned.conflicts:
                sys.exit(FAILED)
            return
        cli.echo(address)
        with cli.graph(address, "rw") as graph, cli.interruptible(address, graph, into):
            done = graph.branches.merge(
                source, into, resolve=rules, delete_branch=delete_branch, engine=engine.value, message=message
            )
        if json:
            print_json(_as_json(done, cli.author(address, graph)))
        else:
            sys.stdout.write(f"merged {done.source} into {done.target}: {done.outcome}\n")
            sys.stdout.write(f"deleted branch {done.source}\n" if done.branch_deleted else "")
        if delete_branch and not done.branch_deleted:
            warn(f"branch '{done.source}' was merged but not deleted: {done.branch_delete_error}")


def _as_json(done: MergeResult, actor: str | None) -> dict[str, Any]:
    """What became of the source is only told when it was to be deleted."""
    shown = {**done.to_dict(), "actor_id": actor}
    unasked = [name for name in ("branch_deleted", "branch_delete_error") if shown[name] is None]
    return {name: value for name, value in shown.items() if name not in unasked}


def _print_plan(planned: MergeResult, *, json: bool) -> None:
    if json:
        print_json(planned.to_dict())
        return
    if planned.conflicts:
        count = len(planned.conflicts)
        number = "one conflict" if count == 1 else f"{count} conflicts"
        sys.stdout.write(f"cannot merge {planned.source} into {planned.target}: {number}\n")
        sys.stdout.write("".join(f"  {line}\n" for each in planned.conflicts for line in conflict_lines(each)))
        return
    sys.stdout.write(f"would merge {planned.source} into {planned.target}: {planned.outcome}\n")
    for key, rows in planned.tables.items():
        counts = f"{rows.inserted} inserted, {rows.updated} updated, {rows.deleted} deleted"
        sys.stdout.write(f"  {key}: {counts}\n")
