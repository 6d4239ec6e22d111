"""Small verbs for tests of the row path: text in, rows and violations out. No graph, no pytest."""

from __future__ import annotations

from typing import Any

from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import compile_schema
from omnigraph.write.load.line_blocks import Block
from omnigraph.write.load.parse_lines import Dialect, Parsed, parse_block
from omnigraph.write.load.valid_rows import LINE, Reading
from tests.language.load.fixtures import HERE

RECORDS = compile_schema((HERE / "records.pg").read_text("utf-8")).catalog


def parse(text: str | bytes, catalog: Catalog = RECORDS, most: int = 100, **options: Any) -> Parsed:
    data = text.encode("utf-8") if isinstance(text, str) else text
    if not data.endswith(b"\n"):
        data += b"\n"
    return parse_block(Block("x.jsonl", 1, data), Dialect(catalog, reading=Reading(most), **options))


def rows(parsed: Parsed, table_key: str) -> dict[int, dict[str, Any]]:
    """Rows of a type by line, without nulls."""
    found = {}
    for batch in parsed.rows.get(table_key, ()):
        for row in batch.rows.to_pylist():
            found[row.pop(LINE)] = {name: value for name, value in row.items() if value is not None}
    return found


def said(parsed: Parsed) -> list[tuple[int, str, str]]:
    """Line, class and message of each violation."""
    return [(each.line, type(each.error).__name__, each.error.message) for each in parsed.violations]
