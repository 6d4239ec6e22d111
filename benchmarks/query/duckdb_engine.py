"""DuckDB as an engine: native tables with primary keys, edges sorted by source, asked in SQL.

Edges refer to nodes by an integer id, as one would model it there; joins over text keys are slower. Statements are
parsed once and kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.options import THREADS
from benchmarks.query.engines import Answer
from benchmarks.query.questions import Params
from benchmarks.social import Social, write_parquet

KEYS = {"Person": "handle", "City": "slug", "State": "slug", "Country": "name", "Interest": "name"}
ENDS = {
    "Follows": ("Person", "Person"),
    "LivesIn": ("Person", "City"),
    "InState": ("City", "State"),
    "InCountry": ("State", "Country"),
    "HasInterest": ("Person", "Interest"),
}
TYPES = {"string": "VARCHAR", "int32": "INTEGER", "date32[day]": "DATE"}


class DuckDbEngine:
    language = "sql"

    def __init__(self, place: Path) -> None:
        self._connection: Any = duckdb.connect(str(place), config={"threads": THREADS})
        self._statements: dict[str, Any] = {}

    @staticmethod
    def build(social: Social, place: Path) -> None:
        files = write_parquet(social, place.with_name(f"{place.name}-parquet"))
        engine = DuckDbEngine(place)
        for name in social.nodes:
            columns = "".join(f", {field.name} {TYPES[str(field.type)]}" for field in social.nodes[name].schema)
            engine._connection.execute(
                f"CREATE TABLE {_table(name)} (id INTEGER PRIMARY KEY{columns}, UNIQUE ({KEYS[name]}))"
            )
            engine._connection.execute(
                f"INSERT INTO {_table(name)} SELECT row_number() OVER () - 1, * FROM read_parquet('{files[name]}')"
            )
        for name in social.edges:
            engine._connection.execute(_edge_table(name, files[name], social.edges[name].schema.names[2:]))
        engine._connection.execute("CREATE INDEX follows_src ON follows (src)")
        engine._connection.execute("CHECKPOINT")
        engine.close()

    def run(self, statement: str, params: Params, *, arrow: bool) -> Answer:
        if arrow:
            return self._connection.sql(statement, params=dict(params)).to_arrow_table()
        return self._execute(statement, params).fetchall()

    def columns(self, statement: str, params: Params) -> Mapping[str, Any]:
        result = self._execute(statement, params)
        names = [column[0] for column in result.description]
        return dict(zip(names, result.fetchall()[0], strict=True))

    def _execute(self, statement: str, params: Params) -> Any:
        parsed = self._statements.get(statement)
        if parsed is None:
            parsed = self._statements[statement] = self._connection.extract_statements(statement)[0]
        return self._connection.execute(parsed, dict(params))

    def close(self) -> None:
        self._connection.close()


def _table(type_name: str) -> str:
    """``LivesIn`` → ``lives_in``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type_name).lower()


def _edge_table(name: str, file: Path, properties: list[str]) -> str:
    source, target = ENDS[name]
    more = "".join(f", e.{column}" for column in properties)
    return (
        f"CREATE TABLE {_table(name)} AS SELECT s.id AS src, t.id AS dst{more} FROM read_parquet('{file}') e "
        f"JOIN {_table(source)} s ON s.{KEYS[source]} = e.src JOIN {_table(target)} t ON t.{KEYS[target]} = e.dst "
        "ORDER BY s.id, t.id"
    )
