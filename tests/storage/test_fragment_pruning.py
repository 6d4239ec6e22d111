"""What a process knows about the ids in small fragments spares reading, and never hides a row."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.storage.tables import row_lookup
from omnigraph.storage.tables.datasets import as_dataset
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import find_rows, fragments_to_search
from omnigraph.write.change import Mode
from tests.support.small_graphs import people, persons, without


@pytest.fixture(autouse=True)
def knowing_nothing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(row_lookup, "_kept", row_lookup.id_columns())
    yield


def _forget() -> None:
    row_lookup._kept = row_lookup.id_columns()


def _table(graph: og.Graph, branch: str = "main", at: int | None = None) -> LanceTable:
    pins = (graph._store.snapshot(branch) if at is None else graph._store.snapshot_at(branch, at)).pins
    return graph._store.table(pins["node:Person"])


def _read_bytes(handle: LanceTable, wanted: str) -> int:
    as_dataset(handle).io_stats_incremental()
    find_rows(handle, pa.array([wanted]))
    return int(as_dataset(handle).io_stats_incremental().read_bytes)


def test_looking_for_a_new_id_reads_nothing_of_what_this_process_wrote(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.write([persons("b", "c")])
    assert _read_bytes(_table(graph), "nobody") == 0
    assert find_rows(_table(graph), pa.array(["b", "nobody"])).column("id").to_pylist() == ["b"]


def test_fragments_of_others_are_read_once(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    _forget()
    assert fragments_to_search(_table(graph), pa.array(["nobody"])) == []
    assert _read_bytes(_table(graph), "nobody else") == 0


def test_only_fragments_that_may_have_an_id_are_searched(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    graph.write([persons("b")])
    graph.write([persons("c")])
    fragments = _table(graph).get_fragments()
    searched = fragments_to_search(_table(graph), pa.array(["b"]))
    assert searched is not None
    assert [each.fragment_id for each in searched] == [fragments[1].fragment_id]
    assert fragments_to_search(_table(graph), pa.array(["a", "b", "c"])) is None


def test_a_large_fragment_is_always_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SMALL_FRAGMENT_ROWS", 2)
    graph = people(tmp_path / "g", "a", "b", "c")
    graph.write([persons("d")])
    searched = fragments_to_search(_table(graph), pa.array(["nobody"]))
    assert searched is not None
    assert [each.metadata.physical_rows for each in searched] == [3]


def test_a_row_that_was_deleted_when_it_was_looked_for_is_found_in_the_state_before(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    before = graph._store.snapshot("main").version
    graph.write([without("node:Person", "a")])
    _forget()
    assert find_rows(_table(graph), pa.array(["a"])).num_rows == 0
    assert find_rows(_table(graph, at=before), pa.array(["a"])).num_rows == 1
    assert find_rows(_table(graph), pa.array(["b"])).num_rows == 1


def test_a_few_rows_cut_from_a_large_table_do_not_keep_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = people(tmp_path / "g", "a")
    fragments = [fragment.metadata for fragment in _table(graph).get_fragments()]
    monkeypatch.setattr(limits, "KNOWN_ID_BYTES", 16_000)
    _forget()
    many = pa.table({"id": [f"id {number}" for number in range(1_000)]})
    row_lookup.note(fragments, many.slice(500, 1))
    assert row_lookup._kept.get(row_lookup._file(fragments[0])) is None


def test_what_is_kept_is_bounded_and_the_answers_stay_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KNOWN_ID_BYTES", 200)  # some twenty ids of one-row fragments
    _forget()
    graph = people(tmp_path / "g")
    for number in range(30):
        graph.write([persons(f"p{number}")])
    assert 0 < row_lookup._kept.size <= 200
    assert len(row_lookup._kept) < 30
    for number in range(30):
        assert find_rows(_table(graph), pa.array([f"p{number}", "nobody"])).num_rows == 1


@pytest.mark.parametrize("seed", [1, 2])
def test_every_lookup_equals_a_scan_after_any_writes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    graph = people(tmp_path / "g")
    names = [f"p{number}" for number in range(30)]
    branches = ["main"]
    for step in range(45):
        branch = chance.choice(branches)
        some = chance.sample(names, chance.randint(1, 4))
        if chance.random() < 0.3:
            graph.write([without("node:Person", *some)], branch=branch)
        else:
            graph.write([persons(*some, mode=Mode.MERGE, age=[step] * len(some))], branch=branch)
        if chance.random() < 0.2:
            _forget()
        if len(branches) < 3 and chance.random() < 0.1:
            branches.append(f"b{step}")
            graph.branches.create(branches[-1], branch)
        for each in branches:
            table = _table(graph, each)
            stored = table.to_table(columns=["id"]).column("id").to_pylist()
            wanted = chance.sample([*names, "nobody"], 6)
            found = find_rows(table, pa.array(wanted)).column("id").to_pylist()
            assert sorted(found) == sorted(set(wanted) & set(stored)), (step, each)


def test_ids_of_only_so_many_fragments_are_kept_however_few_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "KNOWN_ID_FRAGMENTS", 3)
    _forget()
    graph = people(tmp_path / "g")
    for number in range(6):
        graph.write([persons(f"p{number}")])
        assert len(row_lookup._kept) <= 3
    assert find_rows(_table(graph), pa.array(["p0", "p5"])).num_rows == 2
