"""What both kinds of remote snapshots, diffs and blobs know without asking the server again."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from omnigraph.client import rebuilt
from omnigraph.client.read_calls import BlobHead, StateHead
from omnigraph.client.verbs import refusal
from omnigraph.errors import BlobRangeError, UnknownAnswer
from omnigraph.given import count
from omnigraph.graph.snapshot import pin_named
from omnigraph.history.diff import DiffStats
from omnigraph.history.entity_changes import EntityChange
from omnigraph.storage.metadata.manifest import Pin


class KnownState:
    """One consistent state of a graph behind a server. It does not change, whatever is committed meanwhile."""

    def __init__(self, head: StateHead) -> None:
        self._head = head

    @property
    def branch(self) -> str:
        """The branch it was taken from."""
        return self._head.branch

    @property
    def version(self) -> int:
        """Manifest version of that branch; grows with every commit."""
        return self._head.version

    @property
    def commit_id(self) -> str:
        """The newest commit of this state."""
        return self._head.commit_id

    @property
    def tables(self) -> Mapping[str, Pin]:
        """Every table by ``node:<Type>`` or ``edge:<Type>``, with version, branch and row count."""
        return self._head.tables

    def count(self, type_name: str) -> int:
        """Rows of a type; free, the state knows it."""
        return pin_named(self._head.tables, type_name).row_count

    def __repr__(self) -> str:
        return f"{type(self).__name__}(branch={self.branch!r}, version={self.version})"


class ArrivingFile(io.RawIOBase):
    """An answer as a file that is read while it comes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """As many bytes as are asked for, unless the answer ends."""
        found = bytearray()
        while size < 0 or len(found) < size:
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    break
                self._rest = memoryview(piece)
            taken = self._rest if size < 0 else self._rest[: size - len(found)]
            found += taken
            self._rest = self._rest[len(taken) :]
        return bytes(found)


def part_of(head: BlobHead, offset: int, length: int | None) -> tuple[int, int]:
    """Where some bytes of a blob begin and how many there are.

    Raises:
        BlobRangeError: the offset is behind the end.
    """
    start = count(offset, "offset")
    most = None if length is None else count(length, "length")
    if start > head.size:
        raise BlobRangeError(start, most, head.size)
    return start, head.size - start if most is None else min(most, head.size - start)


def changes_in(lines: Iterable[bytes]) -> Iterable[EntityChange]:
    """The changes that lines of an answer tell."""
    for line in lines:
        try:
            yield rebuilt.change(msgspec.json.decode(line))
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise UnknownAnswer(f"a line of the diff cannot be understood: {error}") from None


def counted(changes: Iterable[EntityChange]) -> DiffStats:
    """Counts of changes by what they are."""
    found = {"insert": 0, "update": 0, "delete": 0}
    types: dict[str, None] = {}
    for change in changes:
        found[change.op] += 1
        types[change.type] = None
    return DiffStats(found["insert"], found["update"], found["delete"], tuple(types))


_CHANGES = pa.schema(
    [
        *((name, pa.string()) for name in ("kind", "type", "id", "op")),
        ("changed", pa.list_(pa.string())),
        ("before", pa.string()),
        ("after", pa.string()),
    ]
)


def table_of_changes(changes: Iterable[EntityChange], type_name: str | None) -> pa.Table:
    """Changes as `Diff.to_arrow` gives them for all types: the images are JSON texts."""
    if type_name is not None:
        raise refusal("a diff of one type in native types", "leave type_name out; the images are JSON then")
    rows = [
        {
            **{name: getattr(each, name) for name in ("kind", "type", "id", "op")},
            "changed": list(each.changed),
            "before": _text(each.before),
            "after": _text(each.after),
        }
        for each in changes
    ]
    return pa.Table.from_pylist(rows, schema=_CHANGES)


def _text(image: dict[str, Any] | None) -> str | None:
    return None if image is None else json.dumps(image, ensure_ascii=False, separators=(",", ":"))
