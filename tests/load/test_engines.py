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


def test_directories_patterns_tables_of_files_and_large_files_are_bulk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARK_LOAD_BYTES", 100)
    (tmp_path / "small.jsonl").write_bytes(b"x" * 60)
    (tmp_path / "large.jsonl").write_bytes(b"x" * 101)
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    bulk: list[Any] = [
        tmp_path,
        str(tmp_path / "*.jsonl"),
        tmp_path / "Person.parquet",
        "Person.csv.gz",
        large,
        [small, small],
        {"Person": "people.csv"},
        "s3://bucket/*.jsonl",
    ]
    few: list[Any] = [small, [small], tmp_path / "missing.jsonl", {"Person": pa.table({"k": ["a"]})}, {}]
    assert [is_bulk(source, None) for source in bulk] == [True] * len(bulk)
    assert [is_bulk(source, None) for source in few] == [False] * len(few)
    assert is_bulk(tmp_path / "rows.txt", "parquet")


@pytest.mark.parametrize(("missing", "said"), [("no_pyspark", "needs pyspark"), ("no_java", "needs Java 17")])
def test_without_spark_this_process_loads_unless_spark_is_asked_for(
    tmp_path: Path, missing: str, said: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(missing)
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
