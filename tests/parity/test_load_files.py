"""Files and frames through both engines: formats, directories, odd and broken files, types that only look alike."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph import spark as ogs
from omnigraph.errors import InputError
from tests.parity.both_engines import Pair, exported

pytestmark = pytest.mark.usefixtures("spark")

SCHEMA = """
node Thing {
    k: String @key
    n: I32?
    u: U64?
    f: F32?
    d: Date?
    t: DateTime?
    tags: [String]?
    v: Vector(2)?
    b: Blob?
    ok: Bool?
}
node Note { text: String? }
edge Knows: Thing -> Thing { since: Date? }
"""


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path, SCHEMA)


def _things(count: int) -> list[dict[str, Any]]:
    return [
        {
            "k": f"t{number:03}",
            "n": number,
            "u": 2**64 - 1 - number,
            "f": number / 3,
            "d": "2024-02-29",
            "t": f"2024-01-01T00:00:{number % 60:02}.25+02:00",
            "tags": ["a", "b"][: number % 3],
            "v": [0.5, number],
            "b": "base64:aGk=" if number % 2 else "base64:",
            "ok": number % 2 == 0,
        }
        for number in range(count)
    ]


def test_a_directory_of_every_format_loads_alike(pair: Pair, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    things = _things(40)
    (folder / "a.jsonl").write_text("".join(json.dumps({"type": "Thing", "data": each}) + "\n" for each in things[:10]))
    with gzip.open(folder / "b.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps({"type": "Thing", "data": each}) + "\n" for each in things[10:20]))
    (folder / "Thing.json").write_text("".join(json.dumps(each) + "\n" for each in things[20:30]))
    plain = [{name: value for name, value in each.items() if name in ("k", "n", "ok")} for each in things[30:]]
    pq.write_table(pa.Table.from_pylist(plain), folder / "Thing.parquet", row_group_size=3)
    (folder / "Note.csv").write_text('id,text\nn1,"two\nlines"\nn2,\nn3,""\n')
    (folder / "Knows.csv").write_text("from,to,since\nt001,t035,2024-01-01\nt001,t002,19723\n")
    found = pair.load(folder, "append")
    assert found.counts == ({"Note": 3, "Thing": 40}, {"Knows": 2})
    assert pair.load(str(folder / "*.csv"), "append", on_error="reject").rejects


def test_parquet_is_split_by_row_groups_and_keeps_its_row_numbers(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOAD_BLOCK_BYTES", 64)
    monkeypatch.setattr(limits, "SPLIT_BYTES", 64)
    keys = [f"t{number}" for number in range(20)]
    rows = pa.table({"k": keys, "ok": [True] * 20, "d": ["2024-01-01"] * 17 + ["soon", "2024-01-01", "never"]})
    pq.write_table(rows, tmp_path / "Thing.parquet", row_group_size=4)
    failed = pair.load(tmp_path / "Thing.parquet", "append")
    assert failed.error is not None and failed.error[3] == 18
    kept = pair.load(tmp_path / "Thing.parquet", "append", on_error="reject")
    assert [row["line"] for row in kept.rejects] == [18, 20]
    repeated = pair.load(tmp_path / "Thing.parquet", "append", on_error="reject", max_rejects=50)
    assert [row["line"] for row in repeated.rejects] == list(range(1, 21))


BROKEN: dict[str, tuple[str, bytes]] = {
    "truncated gzip": ("x.jsonl.gz", gzip.compress(b'{"type":"Note"}\n' * 5000)[:-40]),
    "invalid UTF-8": ("x.jsonl", b'{"type":"Note","data":{"text":"ok"}}\n{"type":"Note","data":{"text":"\xff"}}\n'),
    "a wrong type": ("Thing.json", b'{"k":"a","n":1}\n{"k":"b","n":"1"}\n'),
    "an unknown type": ("x.jsonl", b'{"type":"Note"}\n\n{"type":"Nope"}\n'),
    "an unknown column": ("Thing.csv", b"k,zip\na,1\n"),
    "a missing key column": ("Thing.csv", b"n\n1\n"),
    "a column twice": ("Thing.csv", b"k,k\na,b\n"),
    "columns that differ by case": ("Thing.csv", b"k,K\na,b\n"),
    "short and long rows": ("Thing.csv", b"k,n\na\nb,2\nc,3,4\n"),
    "no Parquet": ("Thing.parquet", b"PAR1 but not really"),
    "nothing": ("x.jsonl", b""),
    "an empty table": ("Thing.csv", b"k,n\n"),
    "blank lines": ("x.jsonl", b"\n \r\n\n"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_answered_alike(name: str, pair: Pair, tmp_path: Path) -> None:
    file, content = BROKEN[name]
    (tmp_path / file).write_bytes(content)
    pair.load(tmp_path / file, "append")


def test_a_line_that_is_too_long_is_named_with_its_length(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(
        b'{"type":"Note"}\n\n{"type":"Note","data":{"text":"' + b"x" * 40_000_000 + b'"}}\n{"type":"Note"}\n'
    )
    found = pair.load(path, "append")
    assert found.error is not None
    assert (found.error[0], found.error[3]) == ("ResourceLimitExceeded", 3)
    assert "actual 40000034" in found.error[1]


def test_a_missing_file_is_refused_alike(pair: Pair, tmp_path: Path) -> None:
    found = pair.load(tmp_path / "nope.jsonl", "append")
    assert found.error is not None and found.error[0] == "InputError"


def test_frames_of_several_types_are_one_commit(pair: Pair, spark: Any) -> None:
    zone = timezone(timedelta(hours=2))
    things = [
        ("a", 1, date(2024, 2, 29), datetime(2024, 1, 1, 12, tzinfo=zone), ["x"], [0.5, 1.0]),
        ("b", None, None, datetime(1960, 1, 1, tzinfo=UTC), [], None),
    ]
    columns = "k string, n int, d date, t timestamp, tags array<string>, v array<float>"
    knows = spark.createDataFrame([("a", "b"), ("b", "a")], "src string, dst string").repartition(3)
    result = ogs.load(pair.spark, {"Thing": spark.createDataFrame(things, columns), "Knows": knows}, "append")
    assert (result.nodes, result.edges, result.engine) == ({"Thing": 2}, {"Knows": 2}, "spark")
    assert len(pair.spark.commits.list()) == 2
    rows = [dict(zip(("k", "n", "d", "t", "tags", "v"), row, strict=True)) for row in things]
    arrow = pa.Table.from_pylist(rows).set_column(3, "t", pa.array([r["t"] for r in rows], pa.timestamp("us", "UTC")))
    pair.embedded.load({"Thing": arrow, "Knows": pa.table({"src": ["a", "b"], "dst": ["b", "a"]})}, "append")
    assert exported(pair.spark) == exported(pair.embedded)


def test_bad_rows_of_a_frame_are_numbered_through_its_partitions(pair: Pair, spark: Any) -> None:
    rows = [(f"k{number}", "2024-01-01" if number not in (7, 11) else "?") for number in range(12)]
    frame = spark.createDataFrame(rows, "k string, d string").repartitionByRange(3, "k").sortWithinPartitions("k")
    found = ogs.load(pair.spark, {"Thing": frame}, "append", on_error="reject").rejects.to_pylist()
    ordered = sorted(key for key, _ in rows)
    assert [(row["file"], row["line"]) for row in found] == [
        ("<Thing>", ordered.index(key) + 1) for key in sorted(["k7", "k11"])
    ]
    twice = ogs.load(pair.spark, {"Thing": frame.filter("k >= 'k8'")}, "append", on_error="reject", max_rejects=99)
    assert {row["code"] for row in twice.rejects.to_pylist()} == {"conflict.key"}


@pytest.mark.parametrize("columns", ["k string, zip string", "k string, K string"])
def test_a_frame_with_columns_that_the_type_does_not_have_is_refused_before_it_runs(
    columns: str, pair: Pair, spark: Any
) -> None:
    frame = spark.createDataFrame([("a", "b")], columns)
    with pytest.raises(InputError, match="unknown input field"):
        ogs.load(pair.spark, {"Thing": frame}, "append")


def test_a_frame_is_loaded_by_spark_without_asking(
    pair: Pair, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.createDataFrame([("a",)], "k string")
    assert pair.spark.load({"Thing": frame}, "append").engine == "spark"
    assert pair.spark.load(frame, "merge", type="Thing").engine == "spark"
    (tmp_path / "few.jsonl").write_text('{"type":"Note"}\n')
    assert pair.spark.load(tmp_path / "few.jsonl", "append").engine == "embedded"
    (tmp_path / "Note.csv").write_text("text\nx\n")
    assert pair.spark.load(tmp_path / "Note.csv", "append").engine == "embedded"
    monkeypatch.setattr(limits, "SPARK_LOAD_BYTES", 1)
    assert pair.spark.load(tmp_path / "Note.csv", "append").engine == "spark"
    with pytest.raises(InputError, match="not one of 'auto', 'embedded', 'spark'"):
        pair.spark.load(tmp_path / "few.jsonl", "append", engine="flink")  # type: ignore[arg-type]
    assert og.open(pair.root / "spark").snapshot().count("Note") == 3
