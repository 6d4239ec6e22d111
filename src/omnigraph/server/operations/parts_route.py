"""The route by which a client of ours loads: the source whole, as files and rows, so that the load is one commit.

Files keep the names that they have at the caller; nothing is opened by them. Each part lies in a temporary file while
it is loaded.
"""

from __future__ import annotations

import io
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.server.operation import Answer, Call, HttpOperation
from omnigraph.server.operations.arrow_bodies import arrow_table
from omnigraph.server.operations.load_routes import change_of_query, loaded, shown_load
from omnigraph.wire import answers, requests
from omnigraph.wire.load_parts import MEDIA_TYPE, ReceivedPart, received


class NamedPart(io.BufferedReader):
    """A received file under the name that its owner knows it by."""

    def __init__(self, part: ReceivedPart) -> None:
        super().__init__(io.FileIO(part.path))
        self._name = part.head.name

    @property
    def name(self) -> str:
        return self._name


def _load_parts(call: Call) -> Answer:
    assert call.raw is not None
    asked: requests.LoadPartsQuery = call.query
    with tempfile.TemporaryDirectory(prefix="omnigraph-load-") as folder, ExitStack() as files:
        parts = received(call.raw, Path(folder))
        sources = [(part.head.type, _opened(part, files)) for part in parts]
        if asked.shape == "mapping":
            return shown_load(loaded(call, _by_type(sources), asked, format=asked.format))
        given: Any = [source for _, source in sources]
        if len(parts) == 1 and parts[0].head.kind == "rows":
            given = given[0]
        return shown_load(loaded(call, given, asked, format=asked.format, type=asked.type))


def _opened(part: ReceivedPart, files: ExitStack) -> Any:
    if part.head.kind == "file":
        return files.enter_context(NamedPart(part))
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
