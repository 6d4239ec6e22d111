"""The verbs that tell what changed, and those that write a whole state to a file: diffs, the feed, baselines, exports.

A file appears under its name only when all of the answer is there. An open file of the caller cannot be taken back, so
an answer that breaks off after its first bytes is an error that says so, and is not asked for again.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph import given, ids
from omnigraph.client import rebuilt
from omnigraph.client.address import quoted
from omnigraph.client.plain_values import branch_or_none, parameters, plain_moment
from omnigraph.client.wire_call import LINES, AnswerHead, Flow, WireCall, ask, json_of, unknown_answer
from omnigraph.errors import NotOffered, ServerUnavailable
from omnigraph.history.diff import DiffStats
from omnigraph.history.entity_changes import ChangeFilter, change_filter
from omnigraph.history.export import ExportResult, Target, complete_file, export_format, writer_of
from omnigraph.history.feed.baseline import Baseline, installed
from omnigraph.history.feed.commit_changes import CommitPage
from omnigraph.history.feed.page import ChangePage, page_size
from omnigraph.history.state_at import At
from omnigraph.ids import known_branch

if TYPE_CHECKING:
    from omnigraph.choices import ExportFormat

_FEED_STARTS = ("now", "beginning")
_AFTER = "after:"

#: Header of an export that tells which state it is and what is in it.
EXPORT_HEADER = "omnigraph-export"


# --- changes


@dataclass(frozen=True, slots=True)
class DiffHead:
    """Which states a diff compares, and how much differs."""

    from_commit: str
    to_commit: str
    from_version: int
    to_version: int
    branch: str
    stats: DiffStats


@dataclass(frozen=True, slots=True)
class DiffRequestForm:
    """A diff as it is asked for: two states as texts, and which changes are wanted."""

    from_: str
    to: str
    branch: str
    wanted: ChangeFilter

    def content(self, **more: Any) -> dict[str, Any]:
        filters = {"kinds": self.wanted.kinds, "types": self.wanted.types, "ops": self.wanted.ops}
        chosen = {name: list(values) for name, values in filters.items() if values is not None}
        return {"from": self.from_, "to": self.to, "branch": self.branch, **chosen, **more}

    def lines(self) -> WireCall[Any]:
        """The call whose answer has one change a line."""
        return WireCall("POST", "/diff", json_of(dict), content=self.content(), accept=LINES)


def diff_form(
    from_: object,
    to: object,
    branch: str,
    kinds: Sequence[str] | None,
    types: Sequence[str] | None,
    ops: Sequence[str] | None,
) -> DiffRequestForm:
    """The arguments of `Graph.diff`, checked."""
    wanted = change_filter(kinds, types, ops)
    return DiffRequestForm(_state(from_), _state(to), known_branch(branch), wanted)


def _state(state: Any) -> str:
    """A state as a text: of a snapshot its commit, everything else as `Graph.diff` understands it."""
    if hasattr(state, "commit_id") and hasattr(state, "tables"):
        return str(state.commit_id)
    return state if isinstance(state, str) else plain_moment(state) or ""


def diff_head(form: DiffRequestForm) -> Flow[DiffHead]:
    return (yield from ask(WireCall("POST", "/diff", json_of(_diff_head), content=form.content(summary=True))))


def _diff_head(found: Mapping[str, Any]) -> DiffHead:
    return DiffHead(
        found["from_commit_id"],
        found["to_commit_id"],
        found["from_version"],
        found["to_version"],
        found["branch"],
        rebuilt.diff_stats(found["stats"]),
    )


def changes(
    since: str | None = None,
    *,
    branch: str = ids.MAIN,
    page_token: str | None = None,
    limit: int | None = None,
    max_bytes: int | None = None,
    max_commits: int | None = None,
    kinds: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    ops: Sequence[str] | None = None,
) -> Flow[ChangePage]:
    """One page of the change feed of a branch: whole commits in order. See `Graph.changes`."""
    page_size(limit, max_bytes, max_commits)
    wanted = change_filter(kinds, types, ops)
    is_start = isinstance(since, str) and (since in _FEED_STARTS or since.startswith(_AFTER))
    query = parameters(
        branch=known_branch(branch),
        start=since if is_start else None,
        cursor=None if is_start else since,
        page_token=page_token,
        limit=limit,
        max_bytes=max_bytes,
        max_commits=max_commits,
        **_filters(wanted),
    )
    return (yield from ask(WireCall("GET", "/changes", json_of(rebuilt.change_page), query)))


def commit_page(
    commit_id: str, wanted: ChangeFilter, limit: int | None, page_token: str | None, max_bytes: int | None
) -> Flow[CommitPage]:
    """Some changes of one commit."""
    page_size(limit, max_bytes)
    path = f"/commits/{quoted(given.text(commit_id, 'the id of a commit'))}/changes"
    query = parameters(page_token=page_token, limit=limit, max_bytes=max_bytes, **_filters(wanted))
    return (yield from ask(WireCall("GET", path, json_of(rebuilt.commit_page), query)))


def _filters(wanted: ChangeFilter) -> dict[str, tuple[str, ...] | None]:
    return {"kind": wanted.kinds, "type": wanted.types, "op": wanted.ops}


# --- whole states


def export(
    target: Target = None,
    types: Sequence[str] | None = None,
    *,
    branch: str | None = None,
    at: At | None = None,
    format: ExportFormat | None = None,
) -> Flow[ExportResult]:
    """Write one state of the graph as JSONL that `load` reads; see `Graph.export`.

    Raises:
        NotOffered: another format is asked for, or named by the suffix of the target.
    """
    known = export_format(target, format)
    if known != "jsonl":
        raise NotOffered(
            f"a server exports lines, not the format {known}",
            hint="export to a name that ends in .jsonl, or write what snapshot().arrow(type) gives",
        )
    content = {
        "branch": branch_or_none(branch),
        "at": plain_moment(at),
        "type_names": None if types is None else given.texts(types, "types"),
    }
    return (yield from ask(WireCall("POST", "/export", lambda: ExportReader(target), content=content, accept=LINES)))


def baseline(
    target: Target = None,
    branch: str = ids.MAIN,
    *,
    kinds: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    ops: Sequence[str] | None = None,
) -> Flow[Baseline]:
    """Write the newest state of a branch and get the cursor with which `changes` goes on from there. See
    `Graph.baseline`."""
    wanted = _filters(change_filter(kinds, types, ops))
    chosen = {name: list(values) for name, values in wanted.items() if values is not None}
    content = {"branch": known_branch(branch), **chosen}
    call = WireCall("POST", "/changes/baseline", lambda: BaselineReader(target), content=content, accept=LINES)
    return (yield from ask(call))


class _LinesTarget:
    """Where lines go: a file that appears when they are complete, an open file of the caller, or a text."""

    def __init__(self, target: Target, installs: bool) -> None:
        self._target = target
        self._installs = installs
        self._stack = contextlib.ExitStack()
        self._held = io.BytesIO()
        self._write: Callable[[Any], Any] = self._held.write
        self._is_shown = False  # somebody else sees what is written before it is complete
        self.size = 0

    @property
    def file(self) -> str | None:
        return str(Path(self._target)) if isinstance(self._target, str | os.PathLike) else None

    def open(self) -> None:
        if self._target is None:
            return
        if not isinstance(self._target, str | os.PathLike):
            self._write, self._is_shown = writer_of(self._target), True
            return
        path = Path(self._target)
        if self._installs:
            self._write = self._stack.enter_context(installed(path)).write
            return
        draft = self._stack.enter_context(complete_file(path))
        self._is_shown = draft == path
        raw = self._stack.enter_context(draft.open("wb"))
        self._write = raw.write
        if path.suffix == ".gz":
            packed = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0)
            self._write = self._stack.enter_context(packed).write

    def write(self, piece: bytes) -> None:
        self._write(piece)
        self.size += len(piece)

    def close(self) -> str | None:
        """Complete the file; the text when there is none."""
        self._stack.close()
        return self._held.getvalue().decode("utf-8") if self._target is None else None

    def abandon(self) -> None:
        error = _Abandoned()
        with contextlib.suppress(_Abandoned):
            self._stack.__exit__(_Abandoned, error, None)
        if self._is_shown and self.size:
            raise ServerUnavailable(
                "the answer broke off, and what the open file got is only a part of it", hint="begin again"
            ) from None


class _Abandoned(Exception):
    pass


class ExportReader:
    """Writes the answer of an export to its target."""

    def __init__(self, target: Target) -> None:
        self._lines = _LinesTarget(target, installs=False)
        self._told: dict[str, Any] = {}

    def begin(self, head: AnswerHead) -> None:
        try:
            self._told = json.loads(head.headers[EXPORT_HEADER])
        except (KeyError, ValueError):
            raise unknown_answer(head, f"it has no header {EXPORT_HEADER}") from None
        self._lines.open()

    def take(self, piece: bytes) -> None:
        self._lines.write(piece)

    def end(self) -> ExportResult:
        text, file, told = self._lines.close(), self._lines.file, self._told
        return ExportResult(
            branch=told["branch"],
            version=told["graph_manifest_version"],
            commit_id=told["graph_commit_id"],
            nodes=told["nodes"],
            edges=told["edges"],
            files=() if file is None else (file,),
            bytes=self._lines.size,
            text=text,
        )

    def abandon(self) -> None:
        self._lines.abandon()


class BaselineReader:
    """Writes the answer of a baseline to its target. Without its last line it is unusable."""

    def __init__(self, target: Target) -> None:
        self._lines = _LinesTarget(target, installs=True)
        self._last = bytearray()  # from the begin of the last line on
        self._head = AnswerHead(0, {})

    def begin(self, head: AnswerHead) -> None:
        self._head = head
        self._lines.open()

    def take(self, piece: bytes) -> None:
        self._lines.write(piece)
        seen = max(len(self._last) - 1, 0)
        self._last += piece
        cut = self._last.rfind(b"\n", seen, len(self._last) - 1)
        if cut >= 0:
            del self._last[: cut + 1]

    def end(self) -> Baseline:
        try:
            found = json.loads(self._last)["baseline"]
            known = found["snapshot_commit_id"], found["resume_cursor"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise unknown_answer(self._head, "the last line of the baseline is missing") from None
        text = self._lines.close()
        return Baseline(*known, file=self._lines.file, text=text)

    def abandon(self) -> None:
        self._lines.abandon()
