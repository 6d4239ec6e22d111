"""Which engine loads what, and what happens where Spark is not installed or its installation is broken."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import MissingExtra
from omnigraph.graph.engines import is_bulk
from tests.support.source_tree import ROOT


@pytest.fixture
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(import_module("omnigraph.spark.session"), "_running", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)


def test_the_size_of_all_files_decides_whatever_their_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SPARK_LOAD_BYTES", 100)
    for name, size in (("a/small.csv", 60), ("a/other.parquet", 60), ("b/large.jsonl", 101), ("c/tiny.csv.gz", 41)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    small, other, large = tmp_path / "a/small.csv", tmp_path / "a/other.parquet", tmp_path / "b/large.jsonl"
    bulk: list[Any] = [
        large,
        tmp_path / "a",
        str(tmp_path / "*" / "*.csv*"),
        [small, other],
        {"Person": small, "Knows": [other]},
        {"Person": pa.table({"k": ["a"]}), "Knows": large},
    ]
    few: list[Any] = [
        small,
        other,
        [small],
        tmp_path / "c",
        str(tmp_path / "c" / "*"),
        {"Person": small, "Knows": pa.table({"src": ["a"]})},
        tmp_path / "missing.parquet",
        "s3://a-bucket-that-is-not-there/*.jsonl",
        [{"k": "a"}],
        {},
    ]
    assert [is_bulk(source) for source in bulk] == [True] * len(bulk)
    assert [is_bulk(source) for source in few] == [False] * len(few)


def test_a_frame_of_spark_goes_to_spark_however_small() -> None:
    frame = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()
    assert is_bulk(frame)
    assert is_bulk({"Person": pa.table({"k": ["a"]}), "Knows": frame})


@pytest.mark.parametrize(("missing", "said"), [("no_pyspark", "needs pyspark"), ("no_java", "needs Java 17")])
def test_without_spark_this_process_loads_unless_spark_is_asked_for(
    tmp_path: Path, missing: str, said: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    request.getfixturevalue(missing)
    monkeypatch.setattr(limits, "SPARK_LOAD_BYTES", 1)
    (tmp_path / "Person.csv").write_text("name\nann\n")
    with og.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        assert graph.load(tmp_path / "Person.csv", "append").engine == "embedded"
        with pytest.raises(MissingExtra, match=said):
            graph.load(tmp_path / "Person.csv", "merge", engine="spark")
        assert graph.snapshot().count("Person") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import a_package_that_is_not_there", "ModuleNotFoundError: No module named 'a_package_that_is_not_there'"),
        ("from pyspark import SparkContext", "ImportError: cannot import name 'SparkContext' from 'pyspark'"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("import json; json.no_such_name", "AttributeError: module 'json' has no attribute 'no_such_name'"),
    ],
)
def test_a_broken_installation_is_an_error_that_names_its_cause(tmp_path: Path, text: str, said: str) -> None:
    """Also with ``engine="auto"``: a load that quietly went the slow way would hide it."""
    (tmp_path / "packages/pyspark/sql").mkdir(parents=True)
    (tmp_path / "packages/pyspark/__init__.py").write_text("")
    (tmp_path / "packages/pyspark/sql/__init__.py").write_text(text + "\n")
    (tmp_path / "Person.csv").write_text("name\nann\n")
    code = (
        "import sys; sys.path.insert(0, 'packages')\n"
        "import omnigraph as og\n"
        "from omnigraph import limits; limits.SPARK_LOAD_BYTES = 1\n"
        "with og.init('g', 'node Person { name: String @key }') as graph:\n"
        "    try:\n"
        "        graph.load('Person.csv', 'append')\n"
        "    except og.OmniGraphError as error:\n"
        "        print(type(error).__name__, error.message, type(error.__cause__).__name__, sep=' | ')\n"
        "    print(graph.snapshot().count('Person'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin"},
    )  # fmt: skip
    kind, message, cause = done.stdout.splitlines()[0].split(" | ")
    assert (kind, cause) == ("InternalError", said.partition(":")[0])
    assert message.startswith(f"the Spark engine cannot be imported: {said}")
    assert done.stdout.splitlines()[1] == "0"
