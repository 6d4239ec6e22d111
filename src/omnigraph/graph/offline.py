"""What can be said about texts without a stored graph."""

from __future__ import annotations

from pathlib import Path

from omnigraph.query.lint import Report, SchemaSource, lint
from omnigraph.schema.compile import compile_schema

__all__ = ["Report", "lint_with_schema"]


def lint_with_schema(queries: Path, schema: Path) -> Report:
    """Check every query of a file against the schema in another one.

    Raises:
        SourceError: the schema is wrong.
    """
    compiled = compile_schema(schema.read_text(encoding="utf-8"), file=str(schema))
    text = queries.read_text(encoding="utf-8-sig")
    return lint(text, compiled.catalog, str(queries), schema_source=SchemaSource("file", str(schema)))
