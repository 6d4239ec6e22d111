"""The order of rows: by values, and by search scores.

By values the order is total: nulls first ascending and last descending, ties by the keys that follow. Ranking is
exact: every candidate is measured. A ranked variable that leads its pattern is ranked before traversals, among the rows
that pass its own conditions; one that is reached by a traversal is ranked among the matches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.adjacency import Positions
from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.evaluate import ExecutionContext, distances, needs_search
from omnigraph.engine.node_scan import candidates
from omnigraph.query.typed import Distance, FusedScore, Rank, TypedQuery, Variable
from omnigraph.query.typed.walk import variables_in_predicate


@dataclass(frozen=True, slots=True)
class SortColumn:
    """A sort key; ``fetch`` gives its values for some row numbers, so that only contenders are looked at."""

    fetch: Callable[[Positions], pa.Array]
    descending: bool = False


def sorted_rows(keys: list[SortColumn], length: int) -> Positions:
    """All row numbers in order. Rows that are equal in every key stay in the order of their numbers."""
    rows = np.arange(length)
    return rows[_sort_indices(keys, rows)] if keys else rows


def first_rows(keys: list[SortColumn], length: int, count: int) -> Positions:
    """The first ``count`` of `sorted_rows`, by selection: only they are sorted.

    Each key is fetched for the rows that the keys before it leave tied at the cut, so later keys are looked at for few
    rows, mostly for none.
    """
    tied = np.arange(length)
    certain: list[Positions] = []
    wanted = count
    for key in keys:
        if len(tied) <= wanted or wanted == 0:
            break
        before, equal = _around_cut(key.fetch(tied), wanted, key.descending)
        certain.append(tied[before])
        wanted -= len(certain[-1])
        tied = tied[equal]
    chosen = np.sort(np.concatenate([*certain, tied[:wanted]]))
    return chosen[_sort_indices(keys, chosen)]


def _sort_indices(keys: list[SortColumn], rows: Positions) -> Positions:
    table = pa.table([key.fetch(rows) for key in keys], names=[str(number) for number in range(len(keys))])
    sort_keys = [(str(n), "descending" if k.descending else "ascending", _nulls(k)) for n, k in enumerate(keys)]
    return np.asarray(pc.sort_indices(table, sort_keys=sort_keys), np.int64)


def _nulls(key: SortColumn) -> str:
    return "at_end" if key.descending else "at_start"


def _around_cut(column: pa.Array, count: int, descending: bool) -> tuple[Positions, Positions]:
    """Rows before the value that stands at place ``count`` of the order, and rows that have this value.

    Nulls are on the outside, numbers that are none between them and the values, as Arrow sorts them.
    """
    missing = np.asarray(column.is_null().to_numpy(zero_copy_only=False), np.bool_)
    values = _comparable_values(column.filter(pa.array(~missing)) if missing.any() else column)
    odd = np.zeros(len(column), np.bool_)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        odd[~missing] = np.isnan(values)
        values = values[~np.isnan(values)]
    plain = ~(missing | odd)
    classes = [plain, odd, missing] if descending else [missing, odd, plain]
    before = np.zeros(len(column), np.bool_)
    for rows in classes:
        here = int(rows.sum())
        if count > here:
            before |= rows
            count -= here
            continue
        if rows is not plain:
            return np.flatnonzero(before), np.flatnonzero(rows)
        places = np.flatnonzero(plain)
        sooner, equal = _split_values(values, count, descending)
        return np.sort(np.concatenate([np.flatnonzero(before), places[sooner]])), places[equal]
    return np.flatnonzero(before), np.zeros(0, np.int64)


def _comparable_values(column: pa.Array) -> Any:
    """Numbers as a NumPy array; texts stay an Arrow array."""
    if pa.types.is_date64(column.type):
        column = column.view(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return column if is_text else np.asarray(column.to_numpy(zero_copy_only=False))


def _split_values(values: Any, count: int, descending: bool) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which values stand before the one at place ``count``, and which equal it. No nulls."""
    if isinstance(values, np.ndarray):
        place = len(values) - count if descending else count - 1
        cut = np.partition(values, place)[place]
        return (values > cut if descending else values < cut), values == cut
    order = [("", "descending" if descending else "ascending")]
    cut = values[pc.select_k_unstable(values, count, sort_keys=order)[-1].as_py()]
    sooner = (pc.greater if descending else pc.less)(values, cut)
    return _flags(sooner), _flags(pc.equal(values, cut))


