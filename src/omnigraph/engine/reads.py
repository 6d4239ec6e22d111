"""Reads as a user asks for them: a text, a name, parameters, a branch and a moment in, a result out.

Texts are compiled once and plans kept per state of the graph, so that the same query run again and again costs only
its execution.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from omnigraph import limits
from omnigraph.engine.result import Result
from omnigraph.engine.run import Explanation, explain, plan_query, run_plan
from omnigraph.engine.view import View
from omnigraph.query import bind_params, check_read, parse_queries
from omnigraph.query.plan import Plan
from omnigraph.query.typed import TypedQuery
from omnigraph.schema.catalog import Catalog
from omnigraph.storage import lineage
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore

if TYPE_CHECKING:
    from omnigraph.query.lint import Report

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to run and on which state."""

    source: str | Path
    name: str | None
    params: Mapping[str, object] | None
    snapshot: Snapshot
    at: str | int | datetime | None = None


class Reads:
    """Runs reads of one graph, each with the schema of the state it reads.

    Args:
        catalog_of: the schema of a state.
    """

    def __init__(self, store: GraphStore, catalog_of: Callable[[Snapshot], Catalog]) -> None:
        self._store = store
        self._catalog_of = catalog_of
        self._queries: _Recent[TypedQuery] = _Recent()
        self._plans: _Recent[Plan] = _Recent()

    def run(self, request: ReadRequest) -> Result:
        catalog = self._catalog_of(request.snapshot)
        query = self._typed(request.source, request.name, catalog)
        params = bind_params(query, request.params)
        view = View(self._store, request.snapshot, catalog)
        key = (query, request.snapshot.branch, request.snapshot.version)
        plan = self._plans.get(key, lambda: plan_query(view, query))
        table = run_plan(view, plan, params)
        return Result(
            table,
            [column.name for column in query.columns],
            query_name=query.name,
            branch=request.snapshot.branch,
            at=request.at,
            commit_id=lineage.head_id(self._store.tables, request.snapshot),
            types=tuple(column.type for column in query.columns),
        )

    def explain(self, request: ReadRequest, *, run: bool) -> Explanation:
        catalog = self._catalog_of(request.snapshot)
        query = self._typed(request.source, request.name, catalog)
        params = bind_params(query, request.params) if run else None
        return explain(View(self._store, request.snapshot, catalog), query, params)

    def keep_topologies(self, snapshot: Snapshot) -> list[str]:
        """Write topologies of large edge types for processes that start later."""
        return View(self._store, snapshot, self._catalog_of(snapshot)).keep_topologies(limits.PERSISTED_EDGES)

    def lint(self, source: str | Path, snapshot: Snapshot) -> Report:
        from omnigraph.query.lint import SchemaSource, lint

        text, file = _text(source)
        catalog = self._catalog_of(snapshot)
        return lint(text, catalog, file, schema_source=SchemaSource("graph", self._store.location.uri))

    def _typed(self, source: str | Path, name: str | None, catalog: Catalog) -> TypedQuery:
        text, file = _text(source)

        def compile_text() -> TypedQuery:
            return check_read(parse_queries(text, file).find(name), catalog)

        return self._queries.get((catalog.hash, text, name), compile_text)


def _text(source: str | Path) -> tuple[str, str | None]:
    if isinstance(source, Path):
        return source.read_text(encoding="utf-8-sig"), str(source)
    return source, None


class _Recent(Generic[_T]):
    """The values that were used last; safe for several threads."""

    def __init__(self) -> None:
        self._values: OrderedDict[Any, _T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, make: Callable[[], _T]) -> _T:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > limits.COMPILED_QUERIES:
                self._values.popitem(last=False)
        return value
