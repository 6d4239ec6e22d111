"""Clones and backups whose files Spark carries are those of the embedded engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints, limits
from omnigraph.errors import StoreUnavailable
from omnigraph.graph.engines import copy_engine
from omnigraph.spark import copy_tasks
from omnigraph.spark.copy_tasks import SparkCarrier
from omnigraph.storage.objects.object_store import parse_location
from omnigraph.upkeep.clone.carry_files import CarriedFile
from tests.support.whole_graphs import content, files, people, whole_graph


@pytest.fixture
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several jobs of several tasks, also for a small graph."""
    monkeypatch.setattr(copy_tasks, "_TASK_FILES", 16)
    monkeypatch.setattr(copy_tasks, "_JOB_FILES", 64)


def test_a_clone_by_spark_is_that_of_one_process(tmp_path: Path, spark: Any, small_shares: None) -> None:
    with whole_graph(tmp_path / "g") as graph:
        expected = content(graph)
    one, other = tmp_path / "twin1", tmp_path / "twin2"  # version files name them, so both are equally long
    here = og.clone(tmp_path / "g", one, engine="embedded").to_dict()
    assert {**og.clone(tmp_path / "g", other, engine="spark").to_dict(), "target": here["target"]} == here
    assert set(files(one)) == set(files(other))
    with og.open(other) as twin:
        assert content(twin) == expected
        assert twin.verify(deep=True).ok


def test_a_clone_by_spark_that_was_interrupted_is_continued(tmp_path: Path, spark: Any, small_shares: None) -> None:
    whole_graph(tmp_path / "g").close()
    failpoints.arm("clone.after_data=raise")
    try:
        with pytest.raises(StoreUnavailable):
            og.clone(tmp_path / "g", tmp_path / "twin", engine="spark")
    finally:
        failpoints.arm("")
    damaged = max((tmp_path / "twin").glob("nodes/*/data/*.lance"), key=lambda path: path.stat().st_size)
    size = damaged.stat().st_size
    damaged.write_bytes(b"x" * size)
    next(path for path in (tmp_path / "twin").glob("edges/*/data/*.lance")).unlink()
    there = len(files(tmp_path / "twin"))
    result = og.clone(tmp_path / "g", tmp_path / "twin", engine="spark")
    assert result.copied_files <= result.files - there + 3
    with og.open(tmp_path / "g", mode="ro") as graph, og.open(tmp_path / "twin") as twin:
        assert content(twin) == content(graph)
        assert twin.verify(deep=True).ok


@pytest.mark.s3
def test_a_backup_by_spark_goes_to_s3_and_is_brought_back(
    tmp_path: Path, s3_root: str, spark: Any, small_shares: None
) -> None:
    with whole_graph(tmp_path / "g") as graph:
        first = og.backup(tmp_path / "g", s3_root, engine="spark")
        graph.write([people(9000, 3)])
        graph.internals.store.mirror.flush()  # what is copied in the background would be new to the third one
        second = og.backup(tmp_path / "g", s3_root, engine="spark")
        assert 0 < second.copied_files < first.copied_files / 4
        assert og.backup(tmp_path / "g", s3_root, engine="spark").copied_files == 0
        expected = content(graph)
    og.clone(s3_root, tmp_path / "back", engine="spark")
    with og.open(tmp_path / "back") as back:
        assert content(back) == expected
        assert back.verify(deep=True).ok


def test_a_file_that_spark_cannot_read_ends_the_clone_with_an_error_of_ours(tmp_path: Path, spark: Any) -> None:
    whole_graph(tmp_path / "g").close()
    unreadable = next((tmp_path / "g").glob("nodes/*/data/*.lance"))
    unreadable.unlink()
    unreadable.symlink_to(tmp_path)  # listed, and no file
    with pytest.raises(og.OmniGraphError, match=unreadable.name):
        og.clone(tmp_path / "g", tmp_path / "twin", engine="spark")


def test_auto_gives_many_files_of_an_object_store_to_spark(tmp_path: Path, spark: Any) -> None:
    disk, store = parse_location(tmp_path / "a"), parse_location("s3://bucket/b")
    many = [CarriedFile("f", 1, False)] * (limits.SPARK_COPY_FILES + 1)
    large = [CarriedFile("f", limits.SPARK_COPY_BYTES + 1, False)]
    auto = copy_engine("auto")
    assert isinstance(auto(disk, store, many), SparkCarrier) and isinstance(auto(store, disk, large), SparkCarrier)
    assert auto(disk, store, many[1:]) is None and auto(disk, disk, many) is None
    assert copy_engine("embedded")(disk, store, many) is None
    assert isinstance(copy_engine("spark")(disk, disk, []), SparkCarrier)
