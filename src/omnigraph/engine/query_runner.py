"""Runs reads as a user asks for them: a text, a name, parameters and a state in, a result or an explanation out.

Texts are compiled once, and a plan is kept while the sizes that it was chosen for hold, so that the same query run
again and again costs only its execution, also when others commit meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from omnigraph import ids, limits
from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.execution_context import ExecutionContext, ExecutionTrace
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.operators import run_steps
from omnigraph.engine.point_read import PointRead
from omnigraph.engine.query_result import Result
from omnigraph.engine.result_table import finish
from omnigraph.engine.version_cache import VersionCache
from omnigraph.lru import LruCache
from omnigraph.query import bind_params, check_read, parse_queries
from omnigraph.query.parameters import TextEmbedder
from omnigraph.query.plan import Plan, build_plan, optimise
from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.logical_plan import Statistics
from omnigraph.query.typed import TextVector, TypedQuery
from omnigraph.read_budget import UNBOUNDED, ReadBudget
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.user_text import text_of

if TYPE_CHECKING:
    from omnigraph.engine.explanation import Explanation
    from omnigraph.query.lint_queries import LintReport


def plan_query(sizes: Statistics, catalog: Catalog, query: TypedQuery) -> Plan:
    return optimise(build_plan(query), Estimator(sizes, catalog))


def run_plan(
    view: GraphView,
    plan: Plan,
    params: Mapping[str, Any],
    trace: ExecutionTrace | None = None,
    now: datetime | None = None,
    budget: ReadBudget = UNBOUNDED,
) -> pa.Table:
    """Run a plan on a snapshot. All of it sees one state and one instant, by default this one."""
    moment = now or ids.now()
    instant = moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)
    context = ExecutionContext(view, params, instant, trace, budget)
    if plan.factorized is not None:
        from omnigraph.engine.arranged_result import finish_tree

        found = finish_tree(context, plan)
    else:
        found = finish(context, plan, run_steps(context, plan.steps, BindingTable(1)))
    if budget.max_rows is not None:
        budget.require_rows(found.num_rows)
    if budget.max_bytes is not None:
        budget.hold(found.nbytes)
    return found


def _left_out(asked: list[tuple[TextVector, str]]) -> list[tuple[float, ...]]:
    """No vectors, for a query whose parameters are only checked."""
    return [()] * len(asked)


_Key: TypeAlias = tuple[str, str, str | None]  # hash of the schema, text, name of the query

#: Compiled queries that one handle keeps.
_MAX_COMPILED = 256


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to run and on which state."""

    source: str | Path
    name: str | None
    params: Mapping[str, object] | None
    snapshot: ManifestSnapshot
    at: str | int | datetime | None = None
    budget: ReadBudget = UNBOUNDED


class QueryRunner:
    """Runs reads of one graph, each with the schema of the state it reads.

    Args:
        catalog_of: the schema of a state.
        embedder: makes the vectors of texts that a query compares with vectors.
    """

    def __init__(
        self, store: GraphStore, catalog_of: Callable[[ManifestSnapshot], Catalog], embedder: TextEmbedder
    ) -> None:
        self._store = store
        self._catalog_of = catalog_of
        self._embedder = embedder
        self._compiled: LruCache[_Key, _Compiled] = LruCache(max_entries=_MAX_COMPILED)

    def view(self, snapshot: ManifestSnapshot, budget: ReadBudget = UNBOUNDED) -> GraphView:
        """A state as the engine sees it."""
        catalog = self._catalog_of(snapshot)
        if snapshot.between:  # what is known of versions of tables is not known of what lies between two of them
            return GraphView(self._store, snapshot, catalog, VersionCache(limits.engine_cache_bytes()), budget)
        return GraphView(self._store, snapshot, catalog, budget=budget)

    def run(self, request: ReadRequest, view: GraphView | None = None) -> Result:
        """Run a query on the state of its request, or on another view of it."""
        snapshot = request.snapshot
        view = view or self.view(snapshot, request.budget)
        compiled = self._compile(request.source, request.name, view.catalog)
        params = bind_params(compiled.query, request.params, self._embedder)
        return Result(
            compiled.run(view, params, request.budget),
            compiled.names,
            query_name=compiled.query.name,
            branch=snapshot.branch,
            at=request.at,
            commit_id=self._store.head_id(snapshot),
            types=compiled.types,
        )

    def explain(self, request: ReadRequest, *, run: bool) -> Explanation:
        from omnigraph.engine.explanation import explain

        view = self.view(request.snapshot, request.budget)
        query = self._compile(request.source, request.name, view.catalog).query
        if run:
            return explain(view, query, bind_params(query, request.params, self._embedder), request.budget)
        if request.params:
            bind_params(query, request.params, _left_out)
        return explain(view, query, None)

    def keep_topologies(self, snapshot: ManifestSnapshot) -> list[str]:
        """Write topologies of large edge types for processes that start later."""
        return self.view(snapshot).keep_topologies(limits.PERSISTED_EDGES)

    def lint(self, source: str | Path, snapshot: ManifestSnapshot) -> LintReport:
        from omnigraph.query.lint_queries import SchemaSource, lint

        text, file = text_of(source, ".gq")
        catalog = self._catalog_of(snapshot)
        return lint(text, catalog, file, schema_source=SchemaSource("graph", self._store.location.uri))

    def _compile(self, source: str | Path, name: str | None, catalog: Catalog) -> _Compiled:
        text, file = text_of(source, ".gq")

        def make() -> _Compiled:
            return _Compiled(check_read(parse_queries(text, file).find(name), catalog))

        return self._compiled.get_or_make((catalog.hash, text, name), make)


class _Compiled:
    """A checked query and its last plan."""

    def __init__(self, query: TypedQuery) -> None:
        self.query = query
        self.names = [column.name for column in query.columns]
        self.types = tuple(column.type for column in query.columns)
        self._planned: _Planned | None = None

    def run(self, view: GraphView, params: Mapping[str, Any], budget: ReadBudget) -> pa.Table | list[pa.Array]:
        planned = self._plan(view)
        found = planned.point.run(view, params, budget) if planned.point is not None else None
        return run_plan(view, planned.plan, params, budget=budget) if found is None else found

    def _plan(self, view: GraphView) -> _Planned:
        """A plan for a state: the last one if it was made for this state, or for one with tables of similar sizes."""
        planned, snapshot = self._planned, view.snapshot
        state = (snapshot.branch, snapshot.identity, -1 if snapshot.between else snapshot.version)
        if planned is None or (planned.state != state and not planned.suits(view)):
            sizes = _Sizes(view)
            plan = plan_query(sizes, view.catalog, self.query)
            planned = _Planned(plan, PointRead.of(plan, view.catalog), state, sizes.known)
            self._planned = planned
        return planned


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan and the sizes of tables that it was chosen for; nothing else of a state has a say in it."""

    plan: Plan
    point: PointRead | None
    state: tuple[str, str, int]
    sizes: Mapping[str, int]

    def suits(self, view: GraphView) -> bool:
        return all(view.count(key).bit_length() == size.bit_length() for key, size in self.sizes.items())


class _Sizes:
    """Sizes of the tables of a state, and which of them were asked for."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self.known: dict[str, int] = {}

    def count(self, table_key: str) -> int:
        self.known[table_key] = self._view.count(table_key)
        return self.known[table_key]
