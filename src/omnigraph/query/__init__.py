"""The query language: `.gq` text → syntax tree → typed query; parameters; lint. Knows no files and runs nothing.

`syntax/` parses, `check/` types against a catalog, `typed/` is the result, `parameters.py` binds values, `temporal.py`
reads and writes dates, `lint_queries.py` reports.
"""

from omnigraph.query.check import check_query, check_read, check_write
from omnigraph.query.parameters import bind_params
from omnigraph.query.syntax.query_parser import parse_queries

__all__ = ["bind_params", "check_query", "check_read", "check_write", "parse_queries"]
