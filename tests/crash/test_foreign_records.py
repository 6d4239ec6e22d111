"""Records of other software, which say what moved but not how to finish it: every row of the two decision tables.

Tables are moved by plain pylance, the record is written by hand. Versions in the cases are relative to the pin.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import CorruptGraph, ExpectedVersionMismatch, RecoveryRequired
from omnigraph.ids import RECOVERY_ACTOR
from omnigraph.schema.compiled_schema import compile_schema
from omnigraph.schema.contract import state_text
from omnigraph.storage.recovery.audit import TableOutcome
from omnigraph.storage.tables.datasets import version_file
from omnigraph.write.change import Change
from tests.crash.foreign import (
    ACTOR_OF_THE_DEAD,
    COMPANY,
    OPERATION,
    PERSON,
    ForeignRecord,
    foreign_record,
    record_bytes,
)
from tests.support.crash_checks import assert_sound, settled
from tests.support.crash_graph import ACTOR, BRANCH, MAIN, SCHEMA, marks, perform
from tests.support.kill_runner import Target, kill_opening
from tests.support.ledger import Ledger

End = Literal["forward", "back", "untouched", "stale"]


@dataclass(frozen=True, slots=True)
class Record:
    """A record, what really happened to its tables, and how it must end.

    Attributes:
        moves: what was done to each table.
        tables: per table the expected version and the version after the commit, relative to the pin.
        end: ``back`` restores, ``untouched`` drops a record of which nothing happened, ``stale`` one that is done.
    """

    name: str
    kind: str
    tables: dict[str, tuple[int, int]]
    moves: dict[str, tuple[str, ...]]
    end: End
    fields: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


_EXACT = (0, 1)


def _strict(kind: str) -> list[Record]:
    person = {PERSON: _EXACT}
    both = {PERSON: _EXACT, COMPANY: _EXACT}
    return [
        Record("nothing moved", kind, person, {}, "untouched"),
        Record("moved as announced", kind, person, {PERSON: ("append",)}, "forward"),
        Record("deleted as announced", kind, person, {PERSON: ("delete",)}, "forward"),
        Record("moved, announced another version", kind, {PERSON: (0, 2)}, {PERSON: ("append",)}, "back"),
        Record("moved, expected another version", kind, {PERSON: (-1, 0)}, {PERSON: ("append",)}, "back"),
        Record("deleted, expected another version", kind, {PERSON: (-1, 0)}, {PERSON: ("delete",)}, "back"),
        Record("moved twice", kind, {PERSON: (0, 2)}, {PERSON: ("append", "append")}, "back"),
        Record("both moved", kind, both, {PERSON: ("append",), COMPANY: ("append",)}, "forward"),
        Record("one of two moved", kind, both, {COMPANY: ("append",)}, "back"),
        Record(
            "one moved as announced, one twice", kind, both, {PERSON: ("append",) * 2, COMPANY: ("append",)}, "back"
        ),
        Record("published already", kind, {PERSON: (-1, 0)}, {}, "stale"),
        Record("one published, one moved", kind, {PERSON: (-1, 0), COMPANY: _EXACT}, {COMPANY: ("append",)}, "back"),
        Record("given up by its writer", kind, person, {PERSON: ("append",)}, "back", {"decision": "abort"}),
    ]


def _maintenance(kind: str) -> list[Record]:
    person = {PERSON: _EXACT}
    both = {PERSON: _EXACT, COMPANY: _EXACT}
    return [
        Record("nothing moved", kind, person, {}, "untouched"),
        Record("indexed", kind, person, {PERSON: ("index",)}, "forward"),
        Record("compacted and indexed", kind, person, {PERSON: ("compact", "index")}, "forward"),
        Record("one of two done", kind, both, {COMPANY: ("index",)}, "forward"),
        Record("rows changed", kind, person, {PERSON: ("append",)}, "back"),
        Record("rows changed after an index", kind, person, {PERSON: ("index", "append")}, "back"),
        Record("one indexed, one changed", kind, both, {PERSON: ("index",), COMPANY: ("append",)}, "back"),
        Record("indexed, expected another version", kind, {PERSON: (-1, 0)}, {PERSON: ("index",)}, "back"),
        Record("indexed twice, expected another", kind, {PERSON: (-1, 0)}, {PERSON: ("index", "index")}, "back"),
        Record("published already", kind, {PERSON: (-1, 0)}, {}, "stale"),
    ]


def _multistep(kind: str) -> list[Record]:
    """Writers that commit several times per table leave no proof that they came to their end."""
    person = {PERSON: _EXACT}
    return [
        Record("nothing moved", kind, person, {}, "untouched"),
        Record("moved once", kind, person, {PERSON: ("append",)}, "back"),
        Record("moved twice", kind, person, {PERSON: ("append", "delete")}, "back"),
        Record("moved once, expected another version", kind, {PERSON: (-1, 0)}, {PERSON: ("append",)}, "back"),
        Record("moved twice, expected another", kind, {PERSON: (-1, 0)}, {PERSON: ("append", "append")}, "back"),
        Record("published already", kind, {PERSON: (-1, 0)}, {}, "stale"),
    ]


RECORDS = [
    *_strict("Mutation"),
    *_strict("Load"),
    *_maintenance("EnsureIndices"),
    *_maintenance("Optimize"),
    *_multistep("BranchMerge"),
    *_multistep("SchemaApply"),
]


def _leave(uri: str, folder: Path, branch: str, record: Record) -> ForeignRecord:
    place = foreign_record(uri, folder, branch)
    for key, steps in record.moves.items():
        place.move(key, *steps)
    pins = {key: place.pins[key].version for key in record.tables}
    named = [(key, pins[key] + expected, pins[key] + post) for key, (expected, post) in record.tables.items()]
    place.leave_record(record.kind, named, **record.fields)
    return place


#: Kinds come in pairs with the same rules, which the unit tests of the decision hold for each of them. The quick run
#: takes every row of one of each pair, in turn on main and on a branch.
_QUICK = [*_strict("Mutation"), *_maintenance("Optimize"), *_multistep("BranchMerge")]


@pytest.mark.parametrize(
    ("record", "branch"), [(record, (MAIN, BRANCH)[turn % 2]) for turn, record in enumerate(_QUICK)], ids=str
)
def test_a_record_without_redo_ends_as_the_tables_say(tmp_path: Path, record: Record, branch: str) -> None:
    _resolve_and_check(str(tmp_path / "g"), tmp_path, branch, record)


@pytest.mark.torture
@pytest.mark.parametrize("branch", [MAIN, BRANCH])
@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_every_record_without_redo_ends_as_the_tables_say(tmp_path: Path, record: Record, branch: str) -> None:
    _resolve_and_check(str(tmp_path / "g"), tmp_path, branch, record)


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize("branch", [MAIN, BRANCH])
@pytest.mark.parametrize("record", RECORDS, ids=str)
def test_every_record_without_redo_on_s3_ends_as_the_tables_say(
    s3_root: str, tmp_path: Path, record: Record, branch: str
) -> None:
    _resolve_and_check(s3_root, tmp_path, branch, record)


@pytest.mark.s3
@pytest.mark.parametrize("record", [RECORDS[3]], ids=str)
def test_a_record_without_redo_on_s3_ends_as_the_tables_say(s3_root: str, tmp_path: Path, record: Record) -> None:
    _resolve_and_check(s3_root, tmp_path, MAIN, record)


def _resolve_and_check(uri: str, folder: Path, branch: str, record: Record) -> None:
    place = _leave(uri, folder, branch, record)
    heads = {key: int(place.table(key).version) for key in record.tables}
    with og.open(uri, mode="ro") as reader:
        before, rows = reader.commits.head(branch).id, marks(reader, branch)
    strands = record.end == "forward" and any("delete" in steps for steps in record.moves.values())
    with settled(uri, branch, place.ledger, allowed={"coverage", *(["endpoints"] if strands else [])}) as graph:
        (audit,) = graph.recoveries
        assert (audit.operation_id, audit.actor, audit.writer_kind) == (OPERATION, ACTOR_OF_THE_DEAD, record.kind)
        assert audit.kind == ("RolledForward" if record.end in ("forward", "stale") else "RolledBack")
        assert sorted(audit.outcomes, key=lambda o: o.table_key) == _outcomes(place, record, heads)
        head = graph.commits.head(branch)
        assert audit.commit_id == head.id
        if record.end in ("forward", "back"):
            assert (head.actor, head.parent) == (RECOVERY_ACTOR, before)
        else:
            assert head.id == before
        assert (marks(graph, branch) == rows) == (record.end != "forward" or not _changes_rows(record))
        perform(graph, "insert_one", branch, Ledger(place.ledger), "next")
        assert_sound(graph, branch, place.ledger)


def _changes_rows(record: Record) -> bool:
    return any({"append", "delete"} & set(steps) for steps in record.moves.values())


def _outcomes(place: ForeignRecord, record: Record, heads: dict[str, int]) -> list[TableOutcome]:
    """Forward from the expected version to the newest; back from the newest to the pin."""
    found = []
    for key, (expected, _) in sorted(record.tables.items()):
        pin = place.pins[key].version
        if record.end == "stale":
            found.append(TableOutcome(key, pin + expected, pin))
        elif heads[key] != pin:
            forward = TableOutcome(key, pin + expected, heads[key])
            found.append(forward if record.end == "forward" else TableOutcome(key, heads[key], pin))
    return found


_BACK = Record("one of two moved", "Load", {PERSON: _EXACT, COMPANY: _EXACT}, {PERSON: ("append",)}, "back")
_FORWARD = Record("moved as announced", "Mutation", {PERSON: _EXACT}, {PERSON: ("append",)}, "forward")

_CRASHES = [
    (_BACK, "recovery.post_table_restore_pre_publish"),
    (_BACK, "publish.lost_ack"),
    (_BACK, "recovery.record_audit"),
    (_BACK, "recovery.sidecar_delete"),
    (_FORWARD, "recovery.before_roll_forward_publish"),
    (_FORWARD, "recovery.record_audit"),
    (_FORWARD, "recovery.sidecar_delete"),
]


@pytest.mark.parametrize(("record", "point"), _CRASHES, ids=str)
def test_a_roll_that_is_killed_converges_with_one_audit_row_and_no_second_restore(
    tmp_path: Path, record: Record, point: str
) -> None:
    place = _leave(str(tmp_path / "g"), tmp_path, BRANCH, record)
    moved = place.table(PERSON).version
    kill_opening(Target(place.uri, MAIN, place.ledger), point)
    with settled(place.uri, BRANCH, place.ledger, allowed={"coverage"}) as graph:
        (audit,) = graph.recoveries
        assert audit.kind == ("RolledForward" if record is _FORWARD else "RolledBack")
        pin = place.pins[PERSON].version
        ways = (moved, pin) if record is _BACK else (pin, moved)
        assert audit.outcomes == (TableOutcome(PERSON, *ways),)
        assert place.table(PERSON).version == moved + (1 if record is _BACK else 0)
        perform(graph, "insert_one", BRANCH, Ledger(place.ledger), "next")
        assert_sound(graph, BRANCH, place.ledger)


def test_the_first_write_of_a_branch_by_other_software_is_taken_back_on_its_own_lineage(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    with og.open(place.uri, actor=ACTOR) as graph:
        graph.branches.create(BRANCH)
    pin = place.pins[PERSON]
    place.table(PERSON).create_branch(BRANCH, (None, pin.version))
    fork = ForeignRecord(place.uri, BRANCH, place.ledger, place.pins)
    fork.move(PERSON, "append", "append")
    fork.leave_record("Mutation", [(PERSON, pin.version, pin.version + 1)])
    with settled(place.uri, BRANCH, place.ledger, allowed={"coverage"}) as graph:
        assert graph.snapshot(BRANCH).tables[PERSON].branch == BRANCH
        assert graph.snapshot(MAIN).tables[PERSON] == pin
        perform(graph, "upsert_delete", BRANCH, Ledger(place.ledger), "next")
        assert_sound(graph, BRANCH, place.ledger)


@pytest.mark.parametrize("made", [False, True], ids=["no fork", "empty fork"])
def test_a_first_write_that_got_no_further_than_its_fork_leaves_the_branch_free(tmp_path: Path, made: bool) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    with og.open(place.uri, actor=ACTOR) as graph:
        graph.branches.create(BRANCH)
    pin = place.pins[PERSON]
    if made:
        place.table(PERSON).create_branch(BRANCH, (None, pin.version))
    ForeignRecord(place.uri, BRANCH, place.ledger, place.pins).leave_record(
        "EnsureIndices", [(PERSON, pin.version, pin.version + 1)]
    )
    with settled(place.uri, BRANCH, place.ledger, allowed={"coverage"}) as graph:
        assert graph.snapshot(BRANCH).tables[PERSON] == pin
        perform(graph, "insert_many", BRANCH, Ledger(place.ledger), "next")
        assert_sound(graph, BRANCH, place.ledger)


def test_records_are_resolved_in_the_order_of_their_names_each_on_fresh_pins(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    pin = place.pins[PERSON].version
    place.move(PERSON, "append")
    place.leave_record("Mutation", [(PERSON, pin, pin + 1)])
    first = record_bytes(place.uri) or b""
    later = "01JZ8V6N3T5Y7Q2K4M9X0B1C2E"
    second = first.replace(OPERATION.encode(), later.encode())
    Path(place.uri, "__recovery", f"{later}.json").write_bytes(second)
    with settled(place.uri, MAIN, place.ledger, allowed={"coverage"}) as graph:
        ends = {audit.operation_id: (audit.kind, audit.outcomes) for audit in graph.recoveries}
        done = (TableOutcome(PERSON, pin, pin + 1),)
        assert ends == {OPERATION: ("RolledForward", done), later: ("RolledForward", done)}


def test_a_merge_without_table_work_becomes_a_merge_commit(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path, BRANCH)
    with og.open(place.uri, mode="ro") as reader:
        source, before = reader.commits.head(BRANCH).id, reader.commits.head(MAIN).id
    ForeignRecord(place.uri, MAIN, place.ledger, place.pins).leave_record(
        "BranchMerge", [], merge_source_commit_id=source
    )
    with settled(place.uri, BRANCH, place.ledger, allowed={"coverage"}) as graph:
        head = graph.commits.head(MAIN)
        assert (head.parent, head.merged_parent, head.actor) == (before, source, RECOVERY_ACTOR)


def _stage_schema(uri: str, text: str) -> None:
    """The three files that other software puts beside the live ones after its last table."""
    compiled = compile_schema(text)
    contents = (compiled.source, compiled.ir_text, state_text(compiled.hash))
    for name, content in zip(("_schema.pg", "_schema.ir.json", "__schema_state.json"), contents, strict=True):
        Path(uri, f"{name}.staging").write_text(content, encoding="utf-8")


def test_a_schema_change_of_other_software_that_staged_no_files_is_taken_back(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    place.move(PERSON, "append")
    pin = place.pins[PERSON].version
    place.leave_record(
        "SchemaApply",
        [(PERSON, pin, pin + 1)],
        tombstones=[{"table_key": "edge:WorksAt", "tombstone_version": place.pins["edge:WorksAt"].version + 1}],
    )
    with settled(place.uri, MAIN, place.ledger, allowed={"coverage"}) as graph:
        assert "edge:WorksAt" in graph.snapshot().tables
        assert [recovery.kind for recovery in graph.recoveries] == ["RolledBack"]


def test_a_finished_schema_change_registers_new_tables_and_hides_dropped_ones(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    text = SCHEMA.replace("edge WorksAt: Person -> Company { mark: String }", "node Planet { size: I32? }")
    _stage_schema(place.uri, text)
    rows = pa.table({"id": ["a", "b"]}, schema=pa.schema([pa.field("id", pa.string(), nullable=False)]))
    lance.write_dataset(rows, f"{place.uri}/nodes/0000000000000001", enable_stable_row_ids=True)
    dropped = place.pins["edge:WorksAt"].version
    place.leave_record(
        "SchemaApply",
        [],
        additional_registrations=[{"table_key": "node:Planet", "table_path": "nodes/0000000000000001"}],
        tombstones=[{"table_key": "edge:WorksAt", "tombstone_version": dropped + 1}],
    )
    with og.open(place.uri, actor=ACTOR) as graph:
        tables = graph.snapshot().tables
        assert (tables["node:Planet"].version, tables["node:Planet"].row_count) == (1, 2)
        assert "edge:WorksAt" not in tables
        (audit,) = graph.recoveries
        assert audit.outcomes == (TableOutcome("node:Planet", 0, 1),)
        assert graph.schema.text == text
        assert not list(Path(place.uri).glob("*.staging"))
    with og.open(place.uri, actor=ACTOR) as graph:
        assert graph.snapshot().tables == tables
        assert len(graph.recoveries) == 1


def test_a_record_of_a_deleted_branch_is_discarded_with_an_audit_row_on_main(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path, BRANCH)
    pin = place.pins[PERSON].version
    with og.open(place.uri, actor=ACTOR) as graph:
        graph.branches.delete(BRANCH)
    place.leave_record("Mutation", [(PERSON, pin, pin + 1)])
    with og.open(place.uri, actor=ACTOR) as graph:
        (audit,) = graph.recoveries
        assert (audit.kind, audit.outcomes) == ("RolledBack", ())
        assert audit.commit_id == graph.commits.head(MAIN).id
        assert record_bytes(place.uri) is None
        graph.branches.create(BRANCH)
        perform(graph, "insert_many", BRANCH, Ledger(tmp_path / "again.jsonl"), "again")


@pytest.mark.parametrize("branch", [MAIN, BRANCH])
def test_a_table_older_than_the_graph_says_stops_the_open_and_keeps_the_record(tmp_path: Path, branch: str) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path, branch)
    pin = place.pins[PERSON].version
    table = Path(place.uri, place.pins[PERSON].location)
    (table / "tree" / branch if branch != MAIN else table).joinpath(version_file(pin)).unlink()
    kept = place.leave_record("Mutation", [(PERSON, pin, pin + 1)])
    for _ in range(2):
        with pytest.raises(CorruptGraph) as caught:
            og.open(place.uri)
        assert caught.value.details["operation_id"] == OPERATION
    assert record_bytes(place.uri) == kept
    with og.open(place.uri, mode="ro") as reader:
        assert reader.snapshot(branch).count(COMPANY) > 0


def test_a_record_of_a_table_that_does_not_exist_stops_its_branch_only_and_is_kept(tmp_path: Path) -> None:
    place = foreign_record(str(tmp_path / "g"), tmp_path)
    kept = place.leave_record("Mutation", [(PERSON, 1, 2)]).replace(b"node:Person", b"node:Nobody")
    kept = kept.replace(place.pins[PERSON].location.encode(), b"nodes/0000000000000000")
    Path(place.uri, "__recovery", f"{OPERATION}.json").write_bytes(kept)
    with og.open(place.uri) as graph:
        for attempt in (
            graph.recover,
            lambda: graph.write([Change(COMPANY, pa.table({"name": ["blocked"], "mark": ["x"]}))]),
        ):
            with pytest.raises(RecoveryRequired) as caught:
                attempt()
            assert caught.value.details["table_key"] == "node:Nobody"
        graph.branches.create("aside")
        assert (
            graph.write([Change(COMPANY, pa.table({"name": ["free"], "mark": ["x"]}))], branch="aside").commit
            is not None
        )
    assert record_bytes(place.uri) == kept


def test_a_roll_that_keeps_losing_its_publish_asks_for_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = _leave(str(tmp_path / "g"), tmp_path, MAIN, _FORWARD)

    def lose(*_: object) -> None:
        raise ExpectedVersionMismatch(PERSON, 1, 2)

    with monkeypatch.context() as patch:
        patch.setattr("omnigraph.storage.recovery.roll.publish", lose)
        with og.open(place.uri) as graph, pytest.raises(RecoveryRequired) as caught:
            graph.recover()
    assert caught.value.details["operation_id"] == OPERATION
    assert record_bytes(place.uri) is not None
    failpoints.arm("")
    with settled(place.uri, MAIN, place.ledger, allowed={"coverage"}) as graph:
        assert len(graph.recoveries) == 1
