"""`AsyncRemoteGraph`: the verbs of `RemoteGraph` as coroutines, by the same flows."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa

from omnigraph import ids, limits
from omnigraph.client import change_calls, control_calls, read_calls, schema_calls, write_calls
from omnigraph.client.async_connection import AsyncConnection
from omnigraph.client.change_calls import DiffHead, DiffRequestForm
from omnigraph.client.read_calls import BlobHead, StateHead
from omnigraph.client.remote_state import KnownState, changes_in, counted, part_of, table_of_changes
from omnigraph.client.verbs import async_verb, not_offered
from omnigraph.client.wire_call import LineSplitter
from omnigraph.errors import GraphClosed
from omnigraph.graph.snapshot import pin_named
from omnigraph.history.diff import DiffStats
from omnigraph.history.entity_changes import ChangeFilter, EntityChange, change_filter
from omnigraph.history.export import complete_file
from omnigraph.history.feed.commit_changes import CommitPage
from omnigraph.history.state_at import At
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.tables.blob_cells import ExternalBytes


class AsyncRemoteGraph:
    """A graph behind a server, for coroutines. Get one from `omnigraph.aio.open`; it is a context manager.

    The verbs are those of `RemoteGraph`, each to be awaited: ``await graph.query(…)``, ``await graph.branches.list()``,
    ``await graph.schema.text``. What they answer with is the same.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._connection.settings.address.uri

    @property
    def actor(self) -> str | None:
        """Whom the server named as the author of the last write of this handle; None before the first."""
        return self._connection.actor

    query = async_verb(read_calls.query)
    search = async_verb(read_calls.search)
    explain = async_verb(read_calls.explain)
    lint = async_verb(read_calls.lint)
    stats = async_verb(read_calls.stats)
    mutate = async_verb(write_calls.mutate)
    load = async_verb(write_calls.load)
    revert = async_verb(write_calls.revert)
    restore = async_verb(write_calls.restore)
    stored = async_verb(write_calls.stored)
    stored_queries = async_verb(write_calls.stored_queries)
    export = async_verb(change_calls.export)
    baseline = async_verb(change_calls.baseline)
    changes = async_verb(change_calls.changes)

    @property
    def branches(self) -> AsyncRemoteBranches:
        """Make, list, merge and delete branches."""
        return AsyncRemoteBranches(self._connection)

    @property
    def commits(self) -> AsyncRemoteCommits:
        """The history of the graph."""
        return AsyncRemoteCommits(self._connection)

    @property
    def tags(self) -> AsyncRemoteTags:
        """Names for states that stay readable."""
        return AsyncRemoteTags(self._connection)

    @property
    def schema(self) -> AsyncRemoteSchema:
        """Show, plan and change the schema."""
        return AsyncRemoteSchema(self._connection)

    @property
    def catalog(self) -> Awaitable[Catalog]:
        """The types of main, as its newest state has them."""
        return self._connection.run(schema_calls.catalog())

    async def snapshot(self, branch: str | None = None, at: At | None = None) -> AsyncRemoteSnapshot:
        """One consistent state: of a branch now, or at a commit, a tag, a manifest version or a time."""
        return AsyncRemoteSnapshot(self._connection, await self._connection.run(read_calls.snapshot(branch, at)))

    async def blob(
        self, type_name: str, id: str | int, property: str, *, branch: str | None = None, at: At | None = None
    ) -> AsyncRemoteBlob:
        """The bytes of a `Blob` property of one row, of one state; see `Graph.blob`."""
        return await (await self.snapshot(branch, at)).blob(type_name, id, property)

    async def diff(
        self,
        from_: AsyncState,
        to: AsyncState,
        *,
        branch: str = ids.MAIN,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> AsyncRemoteDiff:
        """The changes that lead from one state to another, for ``async for``; see `Graph.diff`."""
        form = change_calls.diff_form(from_, to, branch, kinds, types, ops)
        return AsyncRemoteDiff(self._connection, form, await self._connection.run(change_calls.diff_head(form)))

    async def commit_changes(
        self,
        commit_id: str,
        *,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> AsyncRemoteCommitChanges:
        """The changes of one commit against its first parent, for ``async for``; see `Graph.commit_changes`."""
        wanted = change_filter(kinds, types, ops)
        first = await self._connection.run(change_calls.commit_page(commit_id, wanted, None, None, None))
        return AsyncRemoteCommitChanges(self._connection, wanted, first)

    acting_as = not_offered("acting_as", "open it again with the token of the other actor")
    catalog_of = not_offered("catalog_of", "read catalog, which is that of main")
    transaction = not_offered("transaction", "put the statements into one query, or load the rows as one mapping")
    write = not_offered("write", "use load with a mapping from types to rows")
    ensure_indices = not_offered("ensure_indices")
    optimize = not_offered("optimize")
    embed = not_offered("embed")
    cleanup = not_offered("cleanup")
    verify = not_offered("verify")
    recover = not_offered("recover")
    repair = not_offered("repair")

    async def close(self) -> None:
        """Close the connections. From then on the handle refuses everything; closing it again does nothing."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        if self._connection.is_closed:
            raise GraphClosed(f"{self.uri} was closed", hint="open it again with omnigraph.aio.open")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        mode = self._connection.settings.mode
        return f"AsyncRemoteGraph({self.uri!r}, mode={mode!r}{', closed' if self._connection.is_closed else ''})"


class AsyncRemoteBranches:
    """Branch control of a graph behind a server, for coroutines; see `Branches`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    create = async_verb(control_calls.create_branch)
    list = async_verb(control_calls.list_branches)
    delete = async_verb(control_calls.delete_branch)
    rename = async_verb(control_calls.rename_branch)
    merge = async_verb(control_calls.merge)


class AsyncRemoteCommits:
    """History of a graph behind a server, for coroutines; see `Commits`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    list = async_verb(control_calls.list_commits)
    graph = async_verb(control_calls.graph_of_commits)
    get = async_verb(control_calls.get_commit)
    head = async_verb(control_calls.head_commit)


class AsyncRemoteTags:
    """Tags of a graph behind a server, for coroutines; see `Tags`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    create = async_verb(control_calls.create_tag)
    list = async_verb(control_calls.list_tags)
    get = async_verb(control_calls.get_tag)
    delete = async_verb(control_calls.delete_tag)


class AsyncRemoteSchema:
    """The schema of a graph behind a server, for coroutines; see `SchemaControl`."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @property
    def text(self) -> Awaitable[str]:
        """The schema of main as it was accepted."""
        return self._connection.run(schema_calls.text())

    @property
    def hash(self) -> Awaitable[str]:
        """Names the schema."""
        return self._connection.run(schema_calls.hash())

    plan = async_verb(schema_calls.plan)
    apply = async_verb(schema_calls.apply)


class AsyncRemoteSnapshot(KnownState):
    """One consistent state of a graph behind a server, for coroutines; see `RemoteSnapshot`."""

    def __init__(self, connection: AsyncConnection, head: StateHead) -> None:
        super().__init__(head)
        self._connection = connection

    async def arrow(self, type_name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a type as an Arrow table, as they are stored; see `Snapshot.arrow`."""
        pin = pin_named(self.tables, type_name)
        return await self._connection.run(read_calls.arrow(self._head, pin.table_key, columns))

    async def blob(self, type_name: str, id: str | int, property: str) -> AsyncRemoteBlob:
        """The bytes of a `Blob` property of one row; see `Graph.blob`."""
        pin = pin_named(self.tables, type_name)
        address = read_calls.blob_address(self._head, pin.table_key, id, property)
        head = await self._connection.run(read_calls.blob_head(address))
        selector = (pin.table_key.partition(":")[2], dict(address)["id"], property)
        return AsyncRemoteBlob(self._connection, self, selector, head, address)

    reader = not_offered("reader", "read the rows with arrow(type), some columns at a time")
    dataset = not_offered("dataset", "read the rows with arrow(type)")


class AsyncRemoteBlob:
    """The bytes of one `Blob` property of one row behind a server, for coroutines; see `RemoteBlob`."""

    def __init__(
        self,
        connection: AsyncConnection,
        snapshot: AsyncRemoteSnapshot,
        selector: tuple[str, str, str],
        head: BlobHead,
        address: tuple[tuple[str, str], ...],
    ) -> None:
        self.snapshot = snapshot
        self.type, self.id, self.property = selector
        self.kind = "managed" if head.uri is None else "external"
        self.etag, self.uri = head.etag, head.uri
        self._connection = connection
        self._head, self._address = head, address

    @property
    def size(self) -> int:
        """Bytes that it has. Of an external one its place is asked."""
        return self._head.size if self.uri is None else ExternalBytes(self.uri).size

    async def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Some of its bytes, or all; only these are sent. See `Blob.read`."""
        if self.uri is not None:
            elsewhere = ExternalBytes(self.uri)
            whole = BlobHead(await asyncio.to_thread(lambda: elsewhere.size), None, None)
            return await asyncio.to_thread(elsewhere.read, *part_of(whole, offset, length))
        start, count = part_of(self._head, offset, length)
        return await self._connection.run(read_calls.blob_range(self._address, start, count))

    async def save(self, target: str | os.PathLike[str] | BinaryIO, offset: int = 0, length: int | None = None) -> int:
        """Write its bytes, or some of them, to a path or an open file; returns how many. See `Blob.save`."""
        start, count = part_of(BlobHead(self.size, None, None), offset, length)
        if not isinstance(target, str | os.PathLike):
            return await self._pour(target, start, count)
        with complete_file(Path(target)) as draft, draft.open("wb") as file:
            return await self._pour(file, start, count)

    async def _pour(self, file: BinaryIO, start: int, count: int) -> int:
        for at in range(start, start + count, limits.CLIENT_PIECE_BYTES):
            file.write(await self.read(at, min(limits.CLIENT_PIECE_BYTES, start + count - at)))
        return count

    def __repr__(self) -> str:
        return f"AsyncRemoteBlob({self.type!r}, {self.id!r}, {self.property!r}, {self.kind})"


class AsyncRemoteDiff:
    """The changes that lead from one state to another, for ``async for``; see `RemoteDiff`."""

    def __init__(self, connection: AsyncConnection, form: DiffRequestForm, head: DiffHead) -> None:
        self._connection = connection
        self._form = DiffRequestForm(head.from_commit, head.to_commit, form.branch, form.wanted)
        self.from_commit, self.to_commit = head.from_commit, head.to_commit
        self.from_version, self.to_version = head.from_version, head.to_version
        self.branch = head.branch
        self.stats = head.stats

    async def __aiter__(self) -> AsyncIterator[EntityChange]:
        splitter = LineSplitter()
        async for piece in self._connection.pieces(self._form.lines()):
            for change in changes_in(splitter.lines(piece)):
                yield change
        for change in changes_in(splitter.last()):
            yield change

    async def rows(self) -> list[dict[str, Any]]:
        """Every change in its JSON form."""
        return [change.to_dict() async for change in self]

    async def to_arrow(self) -> pa.Table:
        """The changes of all types as one table; the images are JSON texts. See `Diff.to_arrow`."""
        return table_of_changes([change async for change in self], None)

    def __repr__(self) -> str:
        return f"AsyncRemoteDiff({self.from_commit} → {self.to_commit}, {self.stats})"


class AsyncRemoteCommitChanges:
    """What one commit changed, for ``async for``; see `RemoteCommitChanges`."""

    def __init__(self, connection: AsyncConnection, wanted: ChangeFilter, first: CommitPage) -> None:
        self._connection = connection
        self._wanted = wanted
        self._first = first
        self.commit = first.commit

    async def __aiter__(self) -> AsyncIterator[EntityChange]:
        page = self._first
        for change in page.changes:
            yield change
        while page.page_token is not None:
            page = await self.page(page_token=page.page_token)
            for change in page.changes:
                yield change

    async def page(
        self, limit: int | None = None, *, page_token: str | None = None, max_bytes: int | None = None
    ) -> CommitPage:
        """Some of the changes, bounded like a page of the feed."""
        return await self._connection.run(
            change_calls.commit_page(self.commit.id, self._wanted, limit, page_token, max_bytes)
        )

    async def rows(self) -> list[dict[str, Any]]:
        """Every change in its JSON form."""
        return [change.to_dict() async for change in self]

    async def stats(self) -> DiffStats:
        """Counts; all changes are read for them."""
        return counted([change async for change in self])

    def __repr__(self) -> str:
        return f"AsyncRemoteCommitChanges(commit {self.commit.id})"


#: A state: a branch, a commit id, ``tag:NAME``, a manifest version, a time, or a snapshot.
AsyncState = At | AsyncRemoteSnapshot
