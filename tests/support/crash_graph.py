"""A small graph and the operations that crash tests interrupt in it; used by the parent and by the child that dies.

Every row carries a ``mark``, a value that names the operation that wrote the row as it is. Replacing a row therefore
removes one mark and adds another, and a ledger of marks tells old from new down to a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.errors import OmniGraphError, OutcomeUnknown, RecoveryRequired
from omnigraph.graph import Graph
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.write.change import Change, Mode
from omnigraph.write.stage_changes import WriteRequest, write
from tests.support.ledger import Ledger, Values, name

SCHEMA = """
node Person { name: String @key  mark: String  age: I32? }
node Company { name: String @key  mark: String }
edge Knows: Person -> Person { mark: String }
edge WorksAt: Person -> Company { mark: String }
"""
TABLES = ("node:Person", "node:Company", "edge:Knows", "edge:WorksAt")
MAIN = "main"
BRANCH = "review/a"
ACTOR = "act-anna"


@dataclass(frozen=True, slots=True)
class Plan:
    """One operation, ready to run: what it writes and what the ledger says about it."""

    changes: Sequence[Change] = ()
    adds: Values = field(default_factory=dict)
    removes: Values = field(default_factory=dict)
    kind: WriterKind = WriterKind.MUTATION


def people(marks: Sequence[str], names: Sequence[str] | None = None) -> pa.Table:
    return pa.table({"name": list(names or marks), "mark": list(marks)})


def edges(marks: Sequence[str], src: str, dst: str) -> pa.Table:
    columns = {"id": list(marks), "src": [src] * len(marks), "dst": [dst] * len(marks), "mark": list(marks)}
    return pa.table(columns, schema=pa.schema([(column, pa.string()) for column in columns]))


def insert_one(op: str, marks: Values) -> Plan:
    """Two rows of one type."""
    rows = [name(op, 0, row) for row in range(2)]
    return Plan([Change("node:Person", people(rows))], {"node:Person": rows})


def insert_many(op: str, marks: Values) -> Plan:
    """Nodes and the edges between them, four tables."""
    one, two, firm, knows, works = (name(op, 0, row) for row in range(5))
    changes = [
        Change("node:Person", people([one, two])),
        Change("node:Company", people([firm])),
        Change("edge:Knows", edges([knows], one, two)),
        Change("edge:WorksAt", edges([works], one, firm)),
    ]
    adds = {"node:Person": [one, two], "node:Company": [firm], "edge:Knows": [knows], "edge:WorksAt": [works]}
    return Plan(changes, adds)


def upsert_delete(op: str, marks: Values) -> Plan:
    """One person replaced, one new, one gone, and an edge gone: two tables."""
    replaced, gone, edge = name("seed", 0, 1), name("seed", 0, 4), name("seed", 0, 6)
    fresh = [name(op, 0, row) for row in range(2)]
    changes = [
        Change("node:Person", people(fresh, [replaced, fresh[1]]), Mode.MERGE, remove=pa.array([gone])),
        Change("edge:Knows", remove=pa.array([edge])),
    ]
    return Plan(changes, {"node:Person": fresh}, {"node:Person": [replaced, gone], "edge:Knows": [edge]})


def overwrite(op: str, marks: Values) -> Plan:
    """Every row of every table replaced, as a load does it."""
    new = insert_many(op, marks)
    changes = [Change(change.table_key, change.put, Mode.OVERWRITE) for change in new.changes]
    return Plan(changes, new.adds, {table: list(values) for table, values in marks.items()}, WriterKind.LOAD)


def index(op: str, marks: Values) -> Plan:
    """Indexes for whatever the branch owns; no row changes."""
    return Plan(kind=WriterKind.ENSURE_INDICES)


def seed(op: str, marks: Values) -> Plan:
    """What the graph holds before anything is interrupted."""
    persons = [name(op, 0, row) for row in range(5)]
    firm, knows, works = (name(op, 0, row) for row in range(5, 8))
    changes = [
        Change("node:Person", people(persons)),
        Change("node:Company", people([firm])),
        Change("edge:Knows", edges([knows], persons[0], persons[1])),
        Change("edge:WorksAt", edges([works], persons[0], firm)),
    ]
    adds = {"node:Person": persons, "node:Company": [firm], "edge:Knows": [knows], "edge:WorksAt": [works]}
    return Plan(changes, adds)


PLANS: Mapping[str, Callable[[str, Values], Plan]] = {
    plan.__name__: plan for plan in (insert_one, insert_many, upsert_delete, overwrite, index, seed)
}

#: The operations that the crash table runs through.
KINDS = ("insert_one", "insert_many", "upsert_delete", "overwrite", "index")


def marks(graph: Graph, branch: str) -> dict[str, list[str]]:
    """Every mark that a branch shows now, by table."""
    snapshot = graph.snapshot(branch)
    return {table: snapshot.arrow(table, ["mark"]).column("mark").to_pylist() for table in TABLES}


def perform(graph: Graph, kind: str, branch: str, ledger: Ledger, op: str) -> str | None:
    """Run one operation between its two notes; returns the id of its commit.

    An outcome that the caller must not take for final gets no second note.
    """
    plan = PLANS[kind](op, marks(graph, branch))
    ledger.start(op, plan.adds, plan.removes)
    try:
        commit = _run(graph, plan, branch)
    except (RecoveryRequired, OutcomeUnknown):
        raise
    except OmniGraphError:
        ledger.refuse(op)
        raise
    receipt = commit.id if commit else None
    ledger.acknowledge(op, receipt)
    return receipt


def _run(graph: Graph, plan: Plan, branch: str) -> Commit | None:
    if plan.kind is WriterKind.ENSURE_INDICES:
        return graph.ensure_indices(branch).commit
    if plan.kind is WriterKind.LOAD:
        request = WriteRequest(branch, plan.changes, ACTOR, plan.kind)
        return write(graph.internals.writer(), graph.internals.schemas, request).commit
    return graph.write(plan.changes, branch=branch).commit
