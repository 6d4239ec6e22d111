"""Changing the schema of a large type, against rewriting its table the way that a change without column ids must."""

from __future__ import annotations

from itertools import count

import lance
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Action, in_turns
from benchmarks.options import Options
from benchmarks.report import Goal, Row
from benchmarks.storage.graphs import PEOPLE, fsync, new_graph, settle

ROWS = 1_000_000
ROUNDS = 7


def new_property_against_a_rewrite(options: Options) -> list[Row]:
    """Each round adds one more nullable property. The rewrite streams all rows and fills the new column with nulls."""
    rows = options.size(ROWS, 5_000)
    with fsync(False):
        graph = new_graph(options, "evolve", rows, indexed=True)
        table = graph.snapshot().tables["node:Person"].location
        actions = {"apply": _adding(graph), "rewrite": _rewriting(f"{graph.uri}/{table}", options)}
        taken = in_turns(actions, options.size(ROUNDS, 2), warm_up=1)
    return [
        Row(
            f"add a nullable property to {rows:,} rows",
            taken["apply"].median,
            taken["rewrite"].median,
            "rewriting the table",
            goal=Goal(1 / 20),
        )
    ]


def _adding(graph: og.Graph) -> Action:
    numbers = count(1)

    def apply() -> None:
        added = " ".join(f"extra{number}: String?" for number in range(next(numbers)))
        if not graph.schema.apply(PEOPLE.replace("age: I32?", f"age: I32? {added} more: I64?")).applied:
            raise AssertionError("the schema did not change")

    return Action(apply, after=lambda: settle(graph))


def _rewriting(table: str, options: Options) -> Action:
    target = str(options.place / "rewritten")

    def rewrite() -> None:
        source = lance.dataset(table, version=2)
        wider = source.schema.append(pa.field("extra", pa.string()))
        batches = (batch.append_column("extra", pa.nulls(batch.num_rows, pa.string())) for batch in source.to_batches())
        lance.write_dataset(
            pa.RecordBatchReader.from_batches(wider, batches), target, mode="overwrite", enable_stable_row_ids=True
        )

    return Action(rewrite)
