"""Small fragments at the end of a table are folded, whatever the sizes of the writes that made them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import omnigraph as og
from omnigraph import limits
from omnigraph.storage.metadata.manifest import table_version_of
from omnigraph.write.change import Change, Mode

SCHEMA = "node Person { name: String @key  age: I32? }\n"


def people(numbers: range, age: int) -> Change:
    rows = {"name": [f"p{number:05d}" for number in numbers], "age": pa.array([age] * len(numbers), pa.int32())}
    return Change("node:Person", pa.table(rows), Mode.MERGE)


def test_writes_of_different_sizes_in_turn_do_not_pile_up_fragments(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write([people(range(6_000), 0)])
    for step in range(25):
        graph.write([people(range(step, step + 1), step)])
        graph.write([people(range(100 * step, 100 * step + 90), step)])
    pin = graph.snapshot().tables["node:Person"]
    handle = graph._store.tables.at(table_version_of(pin))
    assert len(handle.get_fragments()) <= 2 * limits.SMALL_FRAGMENTS
    rows = graph.snapshot().arrow("Person")
    assert (rows.num_rows, len(set(rows.column("id").to_pylist()))) == (6_000, 6_000)
