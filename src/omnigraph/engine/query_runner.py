"""Runs reads as a user asks for them: a text, a name, parameters and a state in, a result or an explanation out.

Texts are compiled once, and a plan is kept while the sizes that it was chosen for hold, so that the same query run
again and again costs only its execution, also when others commit meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from omnigraph import ids, limits
from omnigraph.engine.binding_table import BindingTable
from omnigraph.engine.evaluate import ExecutionContext, ExecutionTrace
from omnigraph.engine.graph_view import GraphView
from omnigraph.engine.node_scan import access_path
from omnigraph.engine.operators import run_steps
from omnigraph.engine.query_result import Result
from omnigraph.engine.result_table import finish, finish_tree
from omnigraph.lru import LruCache
from omnigraph.query import bind_params, check_read, parse_queries
from omnigraph.query.plan import Plan, build_plan, optimise
from omnigraph.query.plan.estimate import Estimator
from omnigraph.query.plan.explain import PlanLine, lines_of
from omnigraph.query.plan.logical_plan import NodeScan, Statistics, Step
from omnigraph.query.typed import TypedQuery
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.user_files import text_of

if TYPE_CHECKING:
    from omnigraph.query.lint_queries import LintReport


def plan_query(sizes: Statistics, catalog: Catalog, query: TypedQuery) -> Plan:
    return optimise(build_plan(query), Estimator(sizes, catalog))


def run_plan(view: GraphView, plan: Plan, params: dict[str, Any], trace: ExecutionTrace | None = None) -> pa.Table:
    """Run a plan on a snapshot. All of it sees one state and one instant."""
    moment = ids.now()
    now = moment.replace(microsecond=moment.microsecond // 1_000 * 1_000)
    context = ExecutionContext(view, params, now, trace)
    if plan.factorized is not None:
        return finish_tree(context, plan)
    return finish(context, plan, run_steps(context, plan.steps, BindingTable(1)))


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan in words; with measured rows and times if it was run. ``str()`` shows it as an indented list."""

    plan: Plan
    lines: tuple[PlanLine, ...]
    rows: int | None = None
    seconds: float | None = None
    measured: dict[int, tuple[int, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        shown = []
        for number, line in enumerate(self.lines):
            text = f"{'  ' * line.depth}{line.text}"
            if number in self.measured:
                rows, seconds = self.measured[number]
                text += f"  → {rows:,} rows, {seconds * 1e3:.2f} ms"
            shown.append(text)
        if self.rows is not None and self.seconds is not None:
            shown.append(f"{self.rows:,} rows in {self.seconds * 1e3:.2f} ms")
        return "\n".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: steps with their depth in the plan; rows and seconds where they were measured."""
        steps = []
        for number, line in enumerate(self.lines):
            rows, seconds = self.measured.get(number, (None, None))
            steps.append({"depth": line.depth, "text": line.text, "rows": rows, "seconds": seconds})
        return {"steps": steps, "row_count": self.rows, "seconds": self.seconds}


def explain(view: GraphView, query: TypedQuery, params: dict[str, Any] | None) -> Explanation:
    """Show the plan of a query; with parameters also run it."""
    plan = plan_query(view, view.catalog, query)

    def access(step: Step) -> str | None:
        return access_path(view.catalog, step.variable, step.predicates).value if isinstance(step, NodeScan) else None

    lines = lines_of(plan, access)
    if params is None:
        return Explanation(plan, lines)
    trace = ExecutionTrace()
    began = time.perf_counter()
    table = run_plan(view, plan, params, trace)
    seconds = time.perf_counter() - began
    place = {id(line.step): number for number, line in enumerate(lines) if line.step is not None}
    measured = {place[id(step)]: (rows, taken) for step, rows, taken in trace.steps if id(step) in place}
    return Explanation(plan, lines, table.num_rows, seconds, measured)


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


class QueryRunner:
    """Runs reads of one graph, each with the schema of the state it reads.

    Args:
        catalog_of: the schema of a state.
    """

    def __init__(self, store: GraphStore, catalog_of: Callable[[ManifestSnapshot], Catalog]) -> None:
        self._store = store
        self._catalog_of = catalog_of
        self._compiled: LruCache[_Key, _Compiled] = LruCache(max_entries=_MAX_COMPILED)

    def run(self, request: ReadRequest) -> Result:
        snapshot = request.snapshot
        catalog = self._catalog_of(snapshot)
        compiled = self._compile(request.source, request.name, catalog)
        params = bind_params(compiled.query, request.params)
        view = GraphView(self._store, snapshot, catalog)
        return Result(
            run_plan(view, compiled.plan(view), params),
            compiled.names,
            query_name=compiled.query.name,
            branch=snapshot.branch,
            at=request.at,
            commit_id=self._store.head_id(snapshot),
            types=compiled.types,
        )

    def explain(self, request: ReadRequest, *, run: bool) -> Explanation:
        catalog = self._catalog_of(request.snapshot)
        query = self._compile(request.source, request.name, catalog).query
        params = bind_params(query, request.params) if run else None
        return explain(GraphView(self._store, request.snapshot, catalog), query, params)

    def keep_topologies(self, snapshot: ManifestSnapshot) -> list[str]:
        """Write topologies of large edge types for processes that start later."""
        return GraphView(self._store, snapshot, self._catalog_of(snapshot)).keep_topologies(limits.PERSISTED_EDGES)

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

    def plan(self, view: GraphView) -> Plan:
        """A plan for a state: the last one if it was made for this state, or for one with tables of similar sizes."""
        planned, snapshot = self._planned, view.snapshot
        state = (snapshot.branch, snapshot.identity, snapshot.version)
        if planned is None or (planned.state != state and not planned.suits(view)):
            sizes = _Sizes(view)
            planned = _Planned(plan_query(sizes, view.catalog, self.query), state, sizes.known)
            self._planned = planned
        return planned.plan


@dataclass(frozen=True, slots=True)
class _Planned:
    """A plan and the sizes of tables that it was chosen for; nothing else of a state has a say in it."""

    plan: Plan
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
