"""The graph that racing writers share, and the operations they run on it.

Every row carries a ``mark`` that names its operation, and no mark is written by two operations, so the rows alone say
which operations happened. A group puts one row into each of three tables; nobody may ever see fewer than three.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

import omnigraph as og
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.write.change import Change, Mode
from tests.support import ledger as ledgers
from tests.support.ledger import Ledger, Values
from tests.support.waiting import wait_until

OWN_TABLES = 8
SCHEMA = "\n".join(
    [
        "node Person { name: String @key  mark: String  value: I64? }",
        "node City { name: String @key  mark: String }",
        "edge LivesIn: Person -> City { mark: String }",
        *(f"node Own{number} {{ name: String @key  mark: String }}" for number in range(OWN_TABLES)),
    ]
)
GROUP = ("node:Person", "node:City", "edge:LivesIn")
TABLES = (*GROUP, *(f"node:Own{number}" for number in range(OWN_TABLES)))
COUNTER = "counter"
UPDATE = "query set_value($m: String, $n: I64) { update Person set { value: $n } where name = $m }"


@dataclass(frozen=True, slots=True)
class Step:
    """One write with what the ledger says about it.

    Attributes:
        reads: the write depends on rows that are there, so it may meet a conflict and is tried again.
        update: value that a query gives to the row of this name, instead of ``changes``.
    """

    changes: Callable[[og.Snapshot], list[Change]]
    adds: Values
    removes: Values = field(default_factory=dict)
    reads: bool = False
    update: tuple[str, int] | None = None


def rows(*marks: str) -> pa.Table:
    return pa.table({"name": list(marks), "mark": list(marks)})


def one_table(writer: int, op: int, before: list[str]) -> Step:
    """All writers put into the same table; every other time as an upsert that also rewrites an earlier row."""
    mark = ledgers.name(writer, op)
    if op % 2 or not before:
        return Step(lambda _: [Change("node:Person", rows(mark))], {"node:Person": [mark]})
    return Step(lambda _: [Change("node:Person", rows(mark, before[0]), Mode.MERGE)], {"node:Person": [mark]})


def own_table(writer: int, op: int, before: list[str]) -> Step:
    """Each writer has a table of its own; only the manifest is shared."""
    table, mark = f"node:Own{writer % OWN_TABLES}", ledgers.name(writer, op)
    return Step(lambda _: [Change(table, rows(mark))], {table: [mark]})


def group(writer: int, op: int, before: list[str]) -> Step:
    """Two nodes and the edge between them."""
    mark = ledgers.name(writer, op)
    return Step(lambda _: group_changes(mark), {table: [mark] for table in GROUP})


def group_changes(mark: str, mode: Mode = Mode.APPEND) -> list[Change]:
    edge = pa.table({"id": [mark], "src": [mark], "dst": [mark], "mark": [mark]})
    return [
        Change("node:Person", rows(mark), mode),
        Change("node:City", rows(mark), mode),
        Change("edge:LivesIn", edge, mode),
    ]


def mixed(writer: int, op: int, before: list[str]) -> Step:
    """Groups come and go: every third operation removes the oldest group of its writer that is left."""
    if op % 3 or not before:
        return group(writer, op, before)
    old = before[0]
    changes = [Change(table, remove=pa.array([old])) for table in GROUP]
    return Step(lambda _: changes, {}, {table: [old] for table in GROUP})


def own_rows(writer: int, op: int, before: list[str]) -> Step:
    """Rows of one table: two come, the writer's oldest goes, its newest is updated. Every third writer only adds."""
    mark = ledgers.name(writer, op)
    if writer % 3 == 2 or op % 4 < 2:
        return Step(lambda _: [Change("node:Person", rows(mark))], {"node:Person": [mark]})
    if op % 4 == 2:
        old = before[0]
        return Step(lambda _: [Change("node:Person", remove=pa.array([old]))], {}, {"node:Person": [old]})
    return Step(lambda _: [], {}, update=(before[-1], op))


def increment(writer: int, op: int, before: list[str]) -> Step:
    """Adds one to a shared number, and a row that says so, in one commit."""
    mark = ledgers.name(writer, op)

    def changes(seen: og.Snapshot) -> list[Change]:
        values = [row["value"] for row in seen.arrow("Person").to_pylist() if row["name"] == COUNTER]
        counter = pa.table({"name": [COUNTER], "mark": [COUNTER], "value": [values[0] + 1]})
        return [Change("node:Person", counter, Mode.MERGE, reads_rows=True), Change("node:City", rows(mark))]

    return Step(changes, {"node:City": [mark]}, reads=True)


STEPS: Mapping[str, Callable[[int, int, list[str]], Step]] = {
    step.__name__: step for step in (one_table, own_table, group, mixed, own_rows, increment)
}


def init(uri: str, branch: str = "main") -> None:
    """The graph with its counter at zero; another branch than main is made from there."""
    with og.init(uri, SCHEMA, actor="act-race") as graph:
        graph.write([Change("node:Person", pa.table({"name": [COUNTER], "mark": [COUNTER], "value": [0]}))])
        if branch != "main":
            graph.branches.create(branch)


def perform(graph: og.Graph, kind: str, branch: str, ledger: Ledger, writer: int, op: int, before: list[str]) -> Step:
    """Run one operation between its notes. Only a write that reads rows may be refused, and is then tried again."""
    step = STEPS[kind](writer, op, before)
    name = ledgers.name(writer, op)
    ledger.start(name, step.adds, step.removes)
    for attempt in range(10_000):
        seen = graph.snapshot(branch)
        try:
            commit = _run(graph, branch, step, seen)
        except ExpectedVersionMismatch:
            if not step.reads:
                raise
            _step_aside(attempt)
            continue
        assert commit is not None, f"{name} changed nothing"
        ledger.acknowledge(name, commit.id)
        return step
    raise AssertionError(f"{name} was refused again and again")


def _run(graph: og.Graph, branch: str, step: Step, seen: og.Snapshot) -> Commit | None:
    if step.update:
        params = {"m": step.update[0], "n": step.update[1]}
        return graph.mutate(UPDATE, params=params, branch=branch).commit
    return graph.write(step.changes(seen), branch=branch, base=seen if step.reads else None).commit


def _step_aside(attempt: int) -> None:
    """Whoever was refused leaves the others some time, more each time: otherwise the quickest always wins."""
    moment = time.monotonic() + random.uniform(0, min(0.5, 0.005 * 2**attempt))
    wait_until(lambda: time.monotonic() >= moment, timeout=5, what="the next attempt", pause=0.002)


def marks(snapshot: og.Snapshot) -> dict[str, list[str]]:
    """Every mark but the counter's, by table."""
    found = {table: snapshot.arrow(table, ["mark"]).column("mark").to_pylist() for table in TABLES}
    return {table: [mark for mark in values if mark != COUNTER] for table, values in found.items()}
