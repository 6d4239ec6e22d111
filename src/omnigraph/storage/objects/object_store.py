"""Where a graph lives, a local directory or a prefix in an S3 bucket, and its files there.

One place turns what a user typed into a normal form, and the environment into the options that Lance and obstore both
need. Small control objects (schema files, recovery records, leases) are read and written with conditions. Local files
are synced here, because Lance renames and links but never syncs: a commit is acknowledged after its files are durable.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import LocalStore, S3Store

from omnigraph import limits
from omnigraph.errors import InvalidUri, StoreUnavailable
from omnigraph.storage.objects.native_libraries import store_errors, use_storage

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_UNUSABLE = re.compile(r"[?\x00-\x1f\x7f]")  # the storage library cuts or refuses addresses that hold these
_TRUTHY = frozenset({"1", "true", "TRUE", "True", "yes", "YES", "on", "ON"})


@dataclass(frozen=True, slots=True)
class Location:
    """A graph's root in normal form.

    Attributes:
        uri: absolute path without trailing slash, or ``s3://bucket/prefix``.
        options: what Lance takes as ``storage_options``; empty for a local path.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_local(self) -> bool:
        return not self.uri.startswith("s3://")

    def child(self, relative: str) -> str:
        return f"{self.uri.rstrip('/')}/{relative}"

    @property
    def bucket_and_prefix(self) -> tuple[str, str]:
        bucket, _, prefix = self.uri.removeprefix("s3://").partition("/")
        return bucket, prefix


def _spelling(given: object) -> str:
    """An address as a text, whatever a caller gives for it."""
    spelling = os.fspath(given) if isinstance(given, str | os.PathLike) else given
    if not isinstance(spelling, str):
        kind = type(given).__name__
        raise InvalidUri(f"the address of a graph is a text or a path, not {given!r:.40} of type {kind}")
    return spelling


def parse_location(text: str | os.PathLike[str] | Location, environ: Mapping[str, str] | None = None) -> Location:
    """Understand a path, a ``file://`` or an ``s3://`` address; raise InvalidUri for anything else."""
    if isinstance(text, Location):
        return text
    address = _spelling(text)
    if not address.strip() or "\0" in address:
        raise InvalidUri(f"{address!r} is not a graph address", hint="give a directory or s3://bucket/prefix")
    if "://" not in address:
        return _local(address)
    scheme, _, rest = address.partition("://")
    scheme = scheme.lower()
    if scheme == "file":
        host, slash, path = rest.partition("/")
        if host not in ("", "localhost"):
            raise InvalidUri(f"{address!r} names another host", hint="use file:///absolute/path")
        return _local(unquote(f"{slash}{path}"))
    if scheme == "s3":
        return _s3(address, os.environ if environ is None else environ)
    if scheme in ("http", "https"):
        raise InvalidUri(f"{address!r} is a server address, not a storage address", hint="use a path or s3://")
    raise InvalidUri(f"{address!r} has an unknown scheme", hint="use a path, file:// or s3://bucket/prefix")


def _local(path: str) -> Location:
    if not path or "\0" in path:
        raise InvalidUri(f"{path!r} is not a path")
    absolute = os.path.realpath(os.path.expanduser(path))
    if _UNUSABLE.search(absolute):
        raise InvalidUri(f"{absolute!r} holds a question mark or a control character", hint="choose another directory")
    return Location(absolute)


def _s3(address: str, environ: Mapping[str, str]) -> Location:
    bucket, _, prefix = address[len("s3://") :].partition("/")
    segments = [segment for segment in prefix.split("/") if segment]
    if not bucket or _UNUSABLE.search(address) or any(segment in (".", "..") for segment in segments):
        raise InvalidUri(f"{address!r} is not s3://bucket/prefix")
    return Location("/".join([f"s3://{bucket}", *segments]), s3_options(environ))


