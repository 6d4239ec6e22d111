"""Bulk loads of the social graph, validated, indexed and committed: by Spark and in this process.

Spark's own reading and writing of the same files is the measure for the Spark engine, DuckDB with primary keys for
the embedded one. The start of a session is not counted.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import omnigraph as og
from benchmarks import child
from benchmarks.measure import Action, in_turns
from benchmarks.options import THREADS, Options
from benchmarks.query.duckdb_engine import ENDS, KEYS, TYPES
from benchmarks.report import Goal, Row
from benchmarks.social import SCHEMA, Social, make, write_jsonl, write_parquet

ROUNDS = 3
TIMES = 10
FEW = 100
MOST_MEMORY = 2 * 1024**3

_RECORD = (
    "type string, edge string, `from` string, `to` string, "
    "data struct<handle:string,name:string,gender:string,age:int,birthday:date,slug:string,since:date>"
)


def spark_against_spark(options: Options) -> list[Row]:
    """The whole load against what Spark itself does with the files."""
    from omnigraph import spark as ogs

    files, lines, _ = _files(options, 1)
    session = ogs.session(f"local[{THREADS}]")
    graphs = _Graphs(options.place / "spark")
    copy = options.place / "copy"

    def read_and_write() -> None:
        for path in sorted(files.glob("*.parquet")):
            session.read.parquet(str(path)).write.mode("overwrite").parquet(str(copy / path.stem))

    def only_parse() -> None:
        session.read.schema(_RECORD).json(str(lines)).write.format("noop").mode("overwrite").save()

    taken = in_turns(
        {
            "parquet": Action(lambda: ogs.load(graphs.graph, files, "append"), graphs.make, graphs.drop),
            "copy": Action(read_and_write),
            "jsonl": Action(lambda: ogs.load(graphs.graph, lines, "append"), graphs.make, graphs.drop),
            "parse": Action(only_parse),
        },
        ROUNDS,
        warm_up=1,
    )
    return [
        Row(
            "Spark load from Parquet, validated, indexed, committed",
            taken["parquet"].median,
            taken["copy"].median,
            "Spark read and write of the Parquet",
            goal=Goal(3),
        ),
        Row(
            "Spark load from JSONL, validated, indexed, committed",
            taken["jsonl"].median,
            taken["parse"].median,
            "Spark only parsing the JSONL",
            goal=Goal(3),
        ),
    ]


def ten_times_the_rows(options: Options) -> list[Row]:
    """Time and memory of the driver, each size in a process of its own."""
    found = {}
    for times in (1, TIMES):
        child.run("benchmarks.spark.loads:make_files", place=str(options.place), scale=options.scale, times=times)
        files, _, rows = _files(options, times)
        place = str(options.place / f"grown-{times}")
        found[times] = {**child.run("benchmarks.spark.loads:load_once", files=str(files), place=place), "rows": rows}
        shutil.rmtree(place, ignore_errors=True)
    few, many = found[1], found[TIMES]
    more = max(0.0, many["memory"] - few["memory"])
    return [
        Row(
            f"Spark load of {many['rows']:,} rows",
            many["seconds"],
            few["seconds"],
            f"{few['rows']:,} rows",
            goal=Goal(12),
        ),
        Row(
            "memory of the driver beyond that of the smaller load",
            more / 1024**2,
            MOST_MEMORY / 1024**2,
            "allowed",
            unit="MiB",
            goal=Goal(1),
            note=f"{many['memory'] / 1024**2:.0f} against {few['memory'] / 1024**2:.0f} MiB, Python and Java together",
        ),
    ]


def make_files(place: str, scale: float, times: int) -> None:
    """Make the files in this process, which gives its memory back when it ends."""
    _files(Options(Path(place), scale), times)


def few_rows_into_many(options: Options) -> list[Row]:
    """A load of few rows costs what few rows cost, however many are there."""
    from omnigraph import spark as ogs

    ogs.session(f"local[{THREADS}]")
    graphs, actions, rows = [], {}, {}
    for part in (1, FEW):
        place, tables = options.place / f"into-{part}", make(options.scale / part).tables
        graphs.append(_Graphs(place / "graph"))
        graphs[-1].make()
        graph = graphs[-1].graph
        graph.load(dict(tables), "append", engine="embedded")
        graph.ensure_indices()
        files = {name: str(place / f"{name}.parquet") for name in ("Person", "Follows")}
        for name, file in files.items():
            pq.write_table(tables[name].slice(0, FEW), file)
        rows[part] = sum(table.num_rows for table in tables.values())
        actions[part] = Action(partial(ogs.load, graph, files, "merge"))
    taken = in_turns({str(part): action for part, action in actions.items()}, ROUNDS, warm_up=1)
    for each in graphs:
        each.drop()
    measure = f"Spark load of {2 * FEW} rows into {rows[1]:,} rows"
    return [Row(measure, taken["1"].median, taken[str(FEW)].median, f"into {rows[FEW]:,} rows", goal=Goal(2))]


def load_once(files: str, place: str) -> dict[str, float]:
    """One load in this process after a small one that starts the workers."""
    from omnigraph import spark as ogs

    session = ogs.session(f"local[{THREADS}]")
    graphs = _Graphs(Path(place))
    graphs.make()
    ogs.load(graphs.graph, {"Country": session.createDataFrame([("Nowhere",)], "name string")}, "append")
    graphs.drop()
    graphs.make()
    began = time.perf_counter()
    ogs.load(graphs.graph, Path(files), "append")
    seconds = time.perf_counter() - began
    jvm = session.sparkContext._jvm
    assert jvm is not None
    java = int(jvm.java.lang.ProcessHandle.current().pid())
    return {"seconds": seconds, "memory": child.peak_memory() + _peak_of(java)}


def embedded_against_duckdb(options: Options) -> list[Row]:
    """The load in this process against DuckDB's own file with primary keys."""
    names = ("Parquet", "JSONL")
    try:
        import duckdb
    except ImportError:
        return [Row(f"embedded load from {name}", None, None, "duckdb is not installed") for name in names]
    social = make(options.scale)
    files, lines, _ = _files(options, 1)
    graphs = _Graphs(options.place / "embedded")
    database = options.place / "peer.duckdb"

    def fresh() -> None:
        database.unlink(missing_ok=True)

    def ingest(source: str) -> None:
        with duckdb.connect(str(database), config={"threads": THREADS}) as connection:
            for statement in _statements(social, source, files, lines):
                connection.execute(statement)

    taken = in_turns(
        {
            "Parquet": Action(lambda: graphs.load(files), graphs.make, graphs.drop),
            "Parquet DuckDB": Action(lambda: ingest("Parquet"), fresh),
            "JSONL": Action(lambda: graphs.load(lines), graphs.make, graphs.drop),
            "JSONL DuckDB": Action(lambda: ingest("JSONL"), fresh),
        },
        ROUNDS,
        warm_up=1,
    )
    return [
        Row(
            f"embedded load from {name}, validated, indexed, committed",
            taken[name].median,
            taken[f"{name} DuckDB"].median,
            "DuckDB with primary keys",
            goal=Goal(4),
        )
        for name in names
    ]


