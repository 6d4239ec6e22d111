"""Indexes: what is built, when nothing is, and that no answer depends on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.upkeep.indexes import PendingIndex
from omnigraph.write.change import Change, Mode
from tests.support.small_graphs import people, persons

SCHEMA = """
node All {
  k: String @key
  t: String? @index  e: enum(x, y)? @index  i: I32? @index  l: I64? @index  f: F64? @index  b: Bool? @index
  day: Date? @index  at: DateTime? @index  u: U64? @index  v: Vector(2)? @index  tags: [String]?
  p: String?  q: I32?  @index(p, q)
}
edge Link: All -> All { w: I32? @index }
node Empty { k: String @key }
"""


def _rows(*keys: str, start: int = 0) -> pa.Table:
    numbers = list(range(start, start + len(keys)))
    return pa.table(
        {
            "k": list(keys),
            "t": [f"word{number} common" for number in numbers],
            "e": ["x" if number % 2 else "y" for number in numbers],
            "i": numbers,
            "l": numbers,
            "f": [float(number) for number in numbers],
            "b": [bool(number % 2) for number in numbers],
            "day": pa.array(numbers, pa.int32()).cast(pa.date32()),
            "at": pa.array(numbers, pa.timestamp("ms")),
            "u": pa.array(numbers, pa.uint64()),
            "v": [[float(number), 1.0] for number in numbers],
            "tags": [["a"]] * len(keys),
        }
    )


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([Change("node:All", _rows("a", "b", "c", "d")), _links(("a", "b"))])
    return graph


def _links(*pairs: tuple[str, str]) -> Change:
    return Change("edge:Link", pa.table({"src": [a for a, _ in pairs], "dst": [b for _, b in pairs]}))


def _handle(graph: og.Graph, key: str, branch: str = "main") -> Any:
    pin = graph.snapshot(branch).tables[key]
    return graph._store.tables.at(table_version_of(pin))


def _built(graph: og.Graph, key: str, branch: str = "main") -> dict[str, str]:
    indexes = _handle(graph, key, branch).describe_indices()
    return {index.field_names[0]: str(index.index_type) for index in indexes}


def _covers_everything(graph: og.Graph, key: str, branch: str = "main") -> bool:
    handle = _handle(graph, key, branch)
    fragments = {fragment.fragment_id for fragment in handle.get_fragments()}
    return all(
        fragments <= {number for segment in index.segments for number in segment.fragment_ids}
        for index in handle.describe_indices()
    )


def test_every_declared_column_gets_the_index_of_its_kind(graph: og.Graph) -> None:
    report = graph.ensure_indices()
    built = _built(graph, "node:All")
    assert {column for column, kind in built.items() if kind == "BTree"} == {
        *("id", "e", "i", "l", "f", "b", "day", "at", "u")
    }
    assert {column for column, kind in built.items() if kind == "Inverted"} == {"k", "t"}
    assert "IVF_FLAT" in built["v"].upper()
    assert not {"tags", "p", "q"} & set(built)
    assert _built(graph, "edge:Link") == {"id": "BTree", "src": "BTree", "dst": "BTree"}
    assert {column for key, column in report.built if key == "node:All"} == set(built)
    assert report.commit == graph.commits.head()
    assert graph.commits.head().actor == "omnigraph:system"


def test_all_indexes_of_a_table_come_in_one_version_and_one_commit(graph: og.Graph) -> None:
    before = {key: pin.version for key, pin in graph.snapshot().tables.items()}
    commits = len(graph.commits.list())
    graph.ensure_indices()
    after = {key: pin.version - before[key] for key, pin in graph.snapshot().tables.items()}
    assert after == {"node:All": 1, "edge:Link": 1, "node:Empty": 0}
    assert len(graph.commits.list()) == commits + 1


def test_an_empty_table_is_left_alone(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    report = graph.ensure_indices()
    assert (report.commit, report.built, report.pending) == (None, (), ())
    assert {pin.version for pin in graph.snapshot().tables.values()} == {1}
    graph.write([Change("node:Empty", pa.table({"k": ["a"]}))])
    graph.write([Change("node:Empty", remove=pa.array(["a"]))])
    assert graph.ensure_indices().commit is None


def test_a_second_run_does_nothing(graph: og.Graph) -> None:
    graph.ensure_indices()
    before = graph.snapshot().tables
    report = graph.ensure_indices()
    assert (report.commit, report.built) == (None, ())
    assert graph.snapshot().tables == before


def test_a_vector_column_without_a_vector_is_pending(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([Change("node:All", _rows("a", "b").drop_columns("v"))])
    report = graph.ensure_indices()
    assert report.pending == (PendingIndex("node:All", "v", "no row has a vector yet"),)
    assert "v" not in _built(graph, "node:All")
    again = graph.ensure_indices()
    assert (again.commit, again.pending) == (None, report.pending)
    graph.write([Change("node:All", _rows("c"))])
    assert graph.ensure_indices().pending == ()
    assert "v" in _built(graph, "node:All")


def test_a_vector_index_comes_with_many_rows_and_has_the_square_root_of_them_as_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "VECTOR_INDEX_ROWS", 100)
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([Change("node:All", _rows(*(f"a{number}" for number in range(99))))])
    (pending,) = graph.ensure_indices().pending
    assert (pending.column, pending.reason.partition(",")[0]) == ("v", "it has fewer than 100 rows")
    graph.write([Change("node:All", _rows(*(f"b{number}" for number in range(22))))])
    assert graph.ensure_indices().pending == ()
    (segment,) = _handle(graph, "node:All").stats.index_stats("v_idx")["indices"]
    assert segment["num_partitions"] == 11


def test_appended_rows_get_a_segment_of_their_own(graph: og.Graph) -> None:
    graph.ensure_indices()
    first = {
        segment.uuid if hasattr(segment, "uuid") else str(segment)
        for index in _handle(graph, "node:All").describe_indices()
        for segment in index.segments
    }
    graph.write([Change("node:All", _rows("e", "f", start=4))])
    assert not _covers_everything(graph, "node:All")
    report = graph.ensure_indices()
    assert ("node:All", "id") in report.built
    assert _covers_everything(graph, "node:All")
    segments = {
        segment.uuid if hasattr(segment, "uuid") else str(segment)
        for index in _handle(graph, "node:All").describe_indices()
        for segment in index.segments
    }
    assert first < segments, "the old part was built again"


FILTERS = {
    "id": pc.field("id") == "b",
    "e": pc.field("e") == "x",
    "i": pc.field("i") >= 3,
    "l": pc.field("l").isin(pa.array([1, 4, 99], pa.int64())),
    "f": pc.field("f") < 2.5,
    "b": pc.field("b"),
    "day": pc.field("day") == pa.scalar(3, pa.int32()).cast(pa.date32()),
    "k": pc.field("k") == "e",
    "t": pc.field("t") == "word2 common",
}


def _answers(graph: og.Graph, branch: str = "main") -> dict[str, list[str]]:
    handle = _handle(graph, "node:All", branch)
    found = {
        name: sorted(handle.to_table(columns=["id"], filter=filter_).column("id").to_pylist())
        for name, filter_ in FILTERS.items()
    }
    nearest = handle.to_table(
        columns=["id"], nearest={"column": "v", "q": np.array([2.2, 1.0], np.float32), "k": 3, "nprobes": 9}
    )
    return {**found, "nearest": sorted(nearest.column("id").to_pylist())}


def test_answers_are_equal_with_no_partial_and_full_coverage(graph: og.Graph) -> None:
    more = Change("node:All", _rows("e", "f", "b", start=4), Mode.MERGE)
    none = _answers(graph)
    graph.ensure_indices()
    assert _answers(graph) == none
    graph.write([more])
    partial = _answers(graph)
    assert partial["t"] == ["c"] and partial["k"] == ["e"] and partial["i"] == ["b", "d", "e", "f"]
    graph.ensure_indices()
    assert _covers_everything(graph, "node:All")
    assert _answers(graph) == partial
    graph.write([Change("node:All", remove=pa.array(["c", "e"]))])
    assert _answers(graph)["k"] == []
    fresh = og.init(Path(graph.uri).with_name("fresh"), SCHEMA)
    fresh.write([Change("node:All", graph.snapshot().arrow("All").drop_columns("id"))])
    assert _answers(fresh) == _answers(graph)


def test_text_search_covers_rows_that_came_after_the_index(graph: og.Graph) -> None:
    graph.ensure_indices()
    graph.write([Change("node:All", _rows("e", start=4))])
    handle = _handle(graph, "node:All")
    found = handle.to_table(columns=["id"], full_text_query="common").column("id").to_pylist()
    assert sorted(found) == ["a", "b", "c", "d", "e"]


def test_a_branch_without_rows_of_its_own_stays_inherited(graph: og.Graph) -> None:
    graph.branches.create("side")
    assert graph.ensure_indices("side").commit is None
    assert {pin.branch for pin in graph.snapshot("side").tables.values()} == {None}
    graph.write([Change("node:All", _rows("z", start=9))], branch="side")
    report = graph.ensure_indices("side")
    assert {key for key, _ in report.built} == {"node:All"}
    assert graph.snapshot("side").tables["edge:Link"].branch is None
    assert _covers_everything(graph, "node:All", "side")
    assert _built(graph, "node:All") == {}, "main was not asked for"


def test_a_branch_inherits_the_indexes_of_its_parent(graph: og.Graph) -> None:
    graph.ensure_indices()
    graph.branches.create("side")
    graph.write([Change("node:All", _rows("z", start=9))], branch="side")
    assert set(_built(graph, "node:All", "side")) == set(_built(graph, "node:All"))
    none = _answers(graph, "side")
    graph.ensure_indices("side")
    assert _answers(graph, "side") == none


def test_a_table_owned_by_an_ancestor_is_forked_only_for_real_work(graph: og.Graph) -> None:
    graph.branches.create("one")
    graph.write([Change("node:All", _rows("z", start=9))], branch="one")
    graph.ensure_indices("one")
    graph.branches.create("two", "one")
    assert graph.ensure_indices("two").commit is None
    assert graph.snapshot("two").tables["node:All"].branch == "one"


def test_index_files_change_no_row(graph: og.Graph) -> None:
    before = graph.snapshot().arrow("All")
    graph.ensure_indices()
    assert graph.snapshot().arrow("All").equals(before)
    assert graph.snapshot().count("All") == 4


def test_indexes_of_an_unknown_branch_are_not_found(graph: og.Graph) -> None:
    with pytest.raises(og.errors.BranchNotFound):
        graph.ensure_indices("nope")


def test_an_overwrite_drops_coverage_and_it_comes_back(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    graph.ensure_indices()
    graph.write([persons("c", mode=Mode.OVERWRITE)])
    table = lance.dataset(str(tmp_path / "g" / graph.snapshot().tables["node:Person"].location))
    assert table.to_table(filter=pc.field("id") == "a").num_rows == 0
    assert table.to_table(filter=pc.field("id") == "c").num_rows == 1
    assert graph.ensure_indices().commit is not None
    assert _covers_everything(graph, "node:Person")
