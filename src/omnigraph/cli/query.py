"""`omnigraph query` and `omnigraph explain`: reads, and how they are run."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from omnigraph import ids
from omnigraph.cli.errors import UsageError
from omnigraph.cli.flags import Accepts
from omnigraph.cli.output import TableLook, print_json, print_result
from omnigraph.cli.texts import Asked, Name, Params, ParamsFile, QueryFile, QueryText, moment_of
from omnigraph.cli.verb import Json, Scope, verb


class Format(StrEnum):
    """The formats of a read."""

    TABLE = "table"
    KV = "kv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"


BranchOption = Annotated[
    str | None, typer.Option("--branch", metavar="BRANCH", help="Branch to read.  [default: main]")
]
SnapshotOption = Annotated[
    str | None, typer.Option("--snapshot", metavar="ID", help="State to read: a commit id, a version or a time.")
]


def moment(branch: str | None, snapshot: str | None) -> dict[str, Any]:
    """Which state: the newest of a branch, or one of the past."""
    if snapshot is None:
        return {"branch": ids.MAIN if branch is None else branch}
    if branch is not None:
        raise UsageError("--branch and --snapshot both say what to read", hint="give one of them")
    return {"at": moment_of(snapshot)}


def register(app: typer.Typer) -> None:
    @verb(app, "query", Accepts.READ)
    def query(
        scope: Scope,
        name: Name = None,
        file: QueryFile = None,
        text: QueryText = None,
        params: Params = None,
        params_file: ParamsFile = None,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        format_: Annotated[Format | None, typer.Option("--format", help="How to print the rows.")] = None,
        json: Json = False,
    ) -> None:
        """Run a read query and print its rows."""
        if json and format_ not in (None, Format.JSON):
            raise UsageError(f"--json and --format {format_} both say how to print", hint="give one of them")
        asked = Asked(file, text, params, params_file)
        source, state = asked.source("query"), moment(branch, snapshot)
        shown = Format.JSON if json else format_ or scope.config.output or Format.TABLE
        with scope.graph(scope.address(how="--store URI")) as graph:
            result = graph.query(source, name, asked.values(), **state)
            print_result(result, str(shown), TableLook(scope.config.table_width, scope.config.table_wraps))

    @verb(app, "explain", Accepts.READ)
    def explain(
        scope: Scope,
        name: Name = None,
        file: QueryFile = None,
        text: QueryText = None,
        params: Params = None,
        params_file: ParamsFile = None,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        run: Annotated[bool, typer.Option("--run", help="Also run it, and show rows and time of each step.")] = False,
        json: Json = False,
    ) -> None:
        """Show how a read query is run, step by step."""
        asked = Asked(file, text, params, params_file)
        source, state = asked.source("explain"), moment(branch, snapshot)
        with scope.graph(scope.address(how="--store URI")) as graph:
            explained = graph.explain(source, name, asked.values(), run=run, **state)
        if json:
            print_json(explained.to_dict())
        else:
            sys.stdout.write(f"{explained}\n")
