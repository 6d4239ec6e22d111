"""A record that cannot be understood: writers are refused loudly, readers are not disturbed, the file stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import OmniGraphError, UnreadableSidecar
from omnigraph.storage.commit import sidecar
from omnigraph.storage.objects.object_store import ObjectStore, parse_location
from omnigraph.write.change import Change
from tests.crash.foreign import OPERATION, PERSON, ForeignRecord, foreign_record, leave_bytes, record_bytes
from tests.crash.table import POINTS, Case, arrange
from tests.support.crash_checks import records
from tests.support.crash_graph import ACTOR, BRANCH, MAIN, people, perform
from tests.support.ledger import Ledger

_REQUIRED = ("schema_version", "operation_id", "started_at", "branch", "actor_id", "writer_kind", "tables")
_PER_TABLE = ("table_key", "table_path", "expected_version", "post_commit_pin")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> ForeignRecord:
    """A graph that no test here changes, because every write to it is refused."""
    folder = tmp_path_factory.mktemp("unreadable")
    return foreign_record(str(folder / "g"), folder, BRANCH)


def _edited(edit: Callable[[dict[str, Any]], object]) -> bytes:
    record: dict[str, Any] = {
        "schema_version": 1,
        "operation_id": OPERATION,
        "started_at": "1781000000000000",
        "branch": None,
        "actor_id": None,
        "writer_kind": "Mutation",
        "tables": [{"table_key": PERSON, "table_path": "x", "expected_version": 3, "post_commit_pin": 4}],
    }
    edit(record)
    return json.dumps(record).encode()


def _without(name: str) -> bytes:
    return _edited(lambda record: record.pop(name))


def _with(name: str, value: object) -> bytes:
    return _edited(lambda record: record.update({name: value}))


def _table_without(name: str) -> bytes:
    return _edited(lambda record: record["tables"][0].pop(name))


def _table_with(name: str, value: object) -> bytes:
    return _edited(lambda record: record["tables"][0].update({name: value}))


UNREADABLE = {
    "empty": b"",
    "torn": _with("branch", None)[:-20],
    "not JSON": b"key: value\n",
    "not UTF-8": b'{"schema_version": 1, "operation_id": "\xff\xfe"}',
    "not an object": b"[1]",
    "null": b"null",
    "nested too deeply": b"[" * 100_000,
    "newer version": _with("schema_version", 2),
    "version as text": _with("schema_version", "1"),
    "another operation": _with("operation_id", "01JZ8V6N3T5Y7Q2K4M9X0B1C2X"),
    "unknown writer": _with("writer_kind", "Teleport"),
    "time that is none": _with("started_at", "soon"),
    "time beyond all clocks": _with("started_at", "9" * 40),
    "branch that is a number": _with("branch", 5),
    "branch without a name": _with("branch", ""),
    "actor that is a list": _with("actor_id", ["act-anna"]),
    "tables that are text": _with("tables", "node:Person"),
    "key that is a number": _table_with("table_key", 7),
    "version that is text": _table_with("expected_version", "seven"),
    "table branch that is a number": _table_with("table_branch", 7),
    "two transactions": _table_with("transactions", [{}, {}]),
    "transaction without content": _table_with("transactions", [{}]),
    "transaction of an unknown kind": _table_with(
        "transactions", [{"uuid": "u", "read_version": 3, "rows_after": 1, "operation": {"kind": "teleport"}}]
    ),
    "schema that is noise": _table_with(
        "transactions",
        [
            {
                "uuid": "u",
                "read_version": 3,
                "rows_after": 1,
                "operation": {"kind": "overwrite", "schema": "bm9pc2U=", "fragments": []},
            }
        ],
    ),
    "intent that is text": _with("intent", "commit"),
    "intent without an id": _with("intent", {"commit": {"actor_id": None}}),
    **{f"without {name}": _without(name) for name in _REQUIRED},
    **{f"table without {name}": _table_without(name) for name in _PER_TABLE},
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_an_unreadable_record_refuses_writers_and_is_kept_byte_for_byte(place: ForeignRecord, content: bytes) -> None:
    with og.open(place.uri, actor=ACTOR) as graph:
        leave_bytes(place.uri, content)
        try:
            with pytest.raises(UnreadableSidecar) as caught:
                og.open(place.uri)
            assert OPERATION in caught.value.message
            assert caught.value.details["operation_id"] == OPERATION
            for branch in (MAIN, BRANCH):
                with pytest.raises(UnreadableSidecar):
                    graph.write([Change(PERSON, people(["refused"]))], branch=branch)
            with og.open(place.uri, mode="ro") as reader:
                assert reader.snapshot().count(PERSON) == graph.snapshot().count(PERSON)
            assert record_bytes(place.uri) == content
        finally:
            ObjectStore(parse_location(place.uri)).delete(f"__recovery/{OPERATION}.json")


def test_a_newer_record_says_which_version_it_has_and_which_is_known(place: ForeignRecord) -> None:
    leave_bytes(place.uri, UNREADABLE["newer version"])
    try:
        with pytest.raises(UnreadableSidecar) as caught:
            og.open(place.uri)
        assert (caught.value.details["found_version"], caught.value.details["supported_version"]) == (2, 1)
        assert caught.value.hint == "upgrade omnigraph"
    finally:
        ObjectStore(parse_location(place.uri)).delete(f"__recovery/{OPERATION}.json")


def test_names_without_the_json_suffix_are_no_records(place: ForeignRecord) -> None:
    stray = Path(place.uri, "__recovery", f"{OPERATION}.json.bak")
    stray.write_bytes(b"not a record")
    try:
        og.open(place.uri, actor=ACTOR).close()
        assert stray.read_bytes() == b"not a record"
    finally:
        stray.unlink()


def test_fields_that_nobody_knows_are_ignored(place: ForeignRecord) -> None:
    leave_bytes(place.uri, _with("colour", {"of": "the sky"}))
    record = sidecar.read(ObjectStore(parse_location(place.uri)), OPERATION)
    ObjectStore(parse_location(place.uri)).delete(f"__recovery/{OPERATION}.json")
    assert record is not None
    assert record.tables[0].table_key == PERSON


@pytest.fixture(scope="module")
def real_records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Records as our own writers leave them, with their staged transactions."""
    point = next(point for point in POINTS if point.name == "write.after_sidecar")
    found: list[dict[str, Any]] = []
    for kind in ("insert_one", "upsert_delete", "overwrite", "index"):
        folder = tmp_path_factory.mktemp(kind)
        target = arrange(str(folder / "g"), folder, Case(point, "main", kind)).target
        with og.open(target.uri, actor=ACTOR) as graph:
            failpoints.arm("write.after_sidecar=raise")
            with pytest.raises(OmniGraphError):
                perform(graph, kind, MAIN, Ledger(target.ledger), "victim")
            failpoints.arm("")
        found += records(target.uri).values()
    assert len(found) == 4
    return found


_JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just([]), st.just({}), st.just([{}])
)


@given(data=st.data())
def test_a_damaged_record_is_read_or_refused_but_never_breaks_the_reader(
    real_records: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    record = json.loads(json.dumps(data.draw(st.sampled_from(real_records), label="record")))
    damaged: Any = record
    while True:
        keys: list[Any] = list(damaged) if isinstance(damaged, dict) else list(range(len(damaged)))
        key = data.draw(st.sampled_from(keys), label="where")
        if not isinstance(damaged[key], dict | list) or not damaged[key] or data.draw(st.booleans(), label="here"):
            break
        damaged = damaged[key]
    damaged[key] = data.draw(_JUNK, label="what")
    objects = ObjectStore(parse_location(tmp_path_factory.getbasetemp() / "damaged"))
    Path(tmp_path_factory.getbasetemp(), "damaged").mkdir(exist_ok=True)
    operation = real_records[0]["operation_id"]
    record["operation_id"] = operation
    objects.write(f"__recovery/{operation}.json", json.dumps(record).encode())
    try:
        read = sidecar.read(objects, operation)
        assert isinstance(read, sidecar.Sidecar)
    except UnreadableSidecar as error:
        assert operation in error.message
