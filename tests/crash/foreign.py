"""Recovery records as other software leaves them: no staged transactions, tables moved with plain pylance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

import omnigraph as og
from omnigraph.storage.metadata.manifest import Pin
from omnigraph.storage.objects.object_store import ObjectStore, parse_location
from tests.support.crash_graph import ACTOR, BRANCH, MAIN, SCHEMA, perform
from tests.support.ledger import Ledger

PERSON, COMPANY = "node:Person", "node:Company"
OPERATION = "01JZ8V6N3T5Y7Q2K4M9X0B1C2D"
ACTOR_OF_THE_DEAD = "act-bruno"


@dataclass(frozen=True, slots=True)
class ForeignRecord:
    """A graph in which another program is about to be interrupted."""

    uri: str
    branch: str
    ledger: Path
    pins: dict[str, Pin] = field(default_factory=dict)

    @property
    def lance_branch(self) -> str | None:
        return None if self.branch == MAIN else self.branch

    def table(self, key: str) -> Any:
        """The table on the lineage that the branch writes to, opened as any program would."""
        path = f"{self.uri}/{self.pins[key].location}"
        address = f"{path}/tree/{self.branch}" if self.lance_branch else path
        return lance.dataset(address, storage_options=dict(parse_location(self.uri).options) or None)

    def move(self, key: str, *steps: str) -> int:
        """Commit to a table behind the graph's back, once or more per step; returns its newest version.

        The ledger learns of it as of a write whose end nobody heard.
        """
        for step in steps:
            table = self.table(key)
            mark = f"foreign-{key}-{table.version}"
            if step == "append":
                Ledger(self.ledger).start(mark, {key: [mark]})
                rows = _as_table({"id": [mark], "name": [mark], "mark": [mark]}, table.schema)
                lance.write_dataset(rows, table, mode="append")
            elif step == "delete":
                Ledger(self.ledger).start(mark, {}, {key: table.to_table(columns=["mark"]).column(0).to_pylist()})
                table.delete("true")
            elif step == "index":
                table.create_scalar_index("name", "BTREE", replace=True)
            elif step == "compact":
                table.optimize.compact_files()
            else:
                raise ValueError(step)
        return int(self.table(key).version)

    def leave_record(self, kind: str, tables: Sequence[tuple[str, int, int]], **fields: Any) -> bytes:
        """Write the record that names these tables: (key, expected version, version after the commit)."""
        record = {
            "schema_version": 1,
            "operation_id": OPERATION,
            "started_at": "1781000000000000",
            "branch": self.lance_branch,
            "actor_id": ACTOR_OF_THE_DEAD,
            "writer_kind": kind,
            "tables": [self._named(*table) for table in tables],
            **fields,
        }
        content = json.dumps(record).encode()
        leave_bytes(self.uri, content)
        return content

    def _named(self, key: str, expected: int, post: int) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "table_key": key,
            "table_path": f"{self.uri}/{self.pins[key].location}",
            "expected_version": expected,
            "post_commit_pin": post,
        }
        if self.lance_branch:
            entry["table_branch"] = self.lance_branch
        return entry


def leave_bytes(uri: str, content: bytes, operation: str = OPERATION) -> None:
    ObjectStore(parse_location(uri)).write(f"__recovery/{operation}.json", content)


def record_bytes(uri: str, operation: str = OPERATION) -> bytes | None:
    """The record as it lies there now; None when it is gone."""
    return ObjectStore(parse_location(uri)).read(f"__recovery/{operation}.json")


def foreign_record(uri: str, folder: Path, branch: str = MAIN) -> ForeignRecord:
    """A graph with two commits' rows; on a branch, with tables that the branch owns."""
    ledger = folder / "ledger.jsonl"
    with og.init(uri, SCHEMA, actor=ACTOR) as graph:
        perform(graph, "seed", MAIN, Ledger(ledger), "seed")
        if branch != MAIN:
            graph.branches.create(BRANCH)
        perform(graph, "insert_many", branch, Ledger(ledger), "earlier")
        return ForeignRecord(uri, branch, ledger, dict(graph.snapshot(branch).tables))


def foreign_record_of(uri: str, ledger: Path, branch: str = MAIN) -> ForeignRecord:
    """A graph that exists, seen by another program."""
    with og.open(uri, mode="ro") as graph:
        return ForeignRecord(uri, branch, ledger, dict(graph.snapshot(branch).tables))


def _as_table(columns: dict[str, list[str]], schema: pa.Schema) -> pa.Table:
    rows = pa.table({name: columns[name] for name in schema.names if name in columns})
    for name in schema.names:
        if name not in columns:
            rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
    return rows.select(schema.names).cast(schema)