def _flags(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Bindings in rank order, and the fused score of each entity if two rankings were fused."""

    bindings: BindingTable
    fused: dict[int, float] = field(default_factory=dict)


def ranked(context: ExecutionContext, query: TypedQuery, bindings: BindingTable, wanted: int | None) -> Ranked:
    """Keep the bindings of the best entities, best first; rows of one entity by the ids of their variables."""
    rank = query.rank
    assert rank is not None
    own = tuple(p for p in query.match.predicates if variables_in_predicate(p) == {rank.variable})
    if _leads(query, rank.variable):
        among = candidates(context, rank.variable, own)
    else:
        among = np.unique(bindings.of(rank.variable))
    best, fused = _entities(context, rank, among, wanted)
    place = np.full(len(context.rows(rank.variable)), -1, np.int64)
    place[best] = np.arange(len(best))
    kept = bindings.take(place[bindings.of(rank.variable)] >= 0)
    keys = [pa.array(place[kept.of(rank.variable)])]
    bound = sorted([*query.match.variables, *query.match.optional_variables], key=lambda variable: variable.name)
    keys += [context.rows(v).values("id", kept.of(v)) for v in bound if kept.has(v)]
    table = pa.table(keys, names=[str(number) for number in range(len(keys))])
    order = pc.sort_indices(table, sort_keys=[(name, "ascending", "at_start") for name in table.column_names])
    return Ranked(kept.take(np.asarray(order, np.int64)), fused)


def _leads(query: TypedQuery, variable: Variable) -> bool:
    """Whether a variable is the first of its connected pattern."""
    together = {variable}
    for _ in query.match.traversals:
        for traversal in query.match.traversals:
            if {traversal.left, traversal.right} & together:
                together |= {traversal.left, traversal.right}
    return next(each for each in query.match.variables if each in together) == variable


def _entities(
    context: ExecutionContext, rank: Rank, among: Positions, wanted: int | None
) -> tuple[Positions, dict[int, float]]:
    if not isinstance(rank.score, FusedScore):
        return _arm(context, rank.score, rank.variable, among, wanted), {}
    k = context.value(rank.score.k)
    scores: dict[int, float] = {}
    for score in (rank.score.first, rank.score.second):
        for place, entity in enumerate(_arm(context, score, rank.variable, among, wanted).tolist()):
            scores[entity] = scores.get(entity, 0.0) + 1 / (k + place + 1)
    best = sorted(scores, key=lambda entity: -scores[entity])  # equal scores stay in the order of the first arm
    return np.array(best[:wanted], np.int64), scores


def _arm(context: ExecutionContext, score: Any, variable: Variable, among: Positions, wanted: int | None) -> Positions:
    """The best entities of one ranking, best first; equal distances by id."""
    if not isinstance(score, Distance):
        raise needs_search("bm25")
    rows = context.rows(variable)
    far = distances(rows.values(score.field.property, among), context.value(score.query))
    known = np.flatnonzero(~np.isnan(far))
    order = _nearest(far[known], rows.values("id", among[known]), wanted)
    return among[known[order]]


def _nearest(far: npt.NDArray[np.float64], ids: pa.Array, wanted: int | None) -> Positions:
    if wanted is not None and 0 < wanted < len(far):
        close = np.flatnonzero(far <= np.partition(far, wanted - 1)[wanted - 1])
        return close[_nearest(far[close], ids.take(pa.array(close)), None)[:wanted]]
    table = pa.table([pa.array(far), ids], names=["far", "id"])
    order = np.asarray(pc.sort_indices(table, sort_keys=[("far", "ascending"), ("id", "ascending")]), np.int64)
    return order if wanted is None else order[:wanted]
