"""What is written stands, once, with its commit, whichever form of the graph wrote it."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import CommitNotFound, MergeConflict, PreconditionFailed, ResourceLimitExceeded

INSERT = "query add($h: String) { insert Person { handle: $h, name: $h } }"
NAMES = "query q() { match { $p: Person } return { $p.handle as handle, $p.name as name } order { handle } }"


def names(graph: og.Graph, branch: str = "main") -> dict[str, str]:
    return {row["handle"]: row["name"] for row in graph.query(NAMES, branch=branch).rows()}


def test_a_mutation_is_one_commit_with_its_message(graph: og.Graph, embedded: og.Graph) -> None:
    before = graph.commits.head()
    done = graph.mutate(INSERT, {"h": "di"}, message="one more")
    assert (done.query_name, done.affected_nodes, done.affected_edges, done.branch) == ("add", 1, 0, "main")
    assert done.commit is not None and done.commit.parent == before.id
    assert (done.commit.kind, done.commit.message, done.commit.summary) == (
        "mutation",
        "one more",
        'mutation: Person +1 "one more"',
    )
    assert embedded.commits.head().to_dict() == done.commit.to_dict()
    assert graph.commits.get(done.commit.id).to_dict() == done.commit.to_dict()
    assert "di" in names(graph)


def test_a_mutation_without_a_match_makes_no_commit(graph: og.Graph) -> None:
    before = graph.commits.head().id
    done = graph.mutate('query q() { delete Person where handle = "nobody" }')
    assert done.commit is None
    assert graph.commits.head().id == before


def test_a_delete_takes_its_edges_along(graph: og.Graph) -> None:
    done = graph.mutate('query q() { delete Person where handle = "ana" }')
    assert (done.affected_nodes, done.affected_edges) == (1, 2)
    assert graph.snapshot().count("Follows") == 1


def test_a_mutation_with_the_id_of_its_commit_is_done_once(graph: og.Graph) -> None:
    known = og.new_commit_id()
    with pytest.raises(CommitNotFound):
        graph.commits.get(known)
    first = graph.mutate(INSERT, {"h": "di"}, commit_id=known)
    again = graph.mutate(INSERT, {"h": "di"}, commit_id=known)
    assert first.commit is not None and again.commit is not None
    assert (first.commit.id, again.commit.to_dict()) == (known, first.commit.to_dict())
    assert [commit.id for commit in graph.commits.list()].count(known) == 1


def test_a_conditional_write_holds_to_the_head(graph: og.Graph) -> None:
    head = graph.commits.head().id
    done = graph.mutate(INSERT, {"h": "di"}, if_commit=head)
    assert done.commit is not None
    with pytest.raises(PreconditionFailed) as caught:
        graph.mutate(INSERT, {"h": "ed"}, if_commit=head)
    assert caught.value.details["actual"] == done.commit.id
    assert "ed" not in names(graph)


def test_writers_in_several_threads_all_get_their_own_commit(graph: og.Graph) -> None:
    made: dict[str, og.MutationResult] = {}

    def write(name: str) -> None:
        made[name] = graph.mutate(INSERT, {"h": name})

    threads = [Thread(target=write, args=(f"t{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    commits = {done.commit.id for done in made.values() if done.commit is not None}
    assert len(commits) == 6
    assert commits <= {commit.id for commit in graph.commits.list(kind="mutation")}
    assert {f"t{number}" for number in range(6)} <= set(names(graph))


# --- loads

MORE = """{"type":"Person","data":{"handle":"di","name":"Di"}}
{"edge":"Follows","from":"di","to":"ana","data":{"id":"f9"}}
"""


def sources(folder: Path) -> dict[str, Any]:
    """The same rows, as callers hold them."""
    (folder / "more.jsonl").write_text(MORE, "utf-8")
    (folder / "more.jsonl.gz").write_bytes(gzip.compress(MORE.encode()))
    (folder / "Person.csv").write_text("handle,name\ndi,Di\n", "utf-8")
    (folder / "Follows.json").write_text('{"from":"di","to":"ana","id":"f9"}\n', "utf-8")
    pq.write_table(pa.table({"handle": ["di"], "name": ["Di"]}), folder / "people.parquet")
    people, follows = [{"handle": "di", "name": "Di"}], [{"from": "di", "to": "ana", "id": "f9"}]
    batches = pa.table({"handle": ["di"], "name": ["Di"]})
    reader = pa.RecordBatchReader.from_batches(batches.schema, batches.to_batches())
    return {
        "a path": str(folder / "more.jsonl"),
        "a packed file": folder / "more.jsonl.gz",
        "an open file": io.BytesIO(MORE.encode()),
        "a text": io.StringIO(MORE),
        "several files": [folder / "Person.csv", folder / "Follows.json"],
        "a pattern": str(folder / "[PF]*.*[vn]"),
        "a generator": (folder / name for name in ("Person.csv", "Follows.json")),
        "files of types": {"Person": folder / "people.parquet", "follows": [folder / "Follows.json"]},
        "dicts": {"Person": people, "Follows": follows},
        "tables": {"node:Person": batches, "edge:Follows": pa.Table.from_pylist(follows)},
        "a reader": {"Person": reader, "Follows": follows},
        "rows and files": {"Person": people, "Follows": folder / "Follows.json"},
    }


SOURCES = [
    "a path",
    "a packed file",
    "an open file",
    "a text",
    "several files",
    "a pattern",
    "a generator",
    "files of types",
    "dicts",
    "tables",
    "a reader",
    "rows and files",
]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_load_is_one_commit_however_its_source_is_held(kind: str, loaded_into: og.Graph, tmp_path: Path) -> None:
    branch = loaded_into.branches.create(f"load-{SOURCES.index(kind)}").name
    before = loaded_into.commits.head(branch).id
    done = loaded_into.load(sources(tmp_path)[kind], "append", branch=branch, message=kind)
    assert done.commit is not None
    assert (done.nodes, done.edges, done.total, done.rejects.num_rows) == ({"Person": 1}, {"Follows": 1}, 2, 0)
    assert (done.commit.parent, done.commit.message) == (before, kind)
    assert names(loaded_into, branch)["di"] == "Di"
    assert loaded_into.snapshot(branch).count("Follows") == 3


def test_a_load_makes_its_branch(graph: og.Graph) -> None:
    done = graph.load(io.StringIO(MORE), "merge", branch="staging", from_="main")
    assert (done.branch_created, done.base_branch, done.branch) == (True, "main", "staging")
    assert "di" in names(graph, "staging") and "di" not in names(graph)


def test_a_load_with_the_id_of_its_commit_is_done_once(graph: og.Graph) -> None:
    known = og.new_commit_id()
    first = graph.load(io.StringIO(MORE), "append", commit_id=known)
    again = graph.load(io.StringIO(MORE), "append", commit_id=known)
    assert first.commit is not None and again.commit is not None
    assert first.commit.id == again.commit.id == known
    assert graph.snapshot().count("Follows") == 3


def test_bad_records_are_left_out_and_told(graph: og.Graph, tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    file.write_text(f'{MORE}nonsense\n{{"type":"Place","data":{{"name":"Rome"}}}}\n', "utf-8")
    done = graph.load(file, "append", on_error="reject")
    assert done.commit is not None and done.total == 2
    told = [(row["file"], row["line"], row["type"], row["code"]) for row in done.rejects.to_pylist()]
    assert told == [(str(file), 3, None, "row.record"), (str(file), 4, "Place", "conflict.key")]
    (tmp_path / "rejects").mkdir()
    done.write_rejects(tmp_path / "rejects" / "all.jsonl")
    assert "nonsense" in (tmp_path / "rejects" / "all.jsonl").read_text("utf-8")
    with pytest.raises(ResourceLimitExceeded):
        graph.load(file, "append", on_error="reject", max_rejects=1)


def test_a_merging_load_keeps_what_it_does_not_bring(graph: og.Graph) -> None:
    graph.load({"Person": [{"handle": "ana", "name": "Ana B."}]}, "merge", columns="keep")
    ages = 'query q() { match { $p: Person { handle: "ana" } } return { $p.name as name, $p.age as age } }'
    assert graph.query(ages).rows() == [{"name": "Ana B.", "age": 31}]
    graph.load({"Person": [{"handle": "ana", "name": "Ana"}]}, "merge")
    assert graph.query(ages).rows() == [{"name": "Ana", "age": None}]


def test_a_directory_tells_what_it_left_out(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "more.jsonl").write_text(MORE, "utf-8")
    (tmp_path / "in" / "notes.txt").write_text("not for the graph", "utf-8")
    done = graph.load(tmp_path / "in", "append")
    assert (done.total, done.left_out) == (2, (str(tmp_path / "in" / "notes.txt"),))


# --- branches and merges


def test_branches_are_made_renamed_and_deleted(graph: og.Graph) -> None:
    first = graph.commits.list()[-1].id
    assert graph.branches.create("a/b") == og.Branch("a/b", "main")
    assert graph.branches.create("old", at=first).parent == "main"
    assert graph.snapshot("old").count("Person") == 0
    assert graph.branches.rename("a/b", "c", message="better") == og.Branch("c", "main")
    assert graph.branches.list() == ["main", "c", "old"]
    graph.branches.delete("c")
    graph.branches.delete("old")
    assert list(graph.branches) == ["main"]


def test_a_branch_is_merged(graph: og.Graph, embedded: og.Graph) -> None:
    graph.branches.create("x")
    graph.mutate('query q() { update Person set { name: "B." } where handle = "bo" }', branch="x")
    graph.mutate(INSERT, {"h": "di"})
    preview = graph.branches.merge("x", dry_run=True)
    assert (preview.outcome, preview.commit, preview.dry_run) == ("merged", None, True)
    assert preview.tables["node:Person"].ids["updated"].to_pylist() == ["bo"]
    done = graph.branches.merge("x", message="done", delete_branch=True)
    assert done.commit is not None and done.commit.merged_parent == done.source_commit
    assert (done.outcome, done.branch_deleted, done.tables["node:Person"].updated) == ("merged", True, 1)
    assert embedded.commits.head().to_dict() == done.commit.to_dict()
    assert names(graph)["bo"] == "B."


def conflicting(graph: og.Graph) -> None:
    graph.branches.create("x")
    for handle in ("ana", "bo"):
        update = f'query q($n: String) {{ update Person set {{ name: $n }} where handle = "{handle}" }}'
        graph.mutate(update, {"n": "theirs"}, branch="x")
        graph.mutate(update, {"n": "ours"})


def test_a_merge_with_conflicts_names_them_and_writes_nothing(graph: og.Graph, embedded: og.Graph) -> None:
    conflicting(graph)
    before = graph.commits.head().id
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("x")
    with pytest.raises(MergeConflict) as expected:
        embedded.branches.merge("x")
    assert (str(caught.value), caught.value.details) == (str(expected.value), expected.value.details)
    assert [(each.entity, each.kind) for each in caught.value.conflicts] == [
        ("node:Person/ana", "DivergentUpdate"),
        ("node:Person/bo", "DivergentUpdate"),
    ]
    preview = graph.branches.merge("x", dry_run=True)
    assert preview.to_dict() == embedded.branches.merge("x", dry_run=True).to_dict()
    assert graph.commits.head().id == before


@pytest.mark.parametrize(
    ("resolve", "expected"),
    [
        ("ours", {"ana": "ours", "bo": "ours"}),
        ({"*": "theirs"}, {"ana": "theirs", "bo": "theirs"}),
        (
            {"node:Person/ana": "theirs", "node:Person/bo": {"handle": "bo", "name": "new"}},
            {"ana": "theirs", "bo": "new"},
        ),
        (lambda conflict: "theirs" if conflict.row_id == "bo" else "ours", {"ana": "ours", "bo": "theirs"}),
    ],
    ids=["a rule", "a rule for the rest", "by entity", "a function"],
)
def test_conflicts_are_decided(graph: og.Graph, resolve: Any, expected: dict[str, str]) -> None:
    conflicting(graph)
    assert graph.branches.merge("x", resolve=resolve).commit is not None
    assert expected.items() <= names(graph).items()


# --- history


def test_tags_keep_a_state_in_view(graph: og.Graph) -> None:
    tag = graph.tags.create("2026-q3", message="as reported")
    assert (tag.commit_id, tag.branch, tag.message) == (graph.commits.head().id, "main", "as reported")
    graph.mutate('query q() { delete Person where handle = "bo" }')
    assert graph.snapshot(at="tag:2026-q3").count("Person") == 3
    assert len(graph.query(NAMES, at="tag:2026-q3")) == 3
    assert graph.tags.list() == [tag] == [graph.tags.get("2026-q3")]
    assert graph.commits.get("tag:2026-q3").id == tag.commit_id
    graph.tags.delete("2026-q3")
    assert graph.tags.list() == []


def test_a_commit_is_reverted_and_a_state_restored(graph: og.Graph) -> None:
    first = graph.commits.head()
    done = graph.mutate('query q() { delete Person where handle = "bo" }')
    assert done.commit is not None
    undone = graph.revert(done.commit.id, message="back")
    assert (undone.undone, undone.tables["node:Person"].inserted, undone.branch) == (done.commit.id, 1, "main")
    graph.mutate(INSERT, {"h": "di"})
    restored = graph.restore(first.id)
    assert restored.commit is not None and restored.tables["node:Person"].deleted == 1
    assert set(names(graph)) == {"ana", "bo", "cy"}


def test_the_feed_goes_on_from_a_baseline(graph: og.Graph, tmp_path: Path) -> None:
    taken = graph.baseline(tmp_path / "state.jsonl")
    assert taken.file == str(tmp_path / "state.jsonl")
    assert (tmp_path / "state.jsonl").read_text("utf-8").count("\n") == 8
    graph.mutate(INSERT, {"h": "di"})
    page = graph.changes(taken.resume_cursor)
    assert [(change.op, change.id) for block in page for change in block.changes] == [("insert", "di")]
    assert page.caught_up and graph.changes(page.cursor).blocks == ()


def test_a_diff_tells_what_a_branch_changed(graph: og.Graph) -> None:
    graph.branches.create("x")
    graph.mutate('query q() { update Person set { name: "B." } where handle = "bo" }', branch="x")
    diff = graph.diff("main", "x")
    (change,) = diff
    assert (change.op, change.id, change.changed) == ("update", "bo", ("name",))
    assert (diff.stats.updates, diff.stats.types_affected) == (1, ("Person",))
    graph.mutate(INSERT, {"h": "di"}, branch="x")
    assert [each.id for each in diff] == ["bo"]  # the same two states


def test_an_export_is_a_load_elsewhere(graph: og.Graph, tmp_path: Path) -> None:
    done = graph.export(tmp_path / "all.jsonl.gz")
    assert (done.nodes, done.edges) == ({"Person": 3, "Place": 1}, {"Follows": 2, "LivesIn": 1})
    assert done.files == (str(tmp_path / "all.jsonl.gz"),)
    with og.init(tmp_path / "copy.omni", graph.schema.text) as copy:
        copy.load(tmp_path / "all.jsonl.gz", "append")
        assert copy.export().text == graph.export().text
        with (tmp_path / "some.jsonl").open("wb") as file:
            graph.export(file, ["Place"])
        assert (tmp_path / "some.jsonl").read_text("utf-8") == copy.export(types=["Place"]).text


def test_a_schema_change_is_seen_at_once(graph: og.Graph) -> None:
    before = graph.schema.hash
    wanted = graph.schema.text.replace("size: U64?", "size: U64?  country: String?")
    assert graph.schema.plan(wanted).supported
    done = graph.schema.apply(wanted, if_hash=before, message="countries")
    assert (done.applied, done.lines()) == (True, ("add property 'Place.country' (String?) on node 'Place'",))
    assert done.commit is not None and done.commit.kind == "schema_change"
    assert graph.schema.hash != before and "country" in graph.catalog.nodes["Place"].properties
    graph.load({"Place": [{"name": "Oslo", "country": "Norway"}]}, "append")
    read = 'query q() { match { $p: Place { country: "Norway" } } return { $p.name as name } }'
    assert graph.query(read).scalar() == "Oslo"


def test_a_blob_is_written_and_saved(graph: og.Graph, tmp_path: Path) -> None:
    content = bytes(range(256)) * 5_000
    graph.load(
        {"Person": pa.table({"handle": ["di"], "name": ["Di"], "photo": pa.array([content], pa.large_binary())})},
        "append",
    )
    blob = graph.blob("Person", "di", "photo")
    assert (blob.size, blob.read(255, 3), blob.save(tmp_path / "di.bin")) == (
        len(content),
        b"\xff\x00\x01",
        len(content),
    )
    assert (tmp_path / "di.bin").read_bytes() == content
