"""`Graph.mutate`: what it takes, what it gives back, and what it refuses before it does anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import errors, ids
from omnigraph.engine.evaluate import passing_rows
from omnigraph.write.change import Change
from tests.support.small_graphs import ids_of, people, rows_of

ADD = "query add($h: String, $a: I32?) { insert Person { handle: $h, age: $a } }"
AGE = 'query age($a: I32) { update Person set { age: $a } where handle >= "" }'
DROP = "query drop($h: String) { delete Person where handle = $h }"
ALL = f"{ADD}\n{AGE}\n{DROP}\nquery names() {{ match {{ $p: Person }} return {{ $p.handle }} }}"


def test_a_result_says_what_happened_and_who_did_it(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", actor="act-anna")
    before = graph.commits.head()
    result = graph.mutate(ADD, params={"h": "ann", "a": 7})
    head = graph.commits.head()
    assert result.commit == head
    assert (result.branch, result.query_name, result.actor) == ("main", "add", "act-anna")
    assert (result.affected_nodes, result.affected_edges) == (1, 0)
    assert result.to_dict() == {
        "branch": "main",
        "query_name": "add",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": "act-anna",
        "commit": {
            "graph_commit_id": head.id,
            "graph_branch": None,
            "graph_manifest_version": head.version,
            "parent_commit_id": before.id,
            "merged_parent_commit_id": None,
            "actor_id": "act-anna",
            "created_at": ids.micros(head.created_at),
            "kind": "mutation",
            "rows": {"node:Person": {"inserted": 1, "updated": 0, "deleted": 0}},
        },
    }
    assert json.loads(json.dumps(result.to_dict())) == result.to_dict()


def test_nothing_changed_is_a_result_without_commit(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    head = graph.commits.head()
    result = graph.mutate(DROP, params={"h": "bob"})
    assert (result.commit, result.affected_nodes, result.affected_edges) == (None, 0, 0)
    assert result.to_dict()["commit"] is None
    assert graph.commits.head() == head


def test_a_file_and_a_name_choose_the_query(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    path = tmp_path / "people.gq"
    path.write_text(ALL, encoding="utf-8")
    assert graph.mutate(path, "add", {"h": "bob"}).query_name == "add"
    assert graph.mutate(path, "age", {"a": 3}).affected_nodes == 2
    assert {row["age"] for row in rows_of(graph, "Person").values()} == {3}


def test_an_error_in_a_file_names_the_file_and_the_place(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    path = tmp_path / "bad.gq"
    path.write_text("query q() {\n  insert Person { handle: 1 }\n}", encoding="utf-8")
    with pytest.raises(errors.QueryTypeError) as caught:
        graph.mutate(path)
    assert str(caught.value).startswith(f"{path}:2:")


@pytest.mark.parametrize(
    ("source", "name", "params", "kind", "message"),
    [
        (ALL, None, {}, errors.QueryNotFound, "the text holds 4 queries; say which one by name"),
        (ALL, "nothing", {}, errors.QueryNotFound, "query 'nothing' not found"),
        ("", None, {}, errors.QueryNotFound, "the text holds no query"),
        (
            ALL,
            "names",
            {},
            errors.QueryTypeError,
            "type error: mutation execution called on a read query; use query instead",
        ),
        (ADD, None, {}, errors.ParameterError, "parameter 'h' not provided"),
        (ADD, None, {"h": 1}, errors.ParameterError, "param 'h': expected string, got number"),
        (ADD, None, {"h": "x", "a": 2**31}, errors.ParameterError, f"param 'a': value {2**31} exceeds I32"),
    ],
)
def test_a_wrong_request_changes_nothing(
    tmp_path: Path, source: str, name: str | None, params: dict[str, object], kind: type[Exception], message: str
) -> None:
    graph = people(tmp_path / "g", "ann")
    head = graph.commits.head()
    with pytest.raises(errors.OmniGraphError) as caught:
        graph.mutate(source, name, params)
    assert (type(caught.value), caught.value.message) == (kind, message)
    assert graph.commits.head() == head


def test_params_may_stand_in_the_place_of_the_name(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    assert graph.mutate(ADD, {"h": "ann"}).affected_nodes == 1
    with pytest.raises(errors.InputError, match="parameters are given twice"):
        graph.mutate(ADD, {"h": "bob"}, {"h": "cyd"})
    assert ids_of(graph, "Person") == {"ann"}


def test_a_write_given_to_query_says_what_to_use(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    with pytest.raises(errors.QueryTypeError, match="called on a mutation query; use mutate instead"):
        graph.query(ADD, params={"h": "ann"})
    assert ids_of(graph, "Person") == set()


def test_an_edge_whose_value_changed_is_the_same_edge_to_everybody(tmp_path: Path) -> None:
    """History, reads with an edge variable and the rules about edges see an updated edge as one that stayed."""
    schema = "node P { k: String @key }\nedge E: P -> P @card(0..2) { n: I32? }"
    with og.init(tmp_path / "g", schema) as graph:
        graph.mutate('query q() { insert P { k: "a" } }')
        graph.mutate('query q() { insert E { from: "a", to: "a", n: 1 } insert E { from: "a", to: "a" } }')
        before = graph.commits.head()
        result = graph.mutate("query q() { update E set { n: 7 } where n = 1 and from = to }")
        assert (result.affected_nodes, result.affected_edges) == (0, 1)
        read = "query q() { match { $a: P  $a $e:e $b } return { $e.n as n } order { $e.n } }"
        assert graph.query(read).rows() == [{"n": None}, {"n": 7}]
        changes = graph.diff(before.id, graph.commits.head().id)
        assert [(each.op, each.type) for each in changes] == [("update", "E")]
        assert graph.verify(deep=True).ok


ROOMS = """
node Room { number: I32 @key  name: String? }
node Day { day: Date @key }
edge Door: Room -> Room { wide: I32? }
edge Open: Room -> Day
"""


def rooms(root: Path) -> og.Graph:
    """Rooms 1 to 3; doors from 1 to 2 and 3, and from 2 to 3; room 1 is open on the first of May."""
    graph = og.init(root, ROOMS)
    inserts = " ".join(f"insert Room {{ number: {number} }}" for number in (1, 2, 3))
    doors = " ".join(f"insert Door {{ from: {a}, to: {b} }}" for a, b in ((1, 2), (1, 3), (2, 3)))
    day = 'date("2026-05-01")'
    graph.mutate(f"query q() {{ {inserts} {doors} insert Day {{ day: {day} }} insert Open {{ from: 1, to: {day} }} }}")
    return graph


@pytest.mark.parametrize(
    ("change", "params", "counts"),
    [
        ("delete Door where from = 1", {}, (0, 2)),
        ("delete Door where from = $n and to = 3", {"n": 1}, (0, 1)),
        ("delete Door where from = $n", {"n": None}, (0, 0)),
        ("delete Door where from != 1", {}, (0, 1)),
        ("delete Door where from != 99999999999", {}, (0, 3)),
        ("delete Door where to in [3, 4] and wide is null", {}, (0, 2)),
        ("delete Door where to not in $ns and wide is null", {"ns": [3]}, (0, 1)),
        ("delete Door where to in $ns", {"ns": None}, (0, 0)),
        ('delete Door where from = "1" and to = 2', {}, (0, 1)),
        ("delete Room where id = 2", {}, (1, 2)),
        ("delete Room where number in [1, 2.0, 2.5] and name is null", {}, (2, 4)),
        ("delete Room where number in $ns and name is null", {"ns": [3, 9]}, (1, 2)),
        ('delete Open where to = date("2026-05-01")', {}, (0, 1)),
        ('delete Open where to in [date("2026-05-01")] and from = 1', {}, (0, 1)),
        ('delete Open where to = date("2026-05-02") or from = 2', {}, (0, 0)),
    ],
)
def test_ids_and_ends_compare_with_the_values_of_keys(
    tmp_path: Path, change: str, params: dict[str, object], counts: tuple[int, int]
) -> None:
    with rooms(tmp_path / "g") as graph:
        result = graph.mutate(f"query q($n: I64?, $ns: [I32]?) {{ {change} }}", params)
        assert (result.affected_nodes, result.affected_edges) == counts


def test_numbers_have_no_order_among_ids(tmp_path: Path) -> None:
    """Ids are texts: 10 would come before 9."""
    with rooms(tmp_path / "g") as graph, pytest.raises(errors.QueryTypeError, match="has type String but got I64"):
        graph.mutate("query q() { delete Door where from < 2 }")


@pytest.mark.parametrize(
    "where",
    ['from = "p7" and to != "p9"', 'to = "p7" and (n = 1 or n is null)', 'from in ["p7", "p8"] and not (n = 3)'],
)
def test_a_condition_with_an_end_is_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The index gives the few edges that may be meant; nobody else is read."""
    schema = "node P { k: String @key }\nedge E: P -> P { n: I32? }"
    keys = [f"p{number}" for number in range(3000)]
    with og.init(tmp_path / "g", schema) as graph:
        graph.write([Change("node:P", pa.table({"k": keys}))])
        ring = {"src": keys, "dst": [*keys[1:], keys[0]], "n": pa.array([1] * 3000, pa.int32())}
        graph.write([Change("edge:E", pa.table(ring))])
        graph.ensure_indices()
        read = []

        def counted(rows: Any, *rest: Any) -> Any:
            read.append(rows.num_rows)
            return passing_rows(rows, *rest)

        monkeypatch.setattr("omnigraph.write.found_rows.passing_rows", counted)
        assert graph.mutate(f"query q() {{ delete E where {where} }}").affected_edges in (1, 2)
        assert sum(read) <= 2


