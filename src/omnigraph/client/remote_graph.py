"""`RemoteGraph`: a graph behind a server, with the verbs of `Graph`. What each verb sends is in `*_calls.py`."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import BinaryIO, Self, cast

import pyarrow as pa

from omnigraph import ids
from omnigraph.client import change_calls, control_calls, read_calls, schema_calls, write_calls
from omnigraph.client.change_calls import DiffHead, DiffRequestForm
from omnigraph.client.read_calls import BlobHead, StateHead
from omnigraph.client.remote_state import ArrivingFile, KnownState, changes_in, counted, part_of, table_of_changes
from omnigraph.client.server_connection import Connection
from omnigraph.client.verbs import not_offered, refusal, verb
from omnigraph.client.wire_call import LineSplitter
from omnigraph.errors import GraphClosed
from omnigraph.graph.blob_value import Blob, BlobStream
from omnigraph.graph.snapshot import pin_named
from omnigraph.history.diff import Diff, DiffStats
from omnigraph.history.entity_changes import ChangeFilter, EntityChange, change_filter
from omnigraph.history.feed.commit_changes import CommitChanges, CommitPage
from omnigraph.history.state_at import At
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.tables.blob_cells import ExternalBytes


class RemoteGraph:
    """A graph behind a server. Get one from `omnigraph.open` with the address of the server; it is a context manager,
    and may be shared between threads.

    Read:     `query`, `search`, `explain`, `lint`, `snapshot`, `blob`, `export`, `stats`
    Write:    `mutate`, `load`, `revert`, `restore`
    Changes:  `diff`, `changes`, `commit_changes`, `baseline`
    Control:  `branches`, `commits`, `tags`, `schema`, `catalog`
    Stored:   `stored`, `stored_queries`

    Everything else of `Graph` works on the storage and raises `NotOffered`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._connection.settings.address.uri

    @property
    def actor(self) -> str | None:
        """Whom the server named as the author of the last write of this handle; None before the first."""
        return self._connection.actor

    query = verb(read_calls.query)
    search = verb(read_calls.search)
    explain = verb(read_calls.explain)
    lint = verb(read_calls.lint)
    stats = verb(read_calls.stats)
    mutate = verb(write_calls.mutate)
    load = verb(write_calls.load)
    revert = verb(write_calls.revert)
    restore = verb(write_calls.restore)
    stored = verb(write_calls.stored)
    stored_queries = verb(write_calls.stored_queries)
    export = verb(change_calls.export)
    baseline = verb(change_calls.baseline)
    changes = verb(change_calls.changes)

    @property
    def branches(self) -> RemoteBranches:
        """Make, list, merge and delete branches."""
        return RemoteBranches(self._connection)

    @property
    def commits(self) -> RemoteCommits:
        """The history of the graph."""
        return RemoteCommits(self._connection)

    @property
    def tags(self) -> RemoteTags:
        """Names for states that stay readable."""
        return RemoteTags(self._connection)

    @property
    def schema(self) -> RemoteSchema:
        """Show, plan and change the schema."""
        return RemoteSchema(self._connection)

    @property
    def catalog(self) -> Catalog:
        """The types of main, as its newest state has them."""
        return self._connection.run(schema_calls.catalog())

    def snapshot(self, branch: str | None = None, at: At | None = None) -> RemoteSnapshot:
        """One consistent state: of a branch now, or at a commit, a tag, a manifest version or a time."""
        return RemoteSnapshot(self._connection, self._connection.run(read_calls.snapshot(branch, at)))

    def blob(
        self, type_name: str, id: str | int, property: str, *, branch: str | None = None, at: At | None = None
    ) -> RemoteBlob:
        """The bytes of a `Blob` property of one row, of one state; see `Graph.blob`. Only what is asked for is sent."""
        return self.snapshot(branch, at).blob(type_name, id, property)

    def diff(
        self,
        from_: State,
        to: State,
        *,
        branch: str = ids.MAIN,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> RemoteDiff:
        """The changes that lead from one state to another, entity by entity; see `Graph.diff`."""
        form = change_calls.diff_form(from_, to, branch, kinds, types, ops)
        return RemoteDiff(self._connection, form, self._connection.run(change_calls.diff_head(form)))

    def commit_changes(
        self,
        commit_id: str,
        *,
        kinds: Sequence[str] | None = None,
        types: Sequence[str] | None = None,
        ops: Sequence[str] | None = None,
    ) -> RemoteCommitChanges:
        """The changes of one commit against its first parent; see `Graph.commit_changes`."""
        wanted = change_filter(kinds, types, ops)
        first = self._connection.run(change_calls.commit_page(commit_id, wanted, None, None, None))
        return RemoteCommitChanges(self._connection, wanted, first)

    # --- what works on the storage

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

    @property
    def retention(self) -> object:
        """Not offered behind a server."""
        raise refusal("retention")

    @property
    def upkeep(self) -> object:
        """Not offered behind a server."""
        raise refusal("upkeep")

    @property
    def recoveries(self) -> object:
        """Not offered behind a server."""
        raise refusal("recoveries")

    @property
    def internals(self) -> object:
        """Not offered behind a server: there is no storage in this process."""
        raise refusal("an engine of this package")

    @property
    def is_committing(self) -> bool:
        """False: this process holds no commit section."""
        return False

    def close(self) -> None:
        """Close the connections. From then on the handle refuses everything; closing it again does nothing."""
        self._connection.close()

    def __enter__(self) -> Self:
        if self._connection.is_closed:
            raise GraphClosed(f"{self.uri} was closed", hint="open it again with omnigraph.open")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        mode = self._connection.settings.mode
        return f"RemoteGraph({self.uri!r}, mode={mode!r}{', closed' if self._connection.is_closed else ''})"


class RemoteBranches:
    """Branch control of a graph behind a server; see `Branches`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    create = verb(control_calls.create_branch)
    list = verb(control_calls.list_branches)
    delete = verb(control_calls.delete_branch)
    rename = verb(control_calls.rename_branch)
    merge = verb(control_calls.merge)

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __repr__(self) -> str:
        return "<branches: create(…), list(), rename(…), delete(…), merge(…)>"


class RemoteCommits:
    """History of a graph behind a server; see `Commits`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    list = verb(control_calls.list_commits)
    graph = verb(control_calls.graph_of_commits)
    get = verb(control_calls.get_commit)
    head = verb(control_calls.head_commit)

    def __repr__(self) -> str:
        return "<commits: list(…), graph(…), get(…), head(…)>"


class RemoteTags:
    """Tags of a graph behind a server; see `Tags`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    create = verb(control_calls.create_tag)
    list = verb(control_calls.list_tags)
    get = verb(control_calls.get_tag)
    delete = verb(control_calls.delete_tag)

    def __iter__(self) -> Iterator[str]:
        return iter([tag.name for tag in self.list()])

    def __repr__(self) -> str:
        return "<tags: create(…), list(), get(…), delete(…)>"


class RemoteSchema:
    """The schema of a graph behind a server; see `SchemaControl`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def text(self) -> str:
        """The schema of main as it was accepted."""
        return self._connection.run(schema_calls.text())

    @property
    def hash(self) -> str:
        """Names the schema."""
        return self._connection.run(schema_calls.hash())

    plan = verb(schema_calls.plan)
    apply = verb(schema_calls.apply)

    def __repr__(self) -> str:
        return "<schema: text, hash, plan(…), apply(…)>"


class RemoteSnapshot(KnownState):
    """One consistent state of a graph behind a server. It does not change, whatever is committed meanwhile; a cleanup
    may take it away, because a server keeps nothing for a client."""

    def __init__(self, connection: Connection, head: StateHead) -> None:
        super().__init__(head)
        self._connection = connection

    def arrow(self, type_name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Rows of a type as an Arrow table, as they are stored; see `Snapshot.arrow`."""
        pin = pin_named(self.tables, type_name)
        return self._connection.run(read_calls.arrow(self._head, pin.table_key, columns))

    def reader(self, type_name: str, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The same rows one batch after the other, as they come; see `Snapshot.reader`."""
        pin = pin_named(self.tables, type_name)
        pieces = self._connection.pieces(read_calls.rows_of(self._head, pin.table_key, columns))
        return pa.ipc.open_stream(pa.PythonFile(ArrivingFile(pieces), mode="r"))

    def blob(self, type_name: str, id: str | int, property: str) -> RemoteBlob:
        """The bytes of a `Blob` property of one row; see `Graph.blob`."""
        pin = pin_named(self.tables, type_name)
        address = read_calls.blob_address(self._head, pin.table_key, id, property)
        head = self._connection.run(read_calls.blob_head(address))
        selector = (pin.table_key.partition(":")[2], dict(address)["id"], property)
        return RemoteBlob(self._connection, self, selector, head, address)

    dataset = not_offered("dataset", "read the rows with arrow(type)")


class RemoteBlob(Blob):
    """The bytes of one `Blob` property of one row behind a server; see `Blob`. Only the bytes that are read are sent.

    An external one is read by this process, from where it lies.
    """

    def __init__(
        self,
        connection: Connection,
        snapshot: RemoteSnapshot,
        selector: tuple[str, str, str],
        head: BlobHead,
        address: tuple[tuple[str, str], ...],
    ) -> None:
        self.snapshot = snapshot  # type: ignore[assignment]
        self.type, self.id, self.property = selector
        self.kind = "managed" if head.uri is None else "external"
        self.etag, self.uri = head.etag, head.uri
        self._connection = connection
        self._head, self._address = head, address
        self._elsewhere = None if head.uri is None else ExternalBytes(head.uri)

    @property
    def size(self) -> int:
        """Bytes that it has. Of an external one its place is asked."""
        return self._head.size if self._elsewhere is None else self._elsewhere.size

    def read(self, offset: int = 0, length: int | None = None) -> bytes:
        """Some of its bytes, or all; only these are sent. See `Blob.read`."""
        if self._elsewhere is not None:
            start, count = part_of(BlobHead(self._elsewhere.size, None, None), offset, length)
            return self._elsewhere.read(start, count)
        return self._range(*part_of(self._head, offset, length))

    def open(self) -> BinaryIO:
        """It as a file that can be read and moved in, a few megabytes at a time."""
        stream = BlobStream(self._range if self._elsewhere is None else self._elsewhere.read, self.size)
        return cast(BinaryIO, io.BufferedReader(stream, BlobStream.CHUNK_BYTES))

    def _range(self, start: int, count: int) -> bytes:
        return self._connection.run(read_calls.blob_range(self._address, start, count))


class RemoteDiff(Diff):
    """The changes that lead from one state to another, told by a server; see `Diff`. Each iteration asks again for the
    same two states."""

    def __init__(self, connection: Connection, form: DiffRequestForm, head: DiffHead) -> None:
        self._connection = connection
        self._form = DiffRequestForm(head.from_commit, head.to_commit, form.branch, form.wanted)
        self._head = head
        self.from_commit, self.to_commit = head.from_commit, head.to_commit
        self.from_version, self.to_version = head.from_version, head.to_version
        self.branch = head.branch

    def __iter__(self) -> Iterator[EntityChange]:
        yield from changes_in(self._lines())

    def _lines(self) -> Iterator[bytes]:
        splitter = LineSplitter()
        for piece in self._connection.pieces(self._form.lines()):
            yield from splitter.lines(piece)
        yield from splitter.last()

    @property
    def stats(self) -> DiffStats:
        """Counts."""
        return self._head.stats

    batches = not_offered("batches of a diff", "iterate the diff, or use to_arrow()")
    changes_of = not_offered("changes_of", "iterate the diff")

    def to_arrow(self, type_name: str | None = None) -> pa.Table:
        """The changes of all types as one table; the images are JSON texts. See `Diff.to_arrow`."""
        return table_of_changes(self, type_name)

    def __repr__(self) -> str:
        return f"RemoteDiff({self.from_commit} → {self.to_commit}, {self.stats})"


class RemoteCommitChanges(CommitChanges):
    """What one commit changed, told by a server page by page; see `CommitChanges`."""

    def __init__(self, connection: Connection, wanted: ChangeFilter, first: CommitPage) -> None:
        self._connection = connection
        self._wanted = wanted
        self._first = first
        self.commit = first.commit
        self.from_commit, self.to_commit = self.commit.parent or "", self.commit.id
        self.to_version = self.commit.version
        self.branch = self.commit.branch
        self._stats: DiffStats | None = None

    @property
    def from_version(self) -> int:  # type: ignore[override]
        """Manifest version of the parent."""
        return self._connection.run(control_calls.get_commit(self.from_commit)).version

    def __iter__(self) -> Iterator[EntityChange]:
        page = self._first
        yield from page.changes
        while page.page_token is not None:
            page = self.page(page_token=page.page_token)
            yield from page.changes

    def page(
        self, limit: int | None = None, *, page_token: str | None = None, max_bytes: int | None = None
    ) -> CommitPage:
        """Some of the changes, bounded like a page of the feed."""
        return self._connection.run(
            change_calls.commit_page(self.commit.id, self._wanted, limit, page_token, max_bytes)
        )

    @property
    def stats(self) -> DiffStats:
        """Counts; all changes are read for them."""
        if self._stats is None:
            self._stats = counted(self)
        return self._stats

    batches = not_offered("batches of a diff", "iterate it, or use to_arrow()")
    changes_of = not_offered("changes_of", "iterate it")

    def to_arrow(self, type_name: str | None = None) -> pa.Table:
        """The changes of all types as one table; the images are JSON texts. See `Diff.to_arrow`."""
        return table_of_changes(self, type_name)

    def __repr__(self) -> str:
        return f"RemoteCommitChanges(commit {self.commit.id})"


#: A state: a branch, a commit id, ``tag:NAME``, a manifest version, a time, or a snapshot.
State = At | RemoteSnapshot
