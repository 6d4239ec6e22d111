"""The newest version of a table on a disk, with and without the note of Lance."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.storage.metadata.manifest import PATH
from omnigraph.storage.tables import datasets as module
from omnigraph.storage.tables.datasets import newest_version, version_file

NOTE = "_versions/latest_version_hint.json"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with five versions."""
    for number in range(5):
        lance.write_dataset(pa.table({"x": [number]}), str(tmp_path / "t"), mode="append" if number else "create")
    return tmp_path / "t"


def test_the_note_of_lance_names_the_newest_version(table: Path) -> None:
    assert (table / NOTE).exists(), "then a search begins at a version that is known, or lists"
    assert newest_version(str(table)) == 5


@pytest.mark.parametrize("note", ['{"version": 2}', '{"version": 5}', "", "{", "[]", '{"version": null}'])
@pytest.mark.parametrize("known", [1, 4, 5])
def test_a_note_that_is_old_or_damaged_misleads_nobody(table: Path, note: str, known: int) -> None:
    (table / NOTE).write_text(note)
    assert newest_version(str(table), known) == 5


def test_versions_that_others_made_and_removed_since_the_note_mislead_nobody(table: Path) -> None:
    note = (table / NOTE).stat()
    (table / NOTE).write_text('{"version": 2}')
    os.utime(table / NOTE, ns=(note.st_atime_ns, note.st_mtime_ns - 2_000_000_000))
    (table / version_file(3)).unlink()
    assert newest_version(str(table), known=2) is None, "then it is listed"


def test_without_a_version_to_begin_at_the_answer_is_a_listing(table: Path) -> None:
    assert newest_version(str(table), known=9) is None, "another table lies there than the one that is known"
    (table / NOTE).unlink()
    assert newest_version(str(table)) is None
    assert newest_version(str(table / "nothing")) is None


def test_a_note_of_a_version_that_was_removed_is_not_believed(table: Path) -> None:
    (table / version_file(5)).unlink()
    assert newest_version(str(table)) is None


def test_a_note_that_is_very_old_is_given_up(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_VERSIONS_TRIED", 3)
    (table / NOTE).write_text('{"version": 1}')
    assert newest_version(str(table)) is None
    assert newest_version(str(table), known=3) == 5


def test_a_cleanup_leaves_no_note_that_stands_before_a_gap(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Person { name: String @key }")
    for number in range(6):
        graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": f"p{number}"})
        if number == 2:
            graph.branches.create("kept")
    (people,) = (tmp_path / "g" / "nodes").iterdir()
    (people / NOTE).write_text('{"version": 4}')  # what two kills in a row would leave
    graph.cleanup(keep=1, grace=0, confirm=True)
    assert (people / version_file(4)).exists()
    assert not (people / version_file(5)).exists()
    assert newest_version(str(people)) == 7
    assert newest_version(str(tmp_path / "g" / PATH)) == lance.dataset(str(tmp_path / "g" / PATH)).version


def test_a_graph_reads_and_writes_without_notes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Person { name: String @key }")
    for name in ("ann", "ben"):
        graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": name})
    for note in (tmp_path / "g").rglob("latest_version_hint.json"):
        note.unlink()
    other = og.open(tmp_path / "g")
    other.mutate("query q($n: String) { insert Person { name: $n } }", {"n": "cy"})
    assert graph.snapshot().count("Person") == 3


def test_a_commit_and_a_look_list_no_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(tmp_path / "g", "node Person { name: String @key }")
    graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": "ann"})
    handle: Any = graph._store.tables.newest(PATH)
    with monkeypatch.context() as patch:
        patch.delattr(type(handle), "latest_version")
        graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": "ben"})
        assert graph.snapshot().count("Person") == 2
