"""Rows as people hold them, for `load` and `write`: frames, dicts, readers, datasets, open files, generators."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import InputError, InvalidRow
from omnigraph.write.change import Change, Mode
from tests.support.small_graphs import ids_of, people, rows_of
from tests.support.source_tree import ROOT

ROWS = [{"handle": "ann", "age": 3}, {"handle": "bob", "age": None}]
TABLE = pa.table({"handle": ["ann", "bob"], "age": pa.array([3, None], pa.int64())})
LINES = '{"type":"Person","data":{"handle":"ann","age":3}}\n{"type":"Person","data":{"handle":"bob"}}\n'


class _Stream:
    """What a library that we have never heard of hands over."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


HELD: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=1)),
    "dataset": lambda: pds.dataset(TABLE),
    "dataset of Lance": lambda: lance.write_dataset(TABLE, "memory://rows"),
    "stream": _Stream,
    "pandas": lambda: pd.DataFrame(ROWS),
    "pandas, filtered": lambda: pd.DataFrame([{"handle": "zed", "age": 1}, *ROWS]).iloc[1:],
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy polars": lambda: pl.DataFrame(ROWS).lazy(),
    "dicts": lambda: ROWS,
    "dicts with gaps": lambda: [{"handle": "ann", "age": 3}, {"handle": "bob"}],
    "generator of dicts": lambda: (row for row in ROWS),
}


@pytest.mark.parametrize("held", HELD)
def test_rows_are_loaded_however_they_are_held(tmp_path: Path, held: str) -> None:
    with people(tmp_path / "g") as graph:
        result = graph.load(HELD[held](), "append", type="Person")
        assert (result.nodes, result.engine) == ({"Person": 2}, "embedded")
        assert {key: row["age"] for key, row in rows_of(graph, "Person").items()} == {"ann": 3, "bob": None}
    with people(tmp_path / "h") as graph:
        graph.load({"Person": HELD[held](), "Knows": [{"from": "ann", "to": "bob"}]}, "append")
        assert ids_of(graph, "Person") == {"ann", "bob"}
        assert graph.snapshot().count("Knows") == 1


@pytest.mark.parametrize("held", HELD)
def test_rows_are_written_however_they_are_held(tmp_path: Path, held: str) -> None:
    with people(tmp_path / "g") as graph:
        graph.write([Change("node:Person", HELD[held](), Mode.MERGE)])
        assert {key: row["age"] for key, row in rows_of(graph, "Person").items()} == {"ann": 3, "bob": None}


def test_a_reader_is_read_batch_by_batch(tmp_path: Path) -> None:
    taken: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(5):
            taken.append(number)
            yield pa.record_batch({"handle": [f"p{number}"]})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("handle", pa.string())]), batches())
    with people(tmp_path / "g") as graph:
        assert graph.load(reader, "append", type="Person").nodes == {"Person": 5}
    assert taken == [0, 1, 2, 3, 4]


def test_what_pandas_calls_missing_is_null(tmp_path: Path) -> None:
    schema = "node T { k: String @key  n: I32?  f: F64?  t: String?  at: DateTime?  day: Date? }"
    frame = pd.DataFrame(
        {
            "k": ["a", "b"],
            "n": [1, None],
            "f": [0.5, float("nan")],
            "t": ["x", None],
            "at": [pd.Timestamp("2024-01-01T00:00:00.123Z"), pd.NaT],
            "day": [date(2024, 1, 1), pd.NaT],
        }
    )
    with og.init(tmp_path / "g", schema) as graph:
        graph.load(frame, "append", type="T")
        graph.load(frame.assign(k=["c", "d"]).to_dict("records"), "append", type="T")
        found = rows_of(graph, "T")
    assert found["a"] | {"id": 0, "k": 0} == found["c"] | {"id": 0, "k": 0}
    assert found["a"]["n"] == 1
    assert {name: found["b"][name] for name in ("n", "f", "t", "at", "day")} == dict.fromkeys(
        ("n", "f", "t", "at", "day")
    )
    assert found["b"] | {"id": 0, "k": 0} == found["d"] | {"id": 0, "k": 0}


