"""What `stats` tells of a graph: figures that agree with the files, and what waits for upkeep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import obstore
import pyarrow as pa
import pytest

import omnigraph as og
from benchmarks.storage.calls import tally
from benchmarks.storage.proxy import CountingProxy
from omnigraph import failpoints, limits
from omnigraph.engine import topology_files
from omnigraph.errors import BranchNotFound, OmniGraphError
from omnigraph.storage.tables.table_layout import owner_of
from omnigraph.upkeep.drift import DriftKind
from omnigraph.upkeep.indexes import PendingIndex
from omnigraph.upkeep.stats import file_tally
from omnigraph.write.change import Change
from tests.support.s3_server import S3Server
from tests.support.small_graphs import knows, listing, people, persons, without

PERSON = "node:Person"
SCHEMA = """
node Doc { k: String @key  t: String? @index  v: Vector(2)? @index  b: Blob?  p: String?  q: I32?  @index(p, q) }
node Empty { k: String @key }
edge Link: Doc -> Doc { w: I32? @index }
"""


def _docs(*keys: str, blob: int = 1) -> Change:
    values = {"k": list(keys), "t": ["x"] * len(keys), "v": [[1.0, 2.0]] * len(keys), "b": [b"b" * blob] * len(keys)}
    return Change("node:Doc", pa.table(values))


def _table(found: og.GraphStats, key: str) -> og.TableStats:
    (table,) = [table for table in found.tables if table.table_key == key]
    return table


def _sizes(graph: og.Graph) -> dict[str, int]:
    root = Path(graph.uri)
    return {path.relative_to(root).as_posix(): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def _without(graph: og.Graph, key: str, branch: str = "main") -> int:
    """Bytes of the files of a table that a reader of the branch needs, found by reading them with plain Lance."""
    pin = graph.snapshot(branch).tables[key]
    root = f"{graph.uri}/{pin.location}"
    handle: Any = lance.dataset(f"{root}/tree/{pin.branch}" if pin.branch else root, version=pin.version)
    names = {name for fragment in handle.get_fragments() for file in fragment.metadata.files for name in (file.path,)}
    stems = {name.removesuffix(".lance") for name in names}
    return sum(
        size
        for path, size in _sizes(graph).items()
        if path.startswith(pin.location) and any(stem in path for stem in stems)
    )


def test_rows_fragments_and_deleted_rows_are_those_of_the_shown_version(tmp_path: Path) -> None:
    with people(tmp_path / "g", "a", "b", "c") as graph:
        graph.write([persons("d"), knows(("a", "b"))])
        graph.write([without(PERSON, "c")])
        found = graph.stats()
        table = _table(found, PERSON)
        assert (table.rows, table.fragments, table.small_fragments, table.deleted_rows) == (3, 2, 2, 1)
        assert table.version == graph.snapshot().tables[PERSON].version
        assert [each.table_key for each in found.tables] == sorted(graph.snapshot().tables)
        assert (found.totals["rows"], found.totals["deleted_rows"], found.totals["fragments"]) == (3 + 1, 1, 2 + 1)
        assert found.commits == len(graph.commits.list())
        assert (found.branch, found.branches, found.uri) == ("main", ("main",), graph.uri)


def test_a_fragment_is_small_up_to_the_size_that_writers_fold(tmp_path: Path) -> None:
    with people(tmp_path / "g") as graph:
        graph.write([persons(*(f"p{number}" for number in range(limits.SMALL_FRAGMENT_ROWS + 1)))])
        assert _table(graph.stats(), PERSON).small_fragments == 0
        graph.write([persons("one")])
        assert _table(graph.stats(), PERSON).small_fragments == 1


def test_every_file_is_counted_once(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.write([_docs("a", "b", blob=100_000)])
        graph.ensure_indices()
        graph.branches.create("side")
        graph.write([_docs("s")], branch="side")
        graph._store.mirror.flush()
        sizes = _sizes(graph)
        for branch in ("main", "side"):
            found = graph.stats(branch)
            assert (found.stored.files, found.stored.bytes) == (len(sizes), sum(sizes.values()))
            assert sum(part.files for part in found.parts.values()) == found.stored.files
            assert sum(part.bytes for part in found.parts.values()) == found.stored.bytes
            assert found.totals["bytes"] + found.totals["history_bytes"] == found.parts["tables"].bytes
            assert found.manifest.bytes == found.parts["manifest"].bytes > 0
            assert found.parts["topology"].files == 0


def test_bytes_of_history_are_the_files_that_the_shown_version_does_not_name(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.write([_docs("a", "b", blob=100_000)])
        first = _table(graph.stats(), "node:Doc")
        assert first.bytes > 200_000 > 20_000 > first.history_bytes > 0
        graph.load({"Doc": pa.table({"k": ["c"]})}, "overwrite")
        second = _table(graph.stats(), "node:Doc")
        assert second.bytes < 20_000 < 200_000 < second.history_bytes
        data = _without(graph, "node:Doc")
        assert data < second.bytes < data + 20_000
        graph.ensure_indices()
        third = _table(graph.stats(), "node:Doc")
        indexes = sum(size for path, size in _sizes(graph).items() if "/_indices/" in path)
        assert third.bytes >= data + indexes > second.bytes


def test_a_branch_counts_the_files_that_it_shares_with_its_parent(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.write([_docs("a", blob=100_000)])
        graph.ensure_indices()
        graph.branches.create("data/x")
        inherited = _table(graph.stats("data/x"), "node:Doc")
        assert inherited == _table(graph.stats(), "node:Doc")
        graph.write([_docs("s", blob=90_000)], branch="data/x")
        own = _table(graph.stats("data/x"), "node:Doc")
        assert own.rows == own.fragments == 2
        assert own.bytes > 190_000 > 100_000 > own.history_bytes
        assert {index.unindexed_rows for index in own.indexes} == {1}
        main = _table(graph.stats(), "node:Doc")
        assert main.bytes == inherited.bytes
        assert main.history_bytes > inherited.history_bytes + 90_000
        assert graph.stats("data/x").commits == graph.stats().commits + 1


def test_indexes_are_told_with_the_rows_that_they_cover(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.write([_docs("a", "b")])
        missing = _table(graph.stats(), "node:Doc").missing_indexes
        assert [(each.column, each.reason) for each in missing] == [
            *((column, "not built yet") for column in ("id", "k", "t", "v")),
            ("p, q", "only single columns are indexed"),
        ]
        graph.ensure_indices()
        graph.write([_docs("c", "d", "e"), Change("edge:Link", pa.table({"src": ["a"], "dst": ["a"]}))])
        graph.write([without("node:Doc", "b")])
        table = _table(graph.stats(), "node:Doc")
        assert {(index.column, index.kind, index.indexed_rows, index.unindexed_rows) for index in table.indexes} == {
            ("id", "BTREE", 1, 3),
            ("k", "INVERTED", 1, 3),
            ("t", "INVERTED", 1, 3),
            ("v", "VECTOR", 1, 3),
        }
        assert table.missing_indexes == (PendingIndex("node:Doc", "p, q", "only single columns are indexed"),)
        empty = _table(graph.stats(), "node:Empty")
        assert (empty.rows, empty.fragments, {each.reason for each in empty.missing_indexes}) == (
            0,
            0,
            {"the table is empty"},
        )
        link = _table(graph.stats(), "edge:Link")
        assert link.missing_indexes[-1] == PendingIndex("edge:Link", "w", "edge properties are not indexed yet")


def test_the_manifest_is_told_with_the_versions_that_are_stored(tmp_path: Path) -> None:
    with people(tmp_path / "g", "a") as graph:
        graph.write([persons("b")])
        found = graph.stats().manifest
        files = list((tmp_path / "g" / "__manifest" / "_versions").glob("*.manifest"))
        assert found.version == graph.snapshot().version
        assert found.versions == len(files)
        newest: Any = lance.dataset(str(tmp_path / "g" / "__manifest"))
        assert (found.rows, found.fragments) == (newest.count_rows(), len(newest.get_fragments()))
        files[-1].unlink()
        assert graph.stats().manifest.versions == len(files) - 1


def _interrupted_write(graph: og.Graph) -> None:
    failpoints.arm("write.after_all_table_commits=raise")
    try:
        with pytest.raises(OmniGraphError):
            graph.write([persons("b")])
    finally:
        failpoints.arm("")


def test_an_interrupted_write_is_told_with_kind_and_age(tmp_path: Path) -> None:
    with people(tmp_path / "g", "a") as graph:
        _interrupted_write(graph)
        with og.open(graph.uri, mode="ro") as reader:
            found = reader.stats()
        (pending,) = found.pending
        assert (pending.branch, pending.kind, pending.tables) == ("main", "Mutation", (PERSON,))
        assert pending.age_seconds is not None and 0 <= pending.age_seconds < 600
        assert pending.problem is None
        assert [(each.table_key, each.kind) for each in found.drift] == [(PERSON, DriftKind.RECORDED)]
        assert repr(found).endswith("; 1 pending; 1 drifting)")
        assert _table(found, PERSON).rows == 1
        graph.recover()
        assert (graph.stats().pending, graph.stats().drift) == ((), ())


def test_a_record_that_is_damaged_or_gone_is_told_as_far_as_it_can_be(tmp_path: Path) -> None:
    with people(tmp_path / "g", "a") as graph:
        _interrupted_write(graph)
        (record,) = (tmp_path / "g" / "__recovery").glob("*.json")
        record.write_text("{", "utf-8")
        (pending,) = graph.stats().pending
        assert (pending.operation_id, pending.branch, pending.kind) == (record.stem, None, None)
        assert "cannot be read" in (pending.problem or "")
        record.unlink()
        found = graph.stats()
        assert found.pending == ()
        assert [each.kind for each in found.drift] == [DriftKind.UNPUBLISHED]


def _append(table: Any) -> None:
    row = {"id": ["eve"], "handle": ["eve"]}
    rest = {name: pa.nulls(1, table.schema.field(name).type) for name in table.schema.names if name not in row}
    lance.write_dataset(pa.table({**row, **rest}).select(table.schema.names).cast(table.schema), table, mode="append")


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (lambda table: table.optimize.compact_files(), DriftKind.MAINTENANCE),
        (lambda table: table.create_scalar_index("handle", "BTREE", name="of_others"), DriftKind.MAINTENANCE),
        (_append, DriftKind.UNEXPLAINED),
    ],
)
def test_a_table_that_other_software_moved_is_drift(
    tmp_path: Path, step: Callable[[Any], object], kind: DriftKind
) -> None:
    with people(tmp_path / "g", "a", "b") as graph:
        graph.write([persons("c")])
        pin = graph.snapshot().tables[PERSON]
        step(lance.dataset(f"{graph.uri}/{pin.location}"))
        newest = lance.dataset(f"{graph.uri}/{pin.location}").version
        found = graph.stats()
        assert found.drift == (og.TableDrift(PERSON, pin.version, newest, kind),)
        assert _table(found, PERSON).rows == 3
        assert (kind is DriftKind.UNEXPLAINED) is not graph.verify().ok


def test_files_of_a_deleted_branch_are_unreferenced(tmp_path: Path) -> None:
    """On an object store they stay for cleanup; here they are put back."""
    with people(tmp_path / "g", "a") as graph:
        graph.branches.create("side")
        graph.branches.create("kept")
        assert graph.stats().unreferenced == og.StoredFiles(0, 0)
        location = graph.snapshot().tables[PERSON].location
        lost = tmp_path / "g" / location / "tree" / "gone" / "data" / "x.lance"
        lost.parent.mkdir(parents=True)
        lost.write_bytes(b"12345")
        found = graph.stats()
        assert found.unreferenced == og.StoredFiles(1, 5)
        assert _table(found, PERSON).history_bytes >= 5


def test_a_graph_that_is_open_read_only_is_looked_at_and_nothing_is_written(tmp_path: Path) -> None:
    people(tmp_path / "g", "a", "b").close()
    before = listing(tmp_path / "g")
    with og.open(tmp_path / "g", mode="ro") as graph:
        graph.stats()
        with pytest.raises(BranchNotFound):
            graph.stats("nope")
    assert listing(tmp_path / "g") == before


def test_the_json_form_has_every_figure(tmp_path: Path) -> None:
    with people(tmp_path / "g", "a") as graph:
        found = graph.stats()
    shown = found.to_dict()
    assert shown["totals"]["rows"] == 1
    assert shown["tables"][-2]["table_key"] == PERSON or shown["tables"][-1]["table_key"] == PERSON
    assert set(shown) == {"totals", *og.GraphStats.__dataclass_fields__}
    assert repr(found).startswith("GraphStats(main: 4 tables, 1 rows, ")
    assert repr(_table(found, PERSON)).startswith("TableStats(node:Person v2: 1 rows in 1 fragments, ")


@pytest.mark.parametrize(
    ("path", "directory", "name", "version", "lineage"),
    [
        ("nodes/1/data/abc.lance", "nodes/1", "nodes/1/data/abc", None, None),
        ("nodes/1/data/abc/7.blob", "nodes/1", "nodes/1/data/abc", None, None),
        ("nodes/1/_indices/u/page.lance", "nodes/1", "nodes/1/_indices/u", None, None),
        ("nodes/1/_deletions/0-2-3.arrow", "nodes/1", "nodes/1/_deletions/0-2-3.arrow", None, None),
        (
            "nodes/1/_versions/18446744073709551610.manifest",
            "nodes/1",
            "nodes/1/_versions/18446744073709551610.manifest",
            5,
            None,
        ),
        ("nodes/1/_versions/7.manifest", "nodes/1", "nodes/1/_versions/7.manifest", 7, None),
        ("nodes/1/_versions/d77.manifest", "nodes/1", "nodes/1/_versions/d77.manifest", None, None),
        ("nodes/1/_versions/latest_version_hint.json", "nodes/1", None, None, None),
        ("nodes/1/_refs/branches/x.json", "nodes/1", None, None, None),
        ("nodes/1/tree/data/x/data/abc.lance", "nodes/1/tree/data/x", None, None, "data/x"),
        ("nodes/1/tree/x/data/_versions/7.manifest", "nodes/1/tree/x/data", None, 7, "x/data"),
        ("_schema.pg", "", "_schema.pg", None, None),
    ],
)
def test_a_path_tells_what_it_belongs_to(
    path: str, directory: str, name: str | None, version: int | None, lineage: str | None
) -> None:
    owner = owner_of(path)
    assert (owner.directory, owner.version, owner.lineage) == (directory, version, lineage)
    assert owner.name == (name or path.removesuffix(".lance"))
    assert owner.table == directory.partition("/tree/")[0]


def test_the_place_of_the_topologies_is_known() -> None:
    assert file_tally._PARTS[topology_files._DIRECTORY] == "topology"


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingProxy]:
    counting = CountingProxy(s3.endpoint)
    with counting.serve() as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield counting


@pytest.mark.s3
def test_an_object_store_is_listed_once_and_no_data_file_is_read(proxy: CountingProxy, s3_root: str) -> None:
    with people(s3_root, "a", "b") as graph:
        graph.ensure_indices()
        for number in range(limits.SMALL_FRAGMENTS - 2):
            graph.write([persons(f"p{number}")])
        graph.branches.create("side")
        graph.write([persons("s")], branch="side")
        graph.branches.delete("side")
        stored = [entry for page in obstore.list(graph._store.objects._connect()) for entry in page]
    with og.open(s3_root, mode="ro") as graph:
        proxy.take()
        found = graph.stats()
        calls = tally(proxy.take())
    assert (found.stored.files, found.stored.bytes) == (len(stored), sum(entry["size"] for entry in stored))
    assert found.unreferenced.files > 0
    table = _table(found, PERSON)
    assert (table.rows, table.fragments) == (limits.SMALL_FRAGMENTS, limits.SMALL_FRAGMENTS - 1)
    assert table.bytes > 0 and table.history_bytes > 0
    assert calls["LIST", "listings of the root"] == 1
    kinds = Counter(kind for _, kind in calls.elements())
    assert kinds["tables: rows"] == kinds["tables: indexes"] == 0
    assert kinds["tables: version files"] <= 3 * len(found.tables)
