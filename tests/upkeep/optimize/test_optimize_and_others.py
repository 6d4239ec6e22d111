"""Others write, die, or have written with other software while a graph is optimized."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import ConflictError, UnreadableSidecar
from omnigraph.graph import engines
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.tables.compaction import RewrittenGroup
from omnigraph.upkeep.work_engine import EmbeddedUpkeep, RewriteTask, UpkeepEngine
from omnigraph.write.change import Change
from tests.support.kill_runner import Rendezvous, Target, spawn
from tests.upkeep.optimize.grown_graph import SCHEMA, answers, grown, knows, layout, put


class _Interrupted(EmbeddedUpkeep):
    """Work during which somebody else does something, the first times."""

    def __init__(self, store: GraphStore, others: list[Callable[[], object]]) -> None:
        super().__init__(store)
        self._others = others

    def rewrite(self, tasks: Sequence[RewriteTask]) -> list[RewrittenGroup]:
        done = super().rewrite(tasks)
        if self._others:
            self._others.pop(0)()
        return done


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return grown(tmp_path / "g", 5)


def _while_optimizing(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> None:
    waiting = list(others)

    def chosen(engine: str) -> Callable[[GraphStore, int], UpkeepEngine]:
        return lambda store, rows: _Interrupted(store, waiting)

    monkeypatch.setattr(engines, "upkeep_engine", chosen)


def test_rows_that_are_added_meanwhile_do_not_undo_the_work(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    _while_optimizing(monkeypatch, lambda: graph.write([put(300, 2)]))
    person = next(table for table in graph.optimize().tables if table.table_key == "node:Person")
    assert person.skipped is None
    assert layout(graph) == {"node:Person": (2, 0, 0), "edge:Knows": (1, 0, 0)}  # each under its segment of the text
    assert '"p301"' in str(graph.export().text)
    assert graph.verify(deep=True).ok


def test_what_is_replaced_meanwhile_is_planned_again(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    _while_optimizing(monkeypatch, lambda: graph.write([put(1, 9, "meanwhile")]))
    report = graph.optimize()
    before = answers(graph)
    assert [table.skipped for table in report.tables] == [None, None]
    assert layout(graph) == {"node:Person": (1, 0, 0), "edge:Knows": (1, 0, 0)}
    graph.write([put(400, 1)])
    graph.write([Change("node:Person", remove=pa.array(["p400"]))])
    assert answers(graph) == before


def test_whoever_is_always_faster_is_never_held_up(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    number = iter(range(500, 600))

    def faster() -> None:
        graph.write([put(1, 9, f"again{next(number)}"), knows(1, 1)])

    _while_optimizing(monkeypatch, *[faster] * 20)
    report = graph.optimize()
    assert {table.skipped for table in report.tables} <= {None, "written_meanwhile"}
    assert any(table.skipped for table in report.tables)
    assert graph.verify(deep=True).ok


def test_a_type_that_is_dropped_with_its_rows_meanwhile_is_left_out(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = SCHEMA.partition("edge Knows")[0]
    _while_optimizing(monkeypatch, lambda: graph.schema.apply(without, allow_data_loss=True))
    report = graph.optimize()
    assert {table.table_key for table in report.tables if table.committed} == {"node:Person"}
    assert layout(graph)["node:Person"][0] == 1
    assert graph.verify(deep=True).ok


def test_a_transaction_that_began_before_it_commits_after_it(graph: og.Graph) -> None:
    graph.write([put(200, 2)])
    base = graph.snapshot()
    graph.optimize()
    removed = Change("node:Person", remove=pa.array(["p200"]), reads_rows=True)
    assert graph.write([removed], base=base).commit is not None
    with pytest.raises(ConflictError):
        graph.write([Change("node:Person", remove=pa.array(["p201"]), reads_rows=True)], base=base)


def test_a_writer_in_another_process_goes_on_while_it_runs(tmp_path: Path) -> None:
    """The optimizer stands between its heavy work and its commit; a writer comes and goes; then both are there."""
    from tests.support.crash_graph import ACTOR, MAIN, SCHEMA, perform
    from tests.support.ledger import Ledger

    uri, ledger = str(tmp_path / "g"), tmp_path / "ledger.jsonl"
    graph = og.init(uri, SCHEMA, actor=ACTOR)
    for operation in ("seed", "one", "two", "three"):
        perform(graph, "seed" if operation == "seed" else "insert_many", MAIN, Ledger(ledger), operation)
    for point in ("optimize.after_rewrite", "optimize.after_build", "optimize.between_commits"):
        perform(graph, "insert_many", MAIN, Ledger(ledger), f"before-{point}")
        stop = Rendezvous(tmp_path / point)
        target = Target(uri, MAIN, ledger)
        with spawn(target, f"arm={point}={stop.action}", "optimize=all") as child:
            stop.wait(child)
            perform(graph, "insert_many", MAIN, Ledger(ledger), f"beside-{point}")
            stop.release()
            said, complaint = child.communicate(timeout=60)
        assert "optimize=all done" in said, complaint
        graph.optimize()
        assert all(not uncovered for _, _, uncovered in layout(graph).values())
    assert graph.verify(deep=True).ok


def test_a_table_that_other_software_wrote_to_is_skipped_with_both_versions(graph: og.Graph) -> None:
    store = graph.internals.reader()
    pin = store.snapshot("main").pins["edge:Knows"]
    foreign = lance.dataset(store.tables.uri(pin.location))
    foreign.delete("since = 1")
    report = graph.optimize()
    edges = next(table for table in report.tables if table.table_key == "edge:Knows")
    assert (edges.skipped, edges.version, edges.newest_version) == ("drift_needs_repair", pin.version, pin.version + 1)
    assert report.skipped == (edges,) and not edges.committed
    assert layout(graph)["node:Person"] == (1, 0, 0)


def test_rows_that_other_software_writes_meanwhile_keep_their_table_out(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = graph.internals.reader()
    pin = store.snapshot("main").pins["edge:Knows"]
    _while_optimizing(monkeypatch, lambda: lance.dataset(store.tables.uri(pin.location)).delete("since = 1"))
    report = graph.optimize(types=["Knows"])
    assert [(table.skipped, table.committed) for table in report.tables] == [("drift_needs_repair", False)]


def test_what_other_software_compacted_is_passed_over(graph: og.Graph) -> None:
    store = graph.internals.reader()
    pin = store.snapshot("main").pins["edge:Knows"]
    lance.dataset(store.tables.uri(pin.location)).optimize.compact_files()
    before = answers(graph)
    assert graph.optimize().skipped == ()
    assert layout(graph)["edge:Knows"] == (1, 0, 0)
    assert answers(graph) == before


def test_it_is_refused_while_an_interrupted_write_cannot_be_explained(graph: og.Graph) -> None:
    version = graph.snapshot().version
    record = Path(graph.uri.removeprefix("file://")) / "__recovery" / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    record.parent.mkdir(exist_ok=True)
    record.write_text('{"schema_version": 99}')
    with pytest.raises(UnreadableSidecar):
        graph.optimize()
    assert graph.snapshot().version == version


def test_an_interrupted_write_that_appears_meanwhile_stops_the_commit(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Path(graph.uri.removeprefix("file://")) / "__recovery" / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"

    def appear() -> None:
        record.parent.mkdir(exist_ok=True)
        record.write_text('{"schema_version": 99}')

    version = graph.snapshot().version
    _while_optimizing(monkeypatch, appear)
    with pytest.raises(UnreadableSidecar):
        graph.optimize(types=["Knows"])
    record.unlink()
    assert graph.snapshot().version == version


def test_two_that_optimize_at_once_do_it_once(graph: og.Graph, tmp_path: Path) -> None:
    stop = Rendezvous(tmp_path / "stop")
    failpoints.arm(f"optimize.after_rewrite={stop.action}")
    with og.open(graph.uri) as other:
        first = threading.Thread(target=graph.optimize)
        first.start()
        stop.path.with_name("stop.release").touch()
        other.optimize()
        first.join()
    failpoints.arm("")
    assert layout(graph) == {"node:Person": (1, 0, 0), "edge:Knows": (1, 0, 0)}
    assert graph.verify(deep=True).ok


def test_files_that_a_cleanup_may_have_removed_are_written_again(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleanup moves the head of every branch by a commit of its own, and then removes what no state names."""
    rewritten: list[RewrittenGroup] = []
    rewrite = EmbeddedUpkeep.rewrite

    def noted(self: EmbeddedUpkeep, tasks: Sequence[RewriteTask]) -> list[RewrittenGroup]:
        rewritten.extend(done := rewrite(self, tasks))
        return done

    monkeypatch.setattr(EmbeddedUpkeep, "rewrite", noted)
    _while_optimizing(monkeypatch, lambda: graph.cleanup(1, grace=0, confirm=True))
    graph.optimize(types=["Knows"])
    assert graph.verify(deep=True).ok
    store = graph.internals.reader()
    (shown,) = store.table(store.snapshot("main").pins["edge:Knows"]).get_fragments()
    first, second = (group.new[0]["files"][0]["path"] for group in rewritten)
    assert shown.metadata.files[0].path == second != first
