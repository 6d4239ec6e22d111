"""Mutations whose process is killed: after the next open all of it is there or nothing, and the graph goes on."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from tests.support.small_graphs import people, rows_of, run_child

CHILD = """
import sys, omnigraph as og
og.open(sys.argv[1], actor="act-child").mutate(sys.argv[2], branch=sys.argv[3])
"""
BUILD = """query q() {
    insert Person { handle: "new", age: 1 }
    update Person set { age: 50 } where handle >= "a"
    insert Knows { from: "new", to: "ann" }
    insert Note { text: "n" }
}"""
DESTROY = """query q() { delete Person where handle = "ann" delete Note where text = "old" }"""

#: Query, branch, failpoint, and whether the mutation is there afterwards.
KILLS = [
    (BUILD, "main", "write.after_stage", False),
    (DESTROY, "review/x", "write.after_sidecar", False),
    (BUILD, "main", "write.after_table_commit", True),
    (DESTROY, "review/x", "write.after_table_commit", True),
    (BUILD, "main", "publish.before_commit", True),
    (DESTROY, "main", "write.after_publish_before_delete", True),
]


def small(root: Path, branch: str) -> None:
    with people(root, "ann", "bob") as graph:
        graph.mutate(
            """query q() {
                insert Knows { from: "ann", to: "bob" } insert Knows { from: "bob", to: "ann" }
                insert Knows { from: "bob", to: "bob" } insert Note { text: "old" }
            }"""
        )
        if branch != "main":
            graph.branches.create(branch)


def state(graph: og.Graph, branch: str) -> dict[str, list[Any]]:
    """What the graph holds, without fresh ids."""
    people_ = {id_: row["age"] for id_, row in rows_of(graph, "Person", branch).items()}
    knows = sorted((row["src"], row["dst"]) for row in rows_of(graph, "Knows", branch).values())
    return {
        "people": sorted(people_.items()),
        "knows": knows,
        "notes": sorted(row["text"] for row in rows_of(graph, "Note", branch).values()),
    }


OLD = {
    "people": [("ann", None), ("bob", None)],
    "knows": [("ann", "bob"), ("bob", "ann"), ("bob", "bob")],
    "notes": ["old"],
}
NEW: Mapping[str, dict[str, list[Any]]] = {
    BUILD: {
        "people": [("ann", 50), ("bob", 50), ("new", 50)],
        "knows": [("ann", "bob"), ("bob", "ann"), ("bob", "bob"), ("new", "ann")],
        "notes": ["n", "old"],
    },
    DESTROY: {"people": [("bob", None)], "knows": [("bob", "bob")], "notes": []},
}


@pytest.mark.parametrize(
    ("text", "branch", "point", "happens"), KILLS, ids=lambda value: "query" if value in NEW else str(value)
)
def test_a_killed_mutation_is_there_as_a_whole_or_not_at_all(
    tmp_path: Path, text: str, branch: str, point: str, happens: bool
) -> None:
    root = tmp_path / "g"
    small(root, branch)
    ended = run_child(CHILD, str(root), text, branch, env={"OMNIGRAPH_FAILPOINTS": f"{point}=kill"})
    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2000:]
    with og.open(root, actor="act-next") as graph:
        assert state(graph, branch) == (NEW[text] if happens else OLD)
        if happens:
            assert graph.commits.head(branch).actor == "act-child"
        if branch != "main":
            assert state(graph, "main") == OLD
        again = graph.mutate('query q() { update Person set { age: 3 } where handle = "bob" }', branch=branch)
        assert again.affected_nodes == 1


@pytest.fixture
def armed() -> Iterator[Callable[[str], None]]:
    """Arms failpoints of this process; afterwards nothing is armed."""
    yield failpoints.arm
    failpoints.arm("")


@pytest.mark.parametrize("action", ["raise", "lose"])
@pytest.mark.parametrize("text", [BUILD, DESTROY], ids=["build", "destroy"])
@pytest.mark.parametrize(
    "point", ["write.after_stage", "write.after_sidecar", "write.after_table_commit", "publish.lost_ack"]
)
def test_after_a_failed_mutation_the_next_one_works(
    tmp_path: Path, armed: Callable[[str], None], text: str, point: str, action: str
) -> None:
    small(tmp_path / "g", "main")
    graph = og.open(tmp_path / "g")
    armed(f"{point}={action}")
    acknowledged = False
    with suppress(og.OmniGraphError, ConnectionError):
        acknowledged = graph.mutate(text).commit is not None
    armed("")
    again = graph.mutate('query q() { update Person set { email: "m" } where handle = "bob" }')
    assert (again.affected_nodes, rows_of(graph, "Person")["bob"]["email"]) == (1, "m")
    shown = state(graph, "main")
    assert shown == NEW[text] or (shown == OLD and not acknowledged)
    with og.open(tmp_path / "g") as other:
        assert state(other, "main") == shown
