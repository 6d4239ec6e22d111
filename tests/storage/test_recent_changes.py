"""What a commit remembers of itself is what a comparison of the two versions finds."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.storage.metadata.manifest import Pin
from omnigraph.storage.table_reader import TableChange, TableReader
from omnigraph.write.change import Change, Mode

SCHEMA = "node P { k: String @key  n: I32?  at: DateTime?  tags: [String]? }"


def rows(*keys: str, n: int = 0) -> pa.Table:
    columns = {"k": list(keys), "n": pa.array([n] * len(keys), pa.int32()), "tags": [[key, None] for key in keys]}
    return pa.table(columns)


def pin(graph: og.Graph) -> Pin:
    return graph.snapshot()._stored.pins["node:P"]


def table_of(graph: og.Graph, at: Pin) -> dict[int, dict[str, object]]:
    """All rows of a version by row id."""
    table = TableReader(graph._store, at).scan(["id", "k", "n", "tags"], with_row_id=True)
    return {row.pop("_rowid"): row for row in table.to_pylist()}


def applied(before: dict[int, dict[str, object]], changes: list[TableChange]) -> dict[int, dict[str, object]]:
    now = dict(before)
    for change in changes:
        for lost in change.lost_row_ids.tolist():
            del now[lost]
        put = change.added.select(["id", "k", "n", "tags"]).to_pylist()
        now.update(zip(change.added_row_ids.tolist(), put, strict=True))
    return now


def test_remembered_effects_lead_from_one_version_to_the_next(tmp_path: Path) -> None:
    """Forty commits, so that small fragments are folded in between."""
    rng = random.Random(4)
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.write([Change("node:P", rows(*(f"p{i}" for i in range(30))))])
        present = {f"p{i}" for i in range(30)}
        for step in range(40):
            before = pin(graph)
            old = table_of(graph, before)
            gone = rng.sample(sorted(present), 2) if step % 4 == 3 else []
            put = [key for key in {f"p{rng.randrange(60)}" for _ in range(3)} if key not in gone]
            present = (present - set(gone)) | set(put)
            graph.write([Change("node:P", rows(*put, n=step), Mode.MERGE, remove=pa.array(gone, pa.string()))])
            kept = graph._store.recent_changes.between(before, pin(graph))
            assert kept is not None
            assert applied(old, kept) == table_of(graph, pin(graph)), f"step {step}"


def test_a_handle_that_did_not_write_finds_the_same_change(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph, og.open(tmp_path / "g", mode="ro") as other:
        graph.write([Change("node:P", rows(*(f"p{i}" for i in range(50))))])
        first, old = pin(graph), table_of(graph, pin(graph))
        graph.write([Change("node:P", rows("p3", "new", n=1), Mode.MERGE, remove=pa.array(["p9"]))])
        graph.write([Change("node:P", rows("p3", "p4", n=2), Mode.MERGE)])
        found = {}
        for who in (graph, other):
            reader, older = TableReader(who._store, pin(graph)), TableReader(who._store, first)
            changes = reader.changes_since(older, ("id", "k", "n", "tags"), 1_000)
            assert changes is not None
            found[who] = (len(changes), applied(old, changes))
        assert [count for count, _ in found.values()] == [2, 1], "the writer knows both commits, the reader compares"
        assert found[graph][1] == found[other][1] == table_of(graph, pin(graph))


def test_more_changed_rows_than_wanted_are_not_listed(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph, og.open(tmp_path / "g", mode="ro") as other:
        graph.write([Change("node:P", rows("a"))])
        first = pin(graph)
        graph.write([Change("node:P", rows("b", "c", "d"))])
        for who in (graph, other):
            reader, older = TableReader(who._store, pin(graph)), TableReader(who._store, first)
            assert reader.changes_since(older, ("id",), 2) is None
            assert reader.changes_since(older, ("id",), 3) is not None


def test_large_and_old_effects_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEPT_EFFECT_ROWS", 5)
    monkeypatch.setattr(limits, "KEPT_EFFECTS", 2)
    with og.init(tmp_path / "g", SCHEMA) as graph:
        pins = [pin(graph)]
        for keys in (["a"], [f"p{i}" for i in range(6)], ["b"], ["c"], ["d"]):
            graph.write([Change("node:P", rows(*keys))])
            pins.append(pin(graph))
        between = graph._store.recent_changes.between
        assert between(pins[1], pins[2]) is None
        assert between(pins[2], pins[3]) is None, "two newer ones pushed it out"
        assert between(pins[2], pins[5]) is None
        assert between(pins[3], pins[5]) is not None
        assert between(pins[5], pins[5]) == []
        assert between(pins[5], pins[3]) is None


def test_a_kept_row_does_not_hold_the_table_it_came_from(tmp_path: Path) -> None:
    wide = pa.table({"k": [f"p{i}" for i in range(50_000)], "n": pa.array(np.arange(50_000), pa.int32())})
    with og.init(tmp_path / "g", SCHEMA) as graph:
        before = pin(graph)
        graph.write([Change("node:P", wide.slice(20_000, 1))])
        kept = graph._store.recent_changes.between(before, pin(graph))
        assert kept is not None
        assert kept[0].added.get_total_buffer_size() < 1_000
        assert kept[0].added.column("k").to_pylist() == ["p20000"]


def test_a_branch_made_again_under_its_name_has_effects_of_its_own(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.write([Change("node:P", rows("a"))])
        text = "query q() { match { $p: P } return { $p.k as k, $p.n as n } order { k } }"
        for number in range(3):
            graph.branches.create("b")
            graph.write([Change("node:P", rows("a", n=number), Mode.MERGE)], branch="b")
            graph.write([Change("node:P", rows(f"x{number}"))], branch="b")
            shown = [(row["k"], row["n"]) for row in graph.query(text, branch="b").rows()]
            assert shown == [("a", number), (f"x{number}", 0)]
            graph.branches.delete("b")
