"""Every public verb of a graph and its namespaces, the actions that it needs, and a call of it on branch ``x``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import omnigraph as og

SCHEMA = """
node Person { handle: String @key  name: String @index  photo: Blob? }
node Salary { code: String @key  amount: I64 }
edge Knows: Person -> Person
edge Earns: Person -> Salary
"""

PEOPLE = "query q() { match { $p: Person } return { $p.handle as who } }"
RENAME = 'query q() { update Person set { name: "N" } where handle = "ana" }'


@dataclass(frozen=True)
class Staff:
    """A graph of people with salaries, branch ``x`` with a commit of its own, and the tag ``t`` of its head."""

    folder: Path
    commit: str

    @property
    def uri(self) -> Path:
        return self.folder / "staff.omni"

    def open(self, actor: str | None = "act-bo", policy: str | None = None, **options: Any) -> og.Graph:
        return og.open(self.uri, actor=actor, policy=policy, **options)


def staff(folder: Path) -> Staff:
    with og.init(folder / "staff.omni", SCHEMA) as graph:
        rows = {
            "Person": [{"handle": "ana", "name": "Ana", "photo": b"pix"}, {"handle": "bo", "name": "Bo"}],
            "Salary": [{"code": "s1", "amount": 7}],
            "Knows": [{"from": "ana", "to": "bo"}],
            "Earns": [{"from": "ana", "to": "s1"}],
        }
        graph.load(rows, "append")
        graph.branches.create("x")
        done = graph.mutate('query q() { insert Person { handle: "cy", name: "Cy" } }', branch="x")
        graph.tags.create("t", branch="x")
        assert done.commit is not None
        return Staff(folder, done.commit.id)


Call = Callable[[og.Graph, Staff], Any]


@dataclass(frozen=True)
class Verb:
    """What a verb needs, and how it is called.

    Attributes:
        actions: all of them have to be allowed; none for what tells nothing of the graph.
        by_commit: it finds its branch by a commit, and one that may not be seen is as if it did not exist.
    """

    actions: tuple[str, ...]
    call: Call | None = None
    by_commit: bool = False


def _in_transaction(step: Callable[[og.Transaction], Any]) -> Call:
    def call(graph: og.Graph, staff: Staff) -> Any:
        with graph.transaction("x") as tx:
            return step(tx)

    return call


FREE = Verb(())
TAKEN = Verb(("read",), lambda graph, staff: graph.snapshot("x").count("Person"))

VERBS: dict[str, Verb] = {
    **dict.fromkeys(("Graph.uri", "Graph.is_committing", "Graph.close", "Graph.internals", "Graph.acting_as"), FREE),
    **dict.fromkeys(("Graph.branches", "Graph.commits", "Graph.tags", "Graph.schema"), FREE),
    **dict.fromkeys(("Graph.retention", "Graph.upkeep"), FREE),
    "Graph.catalog": Verb(("read",), lambda graph, staff: graph.catalog),
    "Graph.catalog_of": Verb(("read",), lambda graph, staff: graph.catalog_of("x")),
    "Graph.query": Verb(("read",), lambda graph, staff: graph.query(PEOPLE, branch="x")),
    "Graph.explain": Verb(("read",), lambda graph, staff: graph.explain(PEOPLE, branch="x")),
    "Graph.search": Verb(("read",), lambda graph, staff: graph.search("ana", branch="x")),
    "Graph.blob": Verb(("read",), lambda graph, staff: graph.blob("Person", "ana", "photo", branch="x").read()),
    "Graph.lint": Verb(("read",), lambda graph, staff: graph.lint(PEOPLE)),
    "Graph.snapshot": Verb(("read",), lambda graph, staff: graph.snapshot(at=staff.commit), by_commit=True),
    "Graph.export": Verb(("export",), lambda graph, staff: graph.export(branch="x")),
    "Graph.mutate": Verb(("change",), lambda graph, staff: graph.mutate(RENAME, branch="x")),
    "Graph.load": Verb(
        ("change",), lambda graph, staff: graph.load({"Person": [{"handle": "di", "name": "D"}]}, "append", branch="x")
    ),
    "Graph.write": Verb(
        ("change",),
        lambda graph, staff: graph.write([og.Change("node:Person", [{"handle": "di", "name": "D"}])], branch="x"),
    ),
    "Graph.transaction": Verb(("change",), lambda graph, staff: graph.transaction("x")),
    "Graph.revert": Verb(("change",), lambda graph, staff: graph.revert(staff.commit, branch="x")),
    "Graph.restore": Verb(
        ("change", "read"), lambda graph, staff: graph.restore(staff.commit, branch="x"), by_commit=True
    ),
    "Graph.diff": Verb(("read",), lambda graph, staff: graph.diff("x", staff.commit).rows()),
    "Graph.changes": Verb(("read",), lambda graph, staff: graph.changes("now", branch="x")),
    "Graph.commit_changes": Verb(("read",), lambda graph, staff: graph.commit_changes(staff.commit), by_commit=True),
    "Graph.baseline": Verb(("export",), lambda graph, staff: graph.baseline(branch="x")),
    "Graph.embed": Verb(("change",), lambda graph, staff: graph.embed(branch="x")),
    "Graph.ensure_indices": Verb(("admin",), lambda graph, staff: graph.ensure_indices("x", engine="embedded")),
    "Graph.optimize": Verb(("admin",), lambda graph, staff: graph.optimize("x", engine="embedded")),
    "Graph.stats": Verb(("read",), lambda graph, staff: graph.stats("x")),
    "Graph.cleanup": Verb(("admin",), lambda graph, staff: graph.cleanup(keep=10)),
    "Graph.verify": Verb(("admin",), lambda graph, staff: graph.verify()),
    "Graph.recover": Verb(("admin",), lambda graph, staff: graph.recover()),
    "Graph.repair": Verb(("admin",), lambda graph, staff: graph.repair()),
    "Graph.recoveries": Verb(("admin",), lambda graph, staff: graph.recoveries),
    "Branches.create": Verb(("branch_create",), lambda graph, staff: graph.branches.create("y", "x")),
    "Branches.list": Verb(("read",), lambda graph, staff: graph.branches.list()),
    "Branches.delete": Verb(("branch_delete",), lambda graph, staff: graph.branches.delete("x", force=True)),
    "Branches.rename": Verb(("branch_delete", "branch_create"), lambda graph, staff: graph.branches.rename("x", "z")),
    "Branches.merge": Verb(
        ("branch_merge",), lambda graph, staff: graph.branches.merge("main", "x", dry_run=True, engine="embedded")
    ),
    "Commits.list": Verb(("read",), lambda graph, staff: graph.commits.list("x")),
    "Commits.graph": Verb(("read",), lambda graph, staff: graph.commits.graph(["x"])),
    "Commits.get": Verb(("read",), lambda graph, staff: graph.commits.get(staff.commit)),
    "Commits.head": Verb(("read",), lambda graph, staff: graph.commits.head("x")),
    "Tags.create": Verb(("change",), lambda graph, staff: graph.tags.create("u", branch="x")),
    "Tags.list": Verb(("read",), lambda graph, staff: graph.tags.list()),
    "Tags.get": Verb(("read",), lambda graph, staff: graph.tags.get("t")),
    "Tags.delete": Verb(("change",), lambda graph, staff: graph.tags.delete("t")),
    "SchemaControl.text": Verb(("read",), lambda graph, staff: graph.schema.text),
    "SchemaControl.hash": Verb(("read",), lambda graph, staff: graph.schema.hash),
    "SchemaControl.plan": Verb(("schema_apply",), lambda graph, staff: graph.schema.plan(SCHEMA)),
    "SchemaControl.apply": Verb(("schema_apply",), lambda graph, staff: graph.schema.apply(SCHEMA)),
    "Retention.get": Verb(("read",), lambda graph, staff: graph.retention.get()),
    "Retention.set": Verb(("admin",), lambda graph, staff: graph.retention.set(keep=5)),
    "Retention.clear": Verb(("admin",), lambda graph, staff: graph.retention.clear()),
    "Upkeep.__call__": Verb(("admin",), lambda graph, staff: graph.upkeep()),
    "Upkeep.runs": Verb(("admin",), lambda graph, staff: graph.upkeep.runs()),
    "Transaction.insert": Verb(
        ("change",), _in_transaction(lambda tx: tx.insert("Person", {"handle": "di", "name": "D"}))
    ),
    "Transaction.update": Verb(
        ("change",), _in_transaction(lambda tx: tx.update("Person", {"handle": "ana", "name": "D"}))
    ),
    "Transaction.delete": Verb(("change",), _in_transaction(lambda tx: tx.delete("Person", ["bo"]))),
    "Transaction.mutate": Verb(("change",), _in_transaction(lambda tx: tx.mutate(RENAME))),
    "Transaction.query": Verb(("change", "read"), _in_transaction(lambda tx: tx.query(PEOPLE))),
    "Transaction.rollback": Verb(("change",), _in_transaction(lambda tx: tx.rollback())),
    **{
        f"Snapshot.{name}": TAKEN
        for name in ("branch", "version", "commit_id", "tables", "count", "arrow", "reader", "dataset", "blob")
    },
}

SPACES = (
    og.Graph,
    og.Branches,
    og.Commits,
    og.Tags,
    og.SchemaControl,
    og.Retention,
    og.Upkeep,
    og.Transaction,
    og.Snapshot,
)


def public_verbs() -> set[str]:
    names = {f"{space.__name__}.{name}" for space in SPACES for name in vars(space) if not name.startswith("_")}
    called = {f"{space.__name__}.__call__" for space in SPACES if "__call__" in vars(space)}
    return names | called


def granting(*actions: str, scope: str = "any", types: tuple[str, ...] = ()) -> str:
    """A policy that grants some actions to act-bo, each by a rule of its own."""
    from omnigraph.policy.actions import ACTIONS

    lines = ["version: 1", "groups: {team: [act-bo]}", "protected_branches: [main]", "rules:"]
    for action in actions:
        key = ACTIONS[action].scope_key
        scoped = f", {key}: {scope}" if key and scope != "any" else ""
        typed = f", types: [{', '.join(types)}]" if types and ACTIONS[action].has_types else ""
        lines.append(
            f"  - {{id: may-{action}, allow: {{actors: {{group: team}}, actions: [{action}]{scoped}{typed}}}}}"
        )
    return "\n".join(lines if actions else lines[:-1])
