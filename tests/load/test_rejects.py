"""Loads that leave bad rows out: which ones go, why, and that the rest is one sound commit."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import EndpointMissing, InputError, ResourceLimitExceeded
from omnigraph.write.load.load_result import LoadResult
from tests.support.small_graphs import ids_of, rows_of

SCHEMA = """
node P { k: String @key  mail: String? @unique  n: I32?  @range(n, 0..9) }
node Free { t: String }
edge E: P -> P @card(0..2) { w: I32? }
edge Must: P -> P @card(1..)
edge Pair: P -> P { @unique(src, dst) }
"""


def node(k: str, **values: Any) -> str:
    return json.dumps({"type": "P", "data": {"k": k, **values}})


def edge(src: str, dst: str, type_: str = "E", **values: Any) -> str:
    return json.dumps({"edge": type_, "from": src, "to": dst, "data": values})


class Bench:
    """A graph and a file to load into it."""

    def __init__(self, root: Path) -> None:
        self.graph = og.init(root / "g", SCHEMA)
        self._path = root / "in.jsonl"

    def load(self, *lines: str, mode: str = "append", **options: Any) -> LoadResult:
        self._path.write_text("\n".join(lines), "utf-8")
        return self.graph.load(self._path, mode, **{"on_error": "reject", **options})  # type: ignore[arg-type]

    def rejects(self, *lines: str, **options: Any) -> list[tuple[int, str]]:
        """Line and reason of what was left out; with the state that is left the rest must be acceptable at once."""
        return [(row["line"], row["reason"]) for row in self.load(*lines, **options).rejects.to_pylist()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_bad_rows_are_left_out_and_reported_in_the_order_of_the_input(bench: Bench) -> None:
    result = bench.load(
        node("a"), "{", node("b", n=10), node("c", n="x"), '{"type":"Nope"}', node("d", zip=1), node("e", n=9)
    )
    assert ids_of(bench.graph, "P") == {"a", "e"}
    assert result.nodes == {"P": 2}
    rows = result.rejects.to_pylist()
    assert [(row["line"], row["code"]) for row in rows] == [
        (2, "row.record"),
        (3, "row.range"),
        (4, "row"),
        (5, "row.record"),
        (6, "row"),
    ]
    assert rows[1]["record"] == node("b", n=10)
    assert rows[1]["reason"] == "@range violation on P.n: value 10 > max 9"
    assert len(bench.graph.commits.list()) == 2


def test_rejects_can_be_written_as_lines(bench: Bench, tmp_path: Path) -> None:
    result = bench.load(node("a"), "é{")
    text = io.StringIO()
    result.write_rejects(text)
    result.write_rejects(tmp_path / "rejects.jsonl")
    assert (tmp_path / "rejects.jsonl").read_text("utf-8") == text.getvalue()
    (line,) = text.getvalue().splitlines()
    assert json.loads(line)["record"] == "é{"


def test_of_rows_that_exclude_each_other_the_first_stays(bench: Bench) -> None:
    assert bench.rejects(
        node("a", n=1),
        node("a", n=2),
        node("b", mail="m"),
        node("c", mail="m"),
        edge("a", "b", id="e1"),
        edge("b", "a", id="e1"),
        edge("a", "b", "Pair", id="p1"),
        edge("a", "b", "Pair", id="p2"),
    ) == [
        (2, "duplicate key 'a' of P.k"),
        (4, "@unique violation on P.mail: value 'm' held by 'b' and 'c'"),
        (6, "edge type 'E' already has this id"),
        (8, "@unique violation on Pair.(dst, src): value '(b, a)' held by 'p1' and 'p2'"),
    ]
    assert rows_of(bench.graph, "P")["a"]["n"] == 1
    assert rows_of(bench.graph, "E")["e1"]["src"] == "a"


def test_stored_rows_stay_where_an_append_meets_them(bench: Bench) -> None:
    bench.load(node("a", mail="m", n=1))
    assert bench.rejects(node("a", n=2), node("b", mail="m"), node("c")) == [
        (1, "node type 'P' already has this id"),
        (2, "@unique violation on P.mail: value 'm' held by 'a' and 'b'"),
    ]
    assert ids_of(bench.graph, "P") == {"a", "c"}
    assert bench.rejects(node("a", mail="x"), node("b", mail="m"), mode="merge") == []
    assert rows_of(bench.graph, "P")["a"]["mail"] == "x"


def test_a_rejected_node_takes_its_edges_along_and_they_take_others(bench: Bench) -> None:
    """The node goes for its range, its edge for its end; without that edge another source has too few."""
    assert bench.rejects(
        node("a"),
        node("bad", n=99),
        edge("a", "bad", "Must", id="m1"),
        edge("bad", "a", "Must", id="m2"),
        edge("a", "a", id="e1"),
        edge("bad", "bad", id="e2"),
    ) == [
        (2, "@range violation on P.n: value 99 > max 9"),
        (3, "dst 'bad' not found in P"),
        (4, "src 'bad' not found in P"),
        (6, "src 'bad' not found in P"),
    ]
    assert (ids_of(bench.graph, "Must"), ids_of(bench.graph, "E")) == (set(), {"e1"})


def test_edges_beyond_the_most_are_the_last_ones(bench: Bench) -> None:
    bench.load(node("a"), node("b"), edge("a", "b", id="s1"))
    assert bench.rejects(*(edge("a", "b", id=f"e{n}") for n in range(4)), edge("b", "b", id="x")) == [
        (2, "@card violation on edge E: source 'a' has 5 edges (max 2)"),
        (3, "@card violation on edge E: source 'a' has 5 edges (max 2)"),
        (4, "@card violation on edge E: source 'a' has 5 edges (max 2)"),
    ]
    assert ids_of(bench.graph, "E") == {"s1", "e0", "x"}


def test_an_edge_that_would_leave_its_old_source_short_stays_there(bench: Bench) -> None:
    bench.load(node("a"), node("b"), edge("a", "b", "Must", id="m1"))
    assert bench.rejects(edge("b", "b", "Must", id="m1"), edge("b", "a", "Must", id="m2"), mode="merge") == [
        (1, "@card violation on edge Must: source 'a' has 0 edges (min 1)"),
    ]
    assert {id_: row["src"] for id_, row in rows_of(bench.graph, "Must").items()} == {"m1": "a", "m2": "b"}


def test_of_a_repeated_id_in_a_merge_only_the_last_counts_for_the_rules(bench: Bench) -> None:
    bench.load(node("a"), node("b"))
    lines = [edge("a", "b", id="e1"), edge("a", "b", id="e2"), edge("a", "a", id="e1"), edge("a", "a", id="e2")]
    assert bench.rejects(*lines, mode="merge") == []
    assert {row["dst"] for row in rows_of(bench.graph, "E").values()} == {"a"}


def test_too_many_rejects_load_nothing(bench: Bench) -> None:
    lines = [node("a"), "{", "[", node("b", n=99)]
    with pytest.raises(ResourceLimitExceeded, match="resource limit exceeded for rejects: actual 3, limit 2") as caught:
        bench.load(*lines, max_rejects=2)
    assert caught.value.details["violations"][0]["line"] == 2
    assert ids_of(bench.graph, "P") == set()
    assert bench.load(*lines, max_rejects=3).rejects.num_rows == 3
    with pytest.raises(ResourceLimitExceeded, match="actual 1, limit 0"):
        bench.load(edge("a", "zz"), max_rejects=0)
    with pytest.raises(ResourceLimitExceeded):
        bench.load(*(edge("a", "zz") for _ in range(50)), max_rejects=10)


def test_what_no_row_can_be_blamed_for_refuses_the_load(bench: Bench) -> None:
    bench.load(node("a"), node("b"), edge("a", "b", id="e1"))
    with pytest.raises(EndpointMissing, match="dst 'b' not found in P"):
        bench.load(node("a"), "{", mode="overwrite")
    assert ids_of(bench.graph, "P") == {"a", "b"}


def test_an_overwrite_of_which_every_row_is_bad_does_not_empty_the_type(bench: Bench) -> None:
    bench.load('{"type":"Free","data":{"id":"f","t":"x"}}', node("a"))
    with pytest.raises(InputError, match="every row of 'node:P' was rejected"):
        bench.load(node("b", n=99), mode="overwrite")
    assert ids_of(bench.graph, "P") == {"a"}


def test_rejects_of_tables_show_the_row(bench: Bench) -> None:
    rows = pa.table({"k": ["a", "b", None], "n": pa.array([1, 99, 1], pa.int64())})
    result = bench.graph.load({"P": rows}, "append", on_error="reject")
    assert [(row["file"], row["line"], json.loads(row["record"])) for row in result.rejects.to_pylist()] == [
        ("<P>", 2, {"k": "b", "n": 99}),
        ("<P>", 3, {"k": None, "n": 1}),
    ]


def test_many_bad_rows_among_many_good_ones_are_found(bench: Bench) -> None:
    lines = [node(f"k{n}", n=99 if n % 50 == 7 else 1) for n in range(3000)]
    lines += [edge(f"k{n}", f"k{n + 1}") for n in range(2999)]
    result = bench.load(*lines)
    bad = {n for n in range(3000) if n % 50 == 7}
    assert result.nodes == {"P": 3000 - len(bad)}
    assert result.edges == {"E": 2999 - 2 * len(bad)}
    assert result.rejects.num_rows == 3 * len(bad)
    assert result.rejects.column("line").to_pylist() == sorted(result.rejects.column("line").to_pylist())
