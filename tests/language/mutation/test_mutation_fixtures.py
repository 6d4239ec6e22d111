"""Writes of the language, case by case, on real graphs; see `fixtures.py` for the files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.write.change import Change
from tests.language.mutation.fixtures import HERE, Case, cases, check, shown_rows
from tests.support.example_graph import example_graph

Open = Callable[[str], og.Graph]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("templates")
    example_graph(root / "small").close()
    _wide(root / "wide").close()
    return root


def _wide(root: Path) -> og.Graph:
    """Two things, one with every value and one with hardly any, and some neighbours."""
    graph = og.init(root, (HERE / "wide.pg").read_text("utf-8"))
    things = pa.table(
        {
            "code": ["a", "b"],
            "yes": [True, False],
            "i32": pa.array([1, None], pa.int32()),
            "u32": pa.array([2**32 - 1, None], pa.uint32()),
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "f32": pa.array([0.1, 0.2], pa.float32()),
            "f64": [0.1, -0.0],
            "at": pa.array([1714885505005, None], pa.date64()),
            "unsigned": pa.array([[1, 2], None], pa.list_(pa.uint32())),
            "real": pa.array([[0.5], None], pa.list_(pa.float64())),
            "times": pa.array([[1704067200000], None], pa.list_(pa.date64())),
            "spot": pa.array([[1, 2, 3], None], pa.list_(pa.float32(), 3)),
            "body": pa.array([b"\0\1\2", None], pa.large_binary()),
            "mail": ["a@x", "b@x"],
        }
    )
    slot = pa.table({"tenant": ["acme"], "slot": pa.array([7], pa.uint32())})
    asset = pa.table(
        {
            "slug": ["s"],
            "raw": pa.array([b"\1"], pa.large_binary()),
            "vec": pa.array([[0, 0]], pa.list_(pa.float32(), 2)),
        }
    )
    graph.write(
        [
            Change("node:Thing", things),
            Change("node:Asset", asset),
            Change("node:Slot", slot),
            Change("node:Moment", pa.table({"at": pa.array([1714885505005], pa.date64())})),
            Change("node:Log", pa.table({"line": ["old"], "level": pa.array([1], pa.int32())})),
            Change("edge:Owns", pa.table({"src": ["a"], "dst": ["s"], "amount": pa.array([2], pa.int32())})),
            Change("edge:Must", pa.table({"src": ["a"], "dst": ["b"]})),
        ]
    )
    return graph


@pytest.fixture
def fresh(templates: Path, tmp_path: Path) -> Open:
    """A copy of a template, so that each case has a graph of its own."""

    def copy(name: str) -> og.Graph:
        shutil.copytree(templates / name, tmp_path / name)
        return og.open(tmp_path / name)

    return copy


def run(graph: og.Graph, case: Case) -> None:
    before = graph.commits.head().id
    kind, _, message = case.outcome.partition(" ")
    if message:
        with pytest.raises(errors.OmniGraphError) as caught:
            graph.mutate(case.query, params=case.params)
        assert (type(caught.value).__name__, caught.value.message) == (kind, message)
        moves = False
    else:
        result = graph.mutate(case.query, params=case.params)
        assert f"{result.affected_nodes}/{result.affected_edges}" == case.outcome
        moves = result.commit is not None
        assert moves == (case.outcome != "0/0")
    assert (graph.commits.head().id != before) == moves
    for line in case.checks:
        if line in ("head moved", "head stays"):
            assert moves == (line == "head moved")
        else:
            check(graph, line)


@pytest.mark.parametrize("case", cases("small.txt"), ids=str)
def test_write_on_the_small_graph(case: Case, fresh: Open) -> None:
    run(fresh("small"), case)


@pytest.mark.parametrize("case", cases("wide.txt"), ids=str)
def test_write_on_the_wide_graph(case: Case, fresh: Open) -> None:
    run(fresh("wide"), case)


def test_now_is_one_instant_for_all_statements_and_rows(fresh: Open) -> None:
    graph = fresh("small")
    graph.mutate(
        """query q() {
            update Person set { seen: now() } where city = "Lima"
            insert Person { handle: "x", name: "X", seen: now() }
            update Person set { seen: now() } where city = "Oslo"
        }"""
    )
    seen = {id_: row["seen"] for id_, row in shown_rows(graph, "Person").items()}
    assert seen.pop("di") is None
    assert len(seen) == 5
    assert len(set(seen.values())) == 1
    assert seen["x"].startswith("20")
