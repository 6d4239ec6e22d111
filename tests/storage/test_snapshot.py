"""The newest fragment tells the same as the whole history, whoever wrote last."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import ids, limits
from omnigraph.errors import CorruptGraph
from omnigraph.storage.commit.preparation import CommitDraft
from omnigraph.storage.commit.publish import GraphChange, publish
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata import manifest as snapshots
from omnigraph.storage.metadata.manifest import ManifestSnapshot, fold, read_snapshot
from omnigraph.storage.objects.object_store import parse_location
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.write.change import Change, Mode
from tests.support import foreign_writer
from tests.support.small_graphs import people, persons, without
from tests.support.transactions import transaction_of


def _fresh(root: Path, branch: str = "main") -> ManifestSnapshot:
    """What a process that knows nothing yet reads."""
    return GraphStore(parse_location(root)).snapshot(branch)


def _assert_equal(one: ManifestSnapshot, other: ManifestSnapshot) -> None:
    for name in ("branch", "version", "head", "pins", "hidden"):
        assert getattr(one, name) == getattr(other, name), name


def _is_short(root: Path, branch: str = "main") -> bool:
    """Whether the newest fragment alone can be read."""
    handle = _fresh(root, branch).handle
    return snapshots._from_newest_fragment(handle, branch) is not None


def _draft() -> CommitDraft:
    return CommitDraft(ids.new_ulid(), "tester", ids.now())


def drop_table(root: Path, key: str, branch: str = "main") -> None:
    """Hide a table the way a schema change does."""
    store = GraphStore(parse_location(root))
    version = store.snapshot(branch).pins[key].version
    change = GraphChange(_draft(), (), ((key, version),), {key: version})
    with store.sections.hold(branch) as fence:
        publish(store, branch, change, fence.epoch, ids.new_ulid())


def test_a_graph_is_read_from_one_fragment_from_its_first_write_on(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = people(root)
    _assert_equal(_fresh(root), fold(_fresh(root).handle, "main"))
    for number in range(3):
        graph.write([persons(f"p{number}")])
        assert _is_short(root)
        _assert_equal(_fresh(root), fold(_fresh(root).handle, "main"))


def _files(root: Path, directory: str) -> int:
    return sum(1 for _ in (root / "__manifest" / directory).glob("*"))


def test_rows_of_the_latest_commits_move_along_so_that_few_publishes_mark_rows_as_gone(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = people(root)
    marks, commits = _files(root, "_deletions"), limits.MANIFEST_RECENT_ROWS * 2
    for number in range(commits):
        graph.write([persons(f"p{number}")])
    assert _files(root, "_deletions") - marks <= commits // 8
    assert len(_fresh(root).handle.get_fragments()) <= commits // 8
    assert len(graph.commits.list(limit=2 * commits)) == commits + 1
    for version in range(2, _fresh(root).version + 1):
        handle = lance.dataset(str(root / "__manifest"), version=version)
        _assert_equal(read_snapshot(handle, "main"), fold(handle, "main"))


def test_a_row_of_a_recent_commit_that_became_untrue_does_not_move_along(tmp_path: Path) -> None:
    root = tmp_path / "g"
    people(root, "a").close()
    store = GraphStore(parse_location(root))
    pin = store.snapshot("main").pins["node:Person"]
    handed_off = replace(pin, metadata=pin.metadata.replace("V2", "V3"))
    with store.sections.hold("main") as fence:
        publish(store, "main", GraphChange(_draft(), (handed_off,)), fence.epoch, ids.new_ulid())
    rows = [row for row in _fresh(root).handle.to_table().to_pylist() if row["object_type"] == "table_version"]
    told = [row["metadata"] for row in rows if (row["table_key"], row["table_version"]) == ("node:Person", pin.version)]
    assert [manifest.without_digests(text) for text in told] == [handed_off.metadata]
    assert all(manifest.digests_of(text) for text in told), "the files are the same, and so are their digests"
    _assert_equal(_fresh(root), fold(_fresh(root).handle, "main"))


@dataclass
class Expected:
    """The model: per branch the row count of each visible table and the hidden ones."""

    counts: dict[str, dict[str, int]]
    hidden: dict[str, set[str]] = field(default_factory=dict)


class Walk:
    """A random sequence of publishes by us and by others, with a model of what must be seen."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.random = root, random.Random(seed)
        self.graph = people(root)
        zero = dict.fromkeys(self.graph.snapshot().tables, 0)
        self.expected = Expected({"main": zero}, {"main": set()})
        self.number = 0

    def step(self) -> str:
        branch = self.random.choice(sorted(self.expected.counts))
        name = self.random.choice(["write"] * 6 + ["note", "branch", "drop", "foreign", "unknown", "compact", "remove"])
        getattr(self, name)(branch)
        return f"{name} on {branch}"

    def write(self, branch: str) -> None:
        self.number += 1
        self.graph.write([persons(f"p{self.number}")], branch=branch)
        self.expected.counts[branch]["node:Person"] += 1

    def remove(self, branch: str) -> None:
        known = self.graph.snapshot(branch).arrow("Person", ["id"]).column(0).to_pylist()
        if known:
            self.graph.write([without("node:Person", min(known))], branch=branch)
            self.expected.counts[branch]["node:Person"] -= 1

    def note(self, branch: str) -> None:
        if "node:Note" in self.expected.hidden[branch]:
            return
        rows = pa.table({"text": ["t"]})
        self.graph.write([Change("node:Note", rows)], branch=branch)
        self.expected.counts[branch]["node:Note"] += 1

    def branch(self, parent: str) -> None:
        if len(self.expected.counts) > 3:
            return
        self.number += 1
        name = f"b{self.number}"
        self.graph.branches.create(name, parent)
        self.expected.counts[name] = dict(self.expected.counts[parent])
        self.expected.hidden[name] = set(self.expected.hidden[parent])

    def drop(self, branch: str) -> None:
        if "edge:Wrote" not in self.expected.hidden[branch]:
            drop_table(self.root, "edge:Wrote", branch)
            self.expected.hidden[branch].add("edge:Wrote")
            del self.expected.counts[branch]["edge:Wrote"]

    def foreign(self, branch: str) -> None:
        """Another program appends a person where the branch has a person table of its own."""
        pin = self.graph.snapshot(branch).tables["node:Person"]
        if pin.branch != (None if branch == "main" else branch):
            return
        self.number += 1
        row = pa.table({"id": [f"f{self.number}"], "age": [1], "email": pa.nulls(1, pa.string()), "handle": ["x"]})
        rows = row.select(["id", "age", "email", "handle"]).cast(lance.dataset(str(self.root / pin.location)).schema)
        foreign_writer.append_and_publish(self.root, "node:Person", rows, pin.branch, future=[1, {"a": 2}])
        self.expected.counts[branch]["node:Person"] += 1

    def unknown(self, branch: str) -> None:
        self.number += 1
        row = {"object_id": f"future:{self.number}", "object_type": "from_the_future", "table_key": "node:Person"}
        foreign_writer.put_rows(self.root, [row], None if branch == "main" else branch)

    def compact(self, branch: str) -> None:
        uri = foreign_writer.manifest_uri(self.root, None if branch == "main" else branch)
        lance.dataset(uri).optimize.compact_files()

    def check(self) -> None:
        for branch, counts in self.expected.counts.items():
            for seen in (self.graph._store.snapshot(branch), _fresh(self.root, branch)):
                assert {key: pin.row_count for key, pin in seen.pins.items()} == counts
                assert set(seen.hidden) == self.expected.hidden[branch]
                _assert_equal(seen, fold(seen.handle, branch))
            for key, count in counts.items():
                assert self.graph.snapshot(branch).arrow(key, ["id"]).num_rows == count


