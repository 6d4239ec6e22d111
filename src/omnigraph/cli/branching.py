"""`omnigraph branch create|list|delete|merge`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph import ids
from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import Engine
from omnigraph.cli.command import Invocation, Json, UriOption, command
from omnigraph.cli.error_text import UsageError, conflict_line, warn
from omnigraph.cli.printing import print_json

if TYPE_CHECKING:
    from omnigraph import MergeResult

_RULES = ("ours", "theirs")
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the branch.")]


def register_branch(app: typer.Typer) -> None:
    group = typer.Typer(help="Make, list, merge and delete branches.", no_args_is_help=True)
    app.add_typer(group, name="branch")
    _control(group)
    _merge(group)


def _control(group: typer.Typer) -> None:
    @command(group, "branch create", Accepts.WRITE)
    def create(
        cli: Invocation,
        name: _Name,
        uri: UriOption = None,
        from_: Annotated[str, typer.Option("--from", metavar="BRANCH", help="Branch to start from.")] = ids.MAIN,
        json: Json = False,
    ) -> None:
        """Make a branch; nothing is copied."""
        address = cli.address(uri, how="--uri URI")
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            made = graph.branches.create(name, from_)
        if json:
            print_json({"uri": address.uri, "from": from_, "name": made.name, "actor_id": cli.actor})
        else:
            sys.stdout.write(f"created branch {made.name} from {from_}\n")

    @command(group, "branch list", Accepts.WRITE)
    def list_(cli: Invocation, uri: UriOption = None, json: Json = False) -> None:
        """List the branches by name."""
        with cli.graph(cli.address(uri, how="--uri URI")) as graph:
            names = sorted(graph.branches.list())
        if json:
            print_json({"branches": names})
        else:
            sys.stdout.write("".join(f"{name}\n" for name in names))

    @command(group, "branch delete", Accepts.WRITE, destroys=True)
    def delete(cli: Invocation, name: _Name, uri: UriOption = None, json: Json = False) -> None:
        """Delete a branch and what only it holds."""
        address = cli.address(uri, how="--uri URI")
        cli.confirm(address, json=json)
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            graph.branches.delete(name)
        if json:
            print_json({"uri": address.uri, "name": name.strip(), "actor_id": cli.actor})
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
        resolve: Annotated[
            list[str] | None,
            typer.Option(
                "--resolve",
                metavar="RULE",
                help="'ours' or 'theirs' for all conflicts, or node:Type/id=ours for one; may be repeated.",
            ),
        ] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what a merge would do.")] = False,
        engine: Annotated[
            Engine, typer.Option("--engine", help="This process, or Spark for big merges.")
        ] = Engine.AUTO,
        json: Json = False,
    ) -> None:
        """Merge a branch into another one, as one commit."""
        if dry_run and delete_branch:
            raise UsageError("--dry-run changes nothing, --delete-branch does", hint="give one of them")
        address = cli.address(uri, how="--uri URI")
        rules = _rules(resolve)
        if dry_run:
            with cli.graph(address) as graph:
                _print_plan(
                    graph.branches.merge(source, into, dry_run=True, resolve=rules, engine=str(engine)), json=json
                )
            return
        cli.echo(address)
        with cli.graph(address, "rw") as graph, cli.interruptible(graph, into):
            done = graph.branches.merge(source, into, resolve=rules, delete_branch=delete_branch, engine=str(engine))
        if json:
            print_json(_as_json(done, cli.actor))
        else:
            sys.stdout.write(f"merged {done.source} into {done.target}: {done.outcome}\n")
            sys.stdout.write(f"deleted branch {done.source}\n" if done.branch_deleted else "")
        if delete_branch and not done.branch_deleted:
            warn(f"branch '{done.source}' was merged but not deleted: {done.branch_delete_error}")


def _rules(given: list[str] | None) -> Any:
    """One rule for every conflict, or a rule by entity."""
    if not given:
        return None
    if len(given) == 1 and given[0] in _RULES:
        return given[0]
    rules = {}
    for each in given:
        entity, _, rule = each.rpartition("=")
        if rule not in _RULES or not entity:
            raise UsageError(f"'{each}' is no way to resolve a conflict", hint="write node:Person/Eve=theirs")
        rules[entity] = rule
    return rules


def _as_json(done: MergeResult, actor: str | None) -> dict[str, Any]:
    """What became of the source is only told when it was to be deleted."""
    shown = {**done.to_dict(), "actor_id": actor}
    unasked = [name for name in ("branch_deleted", "branch_delete_error") if shown[name] is None]
    return {name: value for name, value in shown.items() if name not in unasked}


def _print_plan(planned: MergeResult, *, json: bool) -> None:
    if json:
        print_json(planned.to_dict())
        return
    sys.stdout.write(f"would merge {planned.source} into {planned.target}: {planned.outcome}\n")
    for key, rows in planned.tables.items():
        counts = f"{rows.inserted} inserted, {rows.updated} updated, {rows.deleted} deleted"
        sys.stdout.write(f"  {key}: {counts}\n")
    for conflict in planned.conflicts:
        sys.stdout.write(f"  conflict {conflict_line(conflict)}\n")
