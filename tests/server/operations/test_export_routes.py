"""Whole states over HTTP: as lines, and the rows of one type as Arrow."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.history.export import lines_of
from omnigraph.server.operation import Streamed
from omnigraph.server.operations.export_routes import HEAD
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Pin
from tests.server.operations.api import ADD, Api, refused
from tests.support.waiting import wait_until

LINES = "application/x-ndjson; charset=utf-8"


def test_an_export_is_what_a_graph_in_this_process_writes(shared: Api, tmp_path: Path) -> None:
    reply = shared.send("POST", "/export")
    assert (reply.status, reply.headers["content-type"]) == (200, LINES)
    with og.open(shared.server.app.opened.graphs["alpha"].uri, mode="ro") as graph:
        assert reply.text == graph.export().text
    head = json.loads(reply.headers[HEAD.lower()])
    assert head == {
        "branch": "main",
        "graph_manifest_version": shared.told("/snapshot")["version"],
        "graph_commit_id": shared.head(),
        "nodes": {"Company": 1, "Person": 4},
        "edges": {"Knows": 3, "WorksAt": 1},
    }


def test_some_types_of_some_state(shared: Api, branch: str) -> None:
    before = shared.head(branch)
    shared.done("/mutate", query=ADD, params={"name": "Eve"}, branch=branch)

    def people(**where: object) -> int:
        return len(shared.post("/export", type_names=["Person"], **where).text.splitlines())

    assert people(branch=f" {branch} ") == 5
    assert people(at=before) == people() == 4
    assert len(shared.post("/export", type_names=[]).text.splitlines()) == 9


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"branch": "nope"}, 404),
        ({"branch": ""}, 400),
        ({"at": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, 404),
        ({"type_names": ["Nothing"]}, 400),
        ({"type_names": "Person"}, 400),
        ({"types": ["Person"]}, 400),
        ({"format": "parquet"}, 400),
    ],
)
def test_what_is_wrong_with_an_export_is_said_before_it_begins(
    shared: Api, body: dict[str, object], status: int
) -> None:
    refused(shared.send("POST", "/export", body), status, "not_found" if status == 404 else "bad_request")


def test_an_unknown_type_stays_the_error_that_it_is(shared: Api) -> None:
    envelope = refused(shared.post("/export", type_names=["Persn"]), 400, "bad_request")
    assert envelope["problem"]["code"] == "not_found.type" and "did you mean" in envelope["problem"]["hint"]


def test_a_graph_is_exported_once_at_a_time(own: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnigraph.server.operations import export_routes

    go, begun = threading.Event(), threading.Event()

    def held(store: GraphStore, pin: Pin) -> Iterator[memoryview]:
        begun.set()
        assert go.wait(60)
        return lines_of(store, pin)

    monkeypatch.setattr(export_routes, "lines_of", held)
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(own.send("POST", "/export").status))
    thread.start()
    try:
        assert begun.wait(60)
        for path in ("/export", "/changes/baseline"):
            limit = refused(own.send("POST", path), 413, "bad_request")["resource_limit"]
            assert limit["resource"] == "stream_export_slots"
    finally:
        go.set()
        thread.join()
    assert answers == [200]
    wait_until(lambda: own.send("POST", "/export").status == 200, timeout=30, what="the slot is free again")


def test_rows_are_those_of_a_snapshot(shared: Api, branch: str) -> None:
    shared.done("/mutate", query=ADD, params={"name": "Eve"}, branch=branch)
    with og.open(shared.server.app.opened.graphs["alpha"].uri, mode="ro") as graph:
        for type_name in ("Person", "Knows", "Company"):
            whole = graph.snapshot(branch).arrow(type_name)
            got = pa.ipc.open_stream(shared.post("/rows", type=type_name, branch=branch).body).read_all()
            assert got.equals(whole) and got.schema == whole.schema
    reply = shared.post("/rows", type="Person", columns=["name", "_rowid"], at=shared.head())
    assert pa.ipc.open_stream(io.BytesIO(reply.body)).read_all().column_names == ["name", "_rowid"]
    refused(shared.post("/rows", type="Nothing"), 404, "not_found")
    refused(shared.post("/rows", type="Person", columns=["nothing"]), 400, "bad_request")
    refused(shared.post("/rows", type="Person", branch="nope"), 404, "not_found")


def test_a_type_without_rows_has_its_columns(own: Api) -> None:
    own.done("/mutate", query='query q() { delete Company where name = "Acme" }')
    table = pa.ipc.open_stream(own.post("/rows", type="Company").body).read_all()
    assert (table.num_rows, table.column_names) == (0, ["id", "name"])


def test_what_streams_says_so_in_the_table() -> None:
    from omnigraph.server.operations import OPERATIONS

    streams = {operation.id for operation in OPERATIONS if operation.pool == "stream"}
    assert streams == {"export", "captureChangeBaseline"} and Streamed.__dataclass_params__.frozen  # type: ignore[attr-defined]
