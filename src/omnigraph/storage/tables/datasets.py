"""Lance tables of one graph: open them at an exact version, find their newest, fork them; and their blob columns.

A handle is a Lance dataset at one version of one Lance branch; versions never change, so handles are shared and kept.
Only `commit/` moves a table forward. Names of branches were checked long before they come here.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from urllib.parse import quote, unquote

import lance
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import CorruptGraph, GraphMoved, HistoricalVersionReclaimed, StoreUnavailable
from omnigraph.lru import LruCache
from omnigraph.storage.objects import object_store
from omnigraph.storage.objects.native_libraries import (
    READ_EXCEPTIONS,
    STORE_EXCEPTIONS,
    CommitConflictError,
    is_outage,
    panics_as_damage,
    reason,
    store_errors,
    use_storage,
)
from omnigraph.storage.objects.object_store import Location, ObjectStore
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.version_addresses import is_at

if TYPE_CHECKING:
    from omnigraph.storage.tables.pinned_dataset import PinnedDataset

#: Pages of indexes that Lance keeps for an open graph, in bytes.
_INDEX_CACHE_BYTES = 512 * 1024**2

#: How often a branch listing is repeated when a branch vanishes while it is read.
_BRANCH_LISTING_RETRIES = 3


#: The note of the newest version that Lance leaves beside the version files.
_NOTE = "latest_version_hint.json"

_VERSION_FILE = re.compile(r"[0-9]{20}\.manifest")

#: A directory that changed so long after its note was changed by somebody else.
_NOTE_NANOSECONDS = 1_000_000_000

#: Versions that are tried behind the noted one; a note that is older belongs to software that does not keep it.
_VERSIONS_TRIED = 64

DATA_STORAGE_VERSION: Literal["2.2"] = "2.2"

#: Property of every transaction of this software: the operation that it belongs to.
OPERATION = "omnigraph.operation_id"

_REMOVED = "removed"
_REFS = "_refs/branches"
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/ ._=,@:+'&$()!;-]+")

#: What open tables remember together; `Any` likewise.
Session = Any

#: Location and branch of a table.
_Lineage: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One version of one table: what it takes to open it, and what caches are keyed by.

    Attributes:
        location: path of the table below the graph root.
        branch: Lance branch that the version belongs to; None is the main lineage.
        origin: transaction that made the version, if it is known. Version numbers of a branch that was deleted and made
            again repeat; this does not.
        derived: what it is without some of the commits that made it together; None for the version itself.
    """

    location: str
    branch: str | None
    version: int
    origin: str | None = None
    derived: DerivedVersion | None = None

    @property
    def is_unique(self) -> bool:
        """Whether nothing else can ever have this name: numbers of the main lineage are given once."""
        return self.branch is None or self.origin is not None


@dataclass(frozen=True, slots=True)
class DerivedVersion:
    """A version of a table without some of the commits that made it together; see `derived_table.py`.

    Attributes:
        base: the version before.
        put: its new rows that belong to it: which new fragment, the first row, the row behind the last one.
        gone: addresses of the rows of ``base`` that it does not have.
    """

    base: TableVersion
    put: tuple[tuple[int, int, int], ...]
    gone: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ref:
    """The file that makes a Lance branch of a table exist: where it begins.

    Attributes:
        identity: changes when a branch is deleted and made again under the same name.
        parent_branch: None is the main lineage.
    """

    identity: str
    parent_branch: str | None
    parent_version: int


