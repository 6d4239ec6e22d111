"""Commands that read: `query`, `explain`, `lint`, `export` and `snapshot`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from omnigraph import ids, limits
from omnigraph.cli.addressing import Accepts
from omnigraph.cli.arguments import (
    AllowUnknown,
    Name,
    Params,
    ParamsFile,
    QueryArguments,
    QueryFile,
    QueryText,
    existing_text,
)
from omnigraph.cli.asked_query import AskedQuery
from omnigraph.cli.command import Invocation, Json, Uri, command
from omnigraph.cli.error_text import FAILED, UsageError, warn
from omnigraph.cli.printing import TableLook, print_json, print_result

if TYPE_CHECKING:
    from omnigraph import LintReport, Result, Snapshot


_SEVERITIES = {"error": "ERROR", "warning": "WARN", "info": "INFO"}


class OutputFormat(StrEnum):
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
    str | None,
    typer.Option("--snapshot", metavar="ID", help="State to read: a commit id, tag:NAME, a version or a time."),
]


FormatOption = Annotated[OutputFormat | None, typer.Option("--format", help="How to print the rows.")]


def moment(branch: str | None, snapshot: str | None) -> dict[str, Any]:
    """Which state: the newest of a branch, or one of the past."""
    if snapshot is None:
        return {"branch": ids.MAIN if branch is None else branch}
    if branch is not None:
        raise UsageError("--branch and --snapshot both say what to read", hint="give one of them")
    return {"at": snapshot}


def register_query(app: typer.Typer) -> None:
    @command(app, "query", Accepts.READ)
    def query(
        cli: Invocation,
        name: Name = None,
        file: QueryFile = None,
        text: QueryText = None,
        params: Params = None,
        params_file: ParamsFile = None,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        format_: FormatOption = None,
        json: Json = False,
    ) -> None:
        """Run a read query and print its rows."""
        refuse_two_formats(format_, json)
        asked = AskedQuery.of("query", name, QueryArguments(file, text, params, params_file))
        state, address = moment(branch, snapshot), cli.address(how="--store URI")
        asked.require_possible("query", address)
        with cli.graph(address) as graph:
            print_read(cli, asked.query(graph, state), format_, json=json)


def refuse_two_formats(format_: OutputFormat | None, json: bool) -> None:
    """``--json`` is a format too."""
    if json and format_ not in (None, OutputFormat.JSON):
        raise UsageError(f"--json and --format {format_} both say how to print", hint="give one of them")


def print_read(cli: Invocation, result: Result, format_: str | None, *, json: bool) -> None:
    """Rows in the format that was asked for, else in that of the configuration."""
    shown = OutputFormat.JSON if json else format_ or cli.config.output or OutputFormat.TABLE
    print_result(result, str(shown), TableLook(cli.config.table_width, cli.config.table_wraps))


def register_explain(app: typer.Typer) -> None:
    @command(app, "explain", Accepts.READ)
    def explain(
        cli: Invocation,
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
        arguments = QueryArguments(file, text, params, params_file)
        source, state = arguments.source("explain", name), moment(branch, snapshot)
        with cli.graph(cli.address(how="--store URI")) as graph:
            explained = graph.explain(source, name, arguments.values(), run=run, **state)
        if json:
            print_json(explained.to_dict())
        else:
            sys.stdout.write(f"{explained}\n")


def register_lint(app: typer.Typer) -> None:
    @command(app, "lint", Accepts.READ)
    def lint(
        cli: Invocation,
        file: Annotated[str, typer.Option("--query", metavar="FILE", help="File with the queries (.gq).")],
        uri: Uri = None,
        schema: Annotated[
            str | None, typer.Option("--schema", metavar="FILE", help="Schema to check against, instead of a graph's.")
        ] = None,
        allow_unknown: AllowUnknown = False,
        json: Json = False,
    ) -> None:
        """Check a file of queries against a schema without running them."""
        queries = existing_text(file)
        if schema is not None:
            if uri is not None or cli.flags.store is not None:
                raise UsageError("--schema and the address of a graph both give a schema", hint="give one of them")
            from omnigraph.graph.graph import lint_with_schema

            report = lint_with_schema(queries, existing_text(schema), allow_unknown_annotations=allow_unknown)
        else:
            with cli.graph(cli.address(uri, how="its address, --schema FILE")) as graph:
                report = graph.lint(queries)
        if json:
            print_json(report.to_dict())
        else:
            sys.stdout.write(_lint_text(report))
        if not report.ok:
            sys.exit(FAILED)


def _lint_text(report: LintReport) -> str:
    lines = []
    for result in report.results:
        place = f" ({report.query_path}:{result.line}:{result.column})" if result.line else ""
        state = f"ERROR {result.name}: {result.error}{place}" if result.error else f"OK {result.name} [{result.kind}]"
        lines += [state, *([result.excerpt] if result.excerpt else []), *([f"  {result.hint}"] if result.hint else [])]
        lines += [f"WARN {result.name}: {warning}" for warning in result.warnings]
    for found in report.findings:
        lines += [
            f"{_SEVERITIES[found.severity]} {found.code} {found.message}",
            *([found.excerpt] if found.excerpt else []),
        ]
    counts = ", ".join(f"{report.count(severity)} {severity}s" for severity in _SEVERITIES)
    lines.append(f"{len(report.results)} queries: {counts}")
    return "\n".join(lines) + "\n"


class ExportFormat(StrEnum):
    """What an export writes."""

    JSONL = "jsonl"
    PARQUET = "parquet"
    CSV = "csv"


_FORMATS: dict[ExportFormat, Literal["jsonl", "parquet", "csv"]] = {
    ExportFormat.JSONL: "jsonl",
    ExportFormat.PARQUET: "parquet",
    ExportFormat.CSV: "csv",
}


def register_export(app: typer.Typer) -> None:
    @command(app, "export", Accepts.WRITE)
    def export(
        cli: Invocation,
        uri: Uri = None,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        types: Annotated[
            list[str] | None, typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.")
        ] = None,
        out: Annotated[
            str | None, typer.Option("--out", metavar="PATH", help="File or directory to write instead of stdout.")
        ] = None,
        format_: Annotated[
            ExportFormat | None, typer.Option("--format", help="What to write, if the suffix of --out does not say it.")
        ] = None,
        jsonl: Annotated[bool, typer.Option("--jsonl", hidden=True)] = False,
    ) -> None:
        """Write a graph as JSON lines that `load` reads, or its types as Parquet or CSV."""
        if jsonl:
            warn("--jsonl says nothing new: an export is JSON lines unless something else is asked for")
        state = moment(branch, snapshot)
        with cli.graph(cli.address(uri)) as graph:
            graph.export(
                sys.stdout.buffer if out is None else out,
                types or None,
                **state,
                format=_FORMATS[format_] if format_ is not None else None,
            )
        sys.stdout.buffer.flush()


def register_snapshot(app: typer.Typer) -> None:
    @command(app, "snapshot", Accepts.WRITE)
    def snapshot(
        cli: Invocation,
        uri: Uri = None,
        branch: BranchOption = None,
        state: SnapshotOption = None,
        json: Json = False,
    ) -> None:
        """Show which tables in which versions a branch consists of."""
        asked = moment(branch, state)
        with cli.graph(cli.address(uri)) as graph:
            shown = _described_snapshot(graph.snapshot(**asked))
        if json:
            print_json(shown)
            return
        for key in ("graph_branch", "graph_manifest_version", "internal_schema_version"):
            sys.stdout.write(f"{key}: {shown[key]}\n")
        sys.stdout.write("".join(map(_table_line, shown["datasets"])))


def _described_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    tables = []
    for key, pin in sorted(snapshot.tables.items()):
        kind, _, name = key.partition(":")
        tables.append(
            {
                "entity_kind": kind,
                "type_name": name,
                "dataset_path": pin.location,
                "published_dataset_version": pin.version,
                "native_dataset_branch": pin.branch,
                "entity_count": pin.row_count,
            }
        )
    return {
        "graph_branch": snapshot.branch,
        "graph_manifest_version": snapshot.version,
        "internal_schema_version": limits.INTERNAL_SCHEMA_VERSION,
        "datasets": tables,
    }


def _table_line(table: dict[str, Any]) -> str:
    lineage = table["native_dataset_branch"] or ids.MAIN
    return (
        f"{table['entity_kind']} type '{table['type_name']}'"
        f" published_dataset_version={table['published_dataset_version']}"
        f" native_dataset_branch={lineage} entities={table['entity_count']}\n"
    )
