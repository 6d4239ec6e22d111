"""Routes that give out a whole state: as lines of the graph's dialect, or the rows of one type as Arrow."""

from __future__ import annotations

from typing import BinaryIO

import msgspec
import pyarrow as pa

from omnigraph.graph.snapshot import Snapshot
from omnigraph.history.export import export_result, lines_of, selected_pins
from omnigraph.history.state_at import at_state
from omnigraph.server.operation import Answer, Call, HttpOperation, Need, Streamed
from omnigraph.server.operations.asked_branch import branch_of, reads, state_of
from omnigraph.server.operations.query_routes import LINES
from omnigraph.server.operations.refused_name import unknown_type_is_400
from omnigraph.storage.metadata.holds import holding
from omnigraph.wire import requests
from omnigraph.wire.arrow_results import MEDIA_TYPE

#: Tells what an export holds, as compact JSON.
HEAD = "Omnigraph-Export"


def _export(call: Call) -> Answer:
    asked: requests.ExportRequest = call.body
    internals = call.graph.internals
    snapshot = internals.snapshot(**state_of(asked), action="export")
    with at_state(snapshot):
        pins = selected_pins(snapshot, asked.type_names or None)
        for pin in pins:
            internals.store.table(pin)  # says clearly when one is gone

    def write(file: BinaryIO) -> None:
        with at_state(snapshot), holding(internals.store.lease(snapshot, "export")):
            for pin in pins:
                for piece in lines_of(internals.store, pin):
                    file.write(piece)

    told = export_result(snapshot, pins, (), 0)
    head = {
        "branch": told.branch,
        "graph_manifest_version": told.version,
        "graph_commit_id": internals.store.head_id(snapshot),
        "nodes": told.nodes,
        "edges": told.edges,
    }
    return Streamed(write, f"{LINES}; charset=utf-8", {HEAD: msgspec.json.encode(head).decode()})


def _exports(call: Call) -> tuple[Need, ...]:
    """A state that is found by a commit or a tag is decided about when its branch is known."""
    asked: requests.ExportRequest = call.body
    return () if asked.branch is None and isinstance(asked.at, str) else (Need("export", branch_of(asked.branch)),)


def _rows(call: Call) -> Answer:
    asked: requests.RowsRequest = call.body
    snapshot = call.graph.snapshot(**state_of(asked))
    reader = snapshot.reader(asked.type, asked.columns)
    return Streamed(lambda file: _write_rows(file, snapshot, reader), MEDIA_TYPE)


def _write_rows(file: BinaryIO, snapshot: Snapshot, reader: pa.RecordBatchReader) -> None:
    """While the snapshot is held, cleanups leave its rows alone."""
    with pa.ipc.new_stream(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)


EXPORT_ROUTES = (
    HttpOperation(
        "POST",
        "/export",
        "export",
        "queries",
        "Get a whole state as lines that a load reads",
        unknown_type_is_400(_export),
        _exports,
        body=requests.ExportRequest,
        body_optional=True,
        media_types=(LINES,),
        pool="stream",
        statuses=(413,),
    ),
    HttpOperation(
        "POST",
        "/rows",
        "rows",
        "snapshots",
        "Get the rows of one type as Arrow",
        _rows,
        reads,
        body=requests.RowsRequest,
        media_types=(MEDIA_TYPE,),
        statuses=(413,),
    ),
)
