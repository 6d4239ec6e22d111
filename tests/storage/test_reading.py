"""Rows of one version of a table, by row id."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph.storage.table_reader import TableReader, _is_as_written
from omnigraph.write.change import Change, Mode


def test_rows_are_taken_in_the_order_asked_for_before_and_after_an_update(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", "node P { k: String @key  n: I32? }") as graph:
        keys = [f"p{i}" for i in range(200)]
        graph.write([Change("node:P", pa.table({"k": keys, "n": pa.array(range(200), pa.int32())}))])

        def taken(*keys: str) -> list[int]:
            reader = TableReader(graph._store, graph.snapshot()._stored.pins["node:P"])
            wanted = np.concatenate([reader.row_ids_of([key]) for key in keys])
            values: list[int] = reader.take(wanted, "n").to_pylist()
            return values

        def is_as_written() -> bool:
            return _is_as_written(graph._store.table(graph.snapshot()._stored.pins["node:P"]))

        assert taken("p150", "p3", "p77") == [150, 3, 77]
        assert is_as_written()
        graph.write([Change("node:P", pa.table({"k": ["p3"], "n": pa.array([-3], pa.int32())}), Mode.MERGE)])
        assert not is_as_written()
        assert taken("p150", "p3", "p77") == [150, -3, 77]
        assert taken("p3") == [-3]
