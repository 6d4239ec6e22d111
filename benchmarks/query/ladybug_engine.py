"""Ladybug as an engine: one node or relationship table per type, loaded by COPY, asked in Cypher."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ladybug

from benchmarks.options import THREADS
from benchmarks.query.engines import Answer
from benchmarks.query.questions import Params
from benchmarks.social import Social, write_parquet

TABLES = (
    "CREATE NODE TABLE Person(handle STRING PRIMARY KEY, name STRING, gender STRING, age INT32, birthday DATE)",
    "CREATE NODE TABLE City(slug STRING PRIMARY KEY, name STRING)",
    "CREATE NODE TABLE State(slug STRING PRIMARY KEY, name STRING)",
    "CREATE NODE TABLE Country(name STRING PRIMARY KEY)",
    "CREATE NODE TABLE Interest(name STRING PRIMARY KEY)",
    "CREATE REL TABLE Follows(FROM Person TO Person, since DATE)",
    "CREATE REL TABLE LivesIn(FROM Person TO City, MANY_ONE)",
    "CREATE REL TABLE InState(FROM City TO State, MANY_ONE)",
    "CREATE REL TABLE InCountry(FROM State TO Country, MANY_ONE)",
    "CREATE REL TABLE HasInterest(FROM Person TO Interest)",
)


class LadybugEngine:
    language = "cypher"

    def __init__(self, place: Path) -> None:
        self._database = ladybug.Database(str(place), max_num_threads=THREADS)
        self._connection: Any = ladybug.Connection(self._database, num_threads=THREADS)

    @staticmethod
    def build(social: Social, place: Path) -> None:
        files = write_parquet(social, place.with_name(f"{place.name}-parquet"))
        engine = LadybugEngine(place)
        for statement in TABLES:
            engine._connection.execute(statement)
        for name, path in files.items():
            engine._connection.execute(f'COPY {name} FROM "{path}"')
        engine._connection.execute("CHECKPOINT")
        engine.close()

    def run(self, statement: str, params: Params, *, arrow: bool) -> Answer:
        result = self._connection.execute(statement, dict(params))
        return result.get_as_arrow() if arrow else [tuple(row) for row in result.get_all()]

    def columns(self, statement: str, params: Params) -> Mapping[str, Any]:
        result = self._connection.execute(statement, dict(params))
        return dict(zip(result.get_column_names(), result.get_next(), strict=True))

    def close(self) -> None:
        self._connection.close()
        self._database.close()
