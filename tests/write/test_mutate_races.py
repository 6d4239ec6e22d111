"""Mutations of several threads and processes: nothing lost, nothing half, nothing stale."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import errors, failpoints, limits
from omnigraph.write.change import Change, Mode
from tests.support import ledger as ledgers
from tests.support import mutation_child
from tests.support.ledger import Ledger
from tests.support.light_python import run_module
from tests.support.mutation_child import SHARED, operations
from tests.support.small_graphs import ids_of, people, rows_of
from tests.support.source_tree import ROOT
from tests.support.waiting import wait_until


def together(*actions: Callable[[], object]) -> list[object]:
    """Run actions in threads of their own; the first failure is raised."""
    with ThreadPoolExecutor(len(actions)) as threads:
        return [future.result(timeout=120) for future in [threads.submit(action) for action in actions]]


def assert_ledgers_hold(graph: og.Graph, paths: list[Path], count: int) -> None:
    noted = ledgers.read(*paths)
    assert len(noted) == len(paths) * count
    assert {operation.state for operation in noted} == {"acknowledged"}
    snapshot = graph.snapshot()
    shown = {key: snapshot.arrow(key, ["mark"]).column("mark").to_pylist() for key in ("node:Person", "edge:Knows")}
    assert ledgers.violations(noted, shown) == []
    chain = graph.commits.list()
    receipts = {operation.receipt for operation in noted}
    assert {commit.id for commit in chain[:-2]} == receipts  # without genesis and the first rows
    assert len(receipts) == len(noted) == len(chain) - 2
    assert {row["src"] for row in rows_of(graph, "Knows").values()} <= ids_of(graph, "Person")
    assert rows_of(graph, "Board")["last"]["last"] in {operation.name for operation in noted}


LONG = pytest.param(60, marks=pytest.mark.torture)


@pytest.mark.parametrize("count", [5, LONG])
def test_eight_threads_on_the_same_tables_lose_nothing(tmp_path: Path, count: int) -> None:
    graph = mutation_child.init(str(tmp_path / "g"))
    paths = [tmp_path / f"{writer}.jsonl" for writer in range(8)]
    together(*(lambda n=n: operations(graph, Ledger(paths[n]), n, count) for n in range(8)))
    assert_ledgers_hold(graph, paths, count)
    shared = rows_of(graph, "Board")[SHARED]
    assert [shared[f"c{column}"] for column in range(8)] == [count - 1] * 8


@pytest.mark.parametrize("count", [10, LONG])
def test_four_processes_on_the_same_tables_lose_nothing(tmp_path: Path, count: int) -> None:
    uri = str(tmp_path / "g")
    mutation_child.init(uri).close()
    paths = [tmp_path / f"{writer}.jsonl" for writer in range(4)]
    with ExitStack() as stack:
        children = [
            stack.enter_context(_child("tests.support.mutation_child", uri, str(paths[n]), str(n), str(count)))
            for n in range(4)
        ]
        for child in children:
            complaint = child.communicate(timeout=120)[1]
            assert child.returncode == 0, complaint[-3000:]
    with og.open(uri) as graph:
        assert_ledgers_hold(graph, paths, count)
        assert [rows_of(graph, "Board")[SHARED][f"c{column}"] for column in range(4)] == [count - 1] * 4


@contextmanager
def _child(module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = run_module(module, *arguments)
    with subprocess.Popen(
        command, cwd=ROOT, env=dict(os.environ), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()


def test_of_many_who_claim_a_row_exactly_one_gets_it(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Seat { name: String @key  state: String  owner: String? }")
    graph.mutate('query q() { insert Seat { name: "one", state: "free" } }')
    claim = """query q($me: String, $was: String, $is: String) {
        update Seat set { owner: $me, state: $is } where state = $was
    }"""
    for turn in range(4):
        was, now = f"turn-{turn}" if turn else "free", f"turn-{turn + 1}"
        results = together(
            *(
                lambda n=n, was=was, now=now: (
                    graph.mutate(claim, params={"me": f"t{n}", "was": was, "is": now}).affected_nodes
                )
                for n in range(6)
            )
        )
        assert sorted(map(int, map(str, results))) == [0] * 5 + [1]
        assert rows_of(graph, "Seat")["one"]["owner"] == f"t{results.index(1)}"
    assert len(graph.commits.list()) == 2 + 4


def test_edges_and_deletes_that_race_never_leave_a_dangling_edge(tmp_path: Path) -> None:
    graph = people(tmp_path / "g", "hub", "ann", "bob", "cyd")

    def link(source: str) -> None:
        for _ in range(5):
            try:
                graph.mutate(f'query q() {{ insert Knows {{ from: "{source}", to: "hub" }} }}')
            except errors.EndpointMissing:
                graph.mutate('query q() { insert Person { handle: "hub" } }')

    def cut() -> None:
        for _ in range(5):
            graph.mutate('query q() { delete Person where handle = "hub" }')

    together(lambda: link("ann"), lambda: link("bob"), lambda: link("cyd"), cut)
    present = ids_of(graph, "Person")
    assert {row["dst"] for row in rows_of(graph, "Knows").values()} <= present
    assert {"ann", "bob", "cyd"} <= present


@pytest.fixture
def paused(tmp_path: Path) -> Iterator[Callable[[Callable[[], object]], Future[object]]]:
    """Starts an action in a thread and returns when it stands before the commit; ``release`` lets it go on."""
    path = tmp_path / "pause"
    with ThreadPoolExecutor(1) as threads:

        def start(action: Callable[[], object]) -> Future[object]:
            failpoints.arm(f"write.after_stage=pause:{path}")
            future = threads.submit(action)
            wait_until(
                lambda: path.with_name("pause.reached").exists() or future.done(), timeout=30, what="the staged write"
            )
            assert not future.done()
            return future

        yield start
        path.with_name("pause.release").touch()
        failpoints.arm("")


def _release(tmp_path: Path) -> None:
    (tmp_path / "pause.release").touch()


Paused = Callable[[Callable[[], object]], Future[object]]


@pytest.mark.parametrize(
    "change",
    [
        Change(
            "node:Person", pa.table({"handle": ["ann"], "age": pa.array([1], pa.int32())}), Mode.MERGE, reads_rows=True
        ),
        Change("node:Person", remove=pa.array(["ann"])),
    ],
)
def test_a_table_that_moved_under_rows_that_were_computed_from_it_is_a_conflict(
    tmp_path: Path, paused: Paused, change: Change
) -> None:
    graph = people(tmp_path / "g", "ann", "bob")
    base = graph.snapshot()
    running = paused(lambda: graph.write([change], base=base))
    graph.mutate('query q() { update Person set { age: 9 } where handle = "bob" }')
    _release(tmp_path)
    with pytest.raises(errors.ExpectedVersionMismatch, match="stale view of 'node:Person'"):
        running.result(timeout=30)
    assert {id_: row["age"] for id_, row in rows_of(graph, "Person").items()} == {"ann": None, "bob": 9}


@pytest.mark.parametrize(
    "text",
    [
        'query q() { update Person set { age: 1 } where handle = "ann" }',
        'query q() { delete Person where handle = "ann" }',
        'query q() { insert Note { text: "x" } update Person set { age: 1 } where handle = "ann" }',
        'query q() { insert Person { handle: "new" } }',
        'query q() { insert Knows { from: "ann", to: "bob" } }',
        'query q() { insert Note { text: "x" } }',
    ],
)
def test_a_query_never_conflicts(tmp_path: Path, paused: Paused, text: str) -> None:
    graph = people(tmp_path / "g", "ann", "bob")
    running = paused(lambda: graph.mutate(text))
    graph.mutate('query q() { insert Person { handle: "cyd" } insert Knows { from: "bob", to: "cyd" } }')
    graph.mutate('query q() { update Person set { age: 9 } where handle = "bob" }')
    _release(tmp_path)
    result = running.result(timeout=30)
    assert getattr(result, "commit", None) == graph.commits.head()
    assert rows_of(graph, "Person")["bob"]["age"] == 9


def test_an_update_means_the_rows_at_its_commit(tmp_path: Path, paused: Paused) -> None:
    graph = people(tmp_path / "g", "ann", "bob", "cyd")
    graph.mutate('query q() { update Person set { age: 40 } where handle = "ann" }')
    running = paused(lambda: graph.mutate("query q() { update Person set { age: 100 } where age >= 40 }"))
    graph.mutate('query q() { update Person set { age: 50 } where handle = "bob" }')
    graph.mutate('query q() { update Person set { age: 10 } where handle = "ann" }')
    _release(tmp_path)
    result = running.result(timeout=30)
    assert getattr(result, "affected_nodes", None) == 1
    assert {id_: row["age"] for id_, row in rows_of(graph, "Person").items()} == {"ann": 10, "bob": 100, "cyd": None}


def test_a_pattern_means_the_edges_at_its_commit(tmp_path: Path, paused: Paused) -> None:
    """Only nodes are written; the edges that the pattern goes along change meanwhile."""
    graph = people(tmp_path / "g", "ann", "bob", "cyd")
    graph.mutate('query q() { insert Knows { from: "ann", to: "bob" } }')
    text = 'query q() { match { $p: Person { handle: "ann" }  $p knows $q } update $q set { age: 5 } }'
    running = paused(lambda: graph.mutate(text))
    graph.mutate('query q() { delete Knows where from = "ann" and to = "bob" }')
    graph.mutate('query q() { insert Knows { from: "ann", to: "cyd" } }')
    _release(tmp_path)
    assert getattr(running.result(timeout=30), "affected_nodes", None) == 1
    assert {id_: row["age"] for id_, row in rows_of(graph, "Person").items()} == {"ann": None, "bob": None, "cyd": 5}


def test_a_delete_takes_edges_that_came_meanwhile(tmp_path: Path, paused: Paused) -> None:
    graph = people(tmp_path / "g", "ann", "bob")
    running = paused(lambda: graph.mutate('query q() { delete Person where handle = "ann" }'))
    graph.mutate('query q() { insert Knows { from: "bob", to: "ann" } insert Knows { from: "ann", to: "ann" } }')
    _release(tmp_path)
    result = running.result(timeout=30)
    assert (getattr(result, "affected_nodes", None), getattr(result, "affected_edges", None)) == (1, 2)
    assert (ids_of(graph, "Person"), ids_of(graph, "Knows")) == ({"bob"}, set())


def test_an_edge_whose_node_went_meanwhile_is_refused(tmp_path: Path, paused: Paused) -> None:
    graph = people(tmp_path / "g", "ann", "bob")
    running = paused(lambda: graph.mutate('query q() { insert Knows { from: "bob", to: "ann" } }'))
    graph.mutate('query q() { delete Person where handle = "ann" }')
    _release(tmp_path)
    with pytest.raises(errors.EndpointMissing, match="dst 'ann' not found in Person"):
        running.result(timeout=30)
    assert ids_of(graph, "Knows") == set()


@pytest.mark.parametrize("table", ["Person", "Note"])
def test_if_commit_is_a_failed_precondition_however_late_the_head_moved(
    tmp_path: Path, paused: Paused, table: str
) -> None:
    graph = people(tmp_path / "g", "ann")
    head = graph.commits.head().id
    text = 'query q() { update Person set { age: 1 } where handle = "ann" }'
    running = paused(lambda: graph.mutate(text, if_commit=head))
    other = 'insert Person { handle: "bob" }' if table == "Person" else 'insert Note { text: "x" }'
    graph.mutate(f"query q() {{ {other} }}")
    _release(tmp_path)
    with pytest.raises(errors.PreconditionFailed):
        running.result(timeout=30)
    assert rows_of(graph, "Person")["ann"]["age"] is None


def test_a_mutation_that_is_always_outrun_gets_its_turn_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody commits to the table each time before this one does; the last attempt is made inside the section."""
    graph = people(tmp_path / "g", "ann", "bob")
    rival = og.open(tmp_path / "g")
    real = failpoints.reach
    outrun = 0

    def overtake(name: str, kind: str = "") -> None:
        nonlocal outrun
        real(name, kind)
        if name == "write.after_stage":
            monkeypatch.setattr(failpoints, "reach", real)
            outrun += 1
            rival.mutate(
                'query q($n: I32) { update Person set { age: $n } where handle = "bob" }', params={"n": outrun}
            )
            monkeypatch.setattr(failpoints, "reach", overtake)

    monkeypatch.setattr(failpoints, "reach", overtake)
    result = graph.mutate('query q() { update Person set { age: 77 } where handle = "ann" }')
    assert result.affected_nodes == 1
    assert outrun == limits.REPREPARE_BUDGET + 1
    assert {id_: row["age"] for id_, row in rows_of(graph, "Person").items()} == {"ann": 77, "bob": outrun}
