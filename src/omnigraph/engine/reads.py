"""Reads as a user asks for them: a text, a name, parameters, a branch and a moment in, a result out.

Texts are compiled once, and a plan is kept while the sizes that it was chosen for hold, so that the same query run
again and again costs only its execution, also when others commit meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from omnigraph import limits
from omnigraph.engine.result import Result
from omnigraph.engine.run import Explanation, explain, plan_query, run_plan
from omnigraph.engine.view import View
from omnigraph.lru import LruCache
from omnigraph.query import bind_params, check_read, parse_queries
from omnigraph.query.plan import Plan
from omnigraph.query.typed import TypedQuery
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest_snapshot import ManifestSnapshot
from omnigraph.storage.objects.user_files import text_of

if TYPE_CHECKING:
    from omnigraph.query.lint import LintReport

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


class Reads:
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
        view = View(self._store, snapshot, catalog)
        return Result(
            run_plan(view, compiled.plan(view), params),
            compiled.names,
            query_name=compiled.query.name,
            branch=snapshot.branch,
            at=request.at,
            commit_id=commit_log.head_id(self._store.tables, snapshot),
            types=compiled.types,
        )

    def explain(self, request: ReadRequest, *, run: bool) -> Explanation:
        catalog = self._catalog_of(request.snapshot)
        query = self._compile(request.source, request.name, catalog).query
        params = bind_params(query, request.params) if run else None
        return explain(View(self._store, request.snapshot, catalog), query, params)

    def keep_topologies(self, snapshot: ManifestSnapshot) -> list[str]:
        """Write topologies of large edge types for processes that start later."""
        return View(self._store, snapshot, self._catalog_of(snapshot)).keep_topologies(limits.PERSISTED_EDGES)

    def lint(self, source: str | Path, snapshot: ManifestSnapshot) -> LintReport:
        from omnigraph.query.lint import SchemaSource, lint

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

    def plan(self, view: View) -> Plan:
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

    def suits(self, view: View) -> bool:
        return all(view.count(key).bit_length() == size.bit_length() for key, size in self.sizes.items())


class _Sizes:
    """Sizes of the tables of a state, and which of them were asked for."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.known: dict[str, int] = {}

    def count(self, table_key: str) -> int:
        self.known[table_key] = self._view.count(table_key)
        return self.known[table_key]