def test_a_category_and_a_large_number_keep_their_values(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node T { k: String @key  e: enum(red, blue)  u: U64? }") as graph:
        frame = pd.DataFrame({"k": ["a", "b"], "e": pd.Categorical(["red", "blue"])})
        graph.load(frame, "append", type="T")
        graph.load([{"k": "c", "e": "red", "u": 2**64 - 1}], "append", type="T")
        assert {row["k"]: row["e"] for row in rows_of(graph, "T").values()} == {"a": "red", "b": "blue", "c": "red"}
        assert rows_of(graph, "T")["c"]["u"] == 2**64 - 1


def test_a_column_in_which_all_is_missing_fits_every_type(tmp_path: Path) -> None:
    missing = [float("nan")] * 2
    with og.init(tmp_path / "g", "node T { k: String @key  n: I32?  t: String?  day: Date?  l: [I64]? }") as graph:
        frame = pd.DataFrame({"k": ["a", "b"], "n": missing, "t": missing, "day": [pd.NaT] * 2, "l": missing})
        graph.load(frame, "append", type="T")
        graph.load(frame.assign(k=["c", "d"]).to_dict("records"), "append", type="T", times="round")
        graph.load(frame.assign(n=[1.0, float("nan")]), "merge", type="T", columns="keep")
        assert [row["n"] for row in rows_of(graph, "T").values()].count(None) == 3


def test_midnights_of_pandas_are_days_and_instants(tmp_path: Path) -> None:
    days = pd.to_datetime(pd.Series(["2024-02-29", None]))
    with og.init(tmp_path / "g", "node T { k: String @key  day: Date?  at: DateTime? }") as graph:
        graph.load(pd.DataFrame({"k": ["a", "b"], "day": days, "at": days}), "append", type="T")
        found = graph.query(
            "query q() { match { $t: T } return { $t.k as k, $t.day as day, $t.at as at } order { k } }"
        )
        assert found.rows() == [
            {"k": "a", "day": date(2024, 2, 29), "at": datetime(2024, 2, 29, tzinfo=UTC)},
            {"k": "b", "day": None, "at": None},
        ]
        graph.load(found.to_pandas().assign(k=["c", "d"]), "append", type="T")
        assert graph.snapshot().count("T") == 4
        for wrong in ("2024-02-29T10:00", "2024-02-29T00:00Z"):
            with pytest.raises(InvalidRow, match="property 'day' expects Date, got DateTime"):
                graph.load(pd.DataFrame({"k": ["e"], "day": [pd.Timestamp(wrong)]}), "append", type="T")


def test_categories_of_any_library_are_their_values(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node T { k: I64 @key  e: enum(red)?  day: Date? }  edge E: T -> T") as graph:
        words = pl.Series(["red", None], dtype=pl.Categorical)
        graph.load(pl.DataFrame({"k": [1, 2], "e": words}), "append", type="T")
        pq.write_table(
            pa.table({"k": [3], "day": pa.array(["2024-01-01"]).dictionary_encode()}), tmp_path / "T.parquet"
        )
        graph.load(tmp_path / "T.parquet", "append")
        graph.load(pd.DataFrame({"from": pd.Categorical([1]), "to": pd.Categorical([3])}), "append", type="E")
        graph.write([Change("node:T", pa.table({"k": pa.array([4]).dictionary_encode()}))])
        assert {row["k"]: (row["e"], row["day"]) for row in rows_of(graph, "T").values()} == {
            1: ("red", None), 2: (None, None), 3: (None, date(2024, 1, 1)), 4: (None, None),
        }  # fmt: skip


def test_rows_that_cannot_be_read_are_refused_with_the_column_and_the_row(tmp_path: Path) -> None:
    with people(tmp_path / "g") as graph:
        with pytest.raises(InputError, match="column 'age' cannot be read: it holds int and str") as caught:
            graph.load([{"handle": "a", "age": 1}, {"handle": "b", "age": "old"}], "append", type="Person")
        assert caught.value.hint == "row 2 does not fit the rows before it"
        with pytest.raises(InputError, match="a table does not say which type its rows have"):
            graph.load(pd.DataFrame(ROWS), "append")
        with pytest.raises(InputError, match="a Series is one column, not rows"):
            graph.load({"Person": pl.Series([1, 2])}, "append")
        with pytest.raises(InputError, match="column 'age' cannot be read: a number has more than 64 bits"):
            graph.load([{"handle": "a", "age": 2**70}], "append", type="Person")
        with pytest.raises(InputError, match="column 'handle' cannot be read: it holds str and int"):
            graph.load(pd.DataFrame({"handle": ["a", 1]}), "append", type="Person")
        with pytest.raises(InputError, match="row 2 of a list of rows is a int, not a dict"):
            graph.load([{"handle": "a"}, 1], "append", type="Person")
        with pytest.raises(InvalidRow, match="unknown input field 'ag' for 'node:Person'") as unknown:
            graph.load(pd.DataFrame([{"handle": "a", "ag": 1}]), "append", type="Person")
        assert unknown.value.hint == "did you mean 'age'?; <Person>"
        with pytest.raises(InputError, match="rows of 'node:Person' are a int"):
            graph.write([Change("node:Person", 7)])
        with pytest.raises(InputError, match="rows of 'Person' are one dict") as one:
            graph.load({"Person": {"handle": "a"}}, "append")
        assert one.value.hint == "pass a list of dicts, one for each row"
        with pytest.raises(InputError, match="a mapping names its types itself") as mapping:
            graph.load({"handle": "a"}, "append", type="Person")
        assert mapping.value.hint == "leave out type=; rows are a list of dicts, also a single one"
        for given in ({"Person": b"handle\na\n"}, b"handle\na\n"):
            with pytest.raises(InputError, match="of type bytes") as content:
                graph.load(given, "append")
            assert content.value.hint == "pass io.BytesIO(content)"
        assert len(graph.commits.list()) == 1


def test_neither_pandas_nor_polars_is_imported_to_know_a_frame() -> None:
    code = (
        "import sys, pyarrow as pa\n"
        "from omnigraph.write.arrow_rows import is_rows\n"
        "print([is_rows(each) for each in (pa.schema([]).empty_table(), [{'k': 1}], [], 'x.csv', 7)])\n"
        "print([name for name in ('pandas', 'polars', 'pyarrow.dataset', 'pyspark') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin"},
    )  # fmt: skip
    assert done.stdout.splitlines() == ["[True, True, False, False, False]", "[]"]


def _parquet() -> bytes:
    held = io.BytesIO()
    pq.write_table(TABLE, held)
    return held.getvalue()


def _csv() -> str:
    held = io.BytesIO()
    pcsv.write_csv(TABLE, held)
    return held.getvalue().decode()


def _named(stream: Any, name: str) -> Any:
    stream.name = name
    return stream


class _Pipe(io.RawIOBase):
    """Bytes that can be read once, as from a pipe."""

    def __init__(self, data: bytes) -> None:
        self._left = data

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        size = len(self._left) if size < 0 else min(size, 7)
        piece, self._left = self._left[:size], self._left[size:]
        return piece


OPEN: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "text": (lambda: io.StringIO(LINES), {}),
    "bytes": (lambda: io.BytesIO(LINES.encode()), {}),
    "packed bytes": (lambda: io.BytesIO(gzip.compress(LINES.encode())), {}),
    "an unpacking file": (lambda: gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(LINES.encode()))), {}),
    "a pipe": (lambda: _Pipe(LINES.encode()), {}),
    "CSV text": (lambda: io.StringIO(_csv()), {"format": "csv", "type": "Person"}),
    "CSV with a name": (lambda: _named(io.BytesIO(_csv().encode()), "in/Person.csv"), {}),
    "packed CSV": (lambda: io.BytesIO(gzip.compress(_csv().encode())), {"format": "csv", "type": "Person"}),
    "CSV from a pipe": (lambda: _Pipe(_csv().encode()), {"format": "csv", "type": "Person"}),
    "Parquet": (lambda: io.BytesIO(_parquet()), {"format": "parquet", "type": "Person"}),
    "Parquet from a pipe": (lambda: _Pipe(_parquet()), {"format": "parquet", "type": "Person"}),
    "JSON of a type": (lambda: io.StringIO('{"handle":"ann"}\n{"handle":"bob"}'), {"format": "json", "type": "Person"}),
}


