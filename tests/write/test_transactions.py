"""`Graph.transaction`: each step sees those before it, nobody else sees any, and the end is one commit or none."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import errors
from tests.support.small_graphs import files_below, ids_of, knows, people, persons, rows_of, run_child, without

WHO = "query q() { match { $p: Person } return { $p.handle as h, $p.age as age } order { h } }"
FRIENDS = (
    "query q($h: String) { match { $p: Person { handle: $h }  $p knows $q } return { $q.handle as h } order { h } }"
)
AGE = "query q($h: String, $a: I32) { update Person set { age: $a } where handle = $h }"
DROP = "query q($h: String) { delete Person where handle = $h }"
ADD = "query q($h: String) { insert Person { handle: $h } }"


def handles(result: og.Result) -> list[str]:
    return [row["h"] for row in result.rows()]


def test_each_step_sees_those_before_it_and_nobody_else_does(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann", actor="act-anna")
    before = graph.commits.head()
    with graph.transaction() as tx:
        assert tx.insert("Person", [{"handle": "bob", "age": 7}, {"handle": "cid"}]) == ["bob", "cid"]
        assert handles(tx.query(WHO)) == ["ann", "bob", "cid"]
        tx.insert("Knows", {"from": "ann", "to": "bob"})
        tx.insert("Knows", {"src": "ann", "dst": "cid"})
        assert handles(tx.query(FRIENDS, params={"h": "ann"})) == ["bob", "cid"]
        assert tx.update("Person", [{"handle": "cid", "age": 3}]) == 1
        assert handles(tx.query(FRIENDS, {"h": "ann"})) == ["bob", "cid"]
        assert tx.mutate(AGE, {"h": "ann", "a": 50}).affected_nodes == 1
        assert [row["age"] for row in tx.query(WHO).rows()] == [50, 7, 3]
        assert tx.delete("Person", ["bob", "nobody"]) == 1
        assert handles(tx.query(FRIENDS, params={"h": "ann"})) == ["cid"]
        assert (ids_of(graph, "Person"), graph.commits.head()) == ({"ann"}, before)
        assert repr(tx) == "Transaction(open, branch='main')"
    assert tx.result is not None
    head = graph.commits.head()
    assert (tx.result.commit, head.parent, head.actor) == (head, before.id, "act-anna")
    assert dict(tx.result.put) == {"node:Person": 2, "edge:Knows": 1}
    assert {id_: row["age"] for id_, row in rows_of(graph, "Person").items()} == {"ann": 50, "cid": 3}
    assert handles(graph.query(FRIENDS, params={"h": "ann"})) == ["cid"]
    assert graph.verify(deep=True).ok


def test_an_error_that_leaves_the_block_drops_everything(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    before = graph.commits.head()
    with pytest.raises(ZeroDivisionError), graph.transaction() as tx:
        tx.insert("Person", {"handle": "bob"})
        raise ZeroDivisionError
    assert (graph.commits.head(), ids_of(graph, "Person"), tx.result) == (before, {"ann"}, None)
    with graph.transaction() as tx:
        tx.insert("Person", {"handle": "bob"})
        tx.rollback()
        with pytest.raises(errors.InvalidTransaction, match="has ended"):
            tx.insert("Person", {"handle": "cid"})
    assert (graph.commits.head(), tx.result) == (before, None)


def test_a_step_that_breaks_a_rule_changes_nothing_and_the_block_goes_on(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    with graph.transaction() as tx:
        tx.insert("Person", {"handle": "bob", "email": "b@x"})
        with pytest.raises(errors.UniqueViolation):
            tx.insert("Person", [{"handle": "cid"}, {"handle": "dee", "email": "b@x"}])
        with pytest.raises(errors.KeyConflict):
            tx.insert("Person", {"handle": "ann"})
        with pytest.raises(errors.EndpointMissing):
            tx.insert("Knows", {"from": "bob", "to": "cid"})
        with pytest.raises(errors.RowNotFound, match="Person 'cid' does not exist"):
            tx.update("Person", {"handle": "cid", "age": 1})
        with pytest.raises(errors.InvalidRow):
            tx.update("Person", {"handle": "bob", "age": "old"})
        assert handles(tx.query(WHO)) == ["ann", "bob"]
    assert ids_of(graph, "Person") == {"ann", "bob"}


def test_a_block_that_only_reads_or_undoes_itself_makes_no_commit(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    before = graph.commits.head()
    with graph.transaction() as tx:
        assert handles(tx.query(WHO)) == ["ann"]
        assert tx.insert("Person", []) == []
        assert (tx.update("Person", []), tx.delete("Person", [])) == (0, 0)
    assert tx.result == og.WriteResult(None, {}, {})
    with graph.transaction() as tx:
        tx.insert("Person", {"handle": "bob"})
        tx.delete("Person", ["bob"])
    assert tx.result is not None
    assert (tx.result.commit, graph.commits.head()) == (None, before)


@pytest.mark.parametrize("branch", ["main", "review/x"])
def test_reads_stay_at_the_beginning_and_a_moved_table_is_a_conflict(tmp_path: Path, branch: str) -> None:
    graph = people(tmp_path / "g", "ann")
    if branch != "main":
        graph.branches.create(branch)
    with pytest.raises(errors.ExpectedVersionMismatch, match="node:Person"), graph.transaction(branch) as tx:
        assert handles(tx.query(WHO)) == ["ann"]
        graph.mutate(ADD, params={"h": "bob"}, branch=branch)
        assert handles(tx.query(WHO)) == ["ann"]
        tx.insert("Note", {"text": f"{len(tx.query(WHO))} people"})
    assert (ids_of(graph, "Note", branch), tx.result) == (set(), None)


@pytest.mark.parametrize(
    ("step", "other"),
    [
        (lambda tx: tx.update("Person", {"handle": "ann", "age": 1}), persons("zoe")),
        (lambda tx: tx.mutate(AGE, params={"h": "nobody", "a": 1}), persons("zoe")),
        (lambda tx: tx.delete("Person", ["nobody"]), persons("zoe")),
        (lambda tx: tx.delete("Person", ["bob"]), knows(("ann", "ann"))),
        (lambda tx: tx.mutate(DROP, params={"h": "bob"}), knows(("ann", "ann"))),
        (lambda tx: tx.query(FRIENDS, params={"h": "ann"}), knows(("ann", "ann"))),
    ],
)
def test_what_a_step_looked_at_must_not_move(tmp_path: Path, step: Any, other: og.Change) -> None:
    graph = people(tmp_path / "g", "ann", "bob")
    with pytest.raises(errors.ConflictError), graph.transaction() as tx:
        step(tx)
        tx.insert("Note", {"text": "n"})
        graph.write([other])
    assert ids_of(graph, "Note") == set()


@pytest.mark.parametrize(
    "step",
    [
        lambda tx: tx.insert("Person", {"handle": "new"}),
        lambda tx: tx.mutate(ADD, params={"h": "new"}),
        lambda tx: tx.insert("Knows", {"from": "ann", "to": "ann"}),
        lambda tx: tx.query("query q() { match { $n: Note } return { $n.text } }"),
    ],
)
def test_rows_that_are_only_put_are_in_nobodys_way(tmp_path: Path, step: Any) -> None:
    graph = people(tmp_path / "g", "ann")
    with graph.transaction() as tx:
        step(tx)
        tx.insert("Wrote", {"from": "ann", "to": tx.insert("Note", {"text": "n"})[0]})
        graph.write([persons("zoe")])
        graph.write([knows(("ann", "zoe"))])
    assert tx.result is not None
    assert tx.result.commit == graph.commits.head()
    assert {"ann", "zoe"} <= ids_of(graph, "Person")
    assert len(ids_of(graph, "Wrote")) == 1
    assert graph.verify().ok


def test_rows_that_must_be_new_and_rows_that_may_replace_others_go_together_only_on_unmoved_rows(
    tmp_path: Path,
) -> None:
    graph = people(tmp_path / "g", "ann")
    with graph.transaction() as tx:
        tx.insert("Person", {"handle": "bob"})
        tx.mutate(ADD, params={"h": "ann"})
    assert ids_of(graph, "Person") == {"ann", "bob"}
    with pytest.raises(errors.ExpectedVersionMismatch), graph.transaction() as tx:
        tx.insert("Person", {"handle": "cid"})
        tx.mutate(ADD, params={"h": "ann"})
        graph.write([persons("zoe")])


def test_a_key_that_somebody_else_took_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    with pytest.raises(errors.KeyConflict), graph.transaction() as tx:
        tx.insert("Person", {"handle": "ann", "age": 1})
        graph.write([persons("ann")])
    assert rows_of(graph, "Person")["ann"]["age"] is None


def test_a_node_that_somebody_else_removed_meanwhile_refuses_its_edge(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    with pytest.raises(errors.EndpointMissing), graph.transaction() as tx:
        tx.insert("Knows", {"from": "ann", "to": "ann"})
        graph.write([without("node:Person", "ann")])
    assert ids_of(graph, "Knows") == set()


def test_an_index_that_was_built_meanwhile_is_no_conflict(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", *(f"p{number}" for number in range(400)))
    with graph.transaction() as tx:
        tx.update("Person", {"handle": "p1", "age": 1})
        moved = graph.snapshot().tables["node:Person"]
        graph.ensure_indices()
        assert graph.snapshot().tables["node:Person"] != moved
    assert rows_of(graph, "Person")["p1"]["age"] == 1


def test_a_schema_that_changed_meanwhile_is_a_conflict(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    with pytest.raises(errors.SchemaChanged), graph.transaction() as tx:
        tx.insert("Person", {"handle": "ann"})
        graph.schema.apply(graph.schema.text.replace("age: I32?", "age: I32?  nick: String?"))


def test_a_deleted_branch_takes_the_block_with_it(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    graph.branches.create("review/x")
    with pytest.raises(errors.BranchNotFound), graph.transaction("review/x") as tx:
        tx.insert("Person", {"handle": "bob"})
        graph.branches.delete("review/x")


def test_tables_of_any_origin_are_rows(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with graph.transaction() as tx:
        assert tx.insert("Person", pa.table({"handle": ["a"], "age": [1]})) == ["a"]
        assert tx.insert("Person", pa.record_batch({"handle": ["b"]})) == ["b"]
        assert tx.insert("Person", pd.DataFrame({"handle": ["c"], "age": [2]})) == ["c"]
        assert tx.insert("Person", pl.DataFrame({"handle": ["d"], "age": [3]})) == ["d"]
        assert tx.insert("Person", ({"handle": name} for name in "ef")) == ["e", "f"]
        assert tx.insert("Person", [{"handle": "g"}, {"handle": "h", "age": 5}]) == ["g", "h"]
        with pytest.raises(errors.InvalidRow, match="rows are dictionaries"):
            tx.insert("Person", ["i"])
        with pytest.raises(errors.InputError, match=r"column 'age' cannot be read: .*row 2 does not fit"):
            tx.insert("Person", [{"handle": "i", "age": 1}, {"handle": "j", "age": "2"}])
        assert tx.delete("Person", [{"handle": "a"}]) == 1
        assert tx.delete("Person", pa.table({"id": ["b"]})) == 1
    assert {id_: row["age"] for id_, row in rows_of(graph, "Person").items()} == {
        "c": 2,
        "d": 3,
        "e": None,
        "f": None,
        "g": None,
        "h": 5,
    }


def test_rows_without_a_key_are_named_by_id(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    with graph.transaction() as tx:
        first, second = tx.insert("Note", [{"text": "a"}, {"text": "b"}])
        (edge,) = tx.insert("Wrote", {"from": "ann", "to": first})
        assert tx.update("Note", {"id": second, "text": "c"}) == 1
        assert tx.update("Wrote", {"id": edge, "to": second}) == 1
        assert tx.delete("Note", first) == 1
        with pytest.raises(errors.MissingValue, match="rows of Note are named by 'id', which is missing"):
            tx.update("Note", {"text": "d"})
        with pytest.raises(errors.TypeNotFound, match="there is no type 'Nte'"):
            tx.insert("Nte", {"text": "d"})
    assert {id_: row["text"] for id_, row in rows_of(graph, "Note").items()} == {second: "c"}
    assert [(row["src"], row["dst"]) for row in rows_of(graph, "Wrote").values()] == [("ann", second)]


def test_blobs_and_lists_go_through_updates_of_other_columns(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Doc { k: String @key  n: I32?  body: Blob?  tags: [String]? }")
    with graph.transaction() as tx:
        tx.insert("Doc", [{"k": "a", "body": b"\x00one", "tags": ["x", "y"]}, {"k": "b"}])
        tx.update("Doc", [{"k": "b", "n": 1}, {"k": "a", "n": 2}])
    assert rows_of(graph, "Doc") == {
        "a": {"id": "a", "k": "a", "n": 2, "body": b"\x00one", "tags": ["x", "y"]},
        "b": {"id": "b", "k": "b", "n": 1, "body": None, "tags": None},
    }
    assert graph.verify(deep=True).ok


def test_a_transaction_stays_in_its_block_and_thread(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    unused = graph.transaction()
    with pytest.raises(errors.InvalidTransaction, match="has not begun"):
        unused.insert("Person", {"handle": "bob"})
    with graph.transaction() as tx:
        with pytest.raises(errors.InvalidTransaction, match="inside another transaction"), graph.transaction():
            pass
        with pytest.raises(errors.InvalidTransaction, match="entered once"), tx:
            pass
        caught: list[errors.InvalidTransaction] = []

        def elsewhere() -> None:
            try:
                tx.query(WHO)
            except errors.InvalidTransaction as error:
                caught.append(error)
            with graph.transaction() as own:  # another thread has its own
                own.insert("Note", {"text": "n"})

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert [error.message for error in caught] == ["a transaction belongs to the thread that entered it"]
        tx.insert("Person", {"handle": "bob"})
    with pytest.raises(errors.InvalidTransaction, match="has ended"):
        tx.query(WHO)
    assert (ids_of(graph, "Person"), len(ids_of(graph, "Note"))) == ({"ann", "bob"}, 1)
    assert repr(tx) == "Transaction(ended, branch='main')"


def test_a_graph_that_is_open_read_only_has_no_transactions(tmp_path: Path) -> None:
    people(tmp_path / "g").close()
    with og.open(tmp_path / "g", mode="ro") as graph, pytest.raises(errors.ReadOnly):
        graph.transaction()


def test_no_version_that_only_the_block_knew_stays_on_disk(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    with graph.transaction() as tx:
        tx.insert("Person", {"handle": "bob"})
        assert any("/_versions/d" in f"/{name}" for name in files_below(tmp_path / "g"))
        tx.rollback()
    assert not any("/_versions/d" in f"/{name}" for name in files_below(tmp_path / "g"))
    assert graph.verify(deep=True).ok


def test_other_readers_keep_what_they_derived(tmp_path: Path) -> None:
    """A block reads beside the line of versions; the next commit is followed as if it had not been there."""
    graph = people(tmp_path / "g", *(f"p{number:03}" for number in range(300)))
    graph.write([knows(("p000", "p001"))])
    assert handles(graph.query(FRIENDS, params={"h": "p000"})) == ["p001"]
    with graph.transaction() as tx:
        tx.insert("Person", {"handle": "new"})
        tx.insert("Knows", {"from": "p000", "to": "new"})
        tx.delete("Person", ["p001"])
        assert handles(tx.query(FRIENDS, params={"h": "p000"})) == ["new"]
        assert handles(graph.query(FRIENDS, params={"h": "p000"})) == ["p001"]
        tx.rollback()
    graph.write([knows(("p000", "p002"))])
    assert handles(graph.query(FRIENDS, params={"h": "p000"})) == ["p001", "p002"]


CHILD = """
import sys, omnigraph as og
with og.open(sys.argv[1], actor="act-child").transaction(sys.argv[2]) as tx:
    tx.insert("Person", [{"handle": "new", "age": 1}])
    tx.update("Person", [{"handle": "bob", "age": 2}])
    tx.insert("Knows", [{"from": "new", "to": "bob"}])
    tx.delete("Person", ["ann"])