class Tables:
    """The Lance datasets below one graph root, addressed by relative path, branch and version."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._objects = ObjectStore(location)
        self._options = dict(location.options) or None
        self._session = _session()
        self._open: LruCache[_Lineage, LruCache[TableVersion, LanceTable]] = LruCache(max_entries=limits.OPEN_TABLES)

    @property
    def is_local(self) -> bool:
        return self._location.is_local

    def uri(self, path: str, branch: str | None = None) -> str:
        """Address of a table, or of its part that belongs to a Lance branch."""
        whole = self._location.child(path)
        return f"{whole}/tree/{branch}" if branch else whole

    def address(self, path: str, branch: str | None = None) -> str:
        """What Lance is given: quoted where it would otherwise write beside the root.

        It reads an address of an object store as a URL. It writes the refs of branches below a plain local path through
        a sibling directory whose name is quoted.
        """
        uri = self.uri(path, branch)
        if _PLAIN_PATH.fullmatch(uri):
            return uri
        return f"file-object-store://{quote(uri)}" if self._location.is_local else quote(uri, safe="/:")

    @property
    def options(self) -> dict[str, str] | None:
        """What Lance is told of the object store; None on a disk."""
        return self._options

    def data_file(self, path: str, branch: str | None, name: str) -> str:
        """Address of one data file, as Lance takes it."""
        return f"{self.address(path, branch)}/data/{name}"

    def create(self, path: str, schema: pa.Schema) -> LanceTable:
        """Make an empty table. Fails when something is there."""
        with store_errors(f"create table {path}"):
            return self.write_new(path, physical_schema(schema).empty_table())

    def write_new(self, path: str, rows: pa.Table) -> LanceTable:
        """Make a table with its first rows in its first version."""
        return lance.write_dataset(
            rows,
            self.address(path),
            mode="create",
            enable_stable_row_ids=True,
            data_storage_version=DATA_STORAGE_VERSION,
            storage_options=self._options,
        )

    def create_by(self, path: str, transaction: Any) -> LanceTable:
        """Make a table by a staged transaction, so that its first version can be told from anybody else's."""
        return lance.LanceDataset.commit(
            self.address(path),
            transaction,
            storage_options=self._options,
            enable_v2_manifest_paths=True,
            enable_stable_row_ids=True,
            max_retries=0,
        )

    def commit(self, handle: LanceTable, transaction: Any) -> LanceTable:
        """Commit a staged transaction to the newest version of a table.

        Lance puts the version file into a place that nobody has taken. Which place that is, it decides by a look: an
        append to a table that moved meanwhile lands behind the others. The caller compares the version that came out.
        """
        return lance.LanceDataset.commit(as_dataset(handle), transaction, max_retries=0)

    def commit_detached(self, handle: LanceTable, transaction: Any) -> LanceTable:
        """Commit a staged transaction to a version outside every lineage: whoever does not know its number, which is
        drawn at random, never meets it."""
        with store_errors("commit a draft of a table"):
            return lance.LanceDataset.commit(as_dataset(handle), transaction, detached=True)

    def drop_detached(self, table: TableVersion) -> None:
        """Remove such a version. Its data files stay, as those of every write that was lost."""
        below = f"{table.location}/tree/{table.branch}" if table.branch else table.location
        self._objects.delete(f"{below}/_versions/d{table.version}.manifest")

    def newest(self, path: str, branch: str | None = None) -> LanceTable:
        """The newest version that exists, published or not."""
        handle = self.newest_or_none(path, branch)
        if handle is None:
            raise CorruptGraph(f"table {self.uri(path, branch)} is missing")
        return handle

    def newest_or_none(self, path: str, branch: str | None = None) -> LanceTable | None:
        """The newest version, or None when the table or its branch does not exist."""
        try:
            return self._newest(path, branch)
        except (ValueError, FileNotFoundError) as error:
            if is_outage(error):
                raise StoreUnavailable(f"could not open table {path}: {reason(error)}") from error
            if "not found" in str(error).lower():
                return None
            raise CorruptGraph(f"table {path} cannot be opened: {reason(error)}") from error
        except STORE_EXCEPTIONS:
            with store_errors(f"open table {path}"):
                raise

    def _newest(self, path: str, branch: str | None) -> LanceTable:
        number = newest_version(self.uri(path, branch)) if self.is_local else None
        if number is not None:
            with contextlib.suppress(ValueError, FileNotFoundError):  # removed since; a listing says what is there
                return self._dataset(path, branch, number)
        return self._dataset(path, branch)

    def newest_number(self, path: str, branch: str | None, handle: LanceTable) -> int:
        """The number of the newest version that exists, published or not, from a handle at any version."""
        number = newest_version(self.uri(path, branch), handle.version) if self.is_local else None
        return number if number is not None else int(handle.latest_version)

    def note_newest(self, directory: str) -> None:
        """Make the note of the newest version right, on a disk, before versions of a table or of its branch are
        removed: from then on no version is missing above a noted one, and `newest_version` is not misled."""
        if self.is_local:
            names = os.listdir(self._location.child(f"{directory}/_versions"))
            numbers = [2**64 - 1 - int(name.partition(".")[0]) for name in names if _VERSION_FILE.fullmatch(name)]
            self._objects.write(f"{directory}/_versions/{_NOTE}", json.dumps({"version": max(numbers)}).encode())

    def at(self, table: TableVersion) -> LanceTable:
        """A table at one version. A handle is kept only where its number can never mean another version."""
        use_storage()
        if not table.is_unique:
            return self._open_at(table)
        kept = self._versions(table).get(table)
        if kept is None:
            kept = self._open_at(table)
            self.remember(table, kept)
        return kept

    def remember(self, table: TableVersion, handle: LanceTable) -> None:
        """Keep a handle that a commit produced, so that the next reader need not open it."""
        self._versions(table).put(table, handle)

    def _versions(self, table: TableVersion) -> LruCache[TableVersion, LanceTable]:
        """The open versions of a lineage of a table. Few of each, so that one busy table does not close the others."""
        return self._open.get_or_make(
            (table.location, table.branch), lambda: LruCache(max_entries=limits.OPEN_VERSIONS)
        )

    def _open_at(self, table: TableVersion, session: Session | None = None) -> LanceTable:
        if table.derived is not None:
            from omnigraph.storage.tables.derived_table import derive

            return derive(self, table)
        path, version = table.location, table.version
        try:
            return self._dataset(path, table.branch, version, session)
        except (ValueError, FileNotFoundError) as error:
            if is_outage(error):
                raise StoreUnavailable(f"could not open table {path}: {reason(error)}") from error
            if "not found" not in str(error).lower():
                raise CorruptGraph(f"version {version} of table {path} cannot be read: {reason(error)}") from error
            raise HistoricalVersionReclaimed(
                f"version {version} of table {path} is no longer stored",
                hint="choose a newer commit",
                path=path,
                version=version,
            ) from None
        except STORE_EXCEPTIONS:
            with store_errors(f"open table {path} at version {version}"):
                raise

    def fresh(self, table: TableVersion, session: Session | None = None) -> LanceTable:
        """A table at one version on a handle that remembers nothing: what it reads comes from the store.

        Args:
            session: of `new_session`, for many that are looked at together.
        """
        return self._open_at(table, _session() if session is None else session)

    def new_session(self) -> Session:
        """What several fresh handles may remember together."""
        use_storage()
        return _session()

    def pinned(self, table: TableVersion) -> PinnedDataset:
        """A table at one version for other software, which can do nothing but read it."""
        from omnigraph.storage.tables.pinned_dataset import PinnedDataset

        if table.derived is not None:
            made = self.at(table)
            read = PinnedDataset(
                made.uri,
                made.version,
                storage_options=self._options,
                default_scan_options={"blob_handling": AS_BYTES},
            )
            read.made_from = made
            return read
        with store_errors(f"open table {table.location} at version {table.version}"):
            pinned = PinnedDataset(
                self.address(table.location, table.branch),
                table.version,
                storage_options=self._options,
                session=_session(),
                default_scan_options={"blob_handling": AS_BYTES},
            )
        if table.branch is not None:
            self._require_unmoved(table.location, pinned)
        return pinned

    def _dataset(
        self, path: str, branch: str | None, version: int | None = None, session: Session | None = None
    ) -> LanceTable:
        """Open a table on what this graph remembers of its main lineages, where a version is never made twice. The name
        of a branch may be given again, so each opened branch begins with nothing."""
        use_storage()
        if session is None:
            session = self._session if branch is None else _session()
        with panics_as_damage(f"table {path} cannot be opened: its version file is damaged"):
            handle = lance.dataset(
                self.address(path, branch), version=version, storage_options=self._options, session=session
            )
        if branch is not None:
            self._require_unmoved(path, handle)
        return handle

    def _require_unmoved(self, path: str, handle: LanceTable) -> None:
        """A branch names the files that it shares by their address. After a move they are missing there; after a copy
        they are those of the original, which nobody may take for these."""
        address = self.address(path)
        for base in handle.base_paths().values():
            if not is_at(base.path, address):
                raise GraphMoved(
                    f"the branches of {self._location.uri} still name the place that it was moved or copied from, "
                    f"{base.path}",
                    hint=f"run `omnigraph relocate {self._location.uri}`",
                    uri=self._location.uri,
                )

    def purge(self, path: str, below: int) -> None:
        """Remove the versions of a table below one, and the files that only they need."""
        with store_errors(f"remove old versions of table {path}"):
            newest = self.newest(path)
            old = [version for entry in newest.versions() if (version := int(entry["version"])) < below]
            if old:
                newest.cleanup_old_versions(versions=old)  # staged files of live writers stay
        self._forget(path)

    def restore(self, handle: LanceTable, version: int, operation_id: str) -> LanceTable:
        """Make an older version of a table its newest. Lands on top of whatever came meanwhile."""
        operation = lance.LanceOperation.Restore(version)
        properties = {OPERATION: operation_id}
        left = limits.PUBLISHER_RETRY_BUDGET
        with store_errors("restore a table"):
            while True:
                transaction = lance.Transaction(handle.version, operation, transaction_properties=properties)
                try:
                    return lance.LanceDataset.commit(as_dataset(handle), transaction)
                except CommitConflictError:  # Lance puts it behind some commits, and refuses others
                    if left == 0:
                        raise
                    left -= 1
                    handle = handle.checkout_version(handle.latest_version)

    def remove(self, path: str) -> None:
        """Remove a table with all its versions; an absent one is success.

        A mark stays, so that no other table is ever made there: its version numbers would mean other rows to whoever
        remembers the old ones.
        """
        mark = self.mark_removed(path)
        self._objects.delete_below(path, keep=mark)
        object_store.forget(self.uri(path))
        self._forget(path)

    def mark_removed(self, path: str) -> str:
        """Leave the mark of a table that is being removed; returns its path."""
        mark = f"{path}/{_REMOVED}"
        self._objects.write(mark, b"")
        return mark

    def clear(self, path: str) -> None:
        """Remove whatever lies where a table should be, so that it can be made anew. For copies only."""
        self._objects.delete_below(path)
        object_store.forget(self.uri(path))
        self._forget(path)

    def forget_open(self) -> None:
        """Drop the open versions: some of them may be gone from the store."""
        self._open.discard_if(lambda _: True)

    def _forget(self, path: str) -> None:
        self._open.discard_if(lambda table: table[0] == path)

    def read_file(self, path: str, branch: str | None, name: str) -> bytes | None:
        """Content of a small file of a table, or None when it does not lie there."""
        return self._objects.read(f"{path}/tree/{branch}/{name}" if branch else f"{path}/{name}")

    def ref(self, path: str, branch: str) -> Ref | None:
        """One Lance branch of a table, however many there are; None when there is no such branch."""
        content = self._objects.read(f"{path}/{_ref_file(branch)}")
        if content is None:
            return None
        try:
            ref = json.loads(content)
            return Ref(json.dumps(ref["identifier"]), ref["parentBranch"], int(ref["parentVersion"]))
        except (ValueError, KeyError, TypeError):
            raise CorruptGraph(f"the ref of branch '{branch}' is unreadable") from None

    def branch_names(self, path: str) -> list[str]:
        """Names of all Lance branches of a table; costs one listing."""
        names = self._objects.names(f"{path}/{_REFS}")
        return [unquote(name.removesuffix(".json")) for name in names if name.endswith(".json")]

    def branches(self, path: str) -> dict[str, dict[str, Any]]:
        """Lance branches of a table: name → parent_branch, parent_version, branch_identifier, …"""
        for attempt in range(_BRANCH_LISTING_RETRIES + 1):
            try:
                return dict(self.newest(path).branches.list())
            except READ_EXCEPTIONS as error:  # a branch vanished between the listing and its reading
                if attempt == _BRANCH_LISTING_RETRIES:
                    kind = StoreUnavailable if is_outage(error) else CorruptGraph
                    raise kind(f"could not list the branches of table {path}: {reason(error)}") from error
        raise AssertionError("unreachable")

    def fork(self, source: TableVersion, branch: str) -> LanceTable:
        """Create a Lance branch at a version of another one. The caller made sure that the name is free.

        On a handle of its own: while it runs, no other thread can use the one it runs on.
        """
        with store_errors(f"create branch {branch} of table {source.location}"):
            handle = self._open_at(source).create_branch(branch, (source.branch, source.version))
            self._sync_branch(source.location, branch, source.version)
            return handle

    def drop_ref(self, path: str, branch: str) -> None:
        """Remove the ref of a Lance branch, so that nobody lists it. Its files stay."""
        self._objects.delete(f"{path}/{_ref_file(branch)}")

    def drop_branch(self, path: str, branch: str) -> None:
        """Remove a Lance branch and what an interrupted fork or removal of this name left; an absent one is success.

        Only where nobody can still be about to use it: under a lock of the kernel, or a name that is never used again.
        """
        self.drop_ref(path, branch)
        self._objects.delete_below(f"{path}/tree/{branch}/_versions")  # whoever misses a file finds its version gone
        self._objects.delete_below(f"{path}/tree/{branch}")
        object_store.forget(self.uri(path, branch))
        self._open.discard((path, branch))

    def _sync_branch(self, path: str, branch: str, version: int) -> None:
        """Make a new branch survive a power cut: its first version file and its ref."""
        if self._location.is_local:
            files = [f"{self.uri(path)}/{_ref_file(branch)}", f"{self.uri(path, branch)}/{version_file(version)}"]
            object_store.sync_files(files, self._location.uri)

    def sync_newest(self, path: str, branch: str | None = None) -> None:
        """Make the newest version survive a power cut, for changes that add nothing but a version file."""
        if self._location.is_local:
            newest = self.newest(path, branch)
            object_store.sync_files([f"{self.uri(path, branch)}/{version_file(newest.version)}"], self._location.uri)


