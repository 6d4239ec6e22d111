"""Random rows of every type, three states of them, and the row decision against the naive oracle."""

from __future__ import annotations

import random
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.history.merge.three_way import MergeSide, decide
from tests.merge.oracle import Row, Rows, merge_rows, same

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("text", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("small", pa.float32()),
        pa.field("count", pa.uint64()),
        pa.field("flag", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("vector", pa.list_(pa.float32(), 2)),
        pa.field("bytes", pa.large_binary()),
    ]
)

#: Values that a careless comparison takes for each other.
POOLS: dict[str, list[Any]] = {
    "text": [None, "", "null", "a", "a|b"],
    "number": [None, 0.0, -0.0, float("nan"), float("inf"), 0.1, 1.0],
    "small": [None, 0.0, -0.0, 1.5],
    "count": [None, 0, 2**64 - 1],
    "flag": [None, True, False],
    "day": [None, date(1970, 1, 1), date(2024, 2, 29)],
    "tags": [None, [], [None], [""], ["a", "b"], ["a,b"], ["b", "a"]],
    "vector": [None, [0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]],
    "bytes": [None, b"", b"\x00", b"\x00\x00"],
}


def random_row(rng: random.Random, id_: str) -> Row:
    return {"id": id_, **{name: rng.choice(pool) for name, pool in POOLS.items()}}


def changed(rng: random.Random, row: Row) -> Row:
    """The row with one value drawn again, which may be the same value."""
    name = rng.choice(list(POOLS))
    return {**row, name: rng.choice(POOLS[name])}


def random_side(rng: random.Random, base: Rows, other: Rows, ids: list[str]) -> Rows:
    """What a side made of the base; now and then exactly what the other side did."""
    rows = dict(base)
    for id_ in ids:
        roll = rng.random()
        if roll < 0.25:
            rows.pop(id_, None)
        elif roll < 0.5:
            rows[id_] = changed(rng, rows[id_]) if id_ in rows else random_row(rng, id_)
        elif roll < 0.6 and id_ in other:
            rows[id_] = other[id_]
    return rows


def side_of(base: Rows, now: Rows) -> MergeSide:
    """The changes of a side, found by looking at every row."""

    def ids(found: list[str]) -> pa.Array:
        return pa.array(found, pa.string())

    def images(rows: Rows) -> Any:
        return lambda wanted: pa.Table.from_pylist([dict(rows[id_]) for id_ in wanted.to_pylist()], schema=SCHEMA)

    return MergeSide(
        inserted=ids([id_ for id_ in now if id_ not in base]),
        updated=ids([id_ for id_ in now if id_ in base and not same(base[id_], now[id_])]),
        deleted=ids([id_ for id_ in base if id_ not in now]),
        rows=images(now),
        base_rows=images(base),
    )


def play(seed: int) -> None:
    rng = random.Random(seed)
    ids = [f"r{number}" for number in range(rng.randint(1, 8))]
    base = {id_: random_row(rng, id_) for id_ in ids if rng.random() < 0.7}
    source = random_side(rng, base, {}, ids)
    target = random_side(rng, base, source, ids)
    wanted, conflicts = merge_rows(base, source, target)

    outcome = decide(side_of(base, source), side_of(base, target))

    found = dict(zip(*(outcome.conflicts.column(name).to_pylist() for name in ("id", "kind")), strict=True))
    assert found == conflicts, f"seed {seed}"
    put, remove = outcome.put.to_pylist(), outcome.remove.to_pylist()
    assert len({*put, *remove}) == len(put) + len(remove), f"seed {seed}: an id is decided twice"
    assert all(id_ in target for id_ in remove), f"seed {seed}: a row that is not there is removed"
    merged = {id_: row for id_, row in target.items() if id_ not in remove and id_ not in conflicts}
    merged |= {id_: source[id_] for id_ in put}
    assert merged.keys() == wanted.keys(), f"seed {seed}"
    assert all(same(merged[id_], wanted[id_]) for id_ in wanted), f"seed {seed}"
    assert all(not same(target.get(id_), source[id_]) for id_ in put), f"seed {seed}: an unchanged row is rewritten"


def test_the_decision_about_2000_random_merges_is_that_of_the_oracle() -> None:
    for seed in range(2_000):
        play(seed)


@pytest.mark.torture
def test_the_decision_about_50000_random_merges_is_that_of_the_oracle() -> None:
    for seed in range(10_000, 60_000):
        play(seed)


def test_the_decision_about_an_id_depends_on_that_id_alone() -> None:
    """So that parts of the ids can be decided apart, by several workers."""
    rng = random.Random(7)
    ids = [f"r{number}" for number in range(200)]
    base = {id_: random_row(rng, id_) for id_ in ids if rng.random() < 0.7}
    source = random_side(rng, base, {}, ids)
    target = random_side(rng, base, source, ids)
    whole = decide(side_of(base, source), side_of(base, target))
    parts = []
    for part in range(4):
        own = [{id_: row for id_, row in rows.items() if hash(id_) % 4 == part} for rows in (base, source, target)]
        parts.append(decide(side_of(own[0], own[1]), side_of(own[0], own[2])))
    for column in ("put", "remove"):
        together = sorted(id_ for part in parts for id_ in getattr(part, column).to_pylist())
        assert together == sorted(getattr(whole, column).to_pylist())
    together = sorted(row["id"] for part in parts for row in part.conflicts.to_pylist())
    assert together == sorted(row["id"] for row in whole.conflicts.to_pylist())
