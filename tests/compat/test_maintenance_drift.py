"""Tables that other software moved with plain pylance: maintenance is told from writing, and writes go on past it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import OmniGraphError, UncoveredDrift
from omnigraph.storage.tables.datasets import Tables
from omnigraph.storage.tables.version_steps import keeps_rows
from omnigraph.write.change import Mode
from tests.support.crash_checks import assert_whole
from tests.support.small_graphs import ids_of, knows, people, persons, rows_of, without

PERSON = "node:Person"

Step = Callable[[Any], object]


def _raw(graph: og.Graph, key: str = PERSON, branch: str = "main") -> Any:
    """The table on the lineage that a branch shows, opened as any program would."""
    pin = graph.snapshot(branch).tables[key]
    path = f"{graph.uri}/{pin.location}"
    return lance.dataset(f"{path}/tree/{pin.branch}" if pin.branch else path)


def _compact(table: Any) -> None:
    table.optimize.compact_files()


def _index(table: Any) -> None:
    table.create_scalar_index("handle", "BTREE", name="of_others")


def _compact_index(table: Any) -> None:
    """The transaction of a compaction that moves the rows of an index cannot be read."""
    _index(table)
    _compact(lance.dataset(table.uri))


def _thin_and_compact(table: Any) -> None:
    table.optimize.compact_files(materialize_deletions=True, materialize_deletions_threshold=0.0)


def _append(table: Any) -> None:
    row = {"id": ["eve"], "handle": ["eve"]}
    rest = {name: pa.nulls(1, table.schema.field(name).type) for name in table.schema.names if name not in row}
    lance.write_dataset(pa.table({**row, **rest}).select(table.schema.names).cast(table.schema), table, mode="append")


def _column(table: Any) -> None:
    table.add_columns({"extra": "1"})


def _same_value(table: Any) -> None:
    """Writes a row again with the values that it had: nothing can tell that from a change that mattered."""
    table.update({"handle": "handle"}, where="handle = 'ann'")


def _nothing(table: Any) -> None:
    table.delete("handle = 'nobody'")


def _options(table: Any) -> None:
    table.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "3650d"})


def _notes(table: Any) -> None:
    table.update_schema_metadata({"seen-by": "others"})


MAINTENANCE: tuple[Step, ...] = (
    _compact, _index, _compact_index, _thin_and_compact, _nothing, _options, _notes,
)  # fmt: skip
WRITES: tuple[Step, ...] = (_append, lambda table: table.delete("handle = 'ann'"), _same_value, _column)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """People in several fragments, one of them with a deleted row."""
    graph = people(tmp_path / "g", "ann", "bob", actor="act-ann")
    graph.write([persons("cat", "dan")])
    graph.write([persons("fay", "gus"), knows(("ann", "bob"), ("bob", "cat"))])
    graph.write([without(PERSON, "gus")])
    return graph


@pytest.mark.parametrize("step", MAINTENANCE)
def test_every_version_that_maintenance_leaves_keeps_the_rows(graph: og.Graph, step: Step) -> None:
    shown = graph.snapshot().tables[PERSON].version
    step(_raw(graph))
    newest = _raw(graph)
    assert newest.version > shown
    assert all(keeps_rows(newest, version) for version in range(shown + 1, newest.version + 1))


@pytest.mark.parametrize("step", WRITES)
def test_a_version_that_wrote_rows_or_columns_does_not(graph: og.Graph, step: Step) -> None:
    shown = graph.snapshot().tables[PERSON].version
    step(_raw(graph))
    newest = _raw(graph)
    assert newest.version == shown + 1
    assert not keeps_rows(newest, newest.version)


def test_a_rewrite_that_lost_rows_is_no_maintenance(graph: og.Graph) -> None:
    """Only the name of its operation says that it is one."""
    table = _raw(graph)
    first, second = (each.metadata for each in table.get_fragments()[:2])
    group = LanceOperation.RewriteGroup(old_fragments=[first, second], new_fragments=[first])
    operation = LanceOperation.Rewrite(groups=[group], rewritten_indices=[])
    broken = lance.LanceDataset.commit(table, operation, read_version=table.version)
    made: Any = broken.read_transaction(broken.version)
    assert type(made.operation).__name__ == "Rewrite"
    assert not keeps_rows(broken, broken.version)


@pytest.mark.parametrize("step", MAINTENANCE)
def test_verify_calls_maintenance_harmless_and_writes_go_on(graph: og.Graph, step: Step) -> None:
    before = rows_of(graph, "Person")
    step(_raw(graph))
    with og.open(graph.uri, actor="act-ann") as other:
        (found,) = other.verify().problems
        assert (found.check, found.table, found.harmless) == ("heads", PERSON, True)
        assert "only maintained" in found.message
        assert other.recover(discard=True) == 0
        assert rows_of(other, "Person") == before
        other.write([persons("hal"), knows(("hal", "ann"))])
        other.write([persons("ann", mode=Mode.MERGE, age=pa.array([7], pa.int32()))])
        other.write([without(PERSON, "fay")])
        expected = {key: row for key, row in before.items() if key != "fay"}
        expected["ann"] = {**expected["ann"], "age": 7}
        found_rows = rows_of(other, "Person")
        assert found_rows.pop("hal")["handle"] == "hal"
        assert found_rows == expected
        assert_whole(other)
        assert other.verify().problems == ()


@pytest.mark.parametrize("step", [_compact, _index])
@pytest.mark.parametrize("first", ["insert", "update", "delete"])
def test_history_tells_only_what_the_write_changed(graph: og.Graph, step: Step, first: str) -> None:
    start = graph.commits.head().id
    step(_raw(graph))
    changes = {
        "insert": [persons("hal")],
        "update": [persons("cat", mode=Mode.MERGE, age=pa.array([3], pa.int32()))],
        "delete": [without(PERSON, "dan")],
    }
    graph.write(changes[first])
    told = [(each.op, each.id) for each in graph.diff(start, graph.commits.head().id)]
    assert told == [(first, {"insert": "hal", "update": "cat", "delete": "dan"}[first])]


@pytest.mark.parametrize("step", [_compact_index, _nothing])
def test_branches_merge_over_maintenance_of_both_lineages(graph: og.Graph, step: Step) -> None:
    graph.branches.create("dev")
    graph.write([persons("ann", "hal", mode=Mode.MERGE, age=pa.array([1, 1], pa.int32()))], branch="dev")
    step(_raw(graph))
    step(_raw(graph, branch="dev"))
    graph.write([persons("bob", mode=Mode.MERGE, age=pa.array([2], pa.int32()))])
    graph.write([without(PERSON, "fay")], branch="dev")
    assert graph.branches.merge("dev").outcome == "merged"
    rows = rows_of(graph, "Person")
    assert set(rows) == {"ann", "bob", "cat", "dan", "hal"}
    assert {key: rows[key]["age"] for key in ("ann", "bob")} == {"ann": 1, "bob": 2}
    assert graph.verify().ok


@pytest.mark.parametrize("step", WRITES[:2])
def test_rows_of_other_software_are_refused_as_before_also_under_maintenance(graph: og.Graph, step: Step) -> None:
    step(_raw(graph))
    _compact(_raw(graph))
    report = graph.verify()
    assert [problem.harmless for problem in report.problems if problem.check == "heads"] == [False]
    with pytest.raises(UncoveredDrift):
        graph.write([persons("hal")])
    assert graph.recover(discard=True) == 1
    graph.write([persons("hal")])
    assert ids_of(graph, "Person") == {"ann", "bob", "cat", "dan", "fay", "hal"}


def test_an_index_that_others_built_stays(graph: og.Graph) -> None:
    _index(_raw(graph))
    graph.write([persons("hal")])
    assert [index.name for index in _raw(graph).describe_indices() if index.name == "of_others"]
    assert_whole(graph)


def test_options_that_others_set_do_not_come_into_the_graph(graph: og.Graph) -> None:
    """Among them may be one that removes old versions with every commit."""
    _options(_raw(graph))
    graph.write([persons("hal")])
    assert _raw(graph).config() == {}


def test_a_version_without_effect_costs_none_of_ours(graph: og.Graph) -> None:
    shown = graph.snapshot().tables[PERSON].version
    _nothing(_raw(graph))
    graph.write([persons("hal")])
    assert graph.snapshot().tables[PERSON].version == shown + 2


@pytest.mark.parametrize("step", [_compact, _index, _notes])
@pytest.mark.parametrize("where", ["commit", "restore"])
def test_maintenance_that_comes_between_two_steps_of_a_write_loses_nothing(
    graph: og.Graph, step: Step, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once: before the table is committed, or before the version that is shown is put on top of other maintenance."""
    before = {key: row["age"] for key, row in rows_of(graph, "Person").items()}
    _compact(_raw(graph))
    original = getattr(Tables, where)
    pending = [step]

    def interrupted(tables: Tables, handle: Any, *rest: Any) -> Any:
        if pending and handle.uri.rstrip("/").endswith(graph.snapshot().tables[PERSON].location):
            pending.pop()(_raw(graph))
        return original(tables, handle, *rest)

    monkeypatch.setattr(Tables, where, interrupted)
    graph.write([persons("ann", "hal", mode=Mode.MERGE, age=pa.array([1, 2], pa.int32()))])
    assert not pending
    assert {key: row["age"] for key, row in rows_of(graph, "Person").items()} == {**before, "ann": 1, "hal": 2}
    assert_whole(graph)
    graph.write([persons("ida")])
    assert graph.verify().problems == ()


