"""The row table of a merge as a generated suite: what each side did to a row decides what becomes of it.

`TABLE` is written from the specification: a row of it per combination, with the outcome in its own words. Each
combination is tried for nodes and for edges, in three directions and three ancestries, as a preview and as a merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from omnigraph.errors import MergeConflict
from omnigraph.write.change import Change, Mode
from tests.merge.branches import ANCESTRIES, DIRECTIONS, Apart, apart, fingerprint, state

# What a side did: x the row is absent, B it is as in the base, 1 and 2 are two different new values.
# base, source, target → what the target has afterwards, or the conflict.
TABLE: tuple[tuple[str, str, str, str], ...] = (
    ("x", "x", "x", "x"),
    ("x", "x", "1", "1"),
    ("x", "x", "2", "2"),
    ("x", "1", "x", "1"),
    ("x", "2", "x", "2"),
    ("x", "1", "1", "1"),
    ("x", "2", "2", "2"),
    ("x", "1", "2", "DivergentInsert"),
    ("x", "2", "1", "DivergentInsert"),
    ("B", "B", "B", "B"),
    ("B", "B", "1", "1"),
    ("B", "B", "2", "2"),
    ("B", "B", "x", "x"),
    ("B", "1", "B", "1"),
    ("B", "2", "B", "2"),
    ("B", "1", "1", "1"),
    ("B", "2", "2", "2"),
    ("B", "1", "2", "DivergentUpdate"),
    ("B", "2", "1", "DivergentUpdate"),
    ("B", "1", "x", "DeleteVsUpdate"),
    ("B", "2", "x", "DeleteVsUpdate"),
    ("B", "x", "B", "x"),
    ("B", "x", "x", "x"),
    ("B", "x", "1", "DeleteVsUpdate"),
    ("B", "x", "2", "DeleteVsUpdate"),
)
KINDS = {"node": "node:Person", "edge": "edge:Knows"}

#: The values of a row by what it says in the table. A changed edge moves an endpoint in one of them.
VALUES: dict[str, dict[str, dict[str, Any]]] = {
    "node:Person": {"B": {"age": 1}, "1": {"age": None}, "2": {"age": 2}},
    "edge:Knows": {
        "B": {"src": "hub", "dst": "rim", "weight": 1},
        "1": {"src": "hub", "dst": "hub", "weight": 1},
        "2": {"src": "hub", "dst": "rim", "weight": None},
    },
}
TYPES = {"age": pa.int32(), "weight": pa.int32(), "src": pa.string(), "dst": pa.string()}
KEY = {"node:Person": "handle", "edge:Knows": "id"}

Line = tuple[str, str, str, str]


def is_conflict(line: Line) -> bool:
    return len(line[3]) > 1


def name(line: Line) -> str:
    return "-".join(line[:3])


CASES = [
    pytest.param(ancestry, direction, kind, line, id=f"{ancestry}, {direction}, {kind}, {name(line)}")
    for ancestry in ANCESTRIES
    for direction in DIRECTIONS
    for kind in KINDS
    for line in TABLE
]


def test_the_table_names_every_combination_once_and_the_suite_has_at_least_300_cases() -> None:
    absent = {("x", s, t) for s in "x12" for t in "x12"}
    present = {("B", s, t) for s in "B12x" for t in "B12x"}
    assert {line[:3] for line in TABLE} == absent | present
    assert len(TABLE) == len(absent | present)
    assert len(CASES) >= 300


def put(table_key: str, lines: list[Line], side: int) -> list[Change]:
    """A write that gives each row the value of one side, and removes those that the side does not have."""
    there = [line for line in lines if line[side] not in ("x", "B" if side else "")]
    going = [name(line) for line in lines if side and line[0] == "B" and line[side] == "x"]
    columns = {KEY[table_key]: pa.array([name(line) for line in there], pa.string())}
    for column in next(iter(VALUES[table_key].values())):
        columns[column] = pa.array([VALUES[table_key][line[side]][column] for line in there], TYPES[column])
    return [Change(table_key, pa.table(columns), Mode.MERGE, pa.array(going, pa.string()) if going else None)]


def arranged(root: Path, ancestry: str, direction: str, lines: list[Line]) -> Apart:
    def side(number: int) -> list[Change]:
        return [change for key in KINDS.values() for change in put(key, lines, number)]

    branches = apart(root, ancestry, direction, *side(0))
    branches.graph.write(side(1), branch=branches.source)
    branches.graph.write(side(2), branch=branches.target)
    return branches


class Tried:
    """One ancestry and direction: all clean combinations merged, all conflicting ones tried and then resolved."""

    def __init__(self, root: Path, ancestry: str, direction: str) -> None:
        clean = arranged(root / "clean", ancestry, direction, [line for line in TABLE if not is_conflict(line)])
        self.preview = clean.merge(dry_run=True)
        self.source_before = fingerprint(clean.graph, clean.source)
        self.merged = clean.merge()
        self.source_after = fingerprint(clean.graph, clean.source)
        self.rows = state(clean.graph, clean.target)
        self.heads = clean.graph.commits.head(clean.source), clean.graph.commits.head(clean.target)
        self.again = clean.merge()

        torn = arranged(root / "torn", ancestry, direction, list(TABLE))
        before = fingerprint(torn.graph, torn.target)
        self.torn_preview = torn.merge(dry_run=True)
        with pytest.raises(MergeConflict) as caught:
            torn.merge()
        self.refused = caught.value.conflicts
        self.untouched = fingerprint(torn.graph, torn.target) == before
        copies: dict[Literal["ours", "theirs"], str] = {"ours": "copy-ours", "theirs": "copy-theirs"}
        for copy in copies.values():
            torn.graph.branches.create(copy, torn.target)
        for rule, copy in copies.items():
            torn.graph.branches.merge(torn.source, copy, resolve=rule)
        self.resolved = {rule: state(torn.graph, copy) for rule, copy in copies.items()}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    kept: dict[tuple[str, str], Tried] = {}

    def get(ancestry: str, direction: str) -> Tried:
        if (ancestry, direction) not in kept:
            kept[ancestry, direction] = Tried(tmp_path_factory.mktemp("truth"), ancestry, direction)
        return kept[ancestry, direction]

    yield get


@pytest.mark.parametrize(("ancestry", "direction", "kind", "line"), CASES)
def test_a_row_ends_as_the_table_says(tried: Any, ancestry: str, direction: str, kind: str, line: Line) -> None:
    found: Tried = tried(ancestry, direction)
    key = KINDS[kind]
    if not is_conflict(line):
        assert value(found.rows[key], line, key) == line[3]
        preview = found.preview.tables[key].ids
        operation = {("x", True): "inserted", ("B", True): "updated"}.get((line[0], line[3] != "x"), "deleted")
        changes_target = line[3] != line[2]
        assert (name(line) in preview[operation].to_pylist()) == changes_target
    conflicts = [each for each in found.refused if (each.table_key, each.row_id) == (key, name(line))]
    assert [each.kind for each in conflicts] == ([line[3]] if is_conflict(line) else [])
    assert [each.to_dict() for each in found.torn_preview.conflicts] == [each.to_dict() for each in found.refused]
    assert value(found.resolved["ours"][key], line, key) == (line[2] if is_conflict(line) else line[3])
    assert value(found.resolved["theirs"][key], line, key) == (line[1] if is_conflict(line) else line[3])


@pytest.mark.parametrize("ancestry", ANCESTRIES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_merge_is_one_commit_with_two_parents_and_a_failed_one_is_none(
    tried: Any, ancestry: str, direction: str
) -> None:
    found: Tried = tried(ancestry, direction)
    source, target = found.heads
    assert found.merged.outcome == found.preview.outcome == "merged"
    assert found.merged.commit == target
    assert target.merged_parent == source.id
    assert found.source_before == found.source_after, "a merge changed its source"
    assert found.again.outcome == "already_up_to_date"
    assert found.again.commit is None
    assert found.untouched, "a refused merge changed its target"
    assert [(each.table_key, each.row_id) for each in found.refused] == sorted(
        (key, name(line)) for key in KINDS.values() for line in TABLE if is_conflict(line)
    )


def value(rows: dict[str, dict[str, Any]], line: Line, key: str) -> str:
    """Which of the table's words a stored row is."""
    row = rows.get(name(line))
    if row is None:
        return "x"
    found = [word for word, values in VALUES[key].items() if all(row[column] == v for column, v in values.items())]
    assert len(found) == 1, row
    return found[0]
