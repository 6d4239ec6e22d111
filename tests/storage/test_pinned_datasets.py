"""`Snapshot.dataset`: Lance's own dataset of one type at one state, which other software reads and nobody writes."""

from __future__ import annotations

import pickle
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.dataset
import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.storage.tables.pinned_dataset import REFUSED_CALLS, REFUSED_PROPERTIES
from tests.support.small_graphs import ids_of, knows, people, persons

#: Members that only read, or belong to Arrow's own class and answer with something that does.
READS = {
    "all_files",
    "base_paths",
    "centroids",
    "config",
    "count_rows",
    "data_storage_version",
    "delta",
    "describe_indices",
    "explain_cleanup_old_versions",
    "filter",
    "fragment_ids",
    "from_pydantic_model",
    "get_fragment",
    "get_fragments",
    "get_ivf_model",
    "get_transactions",
    "get_version",
    "has_index",
    "has_stable_row_ids",
    "head",
    "index_statistics",
    "initial_storage_options",
    "io_stats_incremental",
    "io_stats_snapshot",
    "join",
    "join_asof",
    "lance_schema",
    "latest_storage_options",
    "latest_version",
    "list_indices",
    "max_field_id",
    "mem_wal_index_details",
    "metadata",
    "partition_expression",
    "prewarm_index",
    "read_blob_ranges",
    "read_blobs",
    "read_transaction",
    "remap_row_addrs",
    "replace_schema",
    "sample",
    "scanner",
    "schema",
    "schema_metadata",
    "session",
    "slice",
    "sort_by",
    "sql",
    "stats",
    "storage_options_accessor",
    "take",
    "take_blobs",
    "to_batches",
    "to_pandas",
    "to_table",
    "tracked_files",
    "uri",
    "validate",
    "version",
    "version_refs",
    "versions",
}


def test_it_is_a_dataset_of_lance_and_of_arrow_at_the_state_of_its_snapshot(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    state = graph.snapshot()
    graph.branches.create("review/x")
    graph.write([persons("bob")])
    graph.write([persons("cid", "dee")], branch="review/x")
    for snapshot, expected in (
        (state, ["ann"]),
        (graph.snapshot(), ["ann", "bob"]),
        (graph.snapshot("review/x"), ["ann", "cid", "dee"]),
    ):
        dataset = snapshot.dataset("Person")
        assert isinstance(dataset, lance.LanceDataset)
        assert isinstance(dataset, pyarrow.dataset.Dataset)
        assert sorted(dataset.to_table(columns=["handle"]).column("handle").to_pylist()) == expected
    with pytest.raises(errors.TypeNotFound):
        state.dataset("Persn")


def test_it_stays_where_it_is(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    dataset = graph.snapshot().dataset("Person")
    graph.write([persons("bob")])
    assert (dataset.count_rows(), dataset.to_table().num_rows) == (1, 1)
    again = pickle.loads(pickle.dumps(dataset))
    assert again.count_rows() == 1
    with pytest.raises(errors.ReadOnly):
        again.checkout_latest()


@pytest.mark.parametrize("name", REFUSED_CALLS)
def test_every_call_that_writes_or_moves_is_refused(tmp_path: Path, name: str) -> None:
    graph = people(tmp_path / "g", "ann")
    with pytest.raises(errors.ReadOnly, match=f"`{name}` is refused"):
        getattr(graph.snapshot().dataset("Person"), name)()
    with pytest.raises(errors.ReadOnly):
        getattr(graph.snapshot().dataset("Person"), name)("handle = 'ann'")
    assert ids_of(graph, "Person") == {"ann"}


@pytest.mark.parametrize("name", REFUSED_PROPERTIES)
def test_every_property_that_leads_to_a_write_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(errors.ReadOnly, match=f"`{name}` is refused"):
        getattr(people(tmp_path / "g").snapshot().dataset("Person"), name)


def test_every_member_of_the_installed_lance_is_known() -> None:
    members = {name for name in dir(lance.LanceDataset) if not name.startswith("_")}
    refused = {*REFUSED_CALLS, *REFUSED_PROPERTIES}
    assert members - READS - refused == set(), "decide whether it reads"
    assert refused <= members


def test_a_row_that_was_written_beside_the_graph_is_never_shown(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    dataset = graph.snapshot().dataset("Knows")
    row = {"id": ["z"], "src": ["ann"], "dst": ["ann"], "since": pa.nulls(1, pa.date32())}
    lance.write_dataset(pa.table(row), dataset.uri, mode="append")
    assert (dataset.count_rows(), graph.snapshot().dataset("Knows").count_rows()) == (0, 0)
    with pytest.raises(errors.UncoveredDrift):
        graph.write([knows(("ann", "ann"))])
    graph.recover(discard=True)
    graph.write([knows(("ann", "ann"))])
    assert graph.snapshot().dataset("Knows").count_rows() == 1


def test_blobs_are_bytes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Doc { k: String @key  body: Blob? }")
    with graph.transaction() as tx:
        tx.insert("Doc", [{"k": "a", "body": b"\x00one"}, {"k": "b"}])
    dataset = graph.snapshot().dataset("Doc")
    assert dataset.schema.field("body").type == pa.large_binary()
    assert dataset.to_table().column("body").to_pylist() == [b"\x00one", None]


def test_polars_reads_it_in_place(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    graph = people(tmp_path / "g")
    graph.write([persons("ann", "bob", age=[7, 50])])
    frame = pl.scan_pyarrow_dataset(graph.snapshot().dataset("Person"))
    assert frame.filter(pl.col("age") > 40).select("handle").collect().to_series().to_list() == ["bob"]


def test_duckdb_joins_types_in_place(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    graph = people(tmp_path / "g", "ann", "bob")
    graph.write([knows(("ann", "bob"))])
    state = graph.snapshot()
    session = duckdb.connect()
    session.register("person", state.dataset("Person"))
    session.register("knows", state.dataset("Knows"))
    text = "select p.handle, q.handle from knows k join person p on k.src = p.id join person q on k.dst = q.id"
    assert session.sql(text).fetchall() == [("ann", "bob")]