def test_a_read_only_graph_refuses(tmp_path: Path) -> None:
    people(tmp_path / "g", "ann").close()
    graph = og.open(tmp_path / "g", mode="ro")
    with pytest.raises(errors.ReadOnly):
        graph.mutate(DROP, params={"h": "ann"})
    assert ids_of(graph, "Person") == {"ann"}


def test_a_mutation_stays_on_its_branch(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann", "bob")
    graph.branches.create("review/x")
    result = graph.mutate(DROP, params={"h": "ann"}, branch="review/x")
    assert result.branch == "review/x"
    assert result.to_dict()["commit"]["graph_branch"] == "review/x"
    graph.mutate(AGE, params={"a": 5}, branch="review/x")
    assert ids_of(graph, "Person", "review/x") == {"bob"}
    assert {id_: row["age"] for id_, row in rows_of(graph, "Person").items()} == {"ann": None, "bob": None}
    with pytest.raises(errors.BranchNotFound):
        graph.mutate(DROP, params={"h": "ann"}, branch="nowhere")


@pytest.mark.parametrize("text", [ADD, AGE, DROP])
def test_if_commit_holds_or_refuses(tmp_path: Path, text: str) -> None:
    graph = people(tmp_path / "g", "ann")
    params = {name: value for name, value in {"h": "ann", "a": 1}.items() if f"${name}:" in text}
    old = graph.commits.head().id
    assert graph.mutate(text, params=params, if_commit=old).commit is not None
    with pytest.raises(errors.PreconditionFailed):
        graph.mutate(text, params=params, if_commit=old)
    assert len(graph.commits.list()) == 3


def test_if_commit_is_checked_even_when_nothing_would_change(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann")
    with pytest.raises(errors.PreconditionFailed):
        graph.mutate(DROP, params={"h": "nobody"}, if_commit="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert graph.mutate(DROP, params={"h": "nobody"}, if_commit=graph.commits.head().id).commit is None


def test_a_large_query_is_one_commit(tmp_path: Path) -> None:
    graph = people(tmp_path / "g")
    nodes = " ".join(f'insert Person {{ handle: "p{n}", age: {n} }}' for n in range(300))
    edges = " ".join(f'insert Knows {{ from: "p{n}", to: "p{(n * 7) % 300}" }}' for n in range(300))
    result = graph.mutate(f"query q() {{ {edges} {nodes} }}")
    assert (result.affected_nodes, result.affected_edges) == (300, 300)
    assert len(graph.commits.list()) == 2
    assert {id_: row["age"] for id_, row in rows_of(graph, "Person").items()} == {f"p{n}": n for n in range(300)}
    assert len(ids_of(graph, "Knows")) == 300


def test_an_update_keeps_the_identity_of_its_rows(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "ann", "bob", "cyd")

    def row_ids() -> dict[str, int]:
        pin = graph.snapshot().tables["node:Person"]
        table = graph._store.tables.newest(pin.location).to_table(columns=["id"], with_row_id=True)
        return dict(zip(table["id"].to_pylist(), table["_rowid"].to_pylist(), strict=True))

    before = row_ids()
    graph.mutate('query q() { update Person set { age: 1 } where handle < "c" }')
    assert row_ids() == before


def test_more_row_data_than_memory_is_meant_to_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = people(tmp_path / "g", *(f"p{n}" for n in range(100)))
    monkeypatch.setattr("omnigraph.limits.MUTATION_BYTES", 100)
    with pytest.raises(errors.ResourceLimitExceeded, match="limit 100"):
        graph.mutate(AGE, params={"a": 1})
    assert {row["age"] for row in rows_of(graph, "Person").values()} == {None}


@pytest.mark.parametrize(
    ("kind", "value"), [("U32", 7), ("U64", 2**64 - 1), ("DateTime", "2024-01-01T00:00:00Z"), ("Date", "2024-01-01")]
)
def test_unique_holds_on_columns_that_the_store_cannot_filter(tmp_path: Path, kind: str, value: object) -> None:
    graph = og.init(tmp_path / "g", f"node T {{ k: String @key  u: {kind}? @unique  list: [U32]?  when: [DateTime]? }}")
    text = f"query q($k: String, $u: {kind}?) {{ insert T {{ k: $k, u: $u }} }}"
    for key, given in (("a", value), ("a", value), ("b", None), ("c", None)):
        assert graph.mutate(text, params={"k": key, "u": given}).affected_nodes == 1
    with pytest.raises(errors.UniqueViolation, match=r"@unique violation on T\.u: .* held by 'a' and 'd'"):
        graph.mutate(text, params={"k": "d", "u": value})
    assert ids_of(graph, "T") == {"a", "b", "c"}


@pytest.mark.s3
def test_mutations_work_on_an_object_store(s3_root: str) -> None:
    graph = people(s3_root, "ann", "bob")
    graph.mutate('query q() { insert Knows { from: "ann", to: "bob" } insert Knows { from: "bob", to: "bob" } }')
    assert graph.mutate(AGE, params={"a": 4}).affected_nodes == 2
    result = graph.mutate(DROP, params={"h": "ann"})
    assert (result.affected_nodes, result.affected_edges) == (1, 1)
    assert {id_: row["age"] for id_, row in rows_of(graph, "Person").items()} == {"bob": 4}
    assert {(row["src"], row["dst"]) for row in rows_of(graph, "Knows").values()} == {("bob", "bob")}


def test_the_ids_of_inserted_rows_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.write import mutate, row_rules

    made: list[int] = []
    real = row_rules.with_ids

    def with_ids(type_: Any, rows: Any, given: Any) -> Any:
        made.append(rows.num_rows)
        return real(type_, rows, given)

    for module in (mutate, row_rules):
        monkeypatch.setattr(module, "with_ids", with_ids)
    with og.init(tmp_path / "g.omni", "node Person { name: String @key }\nnode Note { text: String }") as graph:
        graph.mutate('query q() { insert Person { name: "Ann" } insert Note { text: "x" } }')
        assert made == [1, 1]
        assert graph.snapshot().arrow("Person", ["id"]).column("id").to_pylist() == ["Ann"]
