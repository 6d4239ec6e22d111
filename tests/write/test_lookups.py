"""A small write to a large table looks rows up by index instead of scanning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset

import omnigraph as og
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.storage.tables.datasets import as_dataset
from omnigraph.storage.tables.row_lookup import find_rows
from omnigraph.write.change import Change, Mode

SCHEMA = """
node P { k: String @key  u: String? @unique @index  pad: String? }
edge E: P -> P @card(0..5)
"""
ROWS = 20_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(tmp_path_factory.mktemp("lookups") / "g", SCHEMA)
    keys = [f"k{number:06d}" for number in range(ROWS)]
    pad = ["x" * 200] * ROWS
    graph.write([Change("node:P", pa.table({"k": keys, "u": keys, "pad": pad}))])
    graph.write([Change("edge:E", pa.table({"src": keys, "dst": keys[::-1]}))])
    graph.ensure_indices()
    return graph


def _handle(graph: og.Graph, key: str) -> LanceDataset:
    pin = graph.snapshot().tables[key]
    return as_dataset(graph._store.tables.at(table_version_of(pin)))


@pytest.mark.parametrize(("key", "column"), [("node:P", "id"), ("edge:E", "src"), ("edge:E", "dst"), ("edge:E", "id")])
def test_an_id_lookup_is_planned_through_the_index(graph: og.Graph, key: str, column: str) -> None:
    handle = _handle(graph, key)
    plan = handle.scanner(columns=["id"], filter=pc.field(column).isin(pa.array(["k000007", "k000009"]))).explain_plan()
    assert "ScalarIndexQuery" in plan


def _read_bytes(handle: LanceDataset, call: Callable[[], object]) -> int:
    handle.io_stats_incremental()
    call()
    return int(handle.io_stats_incremental().read_bytes)


def test_a_lookup_reads_a_small_part_of_the_table(graph: og.Graph) -> None:
    handle = _handle(graph, "node:P")
    find_rows(handle, pa.array(["k000001"]))  # the index's own pages are kept after the first time
    few = _read_bytes(handle, lambda: find_rows(handle, pa.array(["k010000"])))
    scan = _read_bytes(handle, lambda: handle.scanner(columns=["id"]).to_table())
    assert few < scan / 2


def test_few_and_many_ids_give_the_same_rows(graph: og.Graph) -> None:
    handle = _handle(graph, "node:P")
    for count in (1, 63, 64, 65, 1_000, 1_250, 1_251, 5_000, ROWS):
        wanted = pa.array([*(f"k{number:06d}" for number in range(0, ROWS, ROWS // count)), "none", "x"])
        found = find_rows(handle, wanted)
        assert sorted(found.column("id").to_pylist()) == sorted(set(wanted.to_pylist()) - {"none", "x"})
        addresses = found.column("_rowaddr").to_numpy()
        assert len(np.unique(addresses)) == found.num_rows


def test_rows_written_after_the_index_are_found_too(graph: og.Graph) -> None:
    graph.write([Change("node:P", pa.table({"k": ["k000003", "late"], "u": ["moved", "late"]}), Mode.MERGE)])
    handle = _handle(graph, "node:P")
    assert sorted(find_rows(handle, pa.array(["k000003", "late"])).column("id").to_pylist()) == ["k000003", "late"]
    stored = find_rows(handle, pa.array(["k000003", "moved", "late"]), "u", ("id",))
    assert sorted(stored.column("u").to_pylist()) == ["late", "moved"]
    graph.write([Change("node:P", remove=pa.array(["late"]))])
    assert find_rows(_handle(graph, "node:P"), pa.array(["late"])).num_rows == 0


def test_a_write_to_a_large_table_is_checked_and_lands(graph: og.Graph) -> None:
    before = graph.snapshot().count("E")
    graph.write([Change("edge:E", pa.table({"src": ["k000001"], "dst": ["k000002"]}))])
    assert graph.snapshot().count("E") == before + 1
    with pytest.raises(og.errors.CardinalityViolation):
        graph.write([Change("edge:E", pa.table({"src": ["k000005"] * 5, "dst": ["k000002"] * 5}))])
    with pytest.raises(og.errors.EndpointMissing):
        graph.write([Change("node:P", remove=pa.array(["k000005"]))])


@pytest.mark.parametrize("type_", ["I32", "U32", "U64", "DateTime", "Bool", "F64", "Date"])
def test_unique_works_on_every_scalar_type(tmp_path: Path, type_: str) -> None:
    """Lance takes some types in no filter; the check must not depend on that."""
    values = {"DateTime": pa.timestamp("ms"), "Date": pa.date32(), "Bool": pa.bool_(), "F64": pa.float64()}
    column = pa.array([0, 1], pa.int32() if type_ == "Date" else pa.int64()).cast(values.get(type_, pa.int64()))
    graph = og.init(tmp_path / "g", f"node N {{ k: String @key  u: {type_}? @unique }}")
    graph.write([Change("node:N", pa.table({"k": ["a"], "u": column.slice(0, 1)}))])
    with pytest.raises(og.errors.UniqueViolation):
        graph.write([Change("node:N", pa.table({"k": ["b"], "u": column.slice(0, 1)}))])
    graph.write([Change("node:N", pa.table({"k": ["b"], "u": column.slice(1, 1)}))])
    assert graph.snapshot().count("N") == 2
