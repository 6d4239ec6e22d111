"""Commands that write rows: `init`, `load` and `mutate`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph import ids
from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import (
    Engine,
    Name,
    Params,
    ParamsFile,
    QueryArguments,
    QueryFile,
    QueryText,
    existing_text,
)
from omnigraph.cli.command import Branch, Invocation, Json, Uri, command
from omnigraph.cli.error_text import UsageError, warn
from omnigraph.cli.printing import print_json
from omnigraph.errors import PreconditionFailed

if TYPE_CHECKING:
    from omnigraph import LoadResult


def register_init(app: typer.Typer) -> None:
    @command(app, "init", Accepts.NOTHING)
    def init(
        cli: Invocation,
        uri: Annotated[str, typer.Argument(metavar="URI", help="Directory, file:// or s3:// address to create.")],
        schema: Annotated[str, typer.Option("--schema", metavar="FILE", help="The schema (.pg).")],
        force: Annotated[bool, typer.Option("--force", help="Replace schema files that belong to no graph.")] = False,
    ) -> None:
        """Create a graph from a schema."""
        import omnigraph

        address = cli.address(uri)
        omnigraph.init(address.uri, existing_text(schema), actor=cli.actor, force=force).close()
        sys.stdout.write(f"initialized {uri}\n")


def register_mutate(app: typer.Typer) -> None:
    @command(app, "mutate", Accepts.WRITE)
    def mutate(
        cli: Invocation,
        name: Name = None,
        file: QueryFile = None,
        text: QueryText = None,
        params: Params = None,
        params_file: ParamsFile = None,
        branch: Branch = ids.MAIN,
        if_commit: Annotated[
            str | None, typer.Option("--if-commit", metavar="COMMIT", help="Refuse unless this is the branch's head.")
        ] = None,
        json: Json = False,
    ) -> None:
        """Run a write query as one commit."""
        arguments = QueryArguments(file, text, params, params_file)
        source = arguments.source("mutate")
        with cli.graph(cli.address(how="--store URI"), "rw") as graph, cli.interruptible(graph, branch):
            try:
                done = graph.mutate(source, name, arguments.values(), branch=branch, if_commit=if_commit)
            except PreconditionFailed as lost:
                if json:
                    failure = {key: lost.details[key] for key in ("expected", "actual")}
                    print_json({"error": lost.message, "precondition_failure": failure})
                raise
        if json:
            print_json(done.to_dict())
            return
        sys.stdout.write(
            f"changed {done.branch} via {done.query_name}: {done.affected_nodes} nodes, {done.affected_edges} edges\n"
        )
        if done.actor is not None:
            sys.stdout.write(f"actor_id: {done.actor}\n")


class LoadMode(StrEnum):
    """What happens to rows that are there already."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"


class BadRecords(StrEnum):
    """What a bad record means."""

    FAIL = "fail"
    REJECT = "reject"


class FileFormat(StrEnum):
    """Formats of files."""

    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"
    CSV = "csv"


_MODE = "'append' refuses ids that exist, 'merge' replaces their rows, 'overwrite' replaces the types that occur."


def register_load(app: typer.Typer) -> None:
    @command(app, "load", Accepts.WRITE, data_frames=True, destroys=True)
    def load(
        cli: Invocation,
        data: Annotated[
            list[str], typer.Option("--data", metavar="FILE", help="File, directory or glob; may be repeated.")
        ],
        mode: Annotated[LoadMode, typer.Option("--mode", help=_MODE)],
        uri: Uri = None,
        branch: Branch = ids.MAIN,
        from_: Annotated[
            str | None, typer.Option("--from", metavar="BRANCH", help="Make a missing branch from this one.")
        ] = None,
        engine: Annotated[Engine, typer.Option("--engine", help="This process, or Spark for bulk data.")] = Engine.AUTO,
        on_error: Annotated[BadRecords, typer.Option("--on-error", help="What a bad record means.")] = BadRecords.FAIL,
        max_rejects: Annotated[
            int | None, typer.Option("--max-rejects", metavar="N", min=0, help="Give up after more bad records.")
        ] = None,
        rejects: Annotated[
            str | None, typer.Option("--rejects", metavar="FILE", help="Write the bad records here, as JSON lines.")
        ] = None,
        format_: Annotated[
            FileFormat | None, typer.Option("--format", help="Format of files whose name does not say it.")
        ] = None,
        type_: Annotated[
            str | None, typer.Option("--type", metavar="TYPE", help="Type of the records, for files without it.")
        ] = None,
        json: Json = False,
    ) -> None:
        """Load files as one commit: all of it or nothing."""
        if on_error is BadRecords.FAIL and (rejects is not None or max_rejects is not None):
            raise UsageError("--rejects and --max-rejects need --on-error reject")
        address = cli.address(uri)
        if mode is LoadMode.OVERWRITE:
            cli.confirm(address, json=json)
        cli.echo(address)
        with cli.graph(address, "rw") as graph, cli.interruptible(graph, branch):
            done = graph.load(
                [Path(each) for each in data] if len(data) > 1 else data[0],
                str(mode),
                branch=branch,
                from_=from_,
                on_error="reject" if on_error is BadRecords.REJECT else "fail",
                max_rejects=max_rejects,
                format=str(format_) if format_ else None,
                type=type_,
                engine=str(engine),
                progress=not cli.flags.quiet,
            )
        _report_rejects(done, rejects)
        if json:
            print_json(_load_json(done, address.uri, from_, on_error))
        else:
            sys.stdout.write(_load_text(done, address.uri))


def _report_rejects(done: LoadResult, file: str | None) -> None:
    if file is not None:
        done.write_rejects(file)
    count = done.rejects.num_rows
    if count:
        where = f"they are in {file}" if file is not None else "--rejects FILE keeps them"
        warn(f"{count} bad record{'' if count == 1 else 's'} left out; {where}")


def _load_json(done: LoadResult, uri: str, base: str | None, on_error: BadRecords) -> dict[str, Any]:
    shown = {"uri": uri, **done.to_dict()}
    if base is None:
        del shown["base_branch"]
    if on_error is BadRecords.REJECT:
        shown["rejected"] = done.rejects.num_rows
    return shown


def _load_text(done: LoadResult, uri: str) -> str:
    types = f"{len(done.nodes)} node types, {len(done.edges)} edge types"
    line = f"loaded {uri} on branch {done.branch} with {done.mode}: {done.total} entities in {types}\n"
    return line + (f"created branch {done.branch} from {done.base_branch}\n" if done.branch_created else "")