class _Graphs:
    """A new empty graph for each turn."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._open: og.Graph | None = None

    @property
    def graph(self) -> og.Graph:
        assert self._open is not None
        return self._open

    def make(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)
        self._open = og.init(self._place, SCHEMA)

    def load(self, source: Path) -> None:
        self.graph.load(source, "append", engine="embedded")

    def drop(self) -> None:
        self.graph.close()
        shutil.rmtree(self._place, ignore_errors=True)


def _files(options: Options, times: int) -> tuple[Path, Path, int]:
    """Parquet folder, JSONL file and number of rows; made once."""
    place = options.place / f"social-{times}"
    folder, lines, count = place / "parquet", place / "social.jsonl", place / "rows"
    if not count.exists():
        social = make(options.scale * times)
        write_parquet(social, folder)
        if times == 1:
            write_jsonl(social, lines)
        count.write_text(str(sum(table.num_rows for table in social.tables.values())))
    return folder, lines, int(count.read_text())


def _peak_of(process: int) -> int:
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return 0
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def _statements(social: Social, source: str, files: Path, lines: Path) -> list[str]:
    made = []
    if source == "JSONL":
        data = (
            "STRUCT(handle VARCHAR, name VARCHAR, gender VARCHAR, age INTEGER, birthday DATE, slug VARCHAR, since DATE)"
        )
        columns = f"{{type: 'VARCHAR', edge: 'VARCHAR', \"from\": 'VARCHAR', \"to\": 'VARCHAR', data: '{data}'}}"
        reading = f"read_json('{lines}', format = 'newline_delimited', columns = {columns})"
        made.append(f"CREATE TEMP TABLE records AS SELECT * FROM {reading}")
    for name, table in social.tables.items():
        columns = ", ".join(f"{field.name} {TYPES[str(field.type)]}" for field in table.schema)
        key = KEYS.get(name, "src, dst")
        made.append(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}))")
        made.append(f"INSERT INTO {name} {_selected(source, name, table.schema.names, files)}")
    return made


def _selected(source: str, name: str, columns: list[str], files: Path) -> str:
    if source == "Parquet":
        return f"SELECT * FROM read_parquet('{files / name}.parquet')"
    ends: Mapping[str, Any] = {"src": '"from"', "dst": '"to"'}
    chosen = ", ".join(ends.get(column, f"data.{column}") for column in columns)
    return f"SELECT {chosen} FROM records WHERE {'edge' if name in ENDS else 'type'} = '{name}'"
