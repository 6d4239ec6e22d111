"""Blobs that an older Lance wrote. The file beside this one is of release 6.0.1: five documents by name, with what
their blobs were when they were written."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.blob import BlobType
from lance.fragment import FragmentMetadata

import omnigraph as og
from omnigraph.schema.compiled_schema import compile_schema
from omnigraph.storage.tables.table_scan import TableAt, fragment_groups, scan_fragments
from omnigraph.upkeep.verify import CHECKS
from omnigraph.upkeep.verify.report import Ledger
from omnigraph.upkeep.verify.table_checks import check_columns
from tests.support.foreign_writer import put_rows, version_row

SCHEMA = "node Doc { name: String @key  body: Blob?  stars: I32? }"
FILE = Path(__file__).with_name("blobs_of_lance_6.b64")

#: The older Lance itself could not tell an empty blob before the first bytes of a file from null.
WRITTEN = {"none": None, "first": None, "bytes": b"some bytes", "empty": b"", "last": None}
TODAY = {"new-none": None, "new-empty": b"", "new-bytes": b"more"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A graph with documents of today and of the older Lance."""
    root = tmp_path / "g"
    with og.init(root, SCHEMA) as graph:
        lines = [
            {"type": "Doc", "data": {"name": name, "body": body and _text(body) if body != b"" else "base64:"}}
            for name, body in TODAY.items()
        ]
        (tmp_path / "today.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        graph.load(tmp_path / "today.jsonl", mode="append")
        pin = graph.snapshot().tables["node:Doc"]
    _add_older_file(root, pin.location)
    with og.open(root) as graph:
        graph.mutate('query q() { update Doc set { stars: 1 } where name = "new-bytes" }')
    return root


def _text(content: bytes) -> str:
    return f"base64:{base64.b64encode(content).decode()}"


def _add_older_file(root: Path, location: str) -> None:
    """What the other program does: its file becomes a fragment of the table, and the graph shows it."""
    table = lance.dataset(str(root / location))
    content = base64.b64decode(FILE.read_text())
    (root / location / "data" / "older.lance").write_bytes(content)
    numbers = {field.name(): field.id() for field in table.lance_schema.fields()}
    file = {
        "path": "older.lance",
        "fields": [numbers[name] for name in ("id", "body", "name")],
        "column_indices": [0, 1, 2],
        "file_major_version": 2,
        "file_minor_version": 2,
        "file_size_bytes": len(content),
    }
    fragment = FragmentMetadata.from_json(json.dumps({"id": 0, "files": [file], "physical_rows": len(WRITTEN)}))
    made = lance.LanceDataset.commit(table, lance.LanceOperation.Append([fragment]), read_version=table.version)
    put_rows(root, [version_row("node:Doc", made.version, made.count_rows())])


def _bodies(graph: og.Graph, branch: str = "main") -> dict[str, bytes | None]:
    table = graph.snapshot(branch).arrow("Doc", ["name", "body"])
    return dict(zip(table.column("name").to_pylist(), table.column("body").to_pylist(), strict=True))


def _exported(graph: og.Graph, target: Path) -> dict[str, Any]:
    graph.export(target)
    rows = [json.loads(line)["data"] for line in target.read_text().splitlines()]
    return {row["name"]: row["body"] for row in rows}


def test_null_blobs_of_an_older_lance_are_null_by_every_road(root: Path, tmp_path: Path) -> None:
    known = WRITTEN | TODAY
    with og.open(root) as graph:
        assert _bodies(graph) == known
        texts = {name: None if body is None else _text(body) for name, body in known.items()}
        assert _exported(graph, tmp_path / "out.jsonl") == texts
        table = TableAt(graph._store.location, graph.snapshot().tables["node:Doc"])
        groups = [number for group in fragment_groups(table) for number in group]
        scanned = pa.Table.from_batches(list(scan_fragments(table, groups, ["name", "body"])))
        assert dict(zip(*(scanned.column(name).to_pylist() for name in ("name", "body")), strict=True)) == known


def test_they_stay_null_when_their_rows_are_written_again_and_on_branches(root: Path) -> None:
    known = WRITTEN | TODAY
    with og.open(root) as graph:
        graph.branches.create("dev")
        graph.mutate('query q() { update Doc set { stars: 5 } where name = "none" }', branch="dev")
        graph.mutate('query q() { update Doc set { stars: 4 } where name = "empty" }')
        graph.mutate('query q() { delete Doc where name = "last" }')
        assert _bodies(graph, "dev") == known
        assert graph.branches.merge("dev").outcome == "merged"
        assert _bodies(graph) == {name: body for name, body in known.items() if name != "last"}
        assert [problem for problem in graph.verify(deep=True).problems if not problem.harmless] == []


def test_optimizing_leaves_them_null(root: Path) -> None:
    known = WRITTEN | TODAY
    with og.open(root) as graph:
        graph.mutate('query q() { delete Doc where name = "last" }')
        graph.load([{"name": f"more-{number}"} for number in range(3)], "append", type="Doc")
        graph.load([{"name": f"more-{number}"} for number in range(3, 6)], "append", type="Doc")
        (table,) = graph.optimize().tables
        assert table.fragments_removed > 0, "the others are joined"
        assert graph.optimize().commits == ()
        bodies = _bodies(graph)
        assert {name: bodies[name] for name in known if name != "last"} == {
            name: body for name, body in known.items() if name != "last"
        }
        assert [problem for problem in graph.verify(deep=True).problems if not problem.harmless] == []


def test_history_tells_null_too(root: Path) -> None:
    with og.open(root) as graph:
        start = graph.commits.head().id
        graph.mutate('query q() { delete Doc where name = "none" }')
        (change,) = graph.diff(start, graph.commits.head().id)
        assert change.before is not None
        assert change.before["properties"]["body"] is None


def test_a_blob_column_of_an_older_lance_has_the_columns_of_its_type(tmp_path: Path) -> None:
    """It is made of two parts there, of four here."""
    type_ = compile_schema(SCHEMA).catalog.nodes["Doc"]
    older = BlobType.__arrow_ext_deserialize__(pa.struct({"data": pa.large_binary(), "uri": pa.string()}), b"")
    fields = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("body", older),
        pa.field("name", pa.string(), nullable=False),
        pa.field("stars", pa.int32()),
    ]
    table = lance.write_dataset(pa.schema(fields).empty_table(), tmp_path / "t", data_storage_version="2.2")
    assert len(table.schema.field("body").type.storage_type) == 2
    ledger = Ledger(CHECKS.items())
    assert check_columns(ledger, "main", type_, table)
    fields[1] = pa.field("body", older, nullable=False)
    other = lance.write_dataset(pa.schema(fields).empty_table(), tmp_path / "u", data_storage_version="2.2")
    assert not check_columns(ledger, "main", type_, other)
    assert ledger.report().problems