def s3_options(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment as object-store options, the same for Lance and for the control objects."""
    options = {
        name.lower(): environ[name]
        for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        if environ.get(name)
    }
    if "aws_region" not in options and environ.get("AWS_DEFAULT_REGION"):
        options["aws_region"] = environ["AWS_DEFAULT_REGION"]
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        options["aws_endpoint"] = endpoint
    if environ.get("AWS_ALLOW_HTTP") in _TRUTHY or (endpoint or "").startswith("http://"):
        options["allow_http"] = "true"
    if "AWS_S3_FORCE_PATH_STYLE" in environ:
        path_style = environ["AWS_S3_FORCE_PATH_STYLE"] in _TRUTHY
        options["aws_virtual_hosted_style_request"] = "false" if path_style else "true"
    return options


#: Objects that are removed with one request, as many as S3 takes.
_DELETED_AT_ONCE = 1_000

#: Files that are synced to the disk at once. They wait for it together, and it takes them in one go.
_SYNC_THREADS = 8


_linked: set[str] = set()  # directories whose own entry in their parent is known to be on disk
_lock = threading.Lock()


def write_file(path: str, content: bytes, root: str, *, replace: bool = True) -> bool:
    """Write a whole file. Its name appears when its content is on the disk, so that no reader ever finds half of it.

    Returns:
        False when the file exists and may not be replaced.
    """
    unfinished = f"{path}#{uuid.uuid4().int}"  # the storage libraries skip such names when they list a directory
    try:
        _write(unfinished, content)
        if replace:
            os.rename(unfinished, path)
        elif not _link(unfinished, path):
            return False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
    sync_directories([os.path.dirname(path)], root)
    return True


def _link(existing: str, path: str) -> bool:
    try:
        os.link(existing, path)
        return True
    except FileExistsError:
        return False


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        if limits.fsync_enabled():
            os.fsync(file.fileno())


def sync_files(paths: Iterable[str], root: str) -> None:
    """Sync files and the directories that hold them, up to and including ``root``."""
    if not limits.fsync_enabled():
        return
    files = list(paths)
    if len(files) > 1:
        list(_threads().map(lambda path: sync(path), files))  # the disk writes together what waits together
    else:
        for path in files:
            sync(path)
    sync_directories({os.path.dirname(path) for path in files}, root)


def sync_directories(directories: Iterable[str], root: str) -> None:
    """Sync the entries of directories, and those of their parents where a directory itself is new."""
    if not limits.fsync_enabled():
        return
    todo = set(directories)
    for directory in list(todo):
        current = directory
        while len(current) > len(root) and current not in _linked:
            parent = os.path.dirname(current)
            todo.add(parent)
            current = parent
    for directory in sorted(todo, key=len, reverse=True):
        sync(directory)
    with _lock:
        _linked.update(todo)


def forget(directory: str) -> None:
    """A directory was removed; when its name comes back it is new again."""
    with _lock:
        _linked.difference_update(
            [known for known in _linked if known == directory or known.startswith(f"{directory}/")]
        )


@cache
def _threads() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="omnigraph-sync")


def sync(path: str) -> None:
    """Sync one file, or the entries of one directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def files_of(table_uri: str, operation: Any) -> list[str]:
    """Files that staging an operation wrote: data, deletions, index parts. Its transaction is in the version file."""
    files = []
    rewritten = [fragment for group in getattr(operation, "groups", ()) for fragment in group.new_fragments]
    for fragment in [*getattr(operation, "new_fragments", ()), *getattr(operation, "fragments", ()), *rewritten]:
        for file in fragment.files:
            data_file = f"{table_uri}/data/{file._path}"  # `path` makes a new class at each look
            files += [data_file, *_blobs_of(data_file)]
    for fragment in getattr(operation, "updated_fragments", ()):
        if fragment.deletion_file is not None:
            files.append(f"{table_uri}/{fragment.deletion_file.path(fragment.id)}")
    for index in getattr(operation, "new_indices", ()):
        files += [f"{table_uri}/_indices/{index.uuid}/{file.path}" for file in index.files or ()]
    return files


def _blobs_of(data_file: str) -> list[str]:
    """Large blob values lie in a directory named after their data file."""
    directory = data_file.removesuffix(".lance")
    return [os.path.join(directory, name) for name in os.listdir(directory)] if os.path.isdir(directory) else []


def sync_tree(directory: str, root: str) -> None:
    """Sync a whole new directory."""
    if limits.fsync_enabled():
        files = [os.path.join(place, name) for place, _, names in os.walk(directory) for name in names]
        sync_files(files, root)


class ObjectStore:
    """Control objects below one graph root, addressed by relative path."""

    def __init__(self, location: Location) -> None:
        use_storage()
        self._location = location
        self._store: Any = None

    def read(self, path: str) -> bytes | None:
        """The content, or None when there is no such object. Any other failure is raised."""
        if self._location.is_local:
            with store_errors(f"read {self._location.child(path)}"):
                return _local_content(self._location.child(path))
        found = self.read_versioned(path)
        return found[0] if found else None

    def read_versioned(self, path: str) -> tuple[bytes, str] | None:
        """Content and version tag, for a later `replace`."""
        if self._location.is_local:
            content = self.read(path)
            return (content, _local_tag(content)) if content is not None else None
        with store_errors(f"read {self._location.child(path)}"):
            try:
                answer = obstore.get(self._connect(), path)
                return bytes(answer.bytes()), answer.meta["e_tag"] or ""
            except FileNotFoundError:
                return None

    def write(self, path: str, content: bytes) -> None:
        with store_errors(f"write {self._location.child(path)}"):
            if self._location.is_local:
                write_file(self._location.child(path), content, self._location.uri)
            else:
                obstore.put(self._connect(), path, content)

    def create(self, path: str, content: bytes) -> str | None:
        """Write unless the object exists. Returns its version tag, or None when it existed."""
        with store_errors(f"create {self._location.child(path)}"):
            if self._location.is_local:
                made = write_file(self._location.child(path), content, self._location.uri, replace=False)
                return _local_tag(content) if made else None
            try:
                return obstore.put(self._connect(), path, content, mode="create")["e_tag"] or ""
            except AlreadyExistsError:
                return None

    def replace(self, path: str, content: bytes, tag: str) -> str | None:
        """Write if the object still has this version tag. Returns the new tag, or None.

        An object store compares by itself. On a disk the caller holds the section that guards the object.
        """
        with store_errors(f"replace {self._location.child(path)}"):
            if self._location.is_local:
                found = self.read_versioned(path)
                if found is None or found[1] != tag:
                    return None
                write_file(self._location.child(path), content, self._location.uri)
                return _local_tag(content)
            try:
                return obstore.put(self._connect(), path, content, mode={"e_tag": tag})["e_tag"] or ""
            except (PreconditionError, AlreadyExistsError, FileNotFoundError):
                return None

    def delete(self, path: str) -> None:
        """Remove an object; an absent one is success. Not synced: what a power cut brings back is stale, not wrong."""
        with (
            store_errors(f"delete {self._location.child(path)}"),
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
        ):
            if self._location.is_local:
                os.unlink(self._location.child(path))
            else:
                obstore.delete(self._connect(), path)

    def delete_all(self, paths: Sequence[str]) -> None:
        """Remove many objects; absent ones are success."""
        if self._location.is_local:
            for path in paths:
                self.delete(path)
            return
        for first in range(0, len(paths), _DELETED_AT_ONCE):
            with store_errors(f"delete from {self._location.uri}"), contextlib.suppress(FileNotFoundError):
                obstore.delete(self._connect(), list(paths[first : first + _DELETED_AT_ONCE]))

    def names(self, directory: str) -> list[str]:
        """Names of the objects directly in a directory, sorted. A missing directory is empty."""
        if self._location.is_local:
            return _local_names(self._location.child(directory))
        with store_errors(f"list {self._location.child(directory)}"):
            listing = obstore.list_with_delimiter(self._connect(), directory)
            return sorted(entry["path"].rpartition("/")[2] for entry in listing["objects"])

    def any_below(self, directory: str) -> bool:
        """Whether at least one object lies below a directory, at any depth."""
        if self._location.is_local:
            return any(files for _, _, files in os.walk(self._location.child(directory)))
        with store_errors(f"list {self._location.child(directory)}"):
            return any(len(page) for page in obstore.list(self._connect(), f"{directory}/", chunk_size=1))

    def delete_below(self, directory: str, keep: str | None = None) -> None:
        """Remove every object below a directory, but for one path. Only for what nothing can ever reach again."""
        with store_errors(f"delete {self._location.child(directory)}"):
            if self._location.is_local:
                return _remove_tree(self._location.child(directory), self._location.child(keep) if keep else None)
            for page in obstore.list(self._connect(), f"{directory}/"):
                obstore.delete(self._connect(), [entry["path"] for entry in page if entry["path"] != keep])

    def remove_empty(self, directory: str) -> None:
        """Remove the directories below one that hold nothing, and itself; an object store has none."""
        if self._location.is_local:
            root = self._location.child(directory)
            for place, _, _ in os.walk(root, topdown=False):
                with contextlib.suppress(OSError):  # not empty
                    os.rmdir(place)
            forget(root)

    def _connect(self) -> Any:
        if self._store is None:
            self._store = open_store(self._location)
        return self._store


def _local_tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _remove_tree(directory: str, keep: str | None) -> None:
    """Another process may remove the same files at the same time."""
    for place, _, names in os.walk(directory, topdown=False):
        for name in names:
            if (path := os.path.join(place, name)) != keep:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        with contextlib.suppress(OSError):  # not empty
            os.rmdir(place)


def _local_content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def _local_names(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if entry.is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreUnavailable(f"could not list {directory}: {error.strerror}") from error


def open_store(location: Location) -> Any:
    """The store behind a location, as obstore knows it."""
    if location.is_local:
        return LocalStore(location.uri)
    bucket, prefix = location.bucket_and_prefix
    config, client = store_config(location.options)
    return S3Store(
        bucket,
        prefix=prefix or None,
        config=config,
        client_options=client,
        retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=15)},
    )


def store_config(options: Mapping[str, str]) -> tuple[Any, Any]:
    """What obstore takes for these options: of the store, and of its connections."""
    config = dict(options)
    client = {"connect_timeout": "5s", "timeout": "30s"}
    if config.pop("allow_http", None):
        client["allow_http"] = "true"
    return config, client
