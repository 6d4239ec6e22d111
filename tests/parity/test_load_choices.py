"""What a load may be asked for, on both engines: messages of the fixtures, kept columns, ends, times, empty files."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph import spark as ogs
from omnigraph.errors import InputError
from tests.load.messages.fixtures import Message, messages
from tests.load.test_partial_merge import SCHEMA, STORED
from tests.parity.both_engines import Pair

pytestmark = pytest.mark.usefixtures("spark")

#: Cases that are about more than what the embedded load itself says; each load on Spark takes a second or two.
_CHOSEN = ("same key", "never closed", "column that is missing", "overwrite", "mark before another", "nobody has")
SAID = [each for each in messages() if any(word in each.name for word in _CHOSEN)]


@pytest.mark.parametrize("case", SAID, ids=str)
def test_both_engines_say_the_same(case: Message, tmp_path: Path) -> None:
    case.write_files(tmp_path)
    pair = Pair(tmp_path, case.schema)
    if case.stored:
        assert pair.load_lines(list(case.stored), "append").committed
    found = pair.load(str(tmp_path / case.source), case.mode, **case.options)
    assert (found.error is None) == case.outcome.startswith("ok ")


def test_a_merge_keeps_what_the_input_does_not_say(tmp_path: Path) -> None:
    pair = Pair(tmp_path, SCHEMA)
    pair.load_lines(STORED, "append")
    lines = [
        '{"type":"Person","data":{"handle":"ann","age":4}}',
        '{"type":"Person","data":{"handle":"bob","name":"B","age":null}}',
        '{"type":"Person","data":{"handle":"cid","name":"Cid"}}',
        '{"edge":"Knows","from":"ann","to":"bob","data":{"weight":0.75}}',
        '{"edge":"Knows","from":"bob","to":"ann"}',
    ]
    found = pair.load_lines(lines, "merge", columns="keep")
    assert found.counts == ({"Person": 3}, {"Knows": 2})
    assert any('"age":4' in line and '"photo":"base64:aGk="' in line for line in found.export)
    assert any('"id":"k1","since":19723,"weight":0.75' in line for line in found.export)
    (tmp_path / "Person.csv").write_text("handle,age\nann,5\ndan,6\n")
    assert pair.load(tmp_path / "Person.csv", "merge", columns="keep").error is not None
    kept = pair.load(tmp_path / "Person.csv", "merge", columns="keep", on_error="reject")
    assert [row["line"] for row in kept.rejects] == [3]
    again = pair.load_lines(lines[3:], "merge")
    assert sum('"edge":"Knows"' in line for line in again.export) == 2


def test_integers_are_ends_in_parquet_and_lines(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "node T { k: I64 @key }\nedge Next: T -> T { at: DateTime? }")
    pq.write_table(pa.table({"k": [1, 2]}), tmp_path / "T.parquet")
    fine = pa.array([1_500, 2_400], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"src": [1, 2], "dst": [2, 1], "at": fine}), tmp_path / "Next.parquet")
    assert pair.load(str(tmp_path / "*.parquet"), "append").error is not None
    found = pair.load(str(tmp_path / "*.parquet"), "append", times="round")
    assert sum('"at":2' in line for line in found.export) == 2
    assert pair.load_lines(['{"edge":"Next","from":1,"to":2}'] * 3, "append").counts == ({}, {"Next": 3})


def test_rows_and_files_of_this_process_are_not_sent_to_spark(tmp_path: Path) -> None:
    graph = Pair(tmp_path, "node T { k: I64 @key }").spark
    with pytest.raises(InputError, match="rows of <T> are in the memory of this process"):
        ogs.load(graph, [{"k": 1}], "append", type="T")
    with pytest.raises(InputError, match="is an open file of this process"):
        ogs.load(graph, io.StringIO('{"type":"T","data":{"k":1}}'), "append")
    assert graph.load([{"k": 1}], "append", type="T").engine == "embedded"


def test_an_export_to_csv_loads_again(tmp_path: Path) -> None:
    pair = Pair(tmp_path, SCHEMA)
    pair.load_lines(STORED, "append")
    result = ogs.export(pair.spark, tmp_path / "out.csv")
    assert [Path(each).parent.name for each in result.files] == ["Knows.csv", "Likes.csv", "Note.csv", "Person.csv"]
    copy = Pair(tmp_path / "copy", SCHEMA)
    copy.load({name: tmp_path / "out.csv" / f"{name}.csv" for name in ("Person", "Note", "Knows", "Likes")}, "append")
    assert copy.embedded.export().text == pair.spark.export().text
