"""What changed between two states of a table: three methods, one answer."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.storage.delta import Method, TableDelta, compare_states, table_delta
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.storage.tables import stage_rows
from omnigraph.storage.tables.row_lookup import find_rows
from omnigraph.write.change import Change, Mode
from tests.support.table_histories import KEY, SCHEMA, State, TableHistory, naive_delta


def _ids(delta: TableDelta) -> tuple[list[str], list[str], list[str]]:
    return delta.inserted.to_pylist(), delta.updated.to_pylist(), delta.deleted.to_pylist()


def _try(history: TableHistory, before: State, after: State, method: Method | None) -> TableDelta | None:
    try:
        return table_delta(history.tables, before.pin, after.pin, method=method)
    except InputError:
        return None


def _compare_all(history: TableHistory, pairs: int) -> dict[str, int]:
    """Hold every method against the naive comparison on random pairs of states, in both directions."""
    used: dict[str, int] = {}
    every = [pair for pair in itertools.product(history.states, repeat=2) if pair[0] is not pair[1]]
    for before, after in history.random.sample(every, min(pairs, len(every))):
        expected = naive_delta(before, after)
        for method in (None, *Method):
            delta = _try(history, before, after, method)
            if delta is None:
                continue
            used[str(delta.method)] = used.get(str(delta.method), 0) + 1
            assert _ids(delta) == expected, f"{method}: {before.made_by} {before.pin} → {after.made_by} {after.pin}"
            _check_images(delta, before, after)
            _check_places(delta, history, before)
    return used


def _check_images(delta: TableDelta, before: State, after: State) -> None:
    gone = pa.concat_arrays([delta.updated, delta.deleted])
    there = pa.concat_arrays([delta.updated, delta.inserted])
    assert repr(delta.before(gone).to_pylist()) == repr([before.rows[name] for name in gone.to_pylist()])
    assert repr(delta.after(there).to_pylist()) == repr([after.rows[name] for name in there.to_pylist()])


def _check_places(delta: TableDelta, history: TableHistory, before: State) -> None:
    """Where the comparison came by rows, and where a look-up finds them."""
    gone = pa.concat_arrays([delta.updated, delta.deleted])
    places = delta.places_before(gone)
    if places is None:
        return
    assert before.pin is not None
    handle = history.tables.at(table_version_of(before.pin))
    assert places.sort_by("id").to_pylist() == find_rows(handle, gone).sort_by("id").to_pylist()


@pytest.mark.parametrize("seed", range(2))
def test_all_methods_agree_with_a_naive_comparison_on_random_histories(tmp_path: Path, seed: int) -> None:
    used = _compare_all(TableHistory(tmp_path / "g", seed).grow(25), 40)
    assert used["versions"] and used["fragments"] and used["full"]


@pytest.mark.parametrize("seed", range(100, 102))
def test_all_methods_agree_after_compaction_restore_and_raw_deletes(tmp_path: Path, seed: int) -> None:
    _compare_all(TableHistory(tmp_path / "g", seed).grow(8).grow_by_others(10), 50)


def test_all_methods_agree_on_blobs(tmp_path: Path) -> None:
    _compare_all(TableHistory(tmp_path / "g", 200, blobs=True).grow(12), 25)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(1_000, 1_100))
def test_all_methods_agree_on_many_random_histories(tmp_path: Path, seed: int) -> None:
    history = TableHistory(tmp_path / "g", seed, blobs=seed % 5 == 0).grow(30)
    _compare_all(history.grow_by_others(10) if seed % 2 else history, 100)


def test_the_comparison_notices_what_a_restore_hides_from_the_version_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were restores let through, the naive comparison would have to find the difference."""
    history = TableHistory(tmp_path / "g", 7)
    for size in (1, 2):
        row = pa.table({"name": ["i1"], "size": pa.array([size], pa.int32())})
        history.graph.write([Change(KEY, row, Mode.MERGE)])
        history.record("main", f"size {size}")
    before = history.states[-1]
    pin = history.states[-2].pin
    history.tables.newest(pin.location).checkout_version(pin.version).restore()
    history.record_raw("restore")
    after = history.states[-1]
    assert naive_delta(before, after) == ([], ["i1"], [])
    with pytest.raises(InputError):
        table_delta(history.tables, before.pin, after.pin, method=Method.VERSIONS)
    monkeypatch.setattr(compare_states, "_UNDERSTOOD", frozenset({*compare_states._UNDERSTOOD, "Restore"}))
    hidden = table_delta(history.tables, before.pin, after.pin, method=Method.VERSIONS)
    assert _ids(hidden) != naive_delta(before, after)


def _rows(names: list[str], size: int) -> pa.Table:
    return pa.table({"name": names, "size": pa.array([size] * len(names), pa.int32())})


