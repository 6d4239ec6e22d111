"""Files that another process staged: removed when nobody uses them, and never when somebody might."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.storage.objects.object_store import parse_location
from omnigraph.storage.tables.task_staging import StageTable, remove_staged, write_rows
from tests.support.small_graphs import ids_of, people


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return people(tmp_path / "g", "ann")


def _table(graph: og.Graph) -> StageTable:
    pin = graph.snapshot().tables["node:Person"]
    return StageTable(parse_location(graph.uri), table_version_of(pin))


def _staged(graph: og.Graph) -> tuple[StageTable, list[str], list[Path]]:
    """A row that was written and not committed, with the file it lies in."""
    table = _table(graph)
    fragments = write_rows(table, table.open(), graph.snapshot().arrow("Person"))
    return table, fragments, _files(graph, table)


def _files(graph: og.Graph, table: StageTable) -> list[Path]:
    return sorted(Path(graph.uri, table.version.location, "data").glob("*.lance"))


def test_staged_files_that_nobody_uses_are_removed(graph: og.Graph) -> None:
    table, fragments, files = _staged(graph)
    remove_staged(table, fragments)
    assert len(_files(graph, table)) == len(files) - len(fragments) == 1
    assert ids_of(graph, "Person") == {"ann"}


def test_files_that_the_table_shows_are_kept_whoever_asks(graph: og.Graph) -> None:
    table, fragments, files = _staged(graph)
    shown = [fragment.metadata for fragment in table.open().get_fragments()]
    remove_staged(table, [json.dumps(part.to_json()) for part in shown])
    assert _files(graph, table) == files
    assert fragments and ids_of(graph, "Person") == {"ann"}


def test_nothing_is_removed_while_a_commit_is_on_its_way(graph: og.Graph) -> None:
    table, fragments, files = _staged(graph)
    record = Path(graph.uri, "__recovery", "01ARZ3NDEKTSV4RRFFQ69G5FAV.json")
    record.parent.mkdir(exist_ok=True)
    record.write_text("{}")
    remove_staged(table, fragments)
    assert _files(graph, table) == files
    record.unlink()
    remove_staged(table, fragments)
    assert len(_files(graph, table)) == len(files) - 1
