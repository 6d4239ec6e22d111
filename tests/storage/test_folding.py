"""What small writes leave behind does not grow with their number: fragments, row ids, versions, copies of commits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.storage.delta import Method, table_delta
from omnigraph.storage.metadata import commit_mirror
from omnigraph.storage.metadata.commit_log import COMMITS_PATH
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.storage.objects.native_libraries import CommitConflictError
from omnigraph.storage.tables import stage_rows
from omnigraph.storage.tables.datasets import version_file
from omnigraph.storage.tables.small_fragments import small_fragments
from omnigraph.write.change import Change, Mode

SCHEMA = "node Person { name: String @key  age: I32? }\n"


def people(numbers: range, age: int) -> Change:
    rows = {"name": [f"p{number:05d}" for number in numbers], "age": pa.array([age] * len(numbers), pa.int32())}
    return Change("node:Person", pa.table(rows), Mode.MERGE)


def table_of(graph: og.Graph) -> Any:
    return graph._store.tables.at(table_version_of(graph.snapshot().tables["node:Person"]))


def one_row_commits(graph: og.Graph, numbers: range) -> None:
    """Inserts and updates in turns."""
    for number in numbers:
        row = number if number % 2 else number * 7_919 % max(1, number - 1) | 1
        graph.write([people(range(row, row + 1), number)])
    graph._store.mirror.flush()


def facts(root: Path) -> dict[str, dict[str, float]]:
    """Fragments of each table, and the mean bytes of its last version files, over some folds."""
    found = {}
    for table in [root / "__manifest", root / COMMITS_PATH, *(root / "nodes").iterdir()]:
        newest = lance.dataset(str(table))
        files = [table / version_file(newest.version - back) for back in range(min(24, newest.version))]
        sizes = [file.stat().st_size for file in files]
        found[table.name] = {"fragments": len(newest.get_fragments()), "bytes": sum(sizes) / len(sizes)}
    return found


def test_300_commits_leave_tables_that_say_as_little_as_those_of_100(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    one_row_commits(graph, range(100))
    early = facts(tmp_path / "g")
    one_row_commits(graph, range(100, 300))
    late = facts(tmp_path / "g")
    assert early.keys() == late.keys()
    for name, now in late.items():
        few = limits.MANIFEST_FRAGMENTS if name == "__manifest" else limits.SMALL_FRAGMENTS
        assert now["fragments"] <= few + 4, name
        assert now["bytes"] < 240 * (few + 4), name
    (person,) = (name for name in late if name not in ("__manifest", COMMITS_PATH))
    assert late[person]["bytes"] < 1.35 * early[person]["bytes"]
    ages = {row["name"]: row["age"] for row in graph.snapshot().arrow("Person").to_pylist()}
    assert len(ages) == 150
    assert max(ages.values()) == 299


def test_folded_rows_keep_their_row_ids_and_lie_in_their_order(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([people(range(40), 0)])
    before = dict(_row_ids(table_of(graph)))
    for step in range(3 * limits.SMALL_FRAGMENTS):
        row = step * 7 % 40
        graph.write([people(range(row, row + 1), step)])
    table = table_of(graph)
    assert dict(_row_ids(table)) == before
    for fragment in table.get_fragments():
        ids = table.scanner(columns=[], fragments=[fragment], with_row_id=True).to_table().column("_rowid").to_pylist()
        assert ids == sorted(ids)


def _row_ids(table: Any) -> list[tuple[str, int]]:
    rows = table.scanner(columns=["id"], with_row_id=True).to_table()
    return list(zip(rows.column("id").to_pylist(), rows.column("_rowid").to_pylist(), strict=True))


def test_a_long_list_of_versions_becomes_one_entry_and_every_comparison_stays_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_rows, "_LONG_LIST", 100)
    graph = og.init(tmp_path / "g", SCHEMA)
    pins = []
    for number in range(3 * limits.SMALL_FRAGMENTS):
        row = number if number % 3 else number // 2
        graph.write([people(range(row, row + 1), number)])
        pins.append(graph.snapshot().tables["node:Person"])
    table = table_of(graph)
    lists = {
        each.metadata.physical_rows: json.loads(each.metadata.created_at_version_meta.json())["inline"]
        for each in table.get_fragments()
    }
    assert max(lists) > limits.SMALL_FRAGMENTS
    assert len(lists[max(lists)]) < 20
    tables = graph._store.tables
    for before, after in zip(pins[::5], pins[7::5], strict=False):
        whole = table_delta(tables, before, after, method=Method.FULL)
        for method in (Method.VERSIONS, Method.FRAGMENTS):
            found = table_delta(tables, before, after, method=method)
            assert found.inserted.to_pylist() == whole.inserted.to_pylist()
            assert found.updated.to_pylist() == whole.updated.to_pylist()
            assert found.deleted.to_pylist() == whole.deleted.to_pylist()


@pytest.mark.parametrize(("rows", "version"), [(1, 1), (127, 128), (300, 7), (40_000, 70_000)])
def test_the_short_list_of_versions_is_written_as_lance_writes_it(tmp_path: Path, rows: int, version: int) -> None:
    table: Any = lance.write_dataset(
        pa.table({"x": range(rows)}), str(tmp_path / "t"), enable_stable_row_ids=True, data_storage_version="2.2"
    )
    (fragment,) = table.get_fragments()
    stored = json.loads(fragment.metadata.created_at_version_meta.json())
    assert stored == stage_rows._for_all_rows(rows, 1)
    assert stage_rows._varint(version)[-1] < 0x80


def test_copies_of_commits_that_are_joined_are_refused_like_those_that_are_not(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    mirror = graph._store.tables.newest(COMMITS_PATH)
    row = mirror.to_table().slice(0, 1)
    while not small_fragments(mirror):
        mirror = commit_mirror.append_strictly(mirror, row)
    joined = commit_mirror.append_strictly(mirror, row)
    assert (len(joined.get_fragments()), joined.count_rows()) == (2, mirror.count_rows() + 1)
    with pytest.raises(CommitConflictError):
        commit_mirror.append_strictly(mirror, row)
    appended = commit_mirror.append_strictly(joined, row)
    before = appended
    while not small_fragments(before):
        before = commit_mirror.append_strictly(before, row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_mirror, "small_fragments", lambda _: [])
        commit_mirror.append_strictly(before, row)
    with pytest.raises(CommitConflictError):
        commit_mirror.append_strictly(before, row)
    assert small_fragments(before)


def test_writes_of_different_sizes_in_turn_do_not_pile_up_fragments(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([people(range(6_000), 0)])
    for step in range(25):
        graph.write([people(range(step, step + 1), step)])
        graph.write([people(range(100 * step, 100 * step + 90), step)])
    pin = graph.snapshot().tables["node:Person"]
    handle = graph._store.tables.at(table_version_of(pin))
    assert len(handle.get_fragments()) <= 2 * limits.SMALL_FRAGMENTS
    rows = graph.snapshot().arrow("Person")
    assert (rows.num_rows, len(set(rows.column("id").to_pylist()))) == (6_000, 6_000)


BLOBS = "node Item { name: String @key  body: Blob?  other: Blob? }\n"
BODIES = [None, b"", b"x", b"y" * 70_000, b"z" * 5_000]


def items(numbers: range, shift: int = 0) -> Change:
    bodies = [BODIES[(number + shift) % len(BODIES)] for number in numbers]
    rows = {
        "name": [f"i{number:03d}" for number in numbers],
        "body": pa.array(bodies, pa.large_binary()),
        "other": pa.array([b"o"] * len(numbers), pa.large_binary()),
    }
    return Change("node:Item", pa.table(rows), Mode.MERGE)


def item_table(graph: og.Graph) -> Any:
    return graph._store.tables.at(table_version_of(graph.snapshot().tables["node:Item"]))


def bodies_of(graph: og.Graph) -> dict[str, bytes | None]:
    rows = graph.snapshot().arrow("Item", ["name", "body"])
    return dict(zip(rows.column("name").to_pylist(), rows.column("body").to_pylist(), strict=True))


def test_fragments_with_blobs_are_folded_and_keep_their_bytes_and_nulls(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", BLOBS)
    for number in range(30):
        graph.write([items(range(number, number + 1))])
    for number in range(0, 30, 4):
        graph.write([items(range(number, number + 1), shift=1)])
    assert len(item_table(graph).get_fragments()) <= limits.SMALL_FRAGMENTS + 4
    expected = {f"i{number:03d}": BODIES[(number + (number % 4 == 0)) % len(BODIES)] for number in range(30)}
    assert bodies_of(graph) == expected
    assert graph.verify(deep=True).ok


def test_fragments_with_more_bytes_of_blobs_than_a_write_may_copy_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FOLD_BYTES", 100_000)
    graph = og.init(tmp_path / "g", BLOBS)
    for number in range(3, 78, 5):  # large ones
        graph.write([items(range(number, number + 1))])
    assert len(item_table(graph).get_fragments()) == 15
    assert set(bodies_of(graph).values()) == {b"y" * 70_000}
