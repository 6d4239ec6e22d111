"""The route by which a client of ours loads: the source whole, as files and rows, so that the load is one commit.

Files keep the names that they have at the caller; nothing is opened by them. Each part lies in a temporary file while
it is loaded.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.server.operation import Answer, Call, HttpOperation
from omnigraph.server.operations.arrow_bodies import arrow_table
from omnigraph.server.operations.load_routes import change_of_query, loaded, shown_load
from omnigraph.wire import answers, requests
from omnigraph.wire.load_parts import MEDIA_TYPE, ReceivedPart, received


class NamedPart(io.RawIOBase):
    """A received file under the name that its owner knows it by. It is open only while it is read from, so that a load
    of very many files does not take all descriptors of the server."""

    def __init__(self, part: ReceivedPart) -> None:
        self._path, self._name = part.path, part.head.name
        self._at = 0

    @property
    def name(self) -> str:
        return self._name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        with io.FileIO(self._path) as file:
            file.seek(self._at)
            count = file.readinto(target)
        self._at += count
        return count

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._path.stat().st_size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def tell(self) -> int:
        return self._at


def _load_parts(call: Call) -> Answer:
    assert call.raw is not None
    asked: requests.LoadPartsQuery = call.query
    with tempfile.TemporaryDirectory(prefix="omnigraph-load-") as folder:
        parts = received(call.raw, Path(folder))
        sources = [(part.head.type, _opened(part)) for part in parts]
        if asked.shape == "mapping":
            return shown_load(loaded(call, _by_type(sources), asked, format=asked.format))
        given: Any = [source for _, source in sources]
        if len(parts) == 1 and parts[0].head.kind == "rows":
            given = given[0]
        return shown_load(loaded(call, given, asked, format=asked.format, type=asked.type))


def _opened(part: ReceivedPart) -> Any:
    if part.head.kind == "file":
        return NamedPart(part)
    with part.path.open("rb") as file:
        return arrow_table(file)


def _by_type(sources: list[tuple[str | None, Any]]) -> dict[str, Any]:
    """The mapping that the caller gave: rows of a type, or its files."""
    found: dict[str, Any] = {}
    for name, source in sources:
        if name is None:
            raise InputError("a part of a load by types names no type")
        if isinstance(source, NamedPart):
            found.setdefault(name, []).append(source)
        else:
            found[name] = source
    return found


PARTS_ROUTES = (
    HttpOperation(
        "POST",
        "/load/parts",
        "load_parts",
        "mutations",
        "Load files and rows as one commit, in the form of our own clients",
        _load_parts,
        change_of_query,
        query=requests.LoadPartsQuery,
        raw_body=MEDIA_TYPE,
        answer=answers.GraphBatchLoadOutput,
        pool="write",
        admitted=True,
        body_limit=limits.LOAD_PARTS_BYTES,
        statuses=(409, 413),
    ),
)
