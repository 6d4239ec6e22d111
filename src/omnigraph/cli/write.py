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
    AllowUnknown,
    Engine,
    Message,
    Name,
    Params,
    ParamsFile,
    QueryArguments,
    QueryFile,
    QueryText,
    existing_data,
    existing_text,
    writable_file,
)
from omnigraph.cli.asked_query import AskedQuery
from omnigraph.cli.command import Branch, Invocation, Json, Uri, command
from omnigraph.cli.error_text import UsageError, warn
from omnigraph.cli.printing import print_json

if TYPE_CHECKING:
    from omnigraph import LoadResult


def register_init(app: typer.Typer) -> None:
    @command(app, "init", Accepts.NOTHING)
    def init(
        cli: Invocation,
        uri: Annotated[str, typer.Argument(metavar="URI", help="Directory, file:// or s3:// address to create.")],
        schema: Annotated[str, typer.Option("--schema", metavar="FILE", help="The schema (.pg).")],
        force: Annotated[bool, typer.Option("--force", help="Replace schema files that belong to no graph.")] = False,
        allow_unknown: AllowUnknown = False,
    ) -> None:
        """Create a graph from a schema."""
        import warnings

        import omnigraph

        address = cli.address(uri)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", omnigraph.SchemaWarning)
            omnigraph.init(
                address.uri,
                existing_text(schema),
                actor=cli.actor,
                force=force,
                allow_unknown_annotations=allow_unknown,
            ).close()
        for each in found:
            warn(str(each.message))
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
        message: Message = None,
        json: Json = False,
    ) -> None:
        """Run a write query as one commit."""
        arguments = QueryArguments(file, text, params, params_file)
        asked = AskedQuery.of("mutate", name, arguments)
        address = cli.address(how="--store URI")
        asked.require_possible("mutate", address)
        with (
            cli.graph(address, "rw") as graph,
            cli.interruptible(address, graph, branch, identified=True) as commit_id,
        ):
            options = {"branch": branch, "if_commit": if_commit, "message": message, "commit_id": commit_id}
            done = asked.mutate(graph, options)
        if json:
            print_json(done.to_dict())
            return
        sys.stdout.write(
            f"changed {done.branch} via {done.query_name}: {done.affected_nodes} nodes, {done.affected_edges} edges\n"
        )
        if done.actor is not None:
            sys.stdout.write(f"actor_id: {done.actor}\n")
        if done.commit is not None:
            sys.stdout.write(f"commit_id: {done.commit.id}\n")


class LoadMode(StrEnum):
    """What happens to rows that are there already."""

    OVERWRITE = "overwrite"
    APPEND = "append"
    MERGE = "merge"


class BadRecords(StrEnum):
    """What a bad record means."""

    FAIL = "fail"
    REJECT = "reject"


class MergedColumns(StrEnum):
    """What a merge does to columns that the input does not have."""

    REPLACE = "replace"
    KEEP = "keep"


class FineTimes(StrEnum):
    """What a time finer than a millisecond means."""

    EXACT = "exact"
    ROUND = "round"


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
        message: Message = None,
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
        columns: Annotated[
            MergedColumns, typer.Option("--columns", help="'keep': a merge leaves columns alone that the input lacks.")
        ] = MergedColumns.REPLACE,
        times: Annotated[
            FineTimes, typer.Option("--times", help="'round': times finer than a millisecond are rounded, not refused.")
        ] = FineTimes.EXACT,
        json: Json = False,
    ) -> None:
        """Load files as one commit: all of it or nothing."""
        if on_error is BadRecords.FAIL and (rejects is not None or max_rejects is not None):
            raise UsageError("--rejects and --max-rejects need --on-error reject")
        if columns is MergedColumns.KEEP and mode is not LoadMode.MERGE:
            raise UsageError("--columns keep needs --mode merge: the other modes change no stored row")
        for each in data:
            existing_data(each)
        if rejects is not None:
            writable_file(rejects)
        address = cli.address(uri)
        if mode is LoadMode.OVERWRITE:
            cli.confirm(address, json=json)
        cli.echo(address)
        with (
            cli.graph(address, "rw") as graph,
            cli.interruptible(address, graph, branch, identified=True) as commit_id,
        ):
            done = graph.load(
                [Path(each) for each in data] if len(data) > 1 else data[0],
                mode.value,
                branch=branch,
                from_=from_,
                on_error="reject" if on_error is BadRecords.REJECT else "fail",
                max_rejects=max_rejects,
                format=format_.value if format_ else None,
                type=type_,
                columns="keep" if columns is MergedColumns.KEEP else "replace",
                times="round" if times is FineTimes.ROUND else "exact",
                engine=engine.value,
                message=message,
                commit_id=commit_id,
                progress=not cli.flags.quiet,
            )
        _report_rejects(done, rejects)
        if done.left_out:
            warn(f"left out, because the suffix says nothing: {', '.join(done.left_out)}")
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