@pytest.mark.parametrize("where", ["commit", "restore"])
def test_rows_that_others_write_between_two_steps_are_not_buried(
    graph: og.Graph, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compact(_raw(graph))
    original = getattr(Tables, where)
    pending: list[Step] = [_append]

    def interrupted(tables: Tables, handle: Any, *rest: Any) -> Any:
        if pending:
            pending.pop()(_raw(graph))
        return original(tables, handle, *rest)

    monkeypatch.setattr(Tables, where, interrupted)
    with pytest.raises(UncoveredDrift):
        graph.write([persons("hal")])
    with pytest.raises(UncoveredDrift):
        graph.write([persons("hal")])
    assert "hal" not in ids_of(graph, "Person")


@pytest.mark.parametrize("step", [_compact, _index])
@pytest.mark.parametrize("point", ["write.after_sidecar", "write.after_all_table_commits"])
def test_a_write_that_stops_on_top_of_maintenance_is_finished_or_dropped(
    graph: og.Graph, step: Step, point: str
) -> None:
    """With nothing of it in the tables it never happened; with all of it, the next open shows it. More maintenance
    comes before anybody looks."""
    before = ids_of(graph, "Person")
    step(_raw(graph))
    failpoints.arm(f"{point}=raise")
    try:
        with pytest.raises(OmniGraphError):
            graph.write([persons("hal")])
    finally:
        failpoints.arm("")
    _compact(_raw(graph))
    with og.open(graph.uri, actor="act-ann") as other:
        assert ids_of(other, "Person") == (before if point == "write.after_sidecar" else before | {"hal"})
        other.write([persons("ida")])
        assert ids_of(other, "Person") >= before | {"ida"}
        assert_whole(other)
        assert other.verify().problems == ()
