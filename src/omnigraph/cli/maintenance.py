"""Commands about the storage and the software: `stats`, `optimize`, `verify`, `recover`, `repair` and `version`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph import ids
from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import Engine, Message
from omnigraph.cli.command import Branch, Invocation, Json, Uri, command
from omnigraph.cli.error_text import FAILED, UsageError
from omnigraph.cli.main import version_text
from omnigraph.cli.printing import print_json
from omnigraph.cli.stats_text import optimize_lines, stats_lines

if TYPE_CHECKING:
    from omnigraph import RepairReport


def register_stats(app: typer.Typer) -> None:
    @command(app, "stats", Accepts.READ)
    def stats(
        cli: Invocation,
        uri: Uri = None,
        branch: Branch = ids.MAIN,
        embeddings: Annotated[
            bool, typer.Option("--embeddings", help="Also count pending, ready and stale vectors, which reads them.")
        ] = False,
        json: Json = False,
    ) -> None:
        """Show how big a graph is, how it lies in its files, and what waits for upkeep; reads no data."""
        with cli.graph(cli.address(uri)) as graph:
            found = graph.stats(branch, embeddings=embeddings)
        if json:
            print_json(found.to_dict())
        else:
            sys.stdout.write("".join(f"{line}\n" for line in stats_lines(found)))


def register_optimize(app: typer.Typer) -> None:
    @command(app, "optimize", Accepts.DIRECT, data_frames=True)
    def optimize(
        cli: Invocation,
        uri: Uri = None,
        branch: Annotated[
            str | None, typer.Option("--branch", metavar="BRANCH", help="One branch; all of them without it.")
        ] = None,
        type_: Annotated[
            list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.")
        ] = None,
        engine: Annotated[
            Engine, typer.Option("--engine", help="This process, or Spark for big tables.")
        ] = Engine.AUTO,
        message: Message = None,
        json: Json = False,
    ) -> None:
        """Join small fragments, drop deleted rows from the files, build and extend indexes. No answer changes."""
        address = cli.address(uri)
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            report = graph.optimize(branch, types=type_ or None, engine=engine.value, message=message)
        if json:
            print_json(report.to_dict())
        else:
            sys.stdout.write("".join(f"{line}\n" for line in optimize_lines(report)))


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


def register_repair(app: typer.Typer) -> None:
    @command(app, "repair", Accepts.DIRECT)
    def repair(
        cli: Invocation,
        uri: Uri = None,
        branch: Annotated[
            str | None, typer.Option("--branch", metavar="BRANCH", help="Only tables of this branch.  [default: all]")
        ] = None,
        confirm: Annotated[
            bool, typer.Option("--confirm", help="Adopt what holds the same rows; without it nothing is done.")
        ] = False,
        force: Annotated[
            bool, typer.Option("--force", help="With --confirm: adopt other rows and options too.")
        ] = False,
        discard: Annotated[
            bool, typer.Option("--discard", help="With --confirm: take everything back instead.")
        ] = False,
        json: Json = False,
    ) -> None:
        """Show what other software did to the tables, and adopt it or take it back; exit code 1 if that is refused."""
        if force and not confirm:
            raise UsageError("--force needs --confirm", hint="'omnigraph repair' alone shows what there is")
        if force and discard:
            raise UsageError("--force adopts what is there and --discard takes it back", hint="give one of them")
        address = cli.address(uri)
        if confirm:
            cli.echo(address)
        with cli.graph(address, "rw" if confirm else "ro") as graph:
            report = graph.repair(branch=branch, confirm=confirm, force=force, discard=discard)
        if json:
            print_json(report.to_dict())
        else:
            sys.stdout.write("".join(f"{line}\n" for line in _repair_lines(report)))
        if report.refused or (confirm and report.problems):
            sys.exit(FAILED)


def _repair_lines(report: RepairReport) -> Iterator[str]:
    if not report.drifting:
        yield "no drift: every table is at the version that the graph shows"
    for table in report.drifting:
        kind, _, name = table.table_key.partition(":")
        yield (
            f"{table.action}: {kind} type '{name}' on {table.branch} is at version {table.newest_version}, "
            f"shown is {table.version}: {table.classification} ({', '.join(table.operations)})"
        )
        if table.error is not None:
            yield f"  {table.error}"
    yield from (f"{problem.line()}" for problem in report.problems)
    yield from (f"commit_id: {commit.id}" for commit in report.commits)
    if report.drifting and not report.confirm:
        yield "nothing was done; --confirm adopts what is verified_maintenance, with --force all of it"
        yield "--confirm --discard takes all of it back"


def register_version(app: typer.Typer) -> None:
    @command(app, "version", Accepts.NOTHING)
    def version(cli: Invocation) -> None:
        """Print the version of the software and of the storage layout."""
        sys.stdout.write(version_text(long=True))
