"""Commands that keep a graph small: `cleanup`, `retention` and `upkeep`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.addressing import Accepts
from omnigraph.cli.command import Invocation, Json, Uri, command
from omnigraph.cli.error_text import FAILED, warn
from omnigraph.cli.printing import byte_text, counted, grid, local_time, print_json

if TYPE_CHECKING:
    from omnigraph import CleanupResult, RetentionRule, UpkeepRun

Keep = Annotated[int | None, typer.Option("--keep", metavar="N", help="The newest N commits of each branch stay.")]
OlderThan = Annotated[
    str | None, typer.Option("--older-than", metavar="D", help="Commits that are younger stay: 90m, 24h, 7d, 2w.")
]


def register_cleanup(app: typer.Typer) -> None:
    @command(app, "cleanup", Accepts.DIRECT, destroys=True)
    def cleanup(
        cli: Invocation,
        uri: Uri = None,
        keep: Keep = None,
        older_than: OlderThan = None,
        grace: Annotated[
            str | None,
            typer.Option(
                "--grace", metavar="D", help="So do states that were the newest so recently; 10m if not given."
            ),
        ] = None,
        confirm: Annotated[bool, typer.Option("--confirm", help="Remove; otherwise only tell what would go.")] = False,
        json: Json = False,
    ) -> None:
        """Remove old states and files that nobody needs; shows what would go unless --confirm is given."""
        address = cli.address(uri)
        if confirm:
            cli.echo(address)
            cli.confirm(address, json=json)
        with cli.graph(address, "rw" if confirm else "ro") as graph:
            done = graph.cleanup(keep, older_than, confirm=confirm, grace=grace)
        for text in done.warnings:
            warn(text)
        if json:
            print_json(done.to_dict())
        else:
            sys.stdout.write("".join(f"{line}\n" for line in cleanup_lines(done)))
        if not confirm:
            sys.stderr.write("nothing was removed; pass --confirm to remove it\n")
        if not done.ok:
            sys.exit(FAILED)


def cleanup_lines(done: CleanupResult) -> Iterator[str]:
    """The result for people, line by line."""
    if done.tables:
        rows = [
            (table.table_key, f"{table.versions_removed:,}", f"{table.files_removed:,}", byte_text(table.bytes_removed))
            for table in done.tables
        ]
        yield from grid(("table", "versions", "files", "bytes"), rows)
        yield ""
    yield from (f"not cleaned: {table.table_key}: {table.error}" for table in done.tables if table.error)
    yield from (f"of a deleted branch: {fork}" for fork in done.reclaimed_forks)
    yield from (f"of a dropped type: {key}" for key in done.dropped_tables)
    for what, files in (("unfinished writes", done.unfinished), ("older software", done.legacy)):
        if files.files:
            yield f"of {what}: {counted(files.files, 'file')}, {byte_text(files.bytes)}"
    verb = "removed" if done.confirmed else "would remove"
    yield (
        f"{verb} {counted(done.states_removed, 'state')}, {counted(done.files_removed, 'file')}, "
        f"{byte_text(done.bytes_removed)}; {counted(done.states_kept, 'state')} stay"
    )


def register_retention(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, help="The rule by which 'upkeep' keeps a graph small.")
    app.add_typer(group, name="retention")

    @command(group, "retention show", Accepts.DIRECT)
    def show(cli: Invocation, uri: Uri = None, json: Json = False) -> None:
        """Show the rule that holds."""
        with cli.graph(cli.address(uri)) as graph:
            _print_rule(graph.retention.get(), json=json)

    @command(group, "retention set", Accepts.DIRECT)
    def set_(
        cli: Invocation,
        uri: Uri = None,
        keep: Keep = None,
        older_than: OlderThan = None,
        optimize_every: Annotated[
            str | None,
            typer.Option(
                "--optimize-every", metavar="D", help="How often tables are put in order; never if not given."
            ),
        ] = None,
        json: Json = False,
    ) -> None:
        """Set the whole rule; it is stored with the graph."""
        address = cli.address(uri)
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            _print_rule(graph.retention.set(keep, older_than, optimize_every=optimize_every), json=json)

    @command(group, "retention clear", Accepts.DIRECT)
    def clear(cli: Invocation, uri: Uri = None, json: Json = False) -> None:
        """Forget the rule that was set; the default holds from then on."""
        address = cli.address(uri)
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            graph.retention.clear()
            _print_rule(graph.retention.get(), json=json)


def _print_rule(rule: RetentionRule, *, json: bool) -> None:
    if json:
        print_json(rule.to_dict())
        return
    stays = [
        *([f"the newest {counted(rule.keep, 'commit')} of each branch"] if rule.keep is not None else []),
        *([f"commits younger than {rule.older_than}"] if rule.older_than is not None else []),
    ]
    order = f"tables are put in order every {rule.optimize_every}" if rule.optimize_every else "tables are left alone"
    sys.stdout.write(f"{' and '.join(stays)} stay; {order}{' (default)' if rule.is_default else ''}\n")


def register_upkeep(app: typer.Typer) -> None:
    @command(app, "upkeep", Accepts.DIRECT, data_frames=True)
    def upkeep(
        cli: Invocation,
        uri: Uri = None,
        list_: Annotated[bool, typer.Option("--list", help="Show what earlier runs did; do nothing.")] = False,
        json: Json = False,
    ) -> None:
        """Do what is due by the retention rule and exit; for timers. Exit code 1 when a task failed."""
        address = cli.address(uri)
        if list_:
            with cli.graph(address) as graph:
                found = graph.upkeep.runs()
            if json:
                print_json({"runs": [run.to_dict() for run in found]})
            else:
                sys.stdout.write("".join(f"{line}\n" for run in found for line in _run_lines(run)))
            return
        cli.echo(address)
        with cli.graph(address, "rw") as graph:
            done = graph.upkeep()
        if json:
            print_json(done.to_dict())
        else:
            sys.stdout.write("".join(f"{line}\n" for line in _run_lines(done)))
        if not done.ok:
            sys.exit(FAILED)


def _run_lines(run: UpkeepRun) -> Iterator[str]:
    for task in run.tasks:
        yield f"{local_time(run.started_at)} {task.name}: {task.outcome.replace('_', ' ')}, {task.summary}"
