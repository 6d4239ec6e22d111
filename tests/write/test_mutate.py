"""`Graph.mutate`: what it takes, what it gives back, and what it refuses before it does anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import errors, ids
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
        ("", None, {}, errors.QueryNotFound, "the text holds 0 queries; say which one by name"),
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
    params = {"h": "ann", "a": 1}
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
