"""A transaction, as users hold it: a `with` block whose reads and writes become one commit or none.

The steps are those of `write/draft.py`; queries go through the one engine, on the state that the steps left. This
module guards the block: one thread, no nesting, nothing before it and nothing after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import pyarrow as pa

from omnigraph import given, limits
from omnigraph.engine.graph_view import DraftView
from omnigraph.engine.query_result import Result
from omnigraph.engine.query_runner import QueryRunner, ReadRequest
from omnigraph.engine.version_cache import VersionCache
from omnigraph.errors import InvalidRow, InvalidTransaction
from omnigraph.schema.catalog import NodeType
from omnigraph.write.arrow_rows import is_rows, table_of
from omnigraph.write.draft import Draft
from omnigraph.write.mutation_result import MutationRequest, MutationResult
from omnigraph.write.stage_changes import WriteResult

if TYPE_CHECKING:
    from omnigraph.graph.graph import GraphInternals

#: Rows of one type: a dictionary, several of them, an Arrow table, or what Arrow reads (pandas, Polars).
Rows: TypeAlias = Mapping[str, object] | Iterable[Mapping[str, object]] | pa.Table | Any


class Transaction:
    """Reads and writes on one branch that become one commit or none. Get one from `Graph.transaction`.

    Every step sees the state that the branch had when the block was entered, and what the steps before it did. Every
    step keeps all rules of the schema, or raises and changes nothing; what can only change together goes into one
    step. Nobody else sees anything before the commit at the end of the block.

    The commit is refused with a `ConflictError` when a table that the block read has other rows by then: tables that a
    `query` looked at, that rows were updated in or deleted from, and the edges of deleted nodes. A block that only
    inserts is not in the way of others: its rows go into whatever is there, unless their keys are taken.

    Attributes:
        result: what the block did; None until it has ended, and after `rollback`.
    """

    def __init__(
        self,
        graph: Callable[[], GraphInternals],
        reads: QueryRunner,
        branch: str,
        message: str | None,
        transacting: set[int],
    ) -> None:
        self.result: WriteResult | None = None
        self._graph = graph
        self._reads = reads
        self._branch = branch
        self._message = message
        self._transacting = transacting
        self._thread: int | None = None
        self._draft: Draft | None = None
        self._cache = VersionCache(limits.engine_cache_bytes())

    def insert(self, type_name: str, rows: Rows) -> list[str]:
        """Insert rows of a type; returns their ids. A row whose key or id exists is refused.

        Args:
            rows: one dictionary, several, or a table; edges have ``from`` and ``to``.

        Raises:
            KeyConflict: a row exists.

        Example:
            >>> with graph.transaction() as tx:
            ...     tx.insert("Person", {"handle": "cy", "name": "Cy"})
            ['cy']
        """
        draft, table = self._open(), _table(rows)
        return draft.insert(type_name, table) if table.num_rows else []

    def update(self, type_name: str, rows: Rows) -> int:
        """Give rows new values; returns how many there are. Properties that are not named stay as they are.

        Args:
            rows: each names its key, or its ``id``, and the properties that change. Edges of a type that is
                ``@unique(src, dst)`` may be named by ``from`` and ``to``.

        Raises:
            RowNotFound: a row does not exist.

        Example:
            >>> with graph.transaction() as tx:
            ...     tx.update("Person", {"handle": "ana", "name": "Ana R."})
            1
        """
        draft, table = self._open(), _table(rows)
        return draft.update(type_name, table) if table.num_rows else 0

    def delete(self, type_name: str, keys: Rows | Sequence[object]) -> int:
        """Delete rows, nodes with all their edges; returns how many rows of the type there were.

        Args:
            keys: keys, or ids where a type has no key; or rows that name them, as those of `update` do. Those that do
                not exist are ignored.

        Example:
            >>> with graph.transaction() as tx:
            ...     tx.delete("Person", ["bo", "nobody"])
            1
        """
        draft = self._open()
        type_ = draft.type_named(type_name)
        key = type_.key if isinstance(type_, NodeType) else None
        table = _table(keys, column=key[0] if key and len(key) == 1 else "id")
        return draft.delete(type_name, table) if table.num_rows else 0

    def mutate(
        self,
        source: str | Path,
        name: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
    ) -> MutationResult:
        """Run a write query, as `Graph.mutate` does; its result has no commit, because that comes at the end.

        Example:
            >>> with graph.transaction() as tx:
            ...     tx.mutate('query q() { update Person set { name: "Bo C." } where handle = "bo" }').affected_nodes
            1
        """
        name, params = given.named_query(name, params)
        return self._open().mutate(MutationRequest(source, name, params, self._branch, self._graph().actor, None))

    def query(
        self,
        source: str | Path,
        name: str | Mapping[str, object] | None = None,
        params: Mapping[str, object] | None = None,
    ) -> Result:
        """Run a read query, as `Graph.query` does, on the state that the steps before it left.

        Example:
            >>> with graph.transaction() as tx:
            ...     done = tx.delete("Person", ["bo"])
            ...     tx.query("query q() { match { $p: Person } return { $p.handle as who } }").rows()
            [{'who': 'ana'}]
        """
        name, params = given.named_query(name, params)
        draft = self._open()
        store = self._graph().reader("read", self._branch)
        base, state = store.seen(draft.base), store.seen(draft.state)
        view = DraftView(self._graph().store, self._reads.view(base), state, self._cache)
        try:
            return self._reads.run(ReadRequest(source, name, params, state), view)
        finally:
            draft.note_read(view.used)

    def rollback(self) -> None:
        """Drop everything that the block did, and end it: the rest of the block can do nothing more."""
        self._open()
        self._end()

    def __enter__(self) -> Self:
        thread = threading.get_ident()
        if self._thread is not None:
            raise InvalidTransaction("a transaction is entered once", hint="make another one with graph.transaction()")
        if thread in self._transacting:
            raise InvalidTransaction(
                "this thread is inside another transaction of the graph",
                hint="use the one that is open, or end it first",
            )
        self._draft = Draft(self._graph().writer("change", self._branch), self._graph().schemas, self._branch)
        self._thread = thread
        self._transacting.add(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._draft is None:
            return
        try:
            if error is None:
                self.result = self._open().commit(self._graph().actor, self._message)
        finally:
            self._end()

    def _open(self) -> Draft:
        """The steps of a block that is running in this thread."""
        if self._thread is None:
            raise InvalidTransaction(
                "the transaction has not begun", hint="use it in a block: with graph.transaction()"
            )
        if self._thread != threading.get_ident():
            raise InvalidTransaction(
                "a transaction belongs to the thread that entered it", hint="use one for each thread"
            )
        if self._draft is None:
            raise InvalidTransaction("the transaction has ended", hint="make another one with graph.transaction()")
        self._graph()  # refuses when it was closed meanwhile
        return self._draft

    def _end(self) -> None:
        draft, self._draft = self._draft, None
        self._transacting.discard(self._thread or 0)
        self._cache.clear()
        if draft is not None:
            draft.forget()

    def __repr__(self) -> str:
        state = "not begun" if self._thread is None else "open" if self._draft is not None else "ended"
        return f"Transaction({state}, branch={self._branch!r})"


def _table(rows: Rows | Sequence[object], column: str | None = None) -> pa.Table:
    """Rows as Arrow, whatever they are given as.

    Args:
        column: what values that are no rows belong to.
    """
    if not is_rows(rows):
        some: list[Any] = list(rows) if isinstance(rows, Iterable) and not isinstance(rows, Mapping | str) else [rows]
        if column is not None and not any(isinstance(row, Mapping) for row in some):
            some = [{column: value} for value in some]
        if not all(isinstance(row, Mapping) for row in some):
            raise InvalidRow("rows are dictionaries, or a table", hint='pass [{"name": "Ana"}, …]')
        rows = some or pa.table({})
    return table_of(rows, "rows")
