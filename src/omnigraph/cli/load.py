"""`omnigraph load`: files into a branch, as one commit."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph import ids
from omnigraph.cli.errors import UsageError, warn
from omnigraph.cli.flags import Accepts
from omnigraph.cli.output import print_json
from omnigraph.cli.verb import Branch, Json, Scope, Uri, verb

if TYPE_CHECKING:
    from omnigraph import LoadResult


class Mode(StrEnum):
    """What happens to rows that are there already."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"


class Engine(StrEnum):
    """Who does the work."""

    AUTO = "auto"
    EMBEDDED = "embedded"
    SPARK = "spark"


class OnError(StrEnum):
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


def register(app: typer.Typer) -> None:
    @verb(app, "load", Accepts.WRITE, data_frames=True, destroys=True)
    def load(
        scope: Scope,
        data: Annotated[
            list[str], typer.Option("--data", metavar="FILE", help="File, directory or glob; may be repeated.")
        ],
        mode: Annotated[Mode, typer.Option("--mode", help=_MODE)],
        uri: Uri = None,
        branch: Branch = ids.MAIN,
        from_: Annotated[
            str | None, typer.Option("--from", metavar="BRANCH", help="Make a missing branch from this one.")
        ] = None,
        engine: Annotated[Engine, typer.Option("--engine", help="This process, or Spark for bulk data.")] = Engine.AUTO,
        on_error: Annotated[OnError, typer.Option("--on-error", help="What a bad record means.")] = OnError.FAIL,
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
        if on_error is OnError.FAIL and (rejects is not None or max_rejects is not None):
            raise UsageError("--rejects and --max-rejects need --on-error reject")
        address = scope.address(uri)
        if mode is Mode.OVERWRITE:
            scope.confirm(address, json=json)
        scope.echo(address)
        with scope.graph(address, "rw") as graph, scope.interruptible(graph, branch):
            done = graph.load(
                [Path(each) for each in data] if len(data) > 1 else data[0],
                str(mode),
                branch=branch,
                from_=from_,
                on_error="reject" if on_error is OnError.REJECT else "fail",
                max_rejects=max_rejects,
                format=str(format_) if format_ else None,
                type=type_,
                engine=str(engine),
                progress=not scope.flags.quiet,
            )
        _report_rejects(done, rejects)
        if json:
            print_json(_as_json(done, address.uri, from_, on_error))
        else:
            sys.stdout.write(_as_text(done, address.uri))


def _report_rejects(done: LoadResult, file: str | None) -> None:
    if file is not None:
        done.write_rejects(file)
    count = done.rejects.num_rows
    if count:
        where = f"they are in {file}" if file is not None else "--rejects FILE keeps them"
        warn(f"{count} bad record{'' if count == 1 else 's'} left out; {where}")


def _as_json(done: LoadResult, uri: str, base: str | None, on_error: OnError) -> dict[str, Any]:
    shown = {"uri": uri, **done.to_dict()}
    if base is None:
        del shown["base_branch"]
    if on_error is OnError.REJECT:
        shown["rejected"] = done.rejects.num_rows
    return shown


def _as_text(done: LoadResult, uri: str) -> str:
    types = f"{len(done.nodes)} node types, {len(done.edges)} edge types"
    line = f"loaded {uri} on branch {done.branch} with {done.mode}: {done.total} entities in {types}\n"
    return line + (f"created branch {done.branch} from {done.base_branch}\n" if done.branch_created else "")
