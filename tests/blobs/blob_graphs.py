"""Small graphs with blobs, and references as other software stores them."""

from __future__ import annotations

import base64
from pathlib import Path

import lance
import pyarrow as pa
from lance.blob import Blob, blob_array

import omnigraph as og
from omnigraph.storage.metadata.manifest import Pin
from tests.support.foreign_writer import put_rows, version_row

SCHEMA = "node Doc { name: String @key  body: Blob?  stars: I32? }\nedge Cites: Doc -> Doc { note: Blob? }"

#: Inside its data file, beside it in a packed file, and in a file of its own.
SIZES = {"inline": b"some bytes", "packed": bytes(range(256)) * 1000, "dedicated": bytes(range(251)) * 83_666}
EVERY = {**SIZES, "empty": b"", "null": None}


def doc_graph(root: Path | str, rows: dict[str, bytes | None]) -> og.Graph:
    graph = og.init(root, SCHEMA)
    put(graph, rows)
    return graph


def put(graph: og.Graph, rows: dict[str, bytes | None], mode: str = "append", branch: str = "main") -> None:
    table = pa.table({"name": pa.array(rows, pa.string()), "body": pa.array(rows.values(), pa.large_binary())})
    graph.load(table, mode, type="Doc", branch=branch)  # type: ignore[arg-type]


def bodies(graph: og.Graph, branch: str | None = None, at: str | None = None) -> dict[str, bytes | None]:
    """Every body, each one through `blob`."""
    snapshot = graph.snapshot(branch, at)
    return {name: body(snapshot, name) for name in snapshot.arrow("Doc", ["name"]).column("name").to_pylist()}


def body(state: og.Graph | og.Snapshot, name: str) -> bytes | None:
    try:
        return state.blob("Doc", name, "body").read()
    except og.errors.BlobNotFound:
        return None


def text(content: bytes) -> str:
    return f"base64:{base64.b64encode(content).decode()}"


def add_reference(root: Path, pin: Pin, name: str, blob: Blob) -> None:
    """What the other program does: a row whose blob stays where it is, and the graph shows it."""
    table = lance.dataset(str(root / pin.location))
    row = pa.table({"id": [name], "name": [name], "body": blob_array([blob]), "stars": pa.nulls(1, pa.int32())}).select(
        table.schema.names
    )
    made = lance.write_dataset(row.cast(table.schema), table.uri, mode="append", allow_external_blob_outside_bases=True)
    put_rows(root, [version_row(pin.table_key, made.version, made.count_rows())])