def transaction_of(handle: LanceTable, version: int) -> Any | None:
    """The transaction that made a version of a table; None when the version does not say.

    On a handle of its own: while it runs, no other thread can use the one it runs on.
    """
    return copy.copy(handle).read_transaction(version)


def maker(handle: LanceTable, version: int) -> Any | None:
    """The transaction that made a version of a table; None when that cannot be read."""
    try:
        return transaction_of(handle, version)
    except READ_EXCEPTIONS:
        return None


def is_ours(transaction: Any | None) -> bool:
    """Whether a transaction was made by this software."""
    return transaction is not None and OPERATION in (transaction.transaction_properties or {})


def _session() -> Session:
    """What Lance remembers between two calls, within bounds: its own are 7 GB for each table that is opened."""
    return lance.Session(  # type: ignore[attr-defined]
        index_cache_size_bytes=_INDEX_CACHE_BYTES, metadata_cache_size_bytes=limits.metadata_cache_bytes()
    )


def _ref_file(branch: str) -> str:
    return f"{_REFS}/{branch.replace('/', '%2F')}.json"


def version_file(version: int) -> str:
    """Relative path of a version's own file (V2 naming: newest sorts first)."""
    return f"_versions/{2**64 - 1 - version:020d}.manifest"


def newest_version(directory: str, known: int = 0) -> int | None:
    """The number of the newest version of a table, or of a branch of a table, in a local directory, if it can be told
    without a listing, which takes as long as there are versions.

    Lance gives versions consecutive numbers and leaves a note of the last one that it made for its own commits. The
    note may be old; the numbers are consecutive all the same, and a cleanup makes the note right before it removes
    some. So whoever begins at a version that exists and goes up until one is missing has found the newest. Other
    software may remove versions without a word, so where the directory changed since the note, nothing is told.

    Args:
        known: a version that was made, if one is known.
    """
    versions = f"{directory}/_versions"
    note = _note(versions)
    if note is None:
        return None  # versions were removed
    start = max(known, note)
    if not os.path.exists(f"{directory}/{version_file(start)}"):
        return None  # another branch of the same name, or a table that is gone
    for version in range(start + 1, start + 1 + _VERSIONS_TRIED):
        if not os.path.exists(f"{directory}/{version_file(version)}"):
            return version - 1
    return None


