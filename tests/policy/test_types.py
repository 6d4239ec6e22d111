"""Rules about types: what may not be seen is as if it did not exist; what may not be changed is not changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import OmniGraphError, PolicyDenied, QueryTypeError, TypeNotFound
from tests.policy.verbs import PEOPLE, Staff, granting, staff

SECRET = ("Salary", "Earns", "amount", "s1")
SHOWN = ("Person", "Knows")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Staff:
    return staff(tmp_path_factory.mktemp("types"))


@pytest.fixture
def reader(shared: Staff) -> Iterator[og.Graph]:
    """Reads people and not salaries. The edge to salaries is granted, and cannot be shown without them."""
    with shared.open(policy=granting("read", "export", types=(*SHOWN, "Earns"))) as graph:
        yield graph


def tells(found: object) -> list[str]:
    """Which secrets a text holds."""
    return [word for word in SECRET if word in str(found)]


def test_catalog_schema_and_listing_have_only_what_may_be_read(reader: og.Graph) -> None:
    assert list(reader.catalog.nodes) == ["Person"] and list(reader.catalog.edges) == ["Knows"]
    assert list(reader.catalog_of("x").nodes) == ["Person"]
    assert reader.schema.text == (
        "node Person { handle: String @key  name: String @index  photo: Blob? }\nedge Knows: Person -> Person\n"
    )
    assert list(reader.snapshot().tables) == ["edge:Knows", "node:Person"]


def test_the_rest_of_the_schema_compiles(reader: og.Graph, tmp_path: Path) -> None:
    with og.init(tmp_path / "g", reader.schema.text) as made:
        assert made.catalog == reader.catalog


def test_a_type_that_may_not_be_read_is_unknown_to_queries(reader: og.Graph) -> None:
    secret = "query q() {{ match {{ {} }} return {{ count($p) as n }} }}"
    for pattern in ("$p: Salary", "$p: Person  $p earns $s"):
        with pytest.raises(QueryTypeError) as hidden:
            reader.query(secret.format(pattern))
        with pytest.raises(QueryTypeError) as unknown:
            reader.query(secret.format(pattern.replace("Salary", "Galery").replace("earns", "turns")))
        assert hidden.value.message.replace("Salary", "Galery").replace("earns", "turns") == unknown.value.message
    assert not reader.lint(secret.format("$p: Salary")).ok
    assert len(reader.query(PEOPLE).rows()) == 2


def test_snapshots_count_and_show_only_what_may_be_read(reader: og.Graph) -> None:
    snapshot = reader.snapshot()
    assert snapshot.count("Person") == 2
    for look in (snapshot.count, snapshot.arrow, snapshot.dataset):
        for name in ("Salary", "node:Salary", "Earns"):
            with pytest.raises(TypeNotFound, match="does not exist at this version"):
                look(name)


def test_searches_and_blobs_know_only_what_may_be_read(shared: Staff) -> None:
    with shared.open(policy=granting("read", types=("Salary",))) as graph:
        for look in (lambda: graph.search("ana", ["Person"]), lambda: graph.blob("Person", "ana", "photo")):
            with pytest.raises(TypeNotFound):
                look()


def test_exports_and_baselines_leave_the_rest_out(reader: og.Graph, tmp_path: Path) -> None:
    assert tells(reader.export().text) == []
    assert tells(reader.baseline().text) == []
    reader.export(tmp_path / "out", format="parquet")
    assert tells(sorted(path.name for path in (tmp_path / "out").rglob("*"))) == []
    with pytest.raises(OmniGraphError) as refused:
        reader.export(types=["Salary"])
    assert tells(str(refused.value).replace("Salary", "", 1)) == []


def test_feeds_diffs_and_commits_leave_the_rest_out(reader: og.Graph) -> None:
    page = reader.changes("beginning")
    assert len(page.blocks) == 1 and tells([page.to_json(), page.blocks[0].commit]) == []
    first = reader.commits.list()[0]
    changes = reader.commit_changes(first.id)
    assert {change.type for change in changes} == {"Person", "Knows"}
    assert tells([changes.commit, changes.to_json(), changes.stats]) == []
    assert tells(reader.diff(1, "x").rows()) == []
    told = [first, first.to_dict(), reader.commits.get(first.id), reader.commits.head(), reader.commits.graph()]
    assert tells(told) == []
    assert set(first.rows) == {"node:Person", "edge:Knows"}
    with pytest.raises(TypeNotFound):
        reader.diff("main", "x", types=["Salary"])


def test_statistics_leave_the_rest_out(reader: og.Graph) -> None:
    found = reader.stats(embeddings=True)
    assert [table.table_key for table in found.tables] == ["edge:Knows", "node:Person"]
    assert tells(json.dumps(found.to_dict())) == []


def test_a_new_type_is_not_seen_until_it_is_granted(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node A { k: String @key }") as graph:
        graph.schema.apply("node A { k: String @key }  node B { k: String @key }")
    with og.open(tmp_path / "g", actor="act-bo", policy=granting("read", types=("A",))) as graph:
        assert list(graph.catalog.nodes) == ["A"]


WRITES = {
    "an insert": 'query q() { insert Salary { code: "s2", amount: 1 } }',
    "an update": "query q() { update Salary set { amount: 1 } where amount > 0 }",
    "a delete": 'query q() { delete Salary where code = "s1" }',
    "an edge": 'query q() { insert Earns { from: "bo", to: "s1" } }',
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_write_cannot_name_a_type_that_may_not_be_seen(shared: Staff, write: str) -> None:
    policy = granting("read", "change", types=SHOWN)
    with shared.open(policy=policy) as graph:
        with pytest.raises(QueryTypeError, match="unknown"):
            graph.mutate(write, branch="x")
        with graph.transaction("x") as tx, pytest.raises(QueryTypeError, match="unknown"):
            tx.mutate(write)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_type_that_may_only_be_read_is_not_changed(shared: Staff, write: str) -> None:
    with shared.open() as free:
        before = free.commits.head("x").id
    with shared.open(
        policy=granting("read") + "\n" + granting("change", types=SHOWN).rpartition("rules:\n")[2]
    ) as graph:
        assert "Salary" in graph.catalog.nodes
        with pytest.raises(PolicyDenied, match="the policy denies action 'change' on branch 'x' and type"):
            graph.mutate(write, branch="x")
        with graph.transaction("x") as tx, pytest.raises(PolicyDenied):
            tx.mutate(write)
        assert graph.commits.head("x").id == before


def test_other_ways_to_write_are_held_to_types_too(shared: Staff, tmp_path: Path) -> None:
    row = {"code": "s2", "amount": 1}
    (tmp_path / "rows.jsonl").write_text(json.dumps({"type": "Salary", "data": row | {"bad": 1}}) + "\n")
    with shared.open(policy=granting("read", "change", types=SHOWN)) as graph:
        for call in (
            lambda: graph.load({"Salary": [row]}, "append", branch="x"),
            lambda: graph.load(tmp_path / "rows.jsonl", "append", branch="x"),
            lambda: graph.write([og.Change("node:Salary", [row])], branch="x"),
            lambda: graph.embed(["Salary"], branch="x"),
        ):
            with pytest.raises(OmniGraphError) as refused:
                call()
            assert tells(str(refused.value).replace("Salary", "")) == [], refused.value
            assert refused.value.code in ("not_found.type", "row.record", "input"), refused.value
        with graph.transaction("x") as tx:
            for step in (lambda: tx.insert("Salary", row), lambda: tx.delete("Salary", ["s1"])):
                with pytest.raises(TypeNotFound):
                    step()


def test_a_node_whose_hidden_edges_would_go_with_it_stays(tmp_path: Path) -> None:
    place = staff(tmp_path)
    delete = "query q($h: String) { delete Person where handle = $h }"
    with place.open(policy=granting("read", "change", types=SHOWN)) as graph:
        with pytest.raises(PolicyDenied) as refused:
            graph.mutate(delete, {"h": "ana"})
        assert tells(refused.value) == [] and tells(refused.value.details) == []
        with graph.transaction() as tx, pytest.raises(PolicyDenied):
            tx.delete("Person", ["ana"])
        assert graph.mutate(delete, {"h": "bo"}).affected_nodes == 1
    with place.open() as free:
        assert free.verify().ok
        assert free.snapshot().count("Earns") == 1


def test_an_undo_and_a_merge_are_held_to_types_too(tmp_path: Path) -> None:
    place = staff(tmp_path)
    with place.open() as free:
        raised = free.mutate("query q() { update Salary set { amount: 9 } where amount > 0 }", branch="x").commit
    assert raised is not None
    policy = granting("read", "change", "branch_merge", types=SHOWN)
    with place.open(policy=policy) as graph:
        for call in (
            lambda: graph.revert(raised.id, branch="x"),
            lambda: graph.restore(place.commit, branch="x"),
            lambda: graph.branches.merge("x", engine="embedded"),
            lambda: graph.branches.merge("x", dry_run=True, engine="embedded"),
        ):
            with pytest.raises(PolicyDenied) as refused:
                call()
            assert tells(refused.value) == []
        assert graph.revert(place.commit, branch="x").commit is not None


def test_a_conflict_in_a_hidden_type_is_not_told(tmp_path: Path) -> None:
    place = staff(tmp_path)
    with place.open() as free:
        for branch, amount in (("main", 1), ("x", 2)):
            free.mutate(f"query q() {{ update Salary set {{ amount: {amount} }} where amount > 0 }}", branch=branch)
    with place.open(policy=granting("read", "branch_merge", types=SHOWN)) as graph:
        with pytest.raises(PolicyDenied) as refused:
            graph.branches.merge("x", engine="embedded")
        assert tells(refused.value) == []


def test_who_sees_a_part_of_the_schema_does_not_change_it(shared: Staff) -> None:
    policy = granting("read", types=SHOWN) + "\n" + granting("schema_apply").rpartition("rules:\n")[2]
    with shared.open(policy=policy) as graph:
        for call in (graph.schema.plan, graph.schema.apply):
            with pytest.raises(PolicyDenied, match="a schema is changed by somebody who may read all of it"):
                call(graph.schema.text)


def test_who_changes_without_reading_names_only_what_may_be_changed(shared: Staff) -> None:
    with shared.open(policy=granting("change", types=SHOWN)) as graph:
        with pytest.raises(QueryTypeError, match="unknown"):
            graph.mutate("query q() { delete Salary where amount > 5 }", branch="x")
        with pytest.raises(QueryTypeError, match="unknown"):
            graph.mutate('query q() { match { $p: Person  $p earns $s } update $p set { name: "R" } }', branch="x")


def test_changes_computed_from_a_partial_snapshot_keep_the_whole_graph(tmp_path: Path) -> None:
    place = staff(tmp_path)
    with place.open(policy=granting("read", "change", types=SHOWN)) as graph:
        put = og.Change("node:Person", [{"handle": "ana", "name": "Ana R."}], og.Mode.MERGE)
        graph.write([put], base=graph.snapshot())
    with place.open() as free:
        assert free.snapshot().count("Salary") == 1 and free.verify().ok


def test_index_builds_after_a_load_are_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.limits.LOAD_INDEX_ROWS", 1)
    place = staff(tmp_path)
    with place.open(policy=granting("change", types=SHOWN)) as graph:
        rows = [{"handle": f"p{number}", "name": "P"} for number in range(3)]
        assert graph.load({"Person": rows}, "append").index_commit is not None
