"""A query after a commit reads what the commit changed, and only that; and it survives what upkeep removed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.query_runner import plan_query, run_plan
from omnigraph.engine.version_cache import VersionCache
from omnigraph.query import check_read, parse_queries
from omnigraph.write.change import Change, Mode

SCHEMA = """
node P { k: String @key  n: I32?  t: String? }
edge E: P -> P { w: I32? }
"""

SIZE = 3_000
AHEAD = "query q($k: String) { match { $a: P { k: $k }  $a e $b } return { $b.k, $b.n } order { $b.k } }"
BACK = "query q($k: String) { match { $b: P { k: $k }  $a e $b } return { $a.k } order { $a.k } }"
DEGREES = "query q() { match { $a: P  $a e $b } return { $a.k, count($b) as c } order { c desc, $a.k } limit 5 }"
WEIGHTS = "query q($k: String) { match { $a: P { k: $k }  $a $e:e $b } return { $b.k, $e.w } order { $b.k } }"


def people(*keys: int, n: int = 0) -> Change:
    rows = {"k": [f"p{key}" for key in keys], "n": pa.array([n] * len(keys), pa.int32())}
    return Change("node:P", pa.table(rows), Mode.MERGE)


def edge(id_: str, source: int, target: int, w: int = 0) -> Change:
    rows = {"id": [id_], "src": [f"p{source}"], "dst": [f"p{target}"], "w": pa.array([w], pa.int32())}
    return Change("edge:E", pa.table(rows), Mode.MERGE)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    """A ring: everybody knows the next one."""
    with og.init(tmp_path / "g", SCHEMA) as graph:
        ring = {
            "id": [f"e{i}" for i in range(SIZE)],
            "src": [f"p{i}" for i in range(SIZE)],
            "dst": [f"p{(i + 1) % SIZE}" for i in range(SIZE)],
        }
        graph.write([people(*range(SIZE)), Change("edge:E", pa.table(ring))])
        yield graph


class Asker:
    """Asks one graph through a cache of its own."""

    def __init__(self, graph: og.Graph, budget: int = 10**9) -> None:
        self.graph = graph
        self.cache = VersionCache(budget)

    @property
    def view(self) -> GraphView:
        return GraphView(self.graph._store, self.graph.snapshot()._stored, self.graph.catalog, self.cache)

    def ask(self, text: str, **params: str) -> list[tuple[object, ...]]:
        query, view = check_read(parse_queries(text).find(None), self.graph.catalog), self.view
        table = run_plan(view, plan_query(view, view.catalog, query), params)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def everything(self) -> list[list[tuple[object, ...]]]:
        keyed = [self.ask(text, k=key) for text in (AHEAD, BACK, WEIGHTS) for key in ("p0", "p5", "p6", "p7")]
        return [*keyed, self.ask(DEGREES)]


@pytest.fixture(params=["the writer", "another handle"])
def asker(request: pytest.FixtureRequest, graph: og.Graph) -> Iterator[Asker]:
    if request.param == "the writer":
        yield Asker(graph)
        return
    with og.open(graph.uri, mode="ro") as other:
        yield Asker(other)


CHANGES = {
    "an edge": [edge("x", 5, 7)],
    "an edge that is there already": [edge("x", 5, 6)],
    "a moved edge": [edge("e5", 6, 0)],
    "an edge with another weight": [edge("e5", 5, 6, w=3)],
    "an edge that goes": [Change("edge:E", remove=pa.array(["e5"]))],
    "a node": [people(SIZE)],
    "a node with another value": [people(6, n=4)],
    "a node with its edges": [
        Change("node:P", remove=pa.array(["p6"])),
        Change("edge:E", remove=pa.array(["e5", "e6"])),
    ],
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_small_commit_makes_nobody_read_a_table_again(
    graph: og.Graph, asker: Asker, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asker.everything()
    graph.write(CHANGES[what], base=graph.snapshot())
    expected = Asker(graph).everything()

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("read as a whole")

    monkeypatch.setattr("omnigraph.engine.topology.topology_made", refuse)
    monkeypatch.setattr("omnigraph.engine.table_rows.TableRows.read", refuse)
    monkeypatch.setattr("omnigraph.engine.table_rows.TableRows._scan", refuse)
    assert asker.everything() == expected
    assert (expected != before) == (what != "a node")


def test_the_writer_follows_its_own_commits_without_reading(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    asker = Asker(graph)
    asker.everything()

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("read from the store")

    for step in range(5):  # several commits between two questions too
        graph.write([edge(f"x{step}", 5, 100 + step), people(SIZE + step, n=step)])
    expected = Asker(graph).everything()
    monkeypatch.setattr("omnigraph.storage.table_reader.TableReader.scan", refuse)
    monkeypatch.setattr("omnigraph.storage.table_reader.TableReader.take", refuse)
    assert asker.everything() == expected


def test_columns_are_read_anew_when_versions_in_between_are_gone(graph: og.Graph) -> None:
    with og.open(graph.uri, mode="ro") as other:
        asker = Asker(other)
        rows = asker.view.nodes("P")
        rows.column("n")
        rows.column("t")
        for step in range(3):  # nobody looks at the values of these
            graph.write([people(5, SIZE + step, n=step + 1)])
            rows = asker.view.nodes("P")
        assert rows.is_derived
        location = rows.reader.pin.location
        lance.dataset(f"{graph.uri}/{location}").cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
        other._store.tables._forget(location)
        values = rows.column("n").to_pylist()
        assert values[5] == 3
        assert values[SIZE:] == [1, 2, 3]
        assert rows.values("t", rows.find(["p5"])).to_pylist() == [None]


def test_rows_are_read_anew_when_the_version_they_had_is_gone(graph: og.Graph) -> None:
    with og.open(graph.uri, mode="ro") as other:
        asker = Asker(other)
        asker.everything()
        for step in range(3):
            graph.write([people(5, n=step), edge(f"x{step}", 5, 100 + step)])
        for table_key in ("node:P", "edge:E"):
            location = graph.snapshot()._stored.pins[table_key].location
            table = lance.dataset(f"{graph.uri}/{location}")
            table.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
            other._store.tables._forget(location)
        assert asker.everything() == Asker(graph).everything()


def test_a_topology_is_built_anew_when_versions_in_between_are_gone(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asker = Asker(graph)
    before = asker.everything()
    graph.write([edge("x", 5, 100)])
    expected = Asker(graph).everything()

    def reclaimed(*_: object) -> NoReturn:
        raise og.errors.HistoricalVersionReclaimed("the rows of type 'E' are no longer stored")

    monkeypatch.setattr("omnigraph.engine.position_deltas.PositionDelta.written_column", reclaimed)
    assert asker.everything() == expected != before


def test_an_old_state_can_be_asked_between_new_ones(graph: og.Graph) -> None:
    asker = Asker(graph)
    states = [(graph.snapshot().version, asker.everything())]
    for step in range(4):
        graph.write([edge(f"x{step}", 5, 10 + step), people(5, n=step)])
        states.append((graph.snapshot().version, asker.everything()))
    for version, answers in [*states[::-1], *states]:
        past = og.open(graph.uri, mode="ro")
        shown = [graph.query(DEGREES, at=version).rows(), past.query(DEGREES, at=version).rows()]
        assert shown[0] == shown[1]
        assert [tuple(row.values()) for row in shown[0]] == answers[-1]
        past.close()


def test_a_plan_is_kept_while_tables_keep_their_size(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[int] = []

    def counted(*args: Any) -> Any:
        planned.append(1)
        return plan_query(*args)

    monkeypatch.setattr("omnigraph.engine.query_runner.plan_query", counted)
    answers = []
    for step in range(3):
        graph.write([edge(f"x{step}", 5, 100 + step)])
        answers.append(len(graph.query(AHEAD, params={"k": "p5"})))
    assert answers == [2, 3, 4]
    assert len(planned) == 1
    graph.write([people(*range(SIZE, 3 * SIZE))])
    assert len(graph.query(AHEAD, params={"k": "p5"})) == 4
    assert len(planned) == 2, "a table of another magnitude may want another plan"
