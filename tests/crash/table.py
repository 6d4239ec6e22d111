"""The crash table: every place where a write can be interrupted, and the only state it may end in.

The choices below combine failpoint, lineage and operation, so that a test file is one loop. The quick one meets every
failpoint, and on every lineage where that tells something new; the long one is the whole product.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import omnigraph as og
from omnigraph.errors import OmniGraphError, RecoveryRequired, StoreUnavailable
from omnigraph.ids import SYSTEM_ACTOR
from tests.support.crash_graph import ACTOR, BRANCH, KINDS, MAIN, SCHEMA, perform
from tests.support.kill_runner import Target
from tests.support.ledger import Ledger

End = Literal["old", "new"]

#: On main; as the first write of a branch, which forks the tables; as a later write of a branch.
LINEAGES = ("main", "fork", "later")


@dataclass(frozen=True, slots=True)
class Point:
    """One failpoint of a writer.

    Attributes:
        end: how the graph looks once the crash is resolved.
        error: what a caller sees when the place fails instead of dying; None when the write succeeds all the same.
        kinds: operations that come by.
        lineages: where it can be reached.
        decisive: what lies on the disk differs from operation to operation here, so the quick choice takes them all.
        plain: what lies on the disk is nothing, everything, or the same as at a neighbour: one kill says enough.
    """

    name: str
    end: End
    error: type[OmniGraphError] | None
    kinds: tuple[str, ...] = KINDS
    lineages: tuple[str, ...] = LINEAGES
    decisive: bool = False
    plain: bool = False


_WRITES = tuple(kind for kind in KINDS if kind != "index")

POINTS = (
    Point("write.after_stage", "old", StoreUnavailable, plain=True),
    Point("write.after_gate_checks", "old", StoreUnavailable, plain=True),
    Point("recovery.sidecar_list", "old", StoreUnavailable, plain=True),
    Point("recovery.sidecar_write", "old", StoreUnavailable, plain=True),
    Point("write.after_sidecar", "old", StoreUnavailable),
    Point("fork.before_create", "old", StoreUnavailable, _WRITES, ("fork",)),
    Point("fork.post_create_pre_open", "old", None, _WRITES, ("fork",)),
    Point("write.before_table_commit[EnsureIndices]", "old", StoreUnavailable, ("index",), ("main", "later")),
    Point("table.lost_ack", "new", RecoveryRequired),
    Point("write.after_table_commit", "new", RecoveryRequired, decisive=True),
    Point("write.after_table_commit[Load]", "new", RecoveryRequired, ("overwrite",), plain=True),
    Point("write.after_all_table_commits", "new", RecoveryRequired),
    Point("write.after_all_table_commits[EnsureIndices]", "new", RecoveryRequired, ("index",), ("main", "later")),
    Point("publish.before_commit", "new", RecoveryRequired, plain=True),
    Point("publish.lost_ack", "new", RecoveryRequired, decisive=True),
    Point("recovery.sidecar_delete", "new", None, plain=True),
    Point("write.after_publish_before_delete", "new", None, plain=True),
    Point("graph_publish.before_commit_append", "new", None, plain=True),
    Point("graph_publish.between_commit_and_actor", "new", None, plain=True),
)


@dataclass(frozen=True, slots=True)
class Case:
    point: Point
    lineage: str
    kind: str

    def __str__(self) -> str:
        return f"{self.point.name}-{self.lineage}-{self.kind}"


def every_case() -> list[Case]:
    return [
        Case(point, lineage, kind)
        for point in POINTS
        for lineage in point.lineages
        for kind in point.kinds
        if _reachable(lineage, kind)
    ]


def quick_cases() -> list[Case]:
    """Each failpoint on each lineage, operations in turn; a decisive one with each operation, a plain one once."""
    return [case for number, point in enumerate(POINTS) for case in _in_turn(number, point)]


def one_case_each() -> list[Case]:
    """Each failpoint at which something is durable, lineages in turn, with the smallest operation; on S3 all costs."""
    durable = [point for point in POINTS if not (point.plain and point.end == "old")]
    return [Case(point, _turn(list(point.lineages), number), point.kinds[0]) for number, point in enumerate(durable)]


def _in_turn(number: int, point: Point) -> list[Case]:
    if point.decisive:
        allowed = {kind: [line for line in point.lineages if _reachable(line, kind)] for kind in point.kinds}
        return [Case(point, _turn(lines, number + i), kind) for i, (kind, lines) in enumerate(allowed.items())]
    lineages = (_turn(list(point.lineages), number),) if point.plain else point.lineages
    fitting = {line: [kind for kind in point.kinds if _reachable(line, kind)] for line in lineages}
    return [Case(point, line, _turn(kinds, number + i)) for i, (line, kinds) in enumerate(fitting.items())]


def _turn(some: list[str], number: int) -> str:
    return some[number % len(some)]


def _reachable(lineage: str, kind: str) -> bool:
    return (lineage, kind) != ("fork", "index")  # indexes are built for tables that the branch owns


@dataclass(frozen=True, slots=True)
class Arranged:
    """A graph about to be written to.

    Attributes:
        heads: newest commit of each branch before the write.
        audited: operations that were recovered before.
    """

    target: Target
    heads: dict[str, str]
    audited: frozenset[str]


def arrange(uri: str, folder: Path, case: Case) -> Arranged:
    """A graph with some rows, on the lineage that the case wants."""
    ledger = folder / "ledger.jsonl"
    with og.init(uri, SCHEMA, actor=ACTOR) as graph:
        perform(graph, "seed", MAIN, Ledger(ledger), "seed")
        return arrange_in(graph, ledger, case)


def arrange_in(graph: og.Graph, ledger: Path, case: Case, branch: str = BRANCH) -> Arranged:
    """The lineage that the case wants in a graph that has its rows; ``branch`` is free."""
    if case.lineage == "main":
        branch = MAIN
    else:
        graph.branches.create(branch)
    if case.lineage == "later":
        # One table is enough for an operation on one; an index build on several would leave it to the threads which
        # of them comes first.
        earlier = "insert_one" if case.kind in ("insert_one", "index") else "insert_many"
        perform(graph, earlier, branch, Ledger(ledger), "earlier")
    heads = {name: graph.commits.head(name).id for name in {branch, MAIN}}
    audited = frozenset(recovery.operation_id for recovery in graph.recoveries)
    return Arranged(Target(graph.uri, branch, ledger), heads, audited)


def assert_ended(graph: og.Graph, arranged: Arranged, case: Case, end: End, commit: str | None) -> None:
    """The branch shows the old head, or the commit that the writer minted, with its author and its parent."""
    branch, heads = arranged.target.branch, arranged.heads
    head = graph.commits.head(branch)
    if end == "old":
        assert head.id == heads[branch]
    else:
        assert commit is not None
        assert (head.id, head.parent) == (commit, heads[branch])
        assert head.actor == (SYSTEM_ACTOR if case.kind == "index" else ACTOR)
        if case.kind == "index":
            assert graph.ensure_indices(branch).commit is None, "an index is not complete"
    if branch != MAIN:
        assert graph.commits.head(MAIN).id == heads[MAIN], "a write to a branch moved main"