@pytest.mark.parametrize("name", OPEN)
def test_an_open_file_is_loaded_and_left_open(tmp_path: Path, name: str) -> None:
    opened, options = OPEN[name]
    stream = opened()
    with people(tmp_path / "g") as graph:
        assert graph.load(stream, "append", **options).nodes == {"Person": 2}
        assert ids_of(graph, "Person") == {"ann", "bob"}
    assert not stream.closed


def test_open_files_may_be_several_or_belong_to_types(tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text(LINES)
    with people(tmp_path / "g") as graph, open(tmp_path / "people.jsonl") as text:
        graph.load([text, io.StringIO('{"edge":"Knows","from":"ann","to":"bob"}')], "append")
        graph.load({"Knows": io.StringIO("from,to\nbob,ann\n")}, "append", format="csv")
        assert graph.snapshot().count("Knows") == 2
        with pytest.raises(InputError, match="cannot tell what open file holds"):
            graph.load({"Knows": io.StringIO("from,to\n")}, "append")


def test_the_name_of_an_open_file_is_in_its_errors(tmp_path: Path) -> None:
    with people(tmp_path / "g") as graph:
        with pytest.raises(InvalidRow) as caught:
            graph.load(io.StringIO(LINES + '{"type":"Person","data":{"handle":7}}'), "append")
        assert caught.value.hint == "open file:3"
        with pytest.raises(InvalidRow) as caught:
            graph.load(_named(io.StringIO('handle,age\n"a\na",1\n\nb,x\n'), "Person.csv"), "append")
        assert caught.value.hint == "Person.csv:5"


def test_a_generator_is_walked_once(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_text(f'{{"type":"Person","data":{{"handle":"p{number}"}}}}\n')
    with people(tmp_path / "g") as graph:
        assert graph.load(tmp_path.glob("*.jsonl"), "append").nodes == {"Person": 3}
        (tmp_path / "Note.csv").write_text("text\nx\n")
        assert graph.load({"Note": tmp_path.glob("*.csv")}, "append").nodes == {"Note": 1}
        with pytest.raises(InputError, match="there is nothing to load"):
            graph.load(tmp_path.glob("*.nothing"), "append")


def test_times_of_python_are_those_of_the_graph(tmp_path: Path) -> None:
    moment = datetime(2025, 6, 1, 8, 0, 0, 123000, tzinfo=UTC)
    with og.init(tmp_path / "g", "node T { k: String @key  at: DateTime? }") as graph:
        graph.load([{"k": "a", "at": moment}, {"k": "b", "at": moment.replace(tzinfo=None)}], "append", type="T")
        assert (graph.export().text or "").count('"at":1748764800123') == 2


def test_an_empty_list_says_neither_no_rows_nor_no_files(tmp_path: Path) -> None:
    given: list[tuple[Any, str | None]] = [({"Note": []}, None), ([], "Note"), ({"Note": iter(())}, None)]
    with og.init(str(tmp_path / "g"), "node Note { text: String }") as graph:
        graph.load({"Note": [{"text": "a"}]}, "append")
        for source, type_ in given:
            with pytest.raises(InputError, match="an empty list is given for 'Note'"):
                graph.load(source, "overwrite", type=type_)
        graph.load({"Note": pa.table({"text": pa.array([], pa.string())})}, "overwrite")
        assert graph.snapshot().count("Note") == 0


def test_whole_numbers_that_a_frame_may_have_rounded_are_refused(tmp_path: Path) -> None:
    with og.init(str(tmp_path / "g"), "node N { k: String @key  big: I64? }") as graph:
        with pytest.raises(InvalidRow, match="property 'big' expects I64, got F64"):
            graph.load(pd.DataFrame({"k": ["a", "b"], "big": [2.0**53, None]}), "append", type="N")
        graph.load(pd.DataFrame({"k": ["a", "b"], "big": [2**53 - 1, None]}), "append", type="N")
        assert graph.snapshot().arrow("N", ["big"]).column("big").to_pylist() == [2**53 - 1, None]


@pytest.mark.parametrize("given", [{"Note": [{"text": "a"}]}, [{"text": "a"}]])
def test_a_write_takes_changes_only_and_says_so(given: Any, tmp_path: Path) -> None:
    with (
        og.init(str(tmp_path / "g"), "node Note { text: String }") as graph,
        pytest.raises(InputError, match=r"a change of the graph is no (str|dict)"),
    ):
        graph.write(given)


def test_a_write_takes_the_ends_of_edges_as_a_load_does(tmp_path: Path) -> None:
    schema = "node Room { no: I32 @key }  edge Door: Room -> Room { width: I32? }"
    with og.init(str(tmp_path / "g"), schema) as graph:
        rooms: list[Any] = [{"no": 1}, {"no": 2}]
        doors: list[Any] = [{"from": 1, "to": 2}, {"from": 2, "to": 1}]
        graph.write([Change("node:Room", rooms), Change("edge:Door", doors)])
        assert {(row["src"], row["dst"]) for row in rows_of(graph, "Door").values()} == {("1", "2"), ("2", "1")}
        wrong: list[Any] = [{"form": 1, "to": 2}]
        with pytest.raises(InvalidRow, match="unknown input field 'form' for 'edge:Door'") as unknown:
            graph.write([Change("edge:Door", wrong)])
        assert unknown.value.hint == "did you mean 'from'?"


def test_the_rows_of_a_state_can_be_loaded_into_another_graph(tmp_path: Path) -> None:
    schema = "node Event { name: String @key  at: DateTime?  day: Date? }  edge Next: Event -> Event"
    with og.init(str(tmp_path / "g"), schema) as graph, og.init(str(tmp_path / "h"), schema) as other:
        at = datetime(2024, 1, 1, 12, 30, 0, 250_000, UTC)
        graph.load([{"name": "a", "at": at}, {"name": "b", "day": date(2024, 2, 29)}], "append", type="Event")
        graph.load([{"from": "a", "to": "b"}], "append", type="Next")
        state = graph.snapshot()
        other.load({name: state.dataset(name) for name in ("Event", "Next")}, "append")
        assert other.export().text == graph.export().text
