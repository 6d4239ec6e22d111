"""Edges of a traversal as frames: pairs of ends as seen from a bound one, and what lies within some hops."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from omnigraph.query.typed import EdgeReading, Traversal, Variable
from omnigraph.spark.plans.context import ID, Context, hinted

_SRC, _DST = "src", "dst"


def leaves(traversal: Traversal, origin: Variable) -> bool:
    """Whether edges leave this end."""
    if traversal.reading is EdgeReading.UNDIRECTED or traversal.left == traversal.right:
        return True
    return traversal.source == origin


def incident(context: Context, traversal: Traversal, origin: Variable, start: str, end: str) -> DataFrame:
    """Pairs of ends; with an edge variable one row per edge, else each pair once.

    Args:
        start: name of the column for the end at ``origin``.
        end: name of the column for the other end.
    """
    if traversal.reading is not EdgeReading.UNDIRECTED:
        ends = (start, end) if leaves(traversal, origin) else (end, start)
        return _once(traversal, _edges(context, traversal, *ends))
    out, into = _edges(context, traversal, start, end), _edges(context, traversal, end, start)
    if traversal.edge is not None:  # a loop lies in both directions but is one edge
        into = into.where(F.col(start) != F.col(end))
    return _once(traversal, out.unionByName(into))


def _once(traversal: Traversal, edges: DataFrame) -> DataFrame:
    return edges if traversal.edge is not None else edges.distinct()


def _edges(context: Context, traversal: Traversal, source: str, target: str) -> DataFrame:
    key, columns = f"edge:{traversal.edge_type}", {_SRC: source, _DST: target}
    edge = traversal.edge
    if edge is None:
        return context.table(key, columns)
    stored = context.stored_columns(edge)
    ends = {context.name(edge, each): F.col(columns[each]) for each in stored if each in (_SRC, _DST)}
    columns |= {each: context.name(edge, each) for each in stored if each not in (_SRC, _DST)}
    return context.table(key, columns).withColumns(ends)  # the ends once more, under the names of the variable


def count_of(context: Context, traversal: Traversal) -> int:
    """At most so many rows does `incident` give."""
    return context.state.count(f"edge:{traversal.edge_type}") * (
        2 if traversal.reading is EdgeReading.UNDIRECTED else 1
    )


def within(
    context: Context, traversal: Traversal, origin: Variable, origins: DataFrame, start: str, end: str
) -> DataFrame:
    """Pairs of an origin and what lies between ``min_hops`` and ``max_hops`` from it, each once.

    Hops are shortest distances. A stored self-loop on a node at distance ``d`` gives that node again at ``d + 1``; the
    loop counts at the right end of the traversal, from whichever end the search starts.

    Args:
        origins: one column called ``start``, without nulls and repetitions.
    """
    edge = context.catalog.edges[traversal.edge_type]
    if edge.source != edge.target:  # edges between different types cannot be chained
        pairs = incident(context, traversal, origin, start, end)
        return pairs if traversal.min_hops == 1 else pairs.limit(0)
    low, high = traversal.min_hops, traversal.max_hops
    far = context.fresh()
    found = origins.select(F.col(start), F.col(start).alias(end), F.lit(0).alias(far))
    for hop in range(1, high + 1):
        found = _one_further(context, traversal, origin, found, (start, end, far), hop)
    at_end = not (origin == traversal.right and traversal.left != traversal.right)
    looped = context.fresh()
    loops = _edges(context, traversal, looped, context.fresh())
    loops = loops.where(loops[0] == loops[1]).select(looped).distinct()
    found = found.join(
        hinted(loops, count_of(context, traversal)), F.col(end if at_end else start) == F.col(looped), "left"
    )
    again = F.col(looped).isNotNull() & (F.col(far) + 1).between(low, high)
    return found.where((F.col(far) >= max(low, 1)) | again).select(start, end)


def _one_further(
    context: Context, traversal: Traversal, origin: Variable, found: DataFrame, names: tuple[str, str, str], hop: int
) -> DataFrame:
    """Shortest distances up to ``hop``, from those up to one less. A step of length 0 keeps what was found before."""
    start, end, far = names
    here, there, length = context.fresh(), context.fresh(), context.fresh()
    steps = incident(context, traversal, origin, here, there).withColumn(length, F.lit(1))
    key = f"node:{context.catalog.edges[traversal.edge_type].source}"
    nodes = context.table(key, {ID: here}).select(F.col(here), F.col(here).alias(there), F.lit(0).alias(length))
    most = count_of(context, traversal) + context.state.count(key)
    joined = found.join(hinted(steps.unionByName(nodes), most), F.col(end) == F.col(here))
    useful = joined.where((F.col(length) == 0) | (F.col(far) == hop - 1))
    further = useful.groupBy(start, there).agg(F.min(F.col(far) + F.col(length)).alias(far))
    return further.withColumnRenamed(there, end)
