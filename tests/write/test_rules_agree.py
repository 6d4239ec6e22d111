"""One rule, one answer: a direct write, a load that fails, a load that rejects, a merge and `verify` blame the same
rows with the same words.

A case is three changes. ``base`` is what both sides start from, ``ours`` is stored by the time ``theirs`` comes, and
``theirs`` breaks a rule. For a merge, ``ours`` and ``theirs`` are the two sides. For `verify`, ``theirs`` is planted
behind the back of the rules.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import omnigraph as og
from omnigraph.errors import MergeConflict, OmniGraphError
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.tables.row_lookup import locate
from omnigraph.storage.tables.stage_rows import stage_change
from omnigraph.write.change import Change, Mode
from tests.support.small_graphs import without

SCHEMA = """
node Person { handle: String @key  email: String? @unique  first: String?  last: I32?  @unique(first, last) }
node Team { code: String @key }
edge Likes: Person -> Team { @unique(src, dst) }
edge Few: Person -> Team @card(0..2)
edge Guards: Person -> Team @card(2..3)
edge Keeps: Person -> Team @card(1..3)
"""

Row = dict[str, Any]


def person(handle: str, **values: Any) -> Row:
    return {"type": "Person", "data": {"handle": handle, **values}}


def team(code: str) -> Row:
    return {"type": "Team", "data": {"code": code}}


def edge(type_: str, id_: str, source: str, target: str) -> Row:
    return {"edge": type_, "from": source, "to": target, "data": {"id": id_}}


@dataclass(frozen=True)
class Blame:
    """Who is blamed: the row, or nobody for a source with a wrong number of edges; and how."""

    rows: tuple[str, ...]
    message: str
    merged: tuple[str | None, ...] | None = None  # row ids of the conflicts, where they differ from ``rows``


@dataclass(frozen=True)
class Side:
    """Rows to put and ids to remove, by table key."""

    put: tuple[Row, ...] = ()
    remove: tuple[tuple[str, str], ...] = ()

    @property
    def changes(self) -> list[Change]:
        tables: dict[str, list[Row]] = {}
        for record in self.put:
            values = dict(record["data"])
            if "edge" in record:
                values |= {"src": record["from"], "dst": record["to"]}
            kind = "edge" if "edge" in record else "node"
            tables.setdefault(f"{kind}:{record.get('edge') or record['type']}", []).append(values)
        going: dict[str, list[str]] = {}
        for key, id_ in self.remove:
            going.setdefault(key, []).append(id_)
        names = {key: sorted({name for row in rows for name in row}) for key, rows in tables.items()}
        puts = {
            key: pa.table({name: [row.get(name) for row in rows] for name in names[key]})
            for key, rows in tables.items()
        }
        changes = [Change(key, put, Mode.MERGE) for key, put in puts.items()]
        return changes + [without(key, *ids) for key, ids in going.items()]


@dataclass(frozen=True)
class Case:
    """Three changes and what is wrong with the last one.

    Attributes:
        verified: what `verify` says about the planted rows; None when the final state breaks no rule by itself.
        merges: both sides are valid alone.
    """

    name: str
    base: Side
    ours: Side
    theirs: Side
    blame: Blame | None
    verified: str | None = None
    merges: bool = True

    @property
    def loads(self) -> bool:
        return not self.theirs.remove

    def __str__(self) -> str:
        return self.name


PEOPLE = tuple(person(handle) for handle in ("ann", "bob", "cat"))
TEAMS = tuple(team(code) for code in ("t1", "t2", "t3", "t4"))
START = Side((*PEOPLE, *TEAMS))
NONE = Side()


def start(*more: Row) -> Side:
    return Side((*START.put, *more))


CASES = [
    Case(
        "unique on one column",
        START,
        Side((person("dan", email="x"),)),
        Side((person("eve", email="x"),)),
        Blame(("eve",), "@unique violation on Person.email: value 'x' held by 'dan' and 'eve'"),
        "1 values of @unique(email) occur more than once: 'x'",
    ),
    Case(
        "unique on several columns",
        START,
        Side((person("dan", first="x, y", last=1), person("fay", first="x", last=2))),
        Side((person("eve", first="x, y", last=1), person("gus", first="x", last=3))),
        Blame(("eve",), "@unique violation on Person.(first, last): value '(x, y, 1)' held by 'dan' and 'eve'"),
        """1 values of @unique(first, last) occur more than once: '["x, y","1"]'""",
    ),
    Case(
        "unique with a null",
        START,
        Side((person("dan", first="x", email=None),)),
        Side((person("eve", first="x", email=None), person("gus", first="x"))),
        None,
    ),
    Case(
        "unique within one write",
        START,
        NONE,
        Side((person("dan", email="x"), person("eve", email="y"), person("fay", email="x"))),
        Blame(("fay",), "@unique violation on Person.email: value 'x' held by 'dan' and 'fay'"),
        "1 values of @unique(email) occur more than once: 'x'",
        merges=False,
    ),
    Case(
        "unique over endpoints",
        START,
        Side((edge("Likes", "l1", "ann", "t1"),)),
        Side((edge("Likes", "l2", "ann", "t1"), edge("Likes", "l3", "ann", "t2"))),
        Blame(("l2",), "@unique violation on Likes.(dst, src): value '(t1, ann)' held by 'l1' and 'l2'"),
        """1 values of @unique(dst, src) occur more than once: '["t1","ann"]'""",
    ),
    Case(
        "unique value that moves with its row",
        start(person("dan", email="x")),
        Side((person("fay"),)),
        Side((person("dan", email=None), person("eve", email="x"))),
        None,
    ),
    Case(
        "a key twice",
        START,
        NONE,
        Side((person("dan"), person("eve"), person("dan"))),
        Blame(("dan",), "duplicate key 'dan' of Person.handle"),
        "1 ids occur more than once: 'dan'",
        merges=False,
    ),
    Case(
        "missing source",
        START,
        Side(remove=(("node:Person", "ann"),)),
        Side((edge("Likes", "l1", "ann", "t1"), edge("Likes", "l2", "bob", "t1"))),
        Blame(("l1",), "src 'ann' not found in Person"),
        "1 'src' values are no Person: 'ann'",
    ),
    Case(
        "missing target",
        START,
        Side(remove=(("node:Team", "t1"),)),
        Side((edge("Likes", "l1", "ann", "t1"), edge("Likes", "l2", "ann", "t2"))),
        Blame(("l1",), "dst 't1' not found in Team"),
        "1 'dst' values are no Team: 't1'",
    ),
    Case(
        "an edge that stays without its node",
        START,
        Side((edge("Likes", "l1", "ann", "t1"),)),
        Side(remove=(("node:Team", "t1"),)),
        Blame(("l1",), "dst 't1' not found in Team"),
        "1 'dst' values are no Team: 't1'",
    ),
    Case(
        "too many edges",
        start(edge("Few", "f1", "ann", "t1")),
        Side((edge("Few", "f2", "ann", "t2"),)),
        Side((edge("Few", "f3", "ann", "t3"), edge("Few", "f4", "bob", "t3"))),
        Blame(("f3",), "@card violation on edge Few: source 'ann' has 3 edges (max 2)", merged=(None,)),
        "1 sources have fewer or more edges than @card(0..2): 'ann'",
    ),
    Case(
        "too few edges of a new source",
        START,
        NONE,
        Side((edge("Guards", "g1", "ann", "t1"), edge("Guards", "g2", "bob", "t1"), edge("Guards", "g3", "bob", "t2"))),
        Blame(("g1",), "@card violation on edge Guards: source 'ann' has 1 edges (min 2)"),
        "1 sources have fewer or more edges than @card(2..3): 'ann'",
        merges=False,
    ),
    Case(
        "too few edges after a removal",
        start(*(edge("Guards", f"g{number}", "ann", f"t{number}") for number in (1, 2, 3))),
        Side(remove=(("edge:Guards", "g1"),)),
        Side(remove=(("edge:Guards", "g2"),)),
        Blame((), "@card violation on edge Guards: source 'ann' has 1 edges (min 2)", merged=(None,)),
        "1 sources have fewer or more edges than @card(2..3): 'ann'",
    ),
    Case(
        "no edge left",
        start(edge("Keeps", "k1", "ann", "t1"), edge("Keeps", "k2", "ann", "t2")),
        Side(remove=(("edge:Keeps", "k1"),)),
        Side(remove=(("edge:Keeps", "k2"),)),
        Blame((), "@card violation on edge Keeps: source 'ann' has 0 edges (min 1)", merged=(None,)),
    ),
    Case(
        "the last edge moves away",
        start(edge("Keeps", "k1", "ann", "t1"), edge("Keeps", "k2", "ann", "t2")),
        Side((edge("Keeps", "k1", "bob", "t1"),)),
        Side((edge("Keeps", "k2", "bob", "t2"),)),
        Blame(("k2",), "@card violation on edge Keeps: source 'ann' has 0 edges (min 1)", merged=(None,)),
    ),
    Case(
        "too few edges after one moved",
        start(
            *(edge("Guards", f"g{number}", "ann", f"t{number}") for number in (1, 2, 3)),
            *(edge("Guards", f"h{number}", "bob", f"t{number}") for number in (1, 2)),
        ),
        Side((edge("Guards", "h3", "cat", "t3"), edge("Guards", "h4", "cat", "t4"), edge("Guards", "g1", "cat", "t1"))),
        Side((edge("Guards", "g2", "bob", "t2"),)),
        Blame(("g2",), "@card violation on edge Guards: source 'ann' has 1 edges (min 2)", merged=(None,)),
        "1 sources have fewer or more edges than @card(2..3): 'ann'",
    ),
    Case(
        "a source that goes owes nothing",
        start(edge("Keeps", "k1", "ann", "t1"), edge("Keeps", "k2", "ann", "t2")),
        Side(remove=(("edge:Keeps", "k1"),)),
        Side(remove=(("edge:Keeps", "k1"), ("edge:Keeps", "k2"), ("node:Person", "ann"))),
        None,
    ),
]

ALL = pytest.mark.parametrize("case", CASES, ids=str)
LOADED = pytest.mark.parametrize("case", [case for case in CASES if case.loads], ids=str)


def stored(root: Path, case: Case) -> og.Graph:
    """A graph in the state that ``theirs`` meets."""
    graph = og.init(root / "g", SCHEMA)
    for side in (case.base, case.ours):
        graph.write(side.changes)
    return graph


def load_file(root: Path, rows: Sequence[Row]) -> Path:
    path = root / "in.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


@ALL
def test_a_direct_write_raises_it(case: Case, tmp_path: Path) -> None:
    graph = stored(tmp_path, case)
    if case.blame is None:
        graph.write(case.theirs.changes)
        return
    with pytest.raises(OmniGraphError) as caught:
        graph.write(case.theirs.changes)
    assert caught.value.message == case.blame.message


@LOADED
def test_a_load_that_fails_raises_it_with_the_line(case: Case, tmp_path: Path) -> None:
    graph = stored(tmp_path, case)
    path = load_file(tmp_path, case.theirs.put)
    if case.blame is None:
        graph.load(path, "merge")
        return
    with pytest.raises(OmniGraphError) as caught:
        graph.load(path, "merge")
    assert caught.value.message == case.blame.message
    assert ids_on(case, [caught.value.details["line"]]) == case.blame.rows


@LOADED
def test_a_load_that_rejects_leaves_the_blamed_rows_out(case: Case, tmp_path: Path) -> None:
    graph = stored(tmp_path, case)
    rejects = graph.load(load_file(tmp_path, case.theirs.put), "merge", on_error="reject").rejects.to_pylist()
    blame = case.blame or Blame((), "")
    assert ids_on(case, [row["line"] for row in rejects]) == blame.rows
    assert {row["reason"] for row in rejects} == ({blame.message} if blame.rows else set())
    assert graph.verify().ok


@pytest.mark.parametrize("case", [case for case in CASES if case.merges], ids=str)
def test_a_merge_reports_it_as_a_conflict(case: Case, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA)
    graph.write(case.base.changes)
    graph.branches.create("b")
    if case.ours.changes:
        graph.write(case.ours.changes)
    graph.write(case.theirs.changes, branch="b")
    if case.blame is None:
        graph.branches.merge("b")
        return
    with pytest.raises(MergeConflict) as caught:
        graph.branches.merge("b")
    expected = case.blame.rows if case.blame.merged is None else case.blame.merged
    found = caught.value.conflicts
    assert [each.row_id for each in found] == list(expected)
    for each in found:
        entity = f"{each.table_key}/{each.row_id}: " if each.row_id is not None else ""
        assert each.message.removeprefix(entity) == case.blame.message


@ALL
def test_verify_finds_it_when_it_was_planted(case: Case, tmp_path: Path) -> None:
    graph = stored(tmp_path, case)
    for change in case.theirs.changes:
        plant(graph, change)
    found = [problem.message for problem in graph.verify().problems if not problem.harmless]
    assert found == ([] if case.verified is None else [case.verified])


def ids_on(case: Case, lines: list[int]) -> tuple[str, ...]:
    rows = [case.theirs.put[line - 1]["data"] for line in lines]
    return tuple(row.get("id") or row["handle"] for row in rows)


def plant(graph: og.Graph, change: Change) -> None:
    """Commit a change through the protocol without any of the rules: delete what it touches, append what it puts."""
    key = change.table_key

    def prepare(workspace: Workspace) -> Prepared[None]:
        pin, handle = workspace.writable(key)
        put = change.put.to_pylist() if change.put is not None else []
        rows = [{"id": row.get("id") or row.get("handle") or row.get("code"), **row} for row in put]
        going = change.remove if change.remove is not None else pa.array([row["id"] for row in rows], pa.string())
        touched = locate(handle, pc.unique(going))
        table = pa.Table.from_pylist(rows, schema=handle.schema)
        staged = stage_change(handle, pin.row_count, table, locate(handle, going.slice(0, 0)), touched)
        tables = {} if staged is None else {key: PreparedTable(pin, handle, staged, reads_rows=False)}
        return Prepared(None, tables)

    run(graph._store, Write("main", WriterKind.LOAD, None, prepare))
    graph._store.mirror.flush()
