"""`omnigraph lint`: every query of a file against a schema, without running anything."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph.cli.errors import FAILED, UsageError
from omnigraph.cli.flags import Accepts
from omnigraph.cli.output import print_json
from omnigraph.cli.texts import existing_text
from omnigraph.cli.verb import Json, Scope, Uri, verb

if TYPE_CHECKING:
    from omnigraph import LintReport

_WORDS = {"error": "ERROR", "warning": "WARN", "info": "INFO"}


def register(app: typer.Typer) -> None:
    @verb(app, "lint", Accepts.DIRECT)
    def lint(
        scope: Scope,
        file: Annotated[str, typer.Option("--query", metavar="FILE", help="File with the queries (.gq).")],
        uri: Uri = None,
        schema: Annotated[
            str | None, typer.Option("--schema", metavar="FILE", help="Schema to check against, instead of a graph's.")
        ] = None,
        json: Json = False,
    ) -> None:
        """Check a file of queries against a schema without running them."""
        queries = existing_text(file)
        if schema is not None:
            if uri is not None or scope.flags.store is not None:
                raise UsageError("--schema and the address of a graph both give a schema", hint="give one of them")
            from omnigraph.graph.graph import lint_with_schema

            report = lint_with_schema(queries, existing_text(schema))
        else:
            with scope.graph(scope.address(uri, how="its address, --schema FILE")) as graph:
                report = graph.lint(queries)
        if json:
            print_json(report.to_dict())
        else:
            sys.stdout.write(_text(report))
        if not report.ok:
            sys.exit(FAILED)


def _text(report: LintReport) -> str:
    lines = []
    for result in report.results:
        place = f" ({report.query_path}:{result.line}:{result.column})" if result.line else ""
        state = f"ERROR {result.name}: {result.error}{place}" if result.error else f"OK {result.name} [{result.kind}]"
        lines += [state, *([result.excerpt] if result.excerpt else []), *([f"  {result.hint}"] if result.hint else [])]
        lines += [f"WARN {result.name}: {warning}" for warning in result.warnings]
    for found in report.findings:
        lines += [f"{_WORDS[found.severity]} {found.code} {found.message}", *([found.excerpt] if found.excerpt else [])]
    counts = ", ".join(f"{report.count(severity)} {severity}s" for severity in _WORDS)
    lines.append(f"{len(report.results)} queries: {counts}")
    return "\n".join(lines) + "\n"
