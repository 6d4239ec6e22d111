"""The order of rows by search scores: `nearest`, `bm25`, and `rrf` of two of them, as `engine/ranking.py` gives it.

Each task finds the best of its rows, and the best of those are the best of all; nothing is gathered on the driver. Only
the ranks of a `bm25` inside `rrf` need all rows that match in one order: one task sorts their ids and scores.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from omnigraph.query.plan import Plan
from omnigraph.query.plan.logical_plan import RankedScan
from omnigraph.query.plan.rules.rank_first import leads, selects_rows
from omnigraph.query.typed import Distance, FusedScore, Rank, TextScore, TypedQuery
from omnigraph.query.typed.walk import variables_in_predicate
from omnigraph.spark.plans.context import Context, hinted
from omnigraph.spark.plans.predicates import nodes


def wanted_rows(context: Context, query: TypedQuery) -> int | None:
    """How many rows of the ranked variable can be in the result; None for all that have a score."""
    limit = context.number(query.limit)
    if limit is None or not selects_rows(query):
        return None
    return limit + (context.number(query.offset) or 0)


def best_rows(context: Context, rank: Rank, rows: DataFrame, wanted: int | None) -> DataFrame:
    """The best of some rows of the ranked variable, in no order; with the columns of `rank_keys`."""
    if isinstance(rank.score, FusedScore):
        assert wanted is not None  # a fused ranking has a limit
        return _fused(context, rank, rank.score, rows, wanted)
    scored = rows.where(context.column(rank.variable, rank.score).isNotNull())
    return scored if wanted is None else scored.orderBy(*rank_keys(context, rank)).limit(wanted)


def keep_best(context: Context, plan: Plan, frame: DataFrame) -> DataFrame:
    """Bindings of the best rows of the ranked variable."""
    query, rank = plan.query, plan.rank
    assert rank is not None
    if any(isinstance(step, RankedScan) for step in plan.steps):
        return frame
    wanted, variable = wanted_rows(context, query), rank.variable
    if wanted is None:
        return best_rows(context, rank, frame, None)
    if leads(query, variable):
        own = tuple(p for p in query.match.predicates if variables_in_predicate(p) == {variable})
        rows = nodes(context, variable, own)
    else:
        rows = frame.select(*context.names((variable,))).dropDuplicates([context.name(variable)])
    same = context.fresh()
    best = best_rows(context, rank, rows, wanted)
    best = best.select(context.column(variable).alias(same), *_added(context, rank))
    return frame.join(hinted(best, wanted), context.column(variable) == F.col(same)).drop(same)


def rank_keys(context: Context, rank: Rank) -> list[Column]:
    """What rows of the ranked variable are ordered by, ascending."""
    variable, score = rank.variable, rank.score
    match score:
        case Distance():
            return [context.column(variable, score), context.column(variable)]
        case TextScore():
            return [-context.column(variable, score), context.column(variable)]
        case FusedScore():
            # Equal scores stay in the order of the first arm; those that it does not have follow in that of the second.
            first, second = map(F.col, _rank_names(context, score))
            return [-context.column(variable, score), first.isNull(), first, second]


def _rank_names(context: Context, score: FusedScore) -> list[str]:
    """Columns for the places in the two rankings of a fusion, which may be equal rankings."""
    return [context.name(score.first.field.variable, (score, number)) for number in (0, 1)]


def _added(context: Context, rank: Rank) -> list[str]:
    """Columns that a ranking adds to the rows."""
    if not isinstance(rank.score, FusedScore):
        return []
    return [context.name(rank.variable, rank.score), *_rank_names(context, rank.score)]


def _fused(context: Context, rank: Rank, score: FusedScore, rows: DataFrame, wanted: int) -> DataFrame:
    """The best rows by the sum of what their places in two rankings weigh."""
    k, places = context.value(score.k), _rank_names(context, score)
    ids = [context.fresh(), context.fresh()]
    first, second = (
        _ranked(context, Rank(arm, rank.variable), rows, wanted, id_name, place)
        for arm, id_name, place in zip((score.first, score.second), ids, places, strict=True)
    )
    both = first.join(second, F.col(ids[0]) == F.col(ids[1]), "full")
    weights = [F.coalesce(1 / (F.col(place) + k + 1).cast("double"), F.lit(0.0)) for place in places]
    fused = both.withColumn(context.name(rank.variable, score), weights[0] + weights[1])
    best = fused.orderBy(*rank_keys(context, rank)).limit(wanted)
    same = F.coalesce(*map(F.col, ids)) == context.column(rank.variable)
    return rows.join(hinted(best, wanted), same).drop(*ids)


def _ranked(context: Context, arm: Rank, rows: DataFrame, wanted: int, id_name: str, place: str) -> DataFrame:
    """Ids of one ranking with their places from 0; a `nearest` has as many places as rows are wanted."""
    best = best_rows(context, arm, rows, wanted if isinstance(arm.score, Distance) else None)
    order = Window.orderBy(*rank_keys(context, arm))
    number = F.row_number().over(order).cast("bigint") - 1
    return best.select(context.column(arm.variable).alias(id_name), number.alias(place))