@pytest.mark.parametrize("seed", range(4))
def test_the_newest_fragment_equals_the_fold_after_any_sequence(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MANIFEST_FRAGMENTS", 5)
    walk = Walk(tmp_path / "g", seed)
    done = []
    for _ in range(40):
        done.append(walk.step())
        walk.check()
    for branch in walk.expected.counts:
        walk.write(branch)
        assert _is_short(walk.root, branch), done
    walk.check()
    walk.graph.close()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 140))
def test_the_newest_fragment_equals_the_fold_after_a_long_sequence(tmp_path: Path, seed: int) -> None:
    walk = Walk(tmp_path / "g", seed)
    for _ in range(250):
        walk.step()
    walk.check()


def test_more_commits_than_fragments_are_kept_few_and_nothing_of_the_past_is_lost(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    commits = [graph.write([persons(f"p{n}")]).commit for n in range(limits.MANIFEST_FRAGMENTS + 30)]
    rows = foreign_writer.manifest_rows(tmp_path / "g")
    fragments = len(lance.dataset(foreign_writer.manifest_uri(tmp_path / "g")).get_fragments())
    assert fragments <= limits.MANIFEST_FRAGMENTS + 1
    recorded = {row["object_id"] for row in rows if row["object_type"] == "graph_commit"}
    assert recorded >= {commit.id for commit in commits if commit}
    versions = [row["table_version"] for row in rows if row["table_key"] == "node:Person" and "$" in row["object_id"]]
    assert sorted(versions) == list(range(1, limits.MANIFEST_FRAGMENTS + 32))
    assert [graph.snapshot(at=commit.id).count("Person") for commit in commits if commit] == list(
        range(1, len(commits) + 1)
    )
    _assert_equal(_fresh(tmp_path / "g"), fold(_fresh(tmp_path / "g").handle, "main"))
    assert _is_short(tmp_path / "g")


def test_the_rows_of_the_present_exist_once_after_every_publish(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    graph.branches.create("b")
    for number in range(6):
        graph.write([persons(f"p{number}")])
        graph.write([persons(f"p{number}")], branch="b")
    for branch in (None, "b"):
        rows = foreign_writer.manifest_rows(tmp_path / "g", branch)
        tables = [row["object_id"] for row in rows if row["object_type"] == "table"]
        assert sorted(tables) == ["edge:Knows", "edge:Wrote", "node:Note", "node:Person"]
        heads = [row["object_id"] for row in rows if row["object_type"] == "graph_head"]
        assert heads == [f"graph_head:{branch or 'main'}"]
        every = [row["object_id"] for row in rows]
        assert len(every) == len(set(every))
        handle = lance.dataset(foreign_writer.manifest_uri(tmp_path / "g", branch))
        assert handle.schema.metadata == {b"omnigraph:internal_schema_version": b"3"}
        assert handle.schema.field("object_id").metadata == {b"lance-schema:unenforced-primary-key": b"true"}
        witness = transaction_of(handle).transaction_properties
        assert witness is not None and witness["omnigraph.commit_id"] == graph.commits.head(branch or "main").id


def test_a_foreign_publish_is_folded_and_repaired_by_the_next_one_of_ours(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = people(root, "a")
    schema = lance.dataset(str(root / graph.snapshot().tables["node:Person"].location)).schema
    row = pa.Table.from_pylist([{"id": "f", "handle": "f", "age": 7}], schema=schema)
    version = foreign_writer.append_and_publish(root, "node:Person", row, future={"k": [1]})
    assert not _is_short(root)
    assert graph.snapshot().tables["node:Person"].version == version
    assert graph.snapshot().count("Person") == 2
    graph.write([persons("b")])
    assert _is_short(root)
    assert sorted(graph.snapshot().arrow("Person").column("id").to_pylist()) == ["a", "b", "f"]
    heads = [row for row in foreign_writer.manifest_rows(root) if row["object_type"] == "graph_head"]
    assert len(heads) == 1


def test_unknown_metadata_keys_survive_our_publishes(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = people(root, "a")
    schema = lance.dataset(str(root / graph.snapshot().tables["node:Person"].location)).schema
    row = pa.Table.from_pylist([{"id": "f", "handle": "f"}], schema=schema)
    foreign_writer.append_and_publish(root, "node:Person", row, future={"k": [1]})
    graph.write([Change("node:Note", pa.table({"text": ["t"]}))])
    kept = [row["metadata"] for row in foreign_writer.manifest_rows(root) if row["object_id"] == "node:Person"]
    assert len(kept) == 1
    assert '"future": {"k": [1]}' in kept[0]
    assert _is_short(root)


def test_a_foreign_change_of_a_table_row_or_an_unknown_row_changes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = people(root, "a")
    before = graph.snapshot().tables
    location = before["node:Person"].location
    foreign_writer.put_rows(
        root,
        [
            {"object_id": "node:Person", "object_type": "table", "table_key": "node:Person", "location": location},
            {"object_id": "x", "object_type": "lease", "table_key": "node:Person", "table_version": 99},
        ],
    )
    assert graph.snapshot().tables == before
    assert _fresh(root).pins == before
    graph.write([persons("b")])
    rows = foreign_writer.manifest_rows(root)
    assert [row["table_version"] for row in rows if row["object_id"] == "x"] == [99]
    assert _is_short(root)


def test_a_dropped_table_is_hidden_until_a_higher_version_shows_it(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = people(root, "a")
    drop_table(root, "edge:Wrote")
    seen = _fresh(root)
    assert ("edge:Wrote" in seen.pins, seen.hidden["edge:Wrote"].tombstone) == (False, 1)
    assert seen.version_of("edge:Wrote") == 1
    with pytest.raises(og.OmniGraphError, match="does not exist at this version"):
        graph.snapshot().count("Wrote")
    graph.write([persons("b")])
    assert "edge:Wrote" in _fresh(root).hidden, "a later publish carries the tombstone on"
    uri = str(root / seen.hidden["edge:Wrote"].location)
    schema = lance.dataset(uri).schema
    row = pa.Table.from_pylist([{"id": "w", "src": "a", "dst": "n"}], schema=schema)
    lance.write_dataset(row, uri, mode="append")
    foreign_writer.put_rows(root, [foreign_writer.version_row("edge:Wrote", 2, 1)])
    assert graph.snapshot().count("Wrote") == 1
    _assert_equal(_fresh(root), fold(_fresh(root).handle, "main"))


def test_a_tombstone_row_has_the_shape_of_the_format(tmp_path: Path) -> None:
    people(tmp_path / "g").close()
    drop_table(tmp_path / "g", "edge:Wrote")
    rows = {row["object_id"]: row for row in foreign_writer.manifest_rows(tmp_path / "g")}
    row = rows["edge:Wrote$tombstone$00000000000000000001"]
    assert (row["object_type"], row["table_key"], row["table_version"]) == ("table_tombstone", "edge:Wrote", 1)
    assert {row[name] for name in ("location", "metadata", "table_branch", "row_count")} == {None}


def test_a_foreign_compaction_of_the_manifest_is_read_and_written_on(tmp_path: Path) -> None:
    root = tmp_path / "g"
    graph = people(root, "a")
    for number in range(4):
        graph.write([persons(f"p{number}", mode=Mode.MERGE)])
    before = graph.snapshot().tables
    head = graph.commits.head()
    lance.dataset(foreign_writer.manifest_uri(root)).optimize.compact_files()
    assert graph.snapshot().tables == before == _fresh(root).pins
    assert graph.commits.head() == head
    done = graph.write([persons("z")]).commit
    assert done is not None
    assert done.parent == head.id
    assert _is_short(root)
    assert [commit.id for commit in graph.commits.list()][1] == head.id


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"object_id": "node:Person$99", "object_type": "table_version", "table_key": "node:Person"}, "version"),
        (
            {
                "object_id": "node:Person$99",
                "object_type": "table_version",
                "table_key": "node:Person",
                "table_version": 99,
            },
            "row count",
        ),
        (
            {
                "object_id": "node:New$1",
                "object_type": "table_version",
                "table_key": "node:New",
                "table_version": 1,
                "row_count": 0,
                "metadata": "{}",
            },
            "where it lies",
        ),
        ({"object_id": "node:Away", "object_type": "table", "table_key": "node:Away", "location": "../x"}, "location"),
        ({"object_id": "node:Away", "object_type": "table", "table_key": "node:Away", "location": "/etc"}, "location"),
        ({"object_id": "node:Away", "object_type": "table", "table_key": "node:Away"}, "location"),
        (
            {"object_id": "graph_head:main", "object_type": "graph_head", "table_key": "", "metadata": "{not json"},
            "metadata",
        ),
        (
            {"object_id": "graph_head:main", "object_type": "graph_head", "table_key": "", "metadata": "[]"},
            "metadata",
        ),
        (
            {"object_id": "graph_head:main", "object_type": "graph_head", "table_key": "", "metadata": "{}"},
            "metadata",
        ),
        (
            {
                "object_id": "graph_head:main",
                "object_type": "graph_head",
                "table_key": "",
                "metadata": '{"head_commit_id": "x", "epoch": "many"}',
            },
            "metadata",
        ),
    ],
)
def test_a_broken_manifest_row_is_a_typed_error(tmp_path: Path, row: dict[str, object], problem: str) -> None:
    root = tmp_path / "g"
    people(root, "a").close()
    foreign_writer.put_rows(root, [row])
    with pytest.raises(CorruptGraph, match=problem):
        og.open(root)
    with pytest.raises(CorruptGraph, match=problem):
        og.open(root, mode="ro")


@pytest.mark.parametrize("metadata", ["{bad", "[1]", "null", '"text"', "[" * 100_000])
def test_bad_json_in_the_row_of_a_table_is_a_typed_error_of_that_table(tmp_path: Path, metadata: str) -> None:
    graph = people(tmp_path / "g", "a")
    row = {**foreign_writer.version_row("node:Person", 9, 1), "metadata": metadata}
    foreign_writer.put_rows(tmp_path / "g", [row])
    with pytest.raises(CorruptGraph, match="node:Person"):
        graph.snapshot().arrow("Person")
    with pytest.raises(CorruptGraph, match="node:Person"):
        graph.write([persons("b")])
    assert graph.snapshot().arrow("Note").num_rows == 0


def test_a_commit_row_without_its_time_is_a_typed_error(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    row = {"object_id": ids.new_ulid(), "object_type": "graph_commit", "table_key": "", "metadata": "{}"}
    foreign_writer.put_rows(tmp_path / "g", [row])
    with pytest.raises(CorruptGraph, match=row["object_id"]):
        graph.commits.list()


def test_a_snapshot_of_an_old_version_stays_what_it_was(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    seen = []
    for number in range(8):
        graph.write([persons(f"p{number}")])
        seen.append(graph.snapshot())
    for number, snapshot in enumerate(seen):
        assert snapshot.arrow("Person").num_rows == number + 1
        again = graph.snapshot(at=snapshot.version)
        assert dict(again.tables) == dict(snapshot.tables)
        handle = graph._store.tables.at(TableVersion("__manifest", None, snapshot.version, "test"))
        _assert_equal(read_snapshot(handle, "main"), fold(handle, "main"))


def test_full_fragments_of_the_manifest_are_left_alone_and_stay_in_the_order_of_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MANIFEST_FRAGMENTS", 4)
    monkeypatch.setattr(limits, "MANIFEST_FRAGMENT_ROWS", 16)
    monkeypatch.setattr(limits, "MANIFEST_RECENT_ROWS", 2)
    graph = people(tmp_path / "g")
    full: set[int] = set()
    for number in range(60):
        graph.write([persons(f"p{number}")])
        fragments = {each.fragment_id: each.metadata for each in graph._store.snapshot("main").handle.get_fragments()}
        assert full <= fragments.keys()
        full = {id_ for id_, metadata in fragments.items() if metadata.physical_rows >= 16}
    assert len(full) >= 3
    versions = [commit.version for commit in og.open(tmp_path / "g", mode="ro").commits.list()]
    assert versions == sorted(versions, reverse=True)
    assert len(versions) == 61


def test_a_graph_keeps_few_versions_of_a_table_open(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    for number in range(limits.OPEN_VERSIONS + 4):
        graph.write([persons(f"p{number}")])
        graph.snapshot().arrow("Person")
    open_tables = graph._store.tables._open._entries
    assert max(len(versions) for versions, _ in open_tables.values()) == limits.OPEN_VERSIONS
