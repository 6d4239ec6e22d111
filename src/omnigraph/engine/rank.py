"""Ranking by search scores: the nearest vectors, and the fusion of two rankings.

Exact: every candidate is measured. A ranked variable that leads its pattern is ranked before traversals, among the rows
that pass its own conditions; one that is reached by a traversal is ranked among the matches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.adjacency import Positions
from omnigraph.engine.bindings import Bindings
from omnigraph.engine.candidates import candidates
from omnigraph.engine.evaluate import Context, needs_search
from omnigraph.engine.vectors import distances
from omnigraph.query.typed import Distance, FusedScore, Rank, TypedQuery, Variable
from omnigraph.query.typed.walk import variables_in_predicate


@dataclass(frozen=True, slots=True)
class Ranked:
    """Bindings in rank order, and the fused score of each entity if two rankings were fused."""

    bindings: Bindings
    fused: dict[int, float] = field(default_factory=dict)


def ranked(context: Context, query: TypedQuery, bindings: Bindings, wanted: int | None) -> Ranked:
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


def _entities(context: Context, rank: Rank, among: Positions, wanted: int | None) -> tuple[Positions, dict[int, float]]:
    if not isinstance(rank.score, FusedScore):
        return _arm(context, rank.score, rank.variable, among, wanted), {}
    k = context.value(rank.score.k)
    scores: dict[int, float] = {}
    for score in (rank.score.first, rank.score.second):
        for place, entity in enumerate(_arm(context, score, rank.variable, among, wanted).tolist()):
            scores[entity] = scores.get(entity, 0.0) + 1 / (k + place + 1)
    best = sorted(scores, key=lambda entity: -scores[entity])  # equal scores stay in the order of the first arm
    return np.array(best[:wanted], np.int64), scores


def _arm(context: Context, score: Any, variable: Variable, among: Positions, wanted: int | None) -> Positions:
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