def _note(versions: str) -> int | None:
    """What the note says, 0 if that cannot be told; None if it is not the last thing that happened to the version
    files. It appears under its name a moment after it was written."""
    path = f"{versions}/{_NOTE}"
    try:
        found = os.stat(path)
        changed = os.stat(versions).st_mtime_ns - found.st_mtime_ns
    except OSError:
        return None
    if changed >= _NOTE_NANOSECONDS:
        return None
    try:
        return _noted(path, found.st_ino, found.st_size, found.st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError):
        return 0


@lru_cache(maxsize=limits.OPEN_TABLES)
def _noted(path: str, inode: int, size: int, changed: int) -> int:
    """What a note says, which is a new file whenever it is written."""
    with open(path, "rb") as note:
        return int(json.load(note)["version"])


#: Metadata of a field that holds blobs; whoever makes the schema sets it.
MARK = b"omnigraph.blob"

#: How a scan returns blob columns as bytes; without it a scan returns where the bytes lie.
AS_BYTES: Literal["all_binary"] = "all_binary"

_PHYSICAL = lance.blob_field("blob").type


def physical_schema(schema: pa.Schema) -> pa.Schema:
    """The schema a table is created with: marked columns become Lance blob columns."""
    fields = [
        field.with_type(_PHYSICAL) if MARK in (field.metadata or {}) and pa.types.is_large_binary(field.type) else field
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def has_blobs(schema: pa.Schema) -> bool:
    return any(is_blob(field) for field in schema)


def physical_rows(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows as a table of this physical schema takes them: bytes are wrapped, everything else stays."""
    for position, field in enumerate(schema):
        if is_blob(field) and rows.column(position).type != field.type:
            rows = rows.set_column(position, field, _wrapped(rows.column(position), field.type))
    return rows


def is_blob(field: pa.Field) -> bool:
    """Whether a field of a stored table is a Lance blob column."""
    return bool(getattr(field.type, "extension_name", None) == _PHYSICAL.extension_name)


def _wrapped(column: pa.ChunkedArray, type_: Any) -> pa.Array:
    data = column.combine_chunks().cast(pa.large_binary())
    members = [data, *(pa.nulls(len(data), field.type) for field in list(type_.storage_type)[1:])]
    storage = pa.StructArray.from_arrays(members, fields=list(type_.storage_type), mask=pc.is_null(data))
    return pa.ExtensionArray.from_storage(type_, storage)


def as_dataset(table: LanceTable) -> lance.LanceDataset:
    """The same object under Lance's own type, for functions of Lance that ask for it."""
    return cast("lance.LanceDataset", table)
