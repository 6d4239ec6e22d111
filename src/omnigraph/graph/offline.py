"""What can be said about texts without a stored graph."""

from __future__ import annotations

from pathlib import Path

from omnigraph.query.lint import LintReport, SchemaSource, lint
from omnigraph.schema.compile import compile_schema
from omnigraph.storage.texts import text_of

__all__ = ["LintReport", "lint_with_schema"]


def lint_with_schema(queries: Path, schema: Path) -> LintReport:
    """Check every query of a file against the schema in another one.

    Raises:
        SourceError: the schema is wrong.
    """
    text, file = text_of(schema, ".pg")
    compiled = compile_schema(text, file=file)
    asked, asked_file = text_of(queries, ".gq")
    return lint(asked, compiled.catalog, asked_file, schema_source=SchemaSource("file", str(schema)))
