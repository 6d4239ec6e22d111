"""The pipeline of a plan as DataFrames: each step turns one frame of bindings into the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from omnigraph import limits
from omnigraph.errors import InternalError
from omnigraph.query.plan.logical_plan import (
    AntiJoin,
    Distinct,
    Expand,
    ExpandInto,
    Filter,
    NodeScan,
    OptionalMatch,
    RankedScan,
    Step,
)
from omnigraph.query.typed import Traversal, Variable
from omnigraph.spark.plans.context import Context, hinted
from omnigraph.spark.plans.edges import count_of, incident, within
from omnigraph.spark.plans.predicates import nodes, passing
from omnigraph.spark.plans.ranked_rows import best_rows, wanted_rows


@dataclass(frozen=True, slots=True)
class Bindings:
    """A frame with the columns of its variables.

    Attributes:
        frame: None before anything is bound.
        outer: variables of the surrounding block; they tell apart which of its bindings a row extends.
    """

    frame: DataFrame | None = None
    outer: tuple[Variable, ...] = ()


def run_steps(context: Context, steps: tuple[Step, ...], bindings: Bindings) -> Bindings:
    for step in steps:
        bindings = _run(context, step, bindings)
    return bindings


def _run(context: Context, step: Step, bindings: Bindings) -> Bindings:
    match step:
        case NodeScan():
            rows = nodes(context, step.variable, step.predicates)
            frame = _beside(bindings, rows, context.rows(step.variable))
        case RankedScan():
            rows, wanted = nodes(context, step.variable, step.predicates), wanted_rows(context, context.query)
            most = context.rows(step.variable) if wanted is None else wanted
            frame = _beside(bindings, best_rows(context, step.rank, rows, wanted), most)
        case Expand():
            frame = _expand(context, _bound(context, bindings), step)
        case ExpandInto():
            frame = _connect(context, _bound(context, bindings), step.traversal)
        case Filter():
            frame = passing(context, _bound(context, bindings), step.predicates)
        case AntiJoin():
            frame = _anti(context, _bound(context, bindings), step)
        case OptionalMatch():
            frame = _extend(context, _bound(context, bindings), step)
        case Distinct():
            kept = (*bindings.outer, *(v for v in step.variables if v not in bindings.outer))
            frame = _different(context, _bound(context, bindings), kept)
        case _:
            raise InternalError(f"{type(step).__name__} is no step for Spark")
    return replace(bindings, frame=frame)


def _bound(context: Context, bindings: Bindings) -> DataFrame:
    return bindings.frame if bindings.frame is not None else context.one_row()


def _beside(bindings: Bindings, rows: DataFrame, most: int) -> DataFrame:
    """The product of what is bound and of rows, of which there are not more than ``most``."""
    if bindings.frame is None:
        return rows
    return bindings.frame.crossJoin(rows.hint("broadcast" if most <= limits.BROADCAST_ROWS else "shuffle_replicate_nl"))


def _expand(context: Context, frame: DataFrame, step: Expand) -> DataFrame:
    traversal, target = step.traversal, step.target
    start, end = context.fresh(), context.fresh()
    single = (traversal.min_hops, traversal.max_hops) == (1, 1)
    if single:
        pairs, most = incident(context, traversal, step.origin, start, end), count_of(context, traversal)
    else:
        pairs = within(context, traversal, step.origin, _origins(context, frame, step.origin, start), start, end)
        most = context.rows(step.origin) * context.rows(target)
    found = frame.join(hinted(pairs, most), context.column(step.origin) == F.col(start)).drop(start)
    if not step.predicates and len(context.names((target,))) == 1:
        return found.withColumnRenamed(end, context.name(target))  # an edge never ends where there is no node
    rows = hinted(nodes(context, target, step.predicates), context.rows(target))
    return found.join(rows, F.col(end) == context.column(target)).drop(end)


def _origins(context: Context, frame: DataFrame, origin: Variable, start: str) -> DataFrame:
    """The different nodes that a search starts from."""
    return frame.select(context.column(origin).alias(start)).where(F.col(start).isNotNull()).distinct()


def _connect(context: Context, frame: DataFrame, traversal: Traversal) -> DataFrame:
    left, right = traversal.left, traversal.right
    start, end = context.fresh(), context.fresh()
    if (traversal.min_hops, traversal.max_hops) == (1, 1):
        pairs, most = incident(context, traversal, left, start, end), count_of(context, traversal)
    else:
        pairs = within(context, traversal, left, _origins(context, frame, left, start), start, end)
        most = context.rows(left) * context.rows(right)
    same = (context.column(left) == F.col(start)) & (context.column(right) == F.col(end))
    if traversal.edge is None:
        return frame.join(hinted(pairs, most), same, "left_semi")
    return frame.join(hinted(pairs, most), same).drop(start, end)


def _different(context: Context, frame: DataFrame, variables: tuple[Variable, ...]) -> DataFrame:
    """Different bindings of some variables. An id decides about all columns of its row."""
    if not variables:
        return frame.select(F.lit(True).alias(context.fresh())).limit(1)
    return frame.select(*context.names(variables)).dropDuplicates(context.id_names(variables))


def _anti(context: Context, frame: DataFrame, step: AntiJoin) -> DataFrame:
    outer = step.negation.outer
    found = _inside(context, frame, outer, step.steps)
    ids = {name: context.fresh() for name in context.id_names(outer)}
    matched = found.select(*(F.col(name).alias(renamed) for name, renamed in ids.items()), F.lit(True).alias("found"))
    if not ids:
        return frame.join(matched.limit(1), F.lit(True), "left_anti")
    return frame.join(hinted(matched.distinct(), _most(context, outer)), _same(ids), "left_anti")


def _extend(context: Context, frame: DataFrame, step: OptionalMatch) -> DataFrame:
    outer, block = step.optional.outer, step.optional.block
    added = context.names((*block.variables, *block.optional_variables))
    found = _inside(context, frame, outer, step.steps)
    ids = {name: context.fresh() for name in context.id_names(outer)}
    found = found.select(*(F.col(name).alias(renamed) for name, renamed in ids.items()), *added)
    # How many extensions there are is not known, so they are never gathered.
    joined = frame.join(found.hint("merge"), _same(ids), "left") if ids else frame.join(found, F.lit(True), "left")
    return joined.drop(*ids.values())


def _inside(context: Context, frame: DataFrame, outer: tuple[Variable, ...], steps: tuple[Step, ...]) -> DataFrame:
    """What inner steps find, starting from the different outer bindings that they depend on."""
    seeds = _different(context, frame, outer) if outer else None
    return _bound(context, run_steps(context, steps, Bindings(seeds, outer)))


def _same(ids: dict[str, str]) -> Column:
    """Equal ids, also where an optional variable has none."""
    return reduce(and_, [F.col(name).eqNullSafe(F.col(renamed)) for name, renamed in ids.items()])


def _most(context: Context, variables: tuple[Variable, ...]) -> int:
    return prod(context.rows(variable) + 1 for variable in variables)
