"""Versions of tables that other software made: told apart, adopted with consent, or taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import DriftClass
from omnigraph.errors import CorruptGraph, InputError, ReadOnly, RecoveryRequired, UncoveredDrift
from omnigraph.storage.metadata import manifest
from omnigraph.storage.tables.datasets import version_file
from tests.support import foreign_steps as steps
from tests.support.foreign_steps import raw_table
from tests.support.small_graphs import ids_of, knows, people, persons, rows_of, without

PERSON = "node:Person"

Step = Callable[[Any], object]

MAINTENANCE: tuple[Step, ...] = (
    steps.compact,
    steps.index,
    steps.compact_index,
    steps.delete_nothing,
    steps.append_and_take_back,
)
SUSPICIOUS: tuple[Step, ...] = (steps.append, steps.delete, steps.column, steps.auto_cleanup, steps.option)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return made(tmp_path / "g")


def made(root: Any) -> og.Graph:
    """People in several fragments, one of them with a deleted row."""
    graph = people(root, "ann", "bob", actor="act-ann")
    graph.write([persons("cat", "dan")])
    graph.write([persons("fay", "gus"), knows(("ann", "bob"), ("bob", "cat"))])
    graph.write([without(PERSON, "gus")])
    return graph


def of_people(report: og.RepairReport, branch: str = "main") -> og.TableRepair:
    [found] = [table for table in report.tables if (table.table_key, table.branch) == (PERSON, branch)]
    return found


def test_a_graph_without_drift_has_nothing_to_repair(graph: og.Graph) -> None:
    for confirm, force, discard in ((False,) * 3, (True, False, False), (True, True, False), (True, False, True)):
        before = graph.snapshot().version
        report = graph.repair(confirm=confirm, force=force, discard=discard)
        assert {table.action for table in report.tables} == {"no_op"}
        assert {table.classification for table in report.tables} == {DriftClass.NO_DRIFT}
        assert (report.refused, report.commits, report.drifting) == (False, (), ())
        assert graph.snapshot().version == before


@pytest.mark.parametrize("step", MAINTENANCE, ids=lambda step: step.__name__)
def test_maintenance_is_previewed_and_adopted_and_changes_nothing_that_is_read(graph: og.Graph, step: Step) -> None:
    before, shown = rows_of(graph, "Person"), graph.snapshot()
    head = graph.commits.head()
    step(raw_table(graph, PERSON))
    preview = of_people(graph.repair())
    assert (preview.classification, preview.action) == (DriftClass.VERIFIED_MAINTENANCE, "preview")
    assert (preview.version, len(preview.operations)) == (
        shown.tables[PERSON].version,
        preview.newest_version - preview.version,
    )
    assert graph.snapshot().version == shown.version
    report = graph.repair(confirm=True)
    assert of_people(report).action == "healed"
    [commit] = report.commits
    assert (commit.actor, commit.kind, commit.parent) == ("omnigraph:repair", "repair", head.id)
    assert graph.snapshot().tables[PERSON].version == preview.newest_version
    assert rows_of(graph, "Person") == before
    assert list(graph.diff(head.id, "main")) == []
    assert graph.changes(f"after:{head.id}").blocks[0].changes == ()
    graph.write([persons("hal"), knows(("hal", "ann"))])
    graph.write([without(PERSON, "fay")])
    assert ids_of(graph, "Person") == {*before, "hal"} - {"fay"}
    assert {(change.op, change.id) for change in graph.diff(head.id, "main", kinds=["node"])} == {
        ("insert", "hal"),
        ("delete", "fay"),
    }
    assert of_people(graph.repair()).classification is DriftClass.NO_DRIFT
    deep = graph.verify(deep=True)
    assert deep.ok, deep.problems


@pytest.mark.parametrize("step", SUSPICIOUS, ids=lambda step: step.__name__)
def test_anything_else_is_refused_without_force(graph: og.Graph, step: Step) -> None:
    shown = graph.snapshot()
    step(raw_table(graph, PERSON))
    for report in (graph.repair(), graph.repair(confirm=True)):
        found = of_people(report)
        assert found.classification is DriftClass.SUSPICIOUS
        assert (found.action, report.refused) == (("refused", True) if report.confirm else ("preview", False))
    assert "take it back with discard" in str(found.error)
    assert (graph.snapshot().version, report.commits) == (shown.version, ())


@pytest.mark.parametrize(("step", "rows"), [(steps.append, {"eve"}), (steps.delete, {"dan"})])
def test_forced_rows_are_part_of_the_graph_and_of_its_history(graph: og.Graph, step: Step, rows: set[str]) -> None:
    before, head = ids_of(graph, "Person"), graph.commits.head().id
    step(raw_table(graph, PERSON))
    with pytest.raises(UncoveredDrift) as caught:
        graph.write([persons("hal")])
    assert "repair(confirm=True, force=True)" in str(caught.value.hint)
    report = graph.repair(confirm=True, force=True)
    assert (of_people(report).action, report.problems, report.refused) == ("forced", (), False)
    assert report.commits[0].actor == "omnigraph:repair:force"
    assert ids_of(graph, "Person") == before ^ rows
    assert {change.id for change in graph.diff(head, "main")} == rows
    graph.write([persons("hal")])
    assert ids_of(graph, "Person") == (before ^ rows) | {"hal"}
    deep = graph.verify(deep=True)
    assert deep.ok, deep.problems
    assert any("no digest was recorded" in problem.message for problem in deep.problems) is (step is steps.append)


def test_rules_that_forced_rows_break_are_told_before_and_after(graph: og.Graph) -> None:
    steps.append(raw_table(graph, PERSON), "ann")
    raw_table(graph, PERSON).delete("handle = 'bob'")
    said = {problem.check for problem in graph.repair().problems}
    assert said == {"ids", "endpoints"}
    report = graph.repair(confirm=True, force=True)
    assert {problem.check for problem in report.problems} == said
    assert not graph.verify().ok


@pytest.mark.parametrize(("step", "said"), [(steps.column, "'extra'"), (steps.auto_cleanup, "lance.auto_cleanup")])
def test_what_the_graph_could_not_live_with_is_refused_even_with_force(graph: og.Graph, step: Step, said: str) -> None:
    before = rows_of(graph, "Person")
    step(raw_table(graph, PERSON))
    report = graph.repair(confirm=True, force=True)
    assert (of_people(report).action, report.refused, report.commits) == ("refused", True, ())
    assert said in str(of_people(report).error)
    assert rows_of(graph, "Person") == before
    assert of_people(graph.repair(confirm=True, discard=True)).action == "discarded"
    assert graph.repair().drifting == ()


@pytest.mark.parametrize("step", [*MAINTENANCE[:2], *SUSPICIOUS], ids=lambda step: step.__name__)
def test_drift_is_taken_back(graph: og.Graph, step: Step) -> None:
    before, head = rows_of(graph, "Person"), graph.commits.head().id
    step(raw_table(graph, PERSON))
    assert of_people(graph.repair(discard=True)).action == "preview"
    report = graph.repair(confirm=True, discard=True)
    assert (of_people(report).action, report.commits[0].actor) == ("discarded", "omnigraph:repair")
    assert rows_of(graph, "Person") == before
    assert list(graph.diff(head, "main")) == []
    assert graph.repair().drifting == ()
    graph.write([persons("hal")])
    assert graph.verify(deep=True).problems == ()


def test_versions_that_cannot_be_read_are_unverifiable(graph: og.Graph, tmp_path: Path) -> None:
    table = raw_table(graph, PERSON)
    steps.append(table)
    steps.append(table, "ina")
    pin = graph.snapshot().tables[PERSON]
    (tmp_path / "g" / pin.location / version_file(pin.version + 1)).unlink()
    found = of_people(graph.repair(confirm=True))
    assert (found.classification, found.action) == (DriftClass.UNVERIFIABLE, "refused")
    assert found.operations[0] == "unreadable"
    assert of_people(graph.repair(confirm=True, force=True)).action == "forced"
    assert {"eve", "ina"} <= ids_of(graph, "Person")


def test_all_tables_of_a_branch_are_one_commit_and_branches_are_repaired_alone(graph: og.Graph) -> None:
    graph.branches.create("draft")
    graph.write([persons("hal")], branch="draft")
    steps.compact(raw_table(graph, PERSON))
    steps.compact(raw_table(graph, PERSON, "draft"))
    raw_table(graph, "edge:Knows").create_scalar_index("src", "BTREE", name="of_others")
    preview = graph.repair()
    assert {(table.branch, table.table_key) for table in preview.drifting} == {
        ("main", PERSON),
        ("main", "edge:Knows"),
        ("draft", PERSON),
    }
    report = graph.repair(branch="draft", confirm=True)
    assert [(table.branch, table.action) for table in report.drifting] == [("draft", "healed")]
    report = graph.repair(confirm=True)
    assert [table.action for table in report.drifting] == ["healed", "healed"]
    assert [commit.branch for commit in report.commits] == ["main"]
    assert graph.verify().problems == ()
    assert graph.branches.merge("draft").tables[PERSON].inserted == 1


def test_one_refused_table_does_not_keep_the_others_from_being_healed(graph: og.Graph) -> None:
    steps.append(raw_table(graph, PERSON))
    steps.compact(raw_table(graph, "edge:Knows"))
    raw_table(graph, "edge:Knows").create_scalar_index("src", "BTREE", name="of_others")
    report = graph.repair(confirm=True)
    assert {table.table_key: table.action for table in report.drifting} == {PERSON: "refused", "edge:Knows": "healed"}
    assert len(report.commits) == 1


def test_unpublished_writes_of_this_software_are_no_drift_and_are_never_adopted(graph: og.Graph) -> None:
    before = ids_of(graph, "Person")
    store = graph.internals.store
    pin = graph.snapshot().tables[PERSON]
    store.tables.restore(store.tables.newest(pin.location), pin.version - 1, "01JZ8V6N3T5Y7Q2K4M9X0B1C2D")
    found = of_people(graph.repair(confirm=True, force=True))
    assert (found.classification, found.action) == (DriftClass.NO_DRIFT, "no_op")
    raw_table(graph, PERSON).create_scalar_index("handle", "BTREE", name="of_others")
    assert of_people(graph.repair(confirm=True)).classification is DriftClass.SUSPICIOUS
    assert ids_of(graph, "Person") == before


def test_requests_that_contradict_themselves_are_refused(graph: og.Graph) -> None:
    with pytest.raises(InputError, match="needs confirm"):
        graph.repair(force=True)
    with pytest.raises(InputError, match="adopts what is there and discard takes it back"):
        graph.repair(confirm=True, force=True, discard=True)
    with og.open(graph.uri, mode="ro") as reader:
        assert reader.repair().drifting == ()
        with pytest.raises(ReadOnly):
            reader.repair(confirm=True)


def test_nothing_is_repaired_while_an_interrupted_write_is_left(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "g" / "__recovery" / "01JZ8V6N3T5Y7Q2K4M9X0B1C2D.json").write_text("{}")
    for consent in (False, True):
        with pytest.raises(RecoveryRequired, match="nothing can be repaired"):
            graph.repair(confirm=consent)


def test_a_table_below_what_is_shown_stops_everything(graph: og.Graph, tmp_path: Path) -> None:
    steps.append(raw_table(graph, PERSON))
    pin = graph.snapshot().tables["edge:Knows"]
    (tmp_path / "g" / pin.location / version_file(pin.version)).unlink()
    with og.open(graph.uri, mode="ro") as other, pytest.raises(CorruptGraph, match=r"below the|is missing"):
        other.repair()


def test_a_pin_names_the_transaction_that_was_adopted(graph: og.Graph) -> None:
    steps.append(raw_table(graph, PERSON))
    graph.repair(confirm=True, force=True)
    pin = graph.snapshot().tables[PERSON]
    newest = raw_table(graph, PERSON)
    assert pin.origin == newest.read_transaction(newest.version).uuid
    assert manifest.pin_metadata(newest.uri, pin.version, pin.origin) == pin.metadata
    assert pin.row_count == newest.count_rows()


@pytest.mark.s3
def test_drift_on_an_object_store_is_adopted_and_taken_back(s3_root: str) -> None:
    graph = made(s3_root)
    steps.compact(raw_table(graph, PERSON))
    assert of_people(graph.repair(confirm=True)).action == "healed"
    steps.append(raw_table(graph, PERSON))
    assert of_people(graph.repair(confirm=True, discard=True)).action == "discarded"
    steps.append(raw_table(graph, PERSON))
    assert of_people(graph.repair(confirm=True, force=True)).action == "forced"
    assert "eve" in ids_of(graph, "Person")
    assert graph.verify().ok
