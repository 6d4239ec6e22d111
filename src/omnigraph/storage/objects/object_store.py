"""Small control objects of a graph: schema files, recovery records, leases.

The same few operations on a local directory and on S3, there through obstore. A reader sees all of an object or
nothing; on a local disk a finished write is on the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import LocalStore, S3Store

from omnigraph.errors import StoreUnavailable
from omnigraph.storage.objects.durable import write_file
from omnigraph.storage.objects.error_mapping import store_errors
from omnigraph.storage.objects.location import Location
from omnigraph.storage.objects.process import use_storage


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
