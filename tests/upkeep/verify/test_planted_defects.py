"""Each kind of damage is found by exactly the check that is made for it, at its place, and by no other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.upkeep.verify import CHECKS, Problem
from tests.support.transactions import transaction_of
from tests.upkeep.verify.damage import (
    append_raw,
    change_commit,
    change_head,
    change_pin,
    drop_row,
    folder,
    forget_table,
    only_file,
    pinned_version_file,
    repeat_row,
    sound_graph,
)

Damage = Callable[[og.Graph], None]


def _delete_data_file(graph: og.Graph) -> None:
    only_file(folder(graph, "node:Pair") / "data").unlink()


def _cut_data_file(graph: og.Graph) -> None:
    file = only_file(folder(graph, "edge:Knows", "dev") / "data")
    file.write_bytes(file.read_bytes()[:-20])


def _delete_version_file(graph: og.Graph) -> None:
    pinned_version_file(graph, "edge:Owns").unlink()


def _delete_table(graph: og.Graph) -> None:
    shutil.rmtree(folder(graph, "node:Person", "dev"))


def _wrong_row_count(graph: og.Graph) -> None:
    change_pin(graph, "node:Pair", row_count=7)


def _wrong_transaction(graph: og.Graph) -> None:
    change_pin(graph, "node:Pair", metadata='{"transaction": "somebody-else"}')


def _repeated_node_id(graph: og.Graph) -> None:
    append_raw(graph, "node:Person", {"id": "ann", "handle": "ann"})


def _repeated_edge_id(graph: og.Graph) -> None:
    for _ in range(2):
        append_raw(graph, "edge:Owns", {"id": "same", "src": "bob", "dst": '["1","x"]'})


def _id_is_not_the_key(graph: og.Graph) -> None:
    append_raw(graph, "node:Pair", {"id": "free", "a": 5, "b": "y"}, branch="dev")


def _repeated_unique_value(graph: og.Graph) -> None:
    append_raw(graph, "node:Person", {"id": "eve", "handle": "eve", "email": "ann@x"})


def _repeated_unique_tuple(graph: og.Graph) -> None:
    append_raw(graph, "node:Pair", {"id": '["9","x"]', "a": 9, "b": "x", "f": 0.5})


def _value_out_of_range(graph: og.Graph) -> None:
    append_raw(graph, "node:Pair", {"id": '["9","q"]', "a": 9, "b": "q", "f": 1.5})


def _value_that_does_not_match(graph: og.Graph) -> None:
    append_raw(graph, "node:Pair", {"id": '["9","NO"]', "a": 9, "b": "NO"}, branch="dev")


def _value_that_is_not_in_the_enum(graph: og.Graph) -> None:
    append_raw(graph, "node:Pair", {"id": '["9","q"]', "a": 9, "b": "q", "c": "green"})


def _edge_from_nowhere(graph: og.Graph) -> None:
    append_raw(graph, "edge:Owns", {"id": "e1", "src": "zoe", "dst": '["1","x"]'})


def _edge_to_nowhere(graph: og.Graph) -> None:
    append_raw(graph, "edge:Knows", {"id": "e1", "src": "bob", "dst": "zoe"}, branch="dev")


def _too_many_edges(graph: og.Graph) -> None:
    append_raw(graph, "edge:Knows", {"id": "e1", "src": "ann", "dst": "ann"})


def _lost_copy_of_a_commit(graph: og.Graph) -> None:
    newest = graph.commits.head().id
    lance.dataset(f"{graph.uri}/_graph_commits.lance").delete(f"graph_commit_id = '{newest}'")


def _copy_of_a_commit_twice(graph: og.Graph) -> None:
    mirror = lance.dataset(f"{graph.uri}/_graph_commits.lance")
    lance.write_dataset(mirror.to_table().slice(0, 1), mirror, mode="append")


def _changed_copy_of_a_commit(graph: og.Graph) -> None:
    newest = graph.commits.head("dev").id
    mirror = lance.dataset(f"{graph.uri}/_graph_commits.lance").checkout_version(("dev", None))
    mirror.update({"parent_commit_id": "'another'"}, where=f"graph_commit_id = '{newest}'")


def _lost_copy_of_a_branch(graph: og.Graph) -> None:
    lance.dataset(f"{graph.uri}/_graph_commits.lance").branches.delete("dev")


def _another_actor(graph: og.Graph) -> None:
    named = graph.commits.head().id
    actors = lance.dataset(f"{graph.uri}/_graph_commit_actors.lance")
    actors.update({"actor_id": "'act-two'"}, where=f"graph_commit_id = '{named}'")


def _lost_actor(graph: og.Graph) -> None:
    named = graph.commits.head().id
    lance.dataset(f"{graph.uri}/_graph_commit_actors.lance").delete(f"graph_commit_id = '{named}'")


def _unreadable_record(graph: og.Graph) -> None:
    place = Path(graph.uri, "__recovery")
    place.mkdir(exist_ok=True)
    (place / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json").write_text("{}")


def _edited_schema(graph: og.Graph) -> None:
    path = Path(graph.uri, "_schema.pg")
    path.write_text(path.read_text() + "node Extra {}\n")


def _edited_compiled_schema(graph: og.Graph) -> None:
    path = Path(graph.uri, "_schema.ir.json")
    path.write_text(path.read_text().replace('"age"', '"ago"'))


def _lost_schema_state(graph: og.Graph) -> None:
    Path(graph.uri, "__schema_state.json").unlink()


def _staged_schema(graph: og.Graph) -> None:
    Path(graph.uri, "_schema.pg.staging").write_text("node A {}")


def _unknown_schema(graph: og.Graph) -> None:
    change_head(graph, schema_ir_hash="sha256:00")


def _broken_scalar_index(graph: og.Graph) -> None:
    _empty_index(graph, "id")


def _broken_text_index(graph: og.Graph) -> None:
    _empty_index(graph, "bio")


def _broken_vector_index(graph: og.Graph) -> None:
    _empty_index(graph, "vec")


def _empty_index(graph: og.Graph, column: str) -> None:
    table = folder(graph, "node:Person")
    (index,) = [each for each in lance.dataset(str(table)).describe_indices() if each.field_names == [column]]
    for segment in index.segments:
        shutil.rmtree(table / "_indices" / str(segment.uuid))


def _table_moved(graph: og.Graph) -> None:
    lance.dataset(str(folder(graph, "node:Pair"))).delete("a = 1")


def _column_gone(graph: og.Graph) -> None:
    table = lance.dataset(str(folder(graph, "edge:Knows")))
    table.drop_columns(["since"])
    _show(graph, "edge:Knows", table)


def _table_gone(graph: og.Graph) -> None:
    forget_table(graph, "edge:Owns")


def _column_too_much(graph: og.Graph) -> None:
    table = lance.dataset(str(folder(graph, "edge:Owns")))
    table.add_columns({"extra": "1"})
    _show(graph, "edge:Owns", table)


def _show(graph: og.Graph, key: str, table: lance.LanceDataset) -> None:
    """Make the graph show the version that a table has now."""
    made = transaction_of(table).uuid
    change_pin(graph, key, table_version=table.version, metadata=json.dumps({"transaction": made}))


def _head_of_nowhere(graph: og.Graph) -> None:
    change_head(graph, head_commit_id="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def _lost_commit(graph: og.Graph) -> None:
    lost = graph.commits.list()[1].id
    lance.dataset(f"{graph.uri}/_graph_commits.lance").delete(f"graph_commit_id = '{lost}'")
    drop_row(graph, lost)


def _merge_of_nowhere(graph: og.Graph) -> None:
    newest = graph.commits.head().id
    change_commit(graph, newest, merged_parent_commit_id="nowhere")
    mirror = lance.dataset(f"{graph.uri}/_graph_commits.lance")
    mirror.update({"merged_parent_commit_id": "'nowhere'"}, where=f"graph_commit_id = '{newest}'")


def _order_of_commits(graph: og.Graph) -> None:
    newest, older = graph.commits.list()[:2]
    change_commit(graph, older.id, parent_commit_id=newest.id)
    mirror = lance.dataset(f"{graph.uri}/_graph_commits.lance")
    mirror.update({"parent_commit_id": f"'{newest.id}'"}, where=f"graph_commit_id = '{older.id}'")


def _lost_version_row(graph: og.Graph) -> None:
    drop_row(graph, f"node:Pair${graph.snapshot().tables['node:Pair'].version:020d}")


def _manifest_row_twice(graph: og.Graph) -> None:
    repeat_row(graph, f"node:Pair${graph.snapshot().tables['node:Pair'].version:020d}")


def _unreadable_tag(graph: og.Graph) -> None:
    (Path(graph.uri) / "__tags" / "first.json").write_text("{")


def _tag_of_nowhere(graph: og.Graph) -> None:
    path = Path(graph.uri) / "__tags" / "first.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 4711}))


def _unreadable_branch(graph: og.Graph) -> None:
    for file in Path(graph.uri, "__manifest/tree/dev/data").iterdir():
        file.unlink()


def _lock_branch(graph: og.Graph) -> None:
    manifest = lance.dataset(f"{graph.uri}/__manifest")
    manifest.create_branch("__schema_apply_lock__", manifest.version)


def _branch_without_a_graph_branch(graph: og.Graph) -> None:
    table = lance.dataset(str(folder(graph, "node:Pair")))
    table.create_branch("gone", table.version)


# damage, check, branch, table, what the sentence says
DEFECTS: list[tuple[Damage, str, str | None, str | None, str]] = [
    (_delete_data_file, "files", "main", "node:Pair", "version 3 cannot be read: "),
    (_cut_data_file, "files", "dev", "edge:Knows", "cannot be read: "),
    (_delete_version_file, "pins", "main", "edge:Owns", "cannot be opened: version 3 of table"),
    (_delete_table, "pins", "dev", "node:Person", "cannot be opened: "),
    (_wrong_row_count, "pins", "main", "node:Pair", "version 3 has 2 rows, the graph says 7"),
    (_wrong_transaction, "pins", "main", "node:Pair", "the graph names somebody-else"),
    (_repeated_node_id, "ids", "main", "node:Person", "1 ids occur more than once: 'ann'"),
    (_repeated_edge_id, "ids", "main", "edge:Owns", "1 ids occur more than once: 'same'"),
    (_id_is_not_the_key, "keys", "dev", "node:Pair", "1 ids differ from their keys: 'free'"),
    (
        _repeated_unique_value,
        "unique",
        "main",
        "node:Person",
        "1 values of @unique(email) occur more than once: 'ann@x'",
    ),
    (
        _repeated_unique_tuple,
        "unique",
        "main",
        "node:Pair",
        """1 values of @unique(b, f) occur more than once: '["x","0.5"]'""",
    ),
    (_value_out_of_range, "values", "main", "node:Pair", "@range violation on Pair.f: value 1.5 > max 1.0"),
    (_value_that_does_not_match, "values", "dev", "node:Pair", "@check violation on Pair.b: value 'NO'"),
    (_value_that_is_not_in_the_enum, "values", "main", "node:Pair", "invalid enum value 'green' for Pair.c"),
    (_edge_from_nowhere, "endpoints", "main", "edge:Owns", "1 'src' values are no Person: 'zoe'"),
    (_edge_to_nowhere, "endpoints", "dev", "edge:Knows", "1 'dst' values are no Person: 'zoe'"),
    (
        _too_many_edges,
        "cardinality",
        "main",
        "edge:Knows",
        "1 sources have fewer or more edges than @card(1..2): 'ann'",
    ),
    (_copy_of_a_commit_twice, "mirrors", "main", None, "2 times"),
    (_changed_copy_of_a_commit, "mirrors", "dev", None, "differently"),
    (_another_actor, "mirrors", "main", None, "is by act-two, it is by act-one"),
    (_unreadable_record, "records", None, None, "01ARZ3NDEKTSV4RRFFQ69G5FAV.json cannot be read"),
    (_edited_schema, "schema", None, None, "_schema.pg is wrong"),
    (_edited_compiled_schema, "schema", None, None, "_schema.ir.json is wrong"),
    (_lost_schema_state, "schema", None, None, "__schema_state.json is wrong, it is missing"),
    (_staged_schema, "schema", None, None, "_schema.pg.staging is left"),
    (_unknown_schema, "schema", "main", None, "its state has the schema sha256:00"),
    (_broken_scalar_index, "indexes", "main", "node:Person", "the index on 'id' is broken: "),
    (_broken_text_index, "indexes", "main", "node:Person", "the index on 'bio' is broken: "),
    (_broken_vector_index, "indexes", "main", "node:Person", "the index on 'vec' is broken: "),
    (_table_moved, "heads", "main", "node:Pair", "the table is at version 4, the graph shows 3"),
    (_column_gone, "columns", "main", "edge:Knows", "column 'since' is missing"),
    (_table_gone, "columns", "main", "edge:Owns", "the schema has this type, the graph no table"),
    (_column_too_much, "columns", "main", "edge:Owns", "column 'extra' belongs to no property"),
    (_head_of_nowhere, "lineage", "main", None, "the head names commit 01ARZ3NDEKTSV4RRFFQ69G5FAV, and there is no"),
    (_lost_commit, "lineage", "main", None, "as its parent, and there is no such commit"),
    (_merge_of_nowhere, "lineage", "main", None, "names nowhere as its merged parent, and there is no such commit"),
    (_order_of_commits, "lineage", "main", None, " comes after "),
    (_lost_version_row, "manifest", "main", "node:Pair", "the present shows version 3, the history version 2"),
    (_manifest_row_twice, "manifest", "main", None, "the manifest has 2 rows for 'node:Pair$"),
    (_lock_branch, "refs", None, None, "the lock branch '__schema_apply_lock__' is left"),
    (_unreadable_branch, "manifest", "dev", None, "the branch cannot be read: "),
    (_unreadable_tag, "tags", None, None, "__tags/first.json is unreadable"),
    (_tag_of_nowhere, "tags", "main", None, "the state of tag 'first' cannot be opened: "),
]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound") / "g"
    with sound_graph(root) as graph:
        assert graph.verify().problems == ()
    return root


@pytest.fixture
def graph(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """A copy of the sound graph, opened while it is sound. Nobody else writes, so nothing is worth waiting for."""
    monkeypatch.setattr(limits, "VERIFY_PATIENCE_SECONDS", (0.0,))
    copied = shutil.copytree(original, tmp_path / "g")
    og.relocate(copied)
    return og.open(copied)


@pytest.mark.parametrize(
    ("damage", "check", "branch", "table", "said"), DEFECTS, ids=[each[0].__name__.strip("_") for each in DEFECTS]
)
def test_damage_is_found_by_its_own_check_alone(
    graph: og.Graph, damage: Damage, check: str, branch: str | None, table: str | None, said: str
) -> None:
    damage(graph)
    report = graph.verify()
    assert not report.ok
    problem, *shared = report.problems
    assert (problem.check, problem.branch, problem.table, problem.harmless) == (check, branch, table, False)
    assert [(each.check, each.branch, each.table) for each in shared] == ([(check, "dev", table)] if shared else []), (
        report
    )
    assert said in problem.message
    assert problem.line() in report.lines()
    assert json.loads(json.dumps(report.to_dict()))["problems"] == [each.to_dict() for each in report.problems]


def test_every_check_finds_at_least_one_kind_of_damage() -> None:
    assert {each[1] for each in DEFECTS} == set(CHECKS)


@pytest.mark.parametrize(
    ("damage", "branch", "said"),
    [
        (_lost_copy_of_a_commit, "main", "_graph_commits.lance lacks commit "),
        (_lost_copy_of_a_branch, "dev", "_graph_commits.lance has no copy of this branch"),
        (_lost_actor, "main", "_graph_commit_actors.lance does not say that commit "),
    ],
)
def test_copies_that_are_behind_do_no_harm(graph: og.Graph, damage: Damage, branch: str, said: str) -> None:
    """A writer that dies right after its commit leaves them so; nothing is lost, and the next write copies it."""
    damage(graph)
    report = graph.verify()
    assert report.ok
    (problem,) = report.problems
    assert (problem.check, problem.branch, problem.harmless) == ("mirrors", branch, True)
    assert said in problem.message and "omnigraph recover" in problem.message


def test_a_leftover_ref_is_named_and_does_no_harm(graph: og.Graph) -> None:
    _branch_without_a_graph_branch(graph)
    report = graph.verify()
    assert report.ok
    location = graph.snapshot().tables["node:Pair"].location
    message = f"{location} has a branch 'gone', and the graph has no branch of that name"
    assert report.problems == (Problem("refs", None, None, message, harmless=True),)


def test_several_kinds_of_damage_are_all_found(graph: og.Graph) -> None:
    _edited_schema(graph)
    _delete_data_file(graph)
    _repeated_node_id(graph)
    _edge_to_nowhere(graph)
    assert [problem.check for problem in graph.verify().problems] == ["schema", "files", "ids", "endpoints"]
