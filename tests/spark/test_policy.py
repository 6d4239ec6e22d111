"""Spark on a graph that was opened with a policy: what it denies is refused on the driver, before there is a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from omnigraph import spark as ogs
from omnigraph.errors import OmniGraphError, PolicyDenied, QueryTypeError, TypeNotFound
from tests.policy.verbs import PEOPLE, Staff, granting, staff

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = ("Person", "Knows")
ROW = '{"type":"Person","data":{"handle":"di","name":"Di"}}\n'
SALARY = '{"type":"Salary","data":{"code":"s2","amount":1}}\n'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Staff:
    folder = tmp_path_factory.mktemp("spark-policy")
    (folder / "row.jsonl").write_text(ROW)
    (folder / "salary.jsonl").write_text(SALARY)
    return staff(folder)


def test_every_verb_is_refused_when_nothing_is_granted(spark: SparkSession, place: Staff, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("ed", "Ed")], ["handle", "name"])
    with place.open(policy=granting()) as graph:
        for call in (
            lambda: ogs.read(graph, "Person", branch="x"),
            lambda: ogs.query(graph, PEOPLE, branch="x"),
            lambda: ogs.export(graph, tmp_path / "out.jsonl", branch="x"),
            lambda: ogs.load(graph, place.folder / "row.jsonl", "append", branch="x"),
            lambda: ogs.load(graph, {"Person": frame}, "append", branch="x"),
            lambda: graph.load(place.folder / "row.jsonl", "append", branch="x", engine="spark"),
            lambda: ogs.merge(graph, "x"),
            lambda: graph.optimize(engine="spark"),
        ):
            with pytest.raises(PolicyDenied):
                call()
    assert not (tmp_path / "out.jsonl").exists()


def test_a_denied_type_is_unknown_to_spark(spark: SparkSession, place: Staff, tmp_path: Path) -> None:
    with place.open(policy=granting("read", "export", "change", types=SHOWN)) as graph:
        assert ogs.read(graph, "Person").count() == 2
        assert ogs.query(graph, PEOPLE).count() == 2
        for name in ("Salary", "node:Salary", "Earns"):
            with pytest.raises(TypeNotFound):
                ogs.read(graph, name)
        with pytest.raises(QueryTypeError, match="unknown node type"):
            ogs.query(graph, "query q() { match { $s: Salary } return { $s.amount } }")
        ogs.export(graph, tmp_path / "out.jsonl")
        assert "Salary" not in (tmp_path / "out.jsonl").read_text()
        with pytest.raises(OmniGraphError) as refused:
            ogs.load(graph, place.folder / "salary.jsonl", "append", branch="x")
        assert "amount" not in str(refused.value)
        assert ogs.load(graph, place.folder / "row.jsonl", "append", branch="x").nodes == {"Person": 1}
    with place.open() as free:
        assert free.snapshot("x").count("Salary") == 1


def test_a_type_that_may_only_be_read_is_not_loaded(spark: SparkSession, place: Staff) -> None:
    policy = granting("read") + "\n" + granting("change", types=SHOWN).rpartition("rules:\n")[2]
    with place.open(policy=policy) as graph, pytest.raises(PolicyDenied, match="and type 'Salary'"):
        ogs.load(graph, place.folder / "salary.jsonl", "append", branch="x")
    with place.open() as free:
        assert free.snapshot("x").count("Salary") == 1
