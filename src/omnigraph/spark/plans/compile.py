"""The way from a query's text to a DataFrame: parsed, typed and planned as for the engine, then built step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from omnigraph import ids
from omnigraph.query import bind_params, check_read, parse_queries
from omnigraph.query.parameters import TextEmbedder
from omnigraph.query.plan import build_plan, optimise
from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.rules import Rule
from omnigraph.query.plan.rules.join_order import join_order
from omnigraph.query.plan.rules.predicate_pushdown import predicate_pushdown
from omnigraph.query.plan.rules.prune_variables import semi_join
from omnigraph.query.plan.rules.rank_first import rank_first
from omnigraph.schema.catalog import Catalog
from omnigraph.spark.frames import PinnedState
from omnigraph.spark.plans.context import Context
from omnigraph.spark.plans.finish import finish
from omnigraph.spark.plans.steps import Bindings, run_steps
from omnigraph.storage.objects.user_text import text_of

#: The engine's other rules save work that Spark does not do or plans by itself.
RULES: tuple[Rule, ...] = (join_order, predicate_pushdown, rank_first, semi_join)


def compile_query(
    session: SparkSession,
    state: PinnedState,
    catalog: Catalog,
    source: str | Path,
    name: str | None,
    params: Mapping[str, object] | None,
    embedder: TextEmbedder,
) -> DataFrame:
    text, file = text_of(source, ".gq")
    query = check_read(parse_queries(text, file).find(name), catalog)
    values = bind_params(query, params, embedder)
    plan = optimise(build_plan(query), Estimator(state, catalog), RULES)
    moment = ids.now()
    now = moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)
    context = Context(session, state, catalog, query, values, now)
    found = run_steps(context, plan.steps, Bindings()).frame
    return finish(context, plan, found if found is not None else context.one_row())
