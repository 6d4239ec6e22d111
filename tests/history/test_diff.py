"""Differences between two states of a graph, entity by entity."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound, CommitNotFound, InputError, TypeNotFound
from omnigraph.history.diff import Diff
from omnigraph.write.change import Change, Mode
from tests.support.change_histories import GraphHistory, changes_of, state_of
from tests.support.small_graphs import knows, people, persons, run_child, without

TYPED = """
node Thing { name: String @key  day: Date?  moment: DateTime?  days: [Date]?  moments: [DateTime]?
             small: F32?  body: Blob?  place: Vector(2)?  big: U64? }
"""


def _ops(diff: Diff) -> list[tuple[str, str, str]]:
    return [(change.type, change.id, change.op) for change in diff]


def _before_and_after(root: Path) -> tuple[og.Graph, str, str]:
    graph = people(root, "a", "b", "c")
    graph.write([knows(("a", "b"), ("b", "c"), id=["e1", "e2"])])
    before = graph.commits.head().id
    graph.write(
        [
            Change(
                "node:Person",
                pa.table({"handle": ["b", "d"], "age": pa.array([7, None], pa.int32())}),
                Mode.MERGE,
                pa.array(["c"]),
            ),
            Change("edge:Knows", pa.table({"id": ["e1"], "src": ["a"], "dst": ["d"]}), Mode.MERGE, pa.array(["e2"])),
        ]
    )
    return graph, before, graph.commits.head().id


def test_a_diff_gives_images_changed_properties_and_a_fixed_order(tmp_path: Path) -> None:
    graph, before, after = _before_and_after(tmp_path / "g")
    changes = list(graph.diff(before, after))
    assert [(each.kind, each.type, each.id, each.op, each.changed) for each in changes] == [
        ("node", "Person", "b", "update", ("age",)),
        ("node", "Person", "c", "delete", ()),
        ("node", "Person", "d", "insert", ()),
        ("edge", "Knows", "e1", "update", ("to",)),
        ("edge", "Knows", "e2", "delete", ()),
    ]
    update, delete, insert, moved, _ = changes
    assert update.before == {"properties": {"age": None, "email": None, "handle": "b"}}
    assert update.after == {"properties": {"age": 7, "email": None, "handle": "b"}}
    assert delete.after is None and insert.before is None
    assert moved.before is not None and moved.before["endpoints"] == {"from": "a", "to": "b"}
    assert moved.after is not None and moved.after["endpoints"] == {"from": "a", "to": "d"}


def test_a_diff_read_backwards_swaps_inserts_and_deletes(tmp_path: Path) -> None:
    graph, before, after = _before_and_after(tmp_path / "g")
    forward, backward = list(graph.diff(before, after)), list(graph.diff(after, before))
    swapped = {"insert": "delete", "delete": "insert", "update": "update"}
    assert [(each.id, each.op, each.before, each.after) for each in backward] == [
        (each.id, swapped[each.op], each.after, each.before) for each in forward
    ]


def test_all_kinds_of_targets_name_the_same_state(tmp_path: Path) -> None:
    graph, before, after = _before_and_after(tmp_path / "g")
    expected = _ops(graph.diff(before, after))
    first, last = graph.commits.get(before), graph.commits.get(after)
    graph.branches.create("old", at=before)
    for from_ in (before, first.version, str(first.version), first.created_at, "old", graph.snapshot(at=before)):
        assert _ops(graph.diff(from_, "main")) == expected
    assert _ops(graph.diff(before, last.created_at.isoformat())) == expected
    assert _ops(graph.diff("main", "main")) == []


def test_states_that_do_not_exist_are_not_found(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a")
    with pytest.raises(BranchNotFound):
        graph.diff("main", "nowhere")
    with pytest.raises(CommitNotFound):
        graph.diff("01ARZ3NDEKTSV4RRFFQ69G5FAV", "main")
    with pytest.raises(CommitNotFound):
        graph.diff("main", 99)
    with pytest.raises(CommitNotFound):
        graph.diff(datetime(1990, 1, 1, tzinfo=UTC), "main")


def test_filters_choose_kinds_types_and_operations(tmp_path: Path) -> None:
    graph, before, after = _before_and_after(tmp_path / "g")
    assert _ops(graph.diff(before, after, kinds=["edge"], ops=["delete"])) == [("Knows", "e2", "delete")]
    assert _ops(graph.diff(before, after, types=["Person"], ops=["insert", "update"])) == [
        ("Person", "b", "update"),
        ("Person", "d", "insert"),
    ]
    assert graph.diff(before, after, ops=["insert"]).stats.to_dict() == {
        "inserts": 1,
        "updates": 0,
        "deletes": 0,
        "types_affected": ["Person"],
    }


@pytest.mark.parametrize("filters", [{"kinds": ["nodes"]}, {"ops": ["upsert"]}, {"kinds": []}, {"ops": "all"}])
def test_filters_that_are_not_understood_are_refused(tmp_path: Path, filters: dict[str, Any]) -> None:
    graph = people(tmp_path / "g")
    with pytest.raises(InputError):
        graph.diff("main", "main", **filters)


def test_an_unknown_type_in_a_filter_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(TypeNotFound):
        people(tmp_path / "g").diff("main", "main", types=["Persona"])


def test_rewritten_rows_with_equal_values_are_no_change(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "a", "b")
    before = graph.commits.head().id
    graph.write([persons("a", "b", mode=Mode.OVERWRITE)])
    graph.write([without("node:Person", "a")])
    graph.write([persons("a")])
    graph.ensure_indices()
    assert list(graph.diff(before, "main")) == []
    assert len(graph.diff(before, "main").pairs) == 1


def test_the_forms_of_a_diff_agree(tmp_path: Path) -> None:
    graph, before, after = _before_and_after(tmp_path / "g")
    diff = graph.diff(before, after)
    rows = diff.rows()
    document = json.loads(diff.to_json())
    assert document["changes"] == rows == [json.loads(line) for line in diff.jsonl()]
    assert document == json.loads(diff.to_json(indent=2))
    assert document["stats"] == diff.stats.to_dict() == graph.diff(before, after).stats.to_dict()
    assert rows[0]["type"]["name"] == "Person" and rows[0]["changed"] == ["age"]
    assert "before" not in rows[2] and "after" not in rows[1]
    table = diff.to_arrow()
    assert table.column("id").to_pylist() == [row["id"] for row in rows]
    assert [json.loads(text) if text else None for text in table.column("after").to_pylist()] == [
        row.get("after") for row in rows
    ]
    typed = diff.to_arrow("Person")
    assert typed.column("after").to_pylist()[0] == {"id": "b", "age": 7, "email": None, "handle": "b"}
    assert typed.column("before").to_pylist()[2] is None
    assert str(diff.stats) == "1 inserted, 2 updated, 2 deleted in Person, Knows"


def test_the_compact_form_has_the_known_members(tmp_path: Path) -> None:
    graph, before, after = _before_and_after(tmp_path / "g")
    compact = graph.diff(before, after, ops=["delete"]).to_dict()
    version = graph.commits.get(after).version
    assert compact == {
        "from_version": graph.commits.get(before).version,
        "to_version": version,
        "branch": "main",
        "changes": [
            {
                "table_key": "node:Person",
                "kind": "node",
                "type_name": "Person",
                "id": "c",
                "op": "delete",
                "manifest_version": version,
            },
            {
                "table_key": "edge:Knows",
                "kind": "edge",
                "type_name": "Knows",
                "id": "e2",
                "op": "delete",
                "manifest_version": version,
                "endpoints": {"src": "b", "dst": "c"},
            },
        ],
        "stats": {"inserts": 0, "updates": 0, "deletes": 2, "types_affected": ["Person", "Knows"]},
    }


def test_values_of_every_type_become_json(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", TYPED)
    moments = pa.array([1_700_000_000_123], pa.int64()).view(pa.date64())
    row = pa.table(
        {
            "name": ["x"],
            "day": pa.array([10_000], pa.int32()).cast(pa.date32()),
            "moment": moments,
            "days": pa.array([[10_000, None]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
            "small": pa.array([0.1], pa.float32()),
            "body": pa.array([b"hi"], pa.large_binary()),
            "place": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "big": pa.array([2**64 - 1], pa.uint64()),
        }
    )
    before = graph.commits.head().id
    graph.write([Change("node:Thing", row)])
    (change,) = graph.diff(before, "main")
    assert change.after is not None
    assert json.loads(json.dumps(change.to_dict()))["after"]["properties"] == {
        "name": "x",
        "day": "1997-05-19",
        "moment": "2023-11-14T22:13:20.123Z",
        "days": ["1997-05-19", None],
        "moments": None,
        "small": pytest.approx(0.1),
        "body": "base64:aGk=",
        "place": [1.0, 2.0],
        "big": 2**64 - 1,
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_diff_applied_to_its_first_state_gives_the_second(tmp_path: Path, seed: int) -> None:
    _apply_diffs(tmp_path, seed)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 200))
def test_diffs_of_many_histories_give_their_second_state(tmp_path: Path, seed: int) -> None:
    _apply_diffs(tmp_path, seed)


def _apply_diffs(tmp_path: Path, seed: int) -> None:
    history = GraphHistory(tmp_path / "g", seed).grow(30)
    graph = history.graph
    commits = [(branch, commit) for branch in history.branches for commit in history.commits(branch)]
    for number in range(8):
        (_, from_), (_, to) = history.random.sample(commits, 2)
        graph.branches.create(f"check{number}", at=from_)
        changes = changes_of(graph.diff(from_, to))
        if changes:
            graph.write(changes, branch=f"check{number}")
        assert repr(state_of(graph, f"check{number}")) == repr(state_of(graph, at=to))
        assert list(graph.diff(f"check{number}", to)) == []


_READ_A_LARGE_DIFF = """
import sys
from pathlib import Path
import omnigraph as og

def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])

graph = og.open(sys.argv[1], mode="ro")
newer, older = (commit.version for commit in graph.commits.list(limit=2))
diff = graph.diff(older, newer)
held = peak()
print(sum(change.changed == ("text",) for change in diff), peak() - held)
"""


def test_a_large_diff_is_read_in_bounded_memory(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Doc { name: String @key  text: String }")
    rows = 30_000
    names = [f"d{number:06d}" for number in range(rows)]
    for letter in "xy":
        graph.write([Change("node:Doc", pa.table({"name": names, "text": [letter * 8_000] * rows}), Mode.MERGE)])
    child = run_child(_READ_A_LARGE_DIFF, graph.uri)
    seen, kilobytes = map(int, child.stdout.split())
    assert seen == rows
    assert kilobytes < 220_000  # each side is 240 MB