def _large_table(root: Any, rows: int) -> TableHistory:
    history = TableHistory(root, 1)
    history.graph.write([Change(KEY, _rows([f"r{number:06d}" for number in range(rows)], 0))])
    history.record("main", "load")
    return history


@pytest.mark.parametrize("count", [3, 9_000], ids=["listed deletions", "a bitmap of deletions"])
def test_scattered_changes_are_found_without_reading_the_rest(tmp_path: Path, count: int) -> None:
    history = _large_table(tmp_path / "g", 20_000)
    names = [f"r{number * 2:06d}" for number in range(count)]
    history.graph.write([Change(KEY, _rows(names, 1), Mode.MERGE)])
    history.record("main", "update")
    pin = history.states[-1].pin
    fragment = history.tables.at(table_version_of(pin)).get_fragments()[0]
    assert fragment.metadata.deletion_file.file_type == ("array" if count == 3 else "bitmap")
    delta = table_delta(history.tables, history.states[-2].pin, pin)
    assert delta.method is Method.FRAGMENTS
    assert _ids(delta) == ([], names, [])
    back = table_delta(history.tables, pin, history.states[-2].pin)
    assert back.updated.to_pylist() == names and back.after(back.updated).column("size").to_pylist() == [0] * count


def test_a_compacted_table_is_compared_by_row_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = _large_table(tmp_path / "g", 2_000)
    history.graph.write([Change(KEY, _rows(["r000001"], 1), Mode.MERGE)])
    history.compact()
    monkeypatch.setattr(limits, "DELTA_REWRITTEN_ROWS", 1_000)
    delta = table_delta(history.tables, history.states[1].pin, history.states[-1].pin)
    assert delta.method is Method.VERSIONS and _ids(delta) == ([], ["r000001"], [])
    monkeypatch.setattr(limits, "DELTA_TRANSACTIONS", 1)
    delta = table_delta(history.tables, history.states[1].pin, history.states[-1].pin)
    assert delta.method is Method.FRAGMENTS and _ids(delta) == ([], ["r000001"], [])


def test_versions_apply_up_to_the_fork_of_a_branch_and_not_below(tmp_path: Path) -> None:
    history = _large_table(tmp_path / "g", 10)
    older = history.states[-1].pin
    history.graph.write([Change(KEY, _rows(["r000001"], 1), Mode.MERGE)])
    fork = history.graph.snapshot().tables[KEY]
    history.graph.branches.create("side")
    history.graph.write([Change(KEY, _rows(["r000002"], 1), Mode.MERGE)], branch="side")
    newer = history.graph.snapshot("side").tables[KEY]
    assert table_delta(history.tables, fork, newer, method=Method.VERSIONS).updated.to_pylist() == ["r000002"]
    with pytest.raises(InputError):
        table_delta(history.tables, older, newer, method=Method.VERSIONS)
    assert table_delta(history.tables, older, newer).updated.to_pylist() == ["r000001", "r000002"]


def test_a_table_on_one_side_only_is_all_inserted_or_all_deleted(tmp_path: Path) -> None:
    history = _large_table(tmp_path / "g", 3)
    pin, names = history.states[-1].pin, ["r000000", "r000001", "r000002"]
    assert _ids(table_delta(history.tables, None, pin)) == (names, [], [])
    assert _ids(table_delta(history.tables, pin, None)) == ([], [], names)
    assert _ids(table_delta(history.tables, history.states[0].pin, pin)) == (names, [], [])
    assert len(table_delta(history.tables, pin, pin)) == 0
    gone = table_delta(history.tables, pin, None)
    assert gone.before(gone.deleted).column("name").to_pylist() == names
    assert gone.after(gone.deleted).num_rows == 0


def test_a_column_that_was_dropped_and_made_again_is_compared_in_full(tmp_path: Path) -> None:
    """Its files are the same on both sides, its values are not."""
    history = _large_table(tmp_path / "g", 3)
    without = SCHEMA.replace("size: I32?", "")
    history.graph.schema.apply(without)
    history.graph.schema.apply(SCHEMA)
    pin = history.graph.snapshot().tables[KEY]
    delta = table_delta(history.tables, history.states[-1].pin, pin)
    assert delta.method is Method.FULL
    assert delta.updated.to_pylist() == ["r000000", "r000001", "r000002"]
    assert delta.before(delta.updated).column("size").to_pylist() == [0, 0, 0]
    assert delta.after(delta.updated).column("size").to_pylist() == [None, None, None]


def test_deltas_are_the_same_on_an_object_store(s3_root: str) -> None:
    _compare_all(TableHistory(s3_root, 3).grow(6), 8)


def test_every_method_agrees_where_lists_of_versions_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_rows, "_LONG_LIST", 60)
    used = _compare_all(TableHistory(tmp_path / "g", 20).grow(18), pairs=40)
    assert used["versions"] > 5
