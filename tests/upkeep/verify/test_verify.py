"""Sound graphs pass, nothing is written, live writers do not disturb, and large tables are looked at in parts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import obstore
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.upkeep.verify import CHECKS
from omnigraph.write.change import Change
from tests.support.crash_graph import MAIN
from tests.support.foreign_writer import old_graph
from tests.support.kill_runner import Target, kill_child, run_child
from tests.support.small_graphs import knows, listing, people, persons, without
from tests.upkeep.verify.damage import append_raw, sound_graph


def test_a_sound_graph_passes_every_check_and_says_how_much_it_looked_at(tmp_path: Path) -> None:
    with sound_graph(tmp_path / "g") as graph:
        report = graph.verify()
    assert report.ok
    assert report.problems == ()
    assert [check.name for check in report.checks] == list(CHECKS)
    counts = {check.name: check.count for check in report.checks}
    people_rows, pair_rows, edge_rows = 4 + 4, 2, (2 + 3) + 1
    assert counts["ids"] == people_rows + pair_rows + edge_rows
    assert counts["keys"] == people_rows + pair_rows
    assert counts["unique"] == people_rows + pair_rows
    assert counts["values"] == pair_rows
    assert counts["cardinality"] == 2 + 3
    assert counts["pins"] == counts["columns"] == 6
    assert counts["manifest"] == counts["lineage"] == counts["mirrors"] == 2
    assert all(check.seconds >= 0 and check.count > 0 for check in report.checks)
    assert str(report).splitlines()[0].startswith("ok schema: ")
    assert report.to_dict()["checks"][0] == report.checks[0].to_dict()


def test_an_empty_graph_passes(tmp_path: Path) -> None:
    assert people(tmp_path / "g").verify().ok


def test_a_graph_on_an_object_store_passes(s3_root: str) -> None:
    with people(s3_root, "ann", "bob") as graph:
        graph.branches.create("dev")
        graph.write([knows(("ann", "bob"))], branch="dev")
        graph.ensure_indices()
        assert graph.verify().problems == ()


def test_damage_on_an_object_store_is_found(s3_root: str) -> None:
    with people(s3_root, "ann", "bob") as graph:
        graph.write([knows(("ann", "bob"))])
        pin = graph.snapshot().tables["edge:Knows"]
        store = graph._store.objects._connect()
        data = [entry["path"] for page in obstore.list(store, f"{pin.location}/data/") for entry in page]
        obstore.delete(store, data)
        graph._store.objects.write("__recovery/01ARZ3NDEKTSV4RRFFQ69G5FAV.json", b"{}")
        problems = graph.verify().problems
    assert [(problem.check, problem.table) for problem in problems] == [("files", "edge:Knows"), ("records", None)]


def test_verify_writes_nothing_and_works_read_only(tmp_path: Path) -> None:
    sound_graph(tmp_path / "g").close()
    before = listing(tmp_path / "g")
    with og.open(tmp_path / "g", mode="ro") as reader:
        assert reader.verify().ok
    assert listing(tmp_path / "g") == before


def test_a_history_of_deletes_updates_and_branches_passes(tmp_path: Path) -> None:
    with people(tmp_path / "g", *(f"p{number}" for number in range(30))) as graph:
        graph.write(
            [knows(*((f"p{number}", f"p{number + 1}") for number in range(20)), id=[f"e{n}" for n in range(20)])]
        )
        graph.write([without("edge:Knows", "e0"), without("node:Person", "p0")])
        for name in ("a", "b", "c/d"):
            graph.branches.create(name)
            graph.write([persons(f"new-{name}")], branch=name)
            graph.write([without("edge:Knows", "e5")], branch=name)
        graph.branches.delete("b")
        graph._store.mirror.flush()
        assert graph.verify().problems == ()


@pytest.mark.parametrize("stamp", [None, "2"], ids=["no stamp", "stamp 2"])
def test_a_graph_of_other_software_passes_as_it_is_and_after_our_writes(tmp_path: Path, stamp: str | None) -> None:
    root = old_graph(tmp_path, stamp)
    with og.open(root, mode="ro") as reader:
        assert reader.verify().problems == ()
    with og.open(root, actor="act-new") as graph:
        assert graph.verify().problems == ()
        graph.write([Change("node:Person", pa.table({"name": ["cy"]}))])
        assert graph.verify().problems == ()


def test_live_writers_do_not_look_like_damage(tmp_path: Path) -> None:
    with people(tmp_path / "g", "ann") as graph:
        stop = threading.Event()

        def write() -> None:
            with og.open(tmp_path / "g", actor="act-other") as other:
                number = 0
                while not stop.is_set():
                    other.write([persons(f"p{number}"), knows(("ann", f"p{number}"))])
                    number += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            reports = [graph.verify() for _ in range(4)]
        finally:
            stop.set()
            writer.join()
        assert [report.problems for report in reports] == [()] * 4
        assert graph.verify().problems == ()


def test_an_interrupted_write_is_named_until_somebody_finishes_it(tmp_path: Path) -> None:
    target = Target(str(tmp_path / "g"), MAIN, tmp_path / "ledger")
    run_child(target, "init=graph")
    kill_child(target, "insert_many=first", "write.after_table_commit")
    with og.open(target.uri, mode="ro") as reader:
        report = reader.verify()
    assert not report.ok
    assert [(problem.check, problem.branch) for problem in report.problems] == [("records", MAIN)]
    assert "did not come to its end" in report.problems[0].message
    with og.open(target.uri) as graph:
        assert graph.verify().problems == ()


def _twice(graph: og.Graph) -> None:
    append_raw(graph, "node:Person", *({"id": name, "handle": name} for name in ("ann", "bob", "cat", "eva")))


def _nowhere(graph: og.Graph) -> None:
    append_raw(graph, "edge:Owns", *({"id": f"e{n}", "src": f"z{n}", "dst": '["1","x"]'} for n in range(5)))


def _many(graph: og.Graph) -> None:
    append_raw(graph, "edge:Knows", *({"id": f"e{n}", "src": "bob", "dst": "ann"} for n in range(3)))


@pytest.mark.parametrize(
    ("damage", "check", "said"),
    [
        (_twice, "ids", "ids occur more than once"),
        (_nowhere, "endpoints", "5 'src' values are no Person: 'z0', 'z1', 'z2' and 2 more"),
        (_many, "cardinality", "1 sources have fewer or more edges than @card(1..2): 'bob'"),
    ],
)
def test_damage_is_found_in_a_table_that_is_looked_at_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[og.Graph], None], check: str, said: str
) -> None:
    with sound_graph(tmp_path / "g") as graph:
        monkeypatch.setattr(limits, "VERIFY_BATCH_ROWS", 2)
        for rows in (1, 2, 100):
            monkeypatch.setattr(limits, "VERIFY_PART_ROWS", rows)
            assert graph.verify().problems == ()
        damage(graph)
        for rows in (2, 100):
            monkeypatch.setattr(limits, "VERIFY_PART_ROWS", rows)
            problems = graph.verify().problems
            assert {problem.check for problem in problems} == {check}
            assert all(said in problem.message for problem in problems) or rows == 2
        assert len(problems) == 1
