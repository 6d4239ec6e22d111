"""A whole state of a branch with the cursor that goes on from it: how a consumer begins, and begins again after a gap.

The lines are those of an export. The last one holds the cursor; it is written only after every row was, so a file
without it is unusable. Install the data first, then the cursor.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.history.change_filter import ChangeFilter
from omnigraph.history.export import Target, lines_of, writer_of
from omnigraph.history.feed.blocks import binding_of, known_types
from omnigraph.history.feed.install import installed
from omnigraph.history.feed.tokens import Cursor, seal
from omnigraph.storage import lineage
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore


@dataclass(frozen=True, slots=True)
class Baseline:
    """A state of a branch and how to follow it from there.

    Attributes:
        snapshot_commit_id: head commit of the state.
        resume_cursor: what comes after it; for `Graph.changes` with the same branch and filters.
        file: path of the lines, if a path was given.
        text: the lines, if no target was given.
    """

    snapshot_commit_id: str
    resume_cursor: str
    file: str | None = None
    text: str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Baseline(commit {self.snapshot_commit_id}{f', file {self.file!r}' if self.file is not None else ''})"

    def to_dict(self) -> dict[str, Any]:
        return {"snapshot_commit_id": self.snapshot_commit_id, "resume_cursor": self.resume_cursor}


def baseline(store: GraphStore, snapshot: Snapshot, target: Target, filter_: ChangeFilter) -> Baseline:
    """Write the lines of a state, then one line ``{"baseline": …}`` with its commit and cursor."""
    filter_.require_known_types(known_types(snapshot))
    head = lineage.head_id(store.tables, snapshot)
    cursor = seal(Cursor(binding_of(store, snapshot, filter_), head))
    found = Baseline(head, cursor)
    if target is None:
        held = io.BytesIO()
        _pour(_lines(store, snapshot, filter_, found), held.write)
        return Baseline(head, cursor, text=held.getvalue().decode("utf-8"))
    if not isinstance(target, str | os.PathLike):
        _pour(_lines(store, snapshot, filter_, found), writer_of(target))
        return found
    path = Path(target)
    with installed(path) as file:
        _pour(_lines(store, snapshot, filter_, found), file.write)
    return Baseline(head, cursor, file=str(path))


def _lines(store: GraphStore, snapshot: Snapshot, filter_: ChangeFilter, found: Baseline) -> Iterator[Any]:
    for key, pin in sorted(snapshot.pins.items()):
        if filter_.wants_table(key):
            yield from lines_of(store, pin)
    yield (json.dumps({"baseline": found.to_dict()}, separators=(",", ":")) + "\n").encode()


def _pour(pieces: Iterator[Any], write: Callable[[Any], Any]) -> None:
    for piece in pieces:
        write(piece)
