"""Sums of integers are exact or refused, in one table and along a tree of matches."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.exact_sums import cut
from omnigraph.errors import SumOverflow
from omnigraph.schema.catalog import Scalar

SCHEMA = """
node Account { name: String @key  town: String  small: I32?  cents: I64?  tiny: U32?  bytes: U64?  rate: F64? }
edge Pays: Account -> Account
"""
I64 = 2**63 - 1


def accounts(tmp_path: Path, cents: list[int | None], **more: list[int | float | None]) -> og.Graph:
    graph = og.init(tmp_path / "graph", SCHEMA)
    names = [f"a{number}" for number in range(len(cents))]
    towns = ["here" if number % 2 else "there" for number in range(len(cents))]
    kinds = {"small": pa.int32(), "tiny": pa.uint32(), "bytes": pa.uint64(), "rate": pa.float64()}
    extra = {name: pa.array(values, kinds[name]) for name, values in more.items()}
    rows = pa.table({"name": names, "town": towns, "cents": pa.array(cents, pa.int64()), **extra})
    graph.load({"Account": rows}, "append", engine="embedded")
    return graph


def one(graph: og.Graph, expression: str) -> object:
    return graph.query(f"query q() {{ match {{ $a: Account }} return {{ {expression} as s }} }}").rows()[0]["s"]


def test_sum_above_the_precision_of_floats_is_exact(tmp_path: Path) -> None:
    graph = accounts(tmp_path, [9007199254740993, 1, 1])
    total = one(graph, "sum($a.cents)")
    assert total == 9007199254740995
    assert isinstance(total, int)


def test_each_integer_type_has_a_sum_that_holds_it(tmp_path: Path) -> None:
    graph = accounts(
        tmp_path,
        [I64, -I64, -5],
        small=[2**31 - 1, 2**31 - 1, 2**31 - 1],
        tiny=[2**32 - 1, 2**32 - 1, None],
        bytes=[2**63, 2**63 - 1, None],
        rate=[0.5, 0.25, None],
    )
    table = graph.query(
        "query q() { match { $a: Account } return { sum($a.small) as small, sum($a.cents) as cents, "
        "sum($a.tiny) as tiny, sum($a.bytes) as bytes, sum($a.rate) as rate } }"
    ).to_arrow()
    assert table.to_pylist() == [
        {"small": 3 * (2**31 - 1), "cents": -5, "tiny": 2 * (2**32 - 1), "bytes": 2**64 - 1, "rate": 0.75}
    ]
    assert table.schema.types == [pa.int64(), pa.int64(), pa.int64(), pa.uint64(), pa.float64()]


@pytest.mark.parametrize("values", [[I64, 1], [-I64, -2], [I64, I64, I64, I64, I64]])
def test_sum_beyond_64_bits_is_refused(values: list[int | None], tmp_path: Path) -> None:
    graph = accounts(tmp_path, values)
    with pytest.raises(SumOverflow) as caught:
        one(graph, "sum($a.cents)")
    assert caught.value.code == "limit.sum"
    assert caught.value.message == "sum($a.cents) does not fit in I64: an exact sum has at most 64 bits"
    assert isinstance(one(graph, "avg($a.cents)"), float)


def test_unsigned_sum_beyond_64_bits_is_refused(tmp_path: Path) -> None:
    graph = accounts(tmp_path, [0, 0], bytes=[2**64 - 1, 1])
    with pytest.raises(SumOverflow, match=r"sum\(\$a\.bytes\) does not fit in U64"):
        one(graph, "sum($a.bytes)")


def test_one_group_too_large_refuses_the_query(tmp_path: Path) -> None:
    graph = accounts(tmp_path, [I64, 1, 1, 1])
    by_town = "query q() { match { $a: Account } return { $a.town as t, sum($a.cents) as s } order { t } }"
    with pytest.raises(SumOverflow):
        graph.query(by_town)
    graph.mutate('query q() { update Account set { cents: 0 } where name = "a2" }')
    assert graph.query(by_town).rows() == [{"t": "here", "s": 2}, {"t": "there", "s": I64}]


def test_sum_along_paths_is_exact_and_counts_every_path(tmp_path: Path) -> None:
    """Two hops over a complete graph: every value is added once for each of the paths that end at it."""
    cents = [2**60, -(2**60) + 3, 2**60 - 1, -(2**60)]
    graph = accounts(tmp_path, [*cents])
    names = [f"a{number}" for number in range(len(cents))]
    ends = {"src": [a for a in names for _ in names], "dst": [b for _ in names for b in names]}
    graph.load({"Pays": pa.table(ends)}, "append", engine="embedded")
    text = "query q() { match { $a: Account  $a pays $b  $b pays $c } return { $a.name as n, sum($c.cents) as s } }"
    assert "factorized" in str(graph.explain(text))
    assert {row["s"] for row in graph.query(text).rows()} == {sum(cents) * len(cents)}
    listed = text.replace("$b pays $c", "$b pays $c  $a.name != $c.name or $a.name = $c.name")
    assert "factorized" not in str(graph.explain(listed))
    assert graph.query(listed).rows() == graph.query(text).rows()
    graph.mutate(f'query q() {{ update Account set {{ cents: {2**62} }} where name = "a1" }}')
    with pytest.raises(SumOverflow, match=r"sum\(\$c\.cents\) does not fit in I64"):
        graph.query(text)


@pytest.mark.parametrize("bits", [8, 31, 40, 62])
@pytest.mark.parametrize("kind", [pa.int32(), pa.uint32(), pa.int64(), pa.uint64()])
def test_parts_put_together_are_the_sum(kind: pa.DataType, bits: int) -> None:
    """Whatever the number of terms that must fit, from one part to dozens of them."""
    random = Random(bits)
    scalar = Scalar.U64 if kind == pa.uint64() else Scalar.I64
    low = 0 if pa.types.is_unsigned_integer(kind) else -(2 ** (kind.bit_width - 1))
    high = low + 2**kind.bit_width - 1
    for size in (1, 2, 7, 30):
        values = [random.choice([low, high, 0, 1, random.randint(low, high), -(low // 2)]) for _ in range(size)]
        parts = cut(pa.array(values, kind), 2**bits).summed(lambda part: np.array([part.sum()]))
        fits = (-(2**63) if scalar is Scalar.I64 else 0) <= sum(values) < (2**63 if scalar is Scalar.I64 else 2**64)
        if fits:
            assert parts.whole(scalar, "sum").tolist() == [sum(values)]
        else:
            with pytest.raises(SumOverflow):
                parts.whole(scalar, "sum")