"""


@pytest.mark.parametrize(
    ("point", "branch", "happens"),
    [
        ("write.after_stage", "main", False),
        ("write.after_sidecar", "review/x", False),
        ("write.after_table_commit", "main", True),
        ("publish.before_commit", "review/x", True),
        ("write.after_publish_before_delete", "main", True),
    ],
)
def test_a_block_whose_process_is_killed_is_there_or_not(
    tmp_path: Path, point: str, branch: str, happens: bool
) -> None:
    with people(tmp_path / "g", "ann", "bob") as graph:
        graph.write([knows(("ann", "bob"))])
        if branch != "main":
            graph.branches.create(branch)
    ended = run_child(CHILD, str(tmp_path / "g"), branch, env={"OMNIGRAPH_FAILPOINTS": f"{point}=kill"})
    assert ended.returncode == -9, ended.stderr
    with og.open(tmp_path / "g") as graph:
        ages = {id_: row["age"] for id_, row in rows_of(graph, "Person", branch).items()}
        ends = {(row["src"], row["dst"]) for row in rows_of(graph, "Knows", branch).values()}
        old = ({"ann": None, "bob": None}, {("ann", "bob")})
        assert (ages, ends) == (({"bob": 2, "new": 1}, {("new", "bob")}) if happens else old)
        assert graph.verify().ok


def test_what_a_dictionary_leaves_out_stays_in_an_update_and_is_the_default_in_an_insert(tmp_path: Path) -> None:
    schema = "node Item { name: String @key  amount: I64 @default(7)  label: String? }"
    with og.init(str(tmp_path / "g"), schema) as graph:
        with graph.transaction(message="uneven") as tx:
            tx.insert("Item", [{"name": "a", "amount": 1, "label": "x"}, {"name": "b", "label": "y"}])
            tx.update("Item", [{"name": "a", "label": "z"}, {"name": "b", "amount": 2}])
        graph.load({"Item": [{"name": "c"}, {"name": "d", "amount": 3}]}, "append")
        graph.write([og.Change("node:Item", [{"name": "e", "amount": 4}, {"name": "f"}])])
        found = {row["name"]: (row["amount"], row["label"]) for row in rows_of(graph, "Item").values()}
        assert graph.commits.list()[2].message == "uneven"
    assert found == {"a": (1, "z"), "b": (2, "y"), "c": (7, None), "d": (3, None), "e": (4, None), "f": (7, None)}


def test_a_pattern_in_a_transaction_makes_the_commit_depend_on_the_tables_it_goes_through(tmp_path: Path) -> None:
    schema = "node A { k: String @key  n: I64? }\nnode B { k: String @key }\nedge To: A -> B"
    with og.init(str(tmp_path / "g"), schema) as graph:
        graph.load({"A": [{"k": "a"}], "B": [{"k": "b"}], "To": [{"from": "a", "to": "b"}]}, "append")
        with pytest.raises(errors.ConflictError), graph.transaction() as tx:
            tx.mutate('query q() { match { $a: A  $a to $b  $b: B { k: "b" } } update $a set { n: 1 } }')
            graph.mutate('query q() { delete To where from = "a" and to = "b" }')
        assert graph.snapshot().arrow("A", ["n"]).column("n").to_pylist() == [None]


def test_a_branch_that_was_made_again_meanwhile_is_another_one(tmp_path: Path) -> None:
    with og.init(str(tmp_path / "g"), "node A { k: I64 @key  x: I32 }") as graph:
        graph.load({"A": [{"k": 0, "x": 0}]}, "append")
        set_x = "query q($x: I32) { update A set { x: $x } where k = 0 }"
        graph.branches.create("b")
        graph.mutate(set_x, {"x": 10}, branch="b")
        with pytest.raises(errors.ReadSetChanged), graph.transaction("b") as tx:
            tx.update("A", {"k": 0, "x": 11})
            graph.branches.delete("b")
            graph.branches.create("b")
            graph.mutate(set_x, {"x": 50}, branch="b")
        assert graph.snapshot("b").arrow("A", ["x"]).column("x").to_pylist() == [50]


def test_a_refusal_that_the_block_catches_is_a_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "g")
    with og.init(uri, "node B { k: I64 @key }\nnode C { k: I64 @key }") as graph, og.open(uri) as other:
        graph.load({"B": [{"k": 1}], "C": [{"k": 1}]}, "append")

        def delete_if_there(tx: og.Transaction, looked_at: str, deleted: str) -> None:
            with pytest.raises(errors.KeyConflict):
                tx.insert(looked_at, {"k": 1})
            tx.delete(deleted, [1])

        with pytest.raises(errors.ConflictError), graph.transaction() as first:
            delete_if_there(first, "C", "B")
            with other.transaction() as second:
                delete_if_there(second, "B", "C")
        assert [graph.snapshot().count(name) for name in ("B", "C")] == [1, 0]


def test_an_update_names_each_row_once_and_a_closed_graph_commits_nothing(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    with pytest.raises(errors.InvalidRow, match="Person 'ann' is given twice"), graph.transaction() as tx:
        tx.update("Person", [{"handle": "ann", "age": 1}, {"handle": "ann", "age": 2}])
    with pytest.raises(errors.GraphClosed), graph.transaction() as tx:
        tx.insert("Person", {"handle": "bob"})
        graph.close()
    with og.open(tmp_path / "g") as again:
        assert ids_of(again, "Person") == {"ann"}


def test_edges_that_their_ends_know_are_updated_and_deleted_by_them(tmp_path: Path) -> None:
    schema = "node Room { no: I32 @key }  edge Door: Room -> Room { width: I32?  open: Bool?  @unique(src, dst) }"
    graph = og.init(tmp_path / "g", schema)
    graph.load({"Room": [{"no": 1}, {"no": 2}, {"no": 3}], "Door": [{"from": 1, "to": 2, "width": 80}]}, "append")
    with graph.transaction() as tx:
        tx.insert("Door", {"from": 2, "to": 3})
        assert tx.update("Door", [{"from": 1, "to": 2, "open": True}, {"from": 2, "to": 3, "open": False}]) == 2
        assert tx.delete("Door", [{"from": "2", "to": "3"}, {"from": "3", "to": "1"}]) == 1
        with pytest.raises(errors.RowNotFound, match="Door from '3' to '1' does not exist"):
            tx.update("Door", [{"from": 1, "to": 2, "open": True}, {"from": 3, "to": 1, "open": True}])
    (door,) = rows_of(graph, "Door").values()
    assert {name: door[name] for name in ("src", "dst", "width", "open")} == {
        "src": "1", "dst": "2", "width": 80, "open": True,
    }  # fmt: skip


def test_the_error_of_one_of_several_rows_says_which(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Book { isbn: String @key  title: String  year: I32?  @range(year, 0..2100) }")
    for wrong, kind in (
        ({"isbn": "2"}, errors.MissingValue),
        ({"isbn": "2", "title": "b", "year": 3000}, errors.RangeViolation),
    ):
        with graph.transaction() as tx, pytest.raises(kind) as several:
            tx.insert("Book", [{"isbn": "1", "title": "a"}, wrong])
        assert several.value.hint == "row 2"
        with graph.transaction() as tx, pytest.raises(kind) as one:
            tx.insert("Book", wrong)
        assert one.value.hint is None
        rows: Any = [{"isbn": "1", "title": "a"}, wrong]
        with pytest.raises(kind, match=r"\(row 2\)"):
            graph.write([og.Change("node:Book", rows)])


def test_other_edges_are_named_by_their_ids(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann", "bob")
    with graph.transaction() as tx, pytest.raises(errors.MissingValue, match="rows of Knows are named by 'id'"):
        tx.delete("Knows", {"from": "ann", "to": "bob"})
