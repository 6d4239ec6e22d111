"""The verbs that read: queries, searches, plans, states, blobs, figures. Their arguments are those of `Graph`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph import given, ids
from omnigraph.client import rebuilt, rebuilt_reports
from omnigraph.client.plain_values import (
    branch_or_none,
    milliseconds,
    parameters,
    plain_moment,
    plain_params,
    require_none,
)
from omnigraph.client.wire_call import (
    ARROW,
    AnswerHead,
    BytesReader,
    Flow,
    HeadReader,
    T,
    WireCall,
    ask,
    json_of,
    unknown_answer,
)
from omnigraph.engine.explanation import Explanation
from omnigraph.engine.query_result import Result
from omnigraph.engine.search.search_result import SearchResult
from omnigraph.errors import InputError, SourceError
from omnigraph.history.state_at import At, moment_of
from omnigraph.query.lint_queries import LintReport
from omnigraph.storage.metadata.manifest import Pin
from omnigraph.storage.objects.user_text import text_of
from omnigraph.upkeep.stats.graph_stats import GraphStats
from omnigraph.wire.arrow_results import read_result

_CANCEL = "leave is_cancelled out, and give a timeout"


def located(flow: Flow[T], file: str | None) -> Flow[T]:
    """A verb that sends a text; an error in it names the file that the text is from."""
    try:
        return (yield from flow)
    except SourceError as error:
        if file is not None and error.details.get("file") is None:
            error.details["file"] = file
        raise


def query(
    source: str | Path,
    name: str | Mapping[str, object] | None = None,
    params: Mapping[str, object] | None = None,
    *,
    branch: str | None = None,
    at: At | None = None,
    timeout: float | timedelta | None = None,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> Flow[Result]:
    """Run a read query on one consistent state; see `Graph.query`. The server has bounds of its own for time, rows and
    bytes."""
    require_none(is_cancelled, "is_cancelled", _CANCEL)
    text, file = text_of(source, ".gq")
    asked, values = given.named_query(name, params)
    content = {
        "query": text,
        "name": asked,
        "params": plain_params(values),
        "branch": branch_or_none(branch),
        "at": plain_moment(at),
        "timeout_ms": milliseconds(timeout),
        "max_rows": max_rows,
        "max_bytes": max_bytes,
    }
    moment = None if at is None else moment_of(at)
    call = WireCall("POST", "/query", lambda: ResultReader(moment), content=content, accept=ARROW)
    return (yield from located(ask(call), file))


def search(
    words: str,
    types: str | Sequence[str] | None = None,
    *,
    hops: int = 0,
    limit: int = 10,
    branch: str | None = None,
    at: At | None = None,
    timeout: float | timedelta | None = None,
    max_bytes: int | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> Flow[SearchResult]:
    """Find nodes of any type by words; see `Graph.search`."""
    require_none(is_cancelled, "is_cancelled", _CANCEL)
    content = {
        "words": given.text(words, "what is searched for"),
        "types": None if types is None else given.texts(types, "types"),
        "hops": given.count(hops, "hops"),
        "limit": given.count(limit, "limit"),
        "branch": branch_or_none(branch),
        "at": plain_moment(at),
        "timeout_ms": milliseconds(timeout),
        "max_bytes": max_bytes,
    }
    return (yield from ask(WireCall("POST", "/search", json_of(rebuilt_reports.search_result), content=content)))


def explain(
    source: str | Path,
    name: str | Mapping[str, object] | None = None,
    params: Mapping[str, object] | None = None,
    *,
    branch: str | None = None,
    at: At | None = None,
    run: bool = False,
    timeout: float | timedelta | None = None,
    max_rows: int | None = None,
    max_bytes: int | None = None,
    is_cancelled: Callable[[], bool] | None = None,
) -> Flow[Explanation]:
    """The plan of a read query, as text with ``str()``; with ``run`` also what each step did; see `Graph.explain`."""
    require_none(is_cancelled, "is_cancelled", _CANCEL)
    text, file = text_of(source, ".gq")
    asked, values = given.named_query(name, params)
    content = {
        "query": text,
        "name": asked,
        "params": plain_params(values),
        "branch": branch_or_none(branch),
        "at": plain_moment(at),
        "run": run,
        "timeout_ms": milliseconds(timeout),
        "max_rows": max_rows,
        "max_bytes": max_bytes,
    }
    call = WireCall("POST", "/explain", json_of(rebuilt_reports.explanation), content=content)
    return (yield from located(ask(call), file))


def lint(source: str | Path) -> Flow[LintReport]:
    """Check every query of a text against the schema of the graph without running it; see `Graph.lint`."""
    text, file = text_of(source, ".gq")

    def report(found: Mapping[str, Any]) -> LintReport:
        return rebuilt_reports.lint_report(found, file)

    return (yield from ask(WireCall("POST", "/lint", json_of(report), content={"query": text})))


def stats(branch: str = ids.MAIN, *, embeddings: bool = False) -> Flow[GraphStats]:
    """How big the graph is and how it lies in its files; see `Graph.stats`."""
    query = parameters(branch=ids.known_branch(branch), embeddings=embeddings or None)
    return (yield from ask(WireCall("GET", "/stats", json_of(rebuilt_reports.graph_stats), query)))


# --- states


@dataclass(frozen=True, slots=True)
class StateHead:
    """One state of a graph as a server tells it."""

    branch: str
    version: int
    commit_id: str
    tables: Mapping[str, Pin]


def snapshot(branch: str | None = None, at: At | None = None) -> Flow[StateHead]:
    """One consistent state; see `Graph.snapshot`."""
    query = parameters(branch=branch_or_none(branch), at=plain_moment(at))
    return (yield from ask(WireCall("GET", "/snapshot", json_of(_state_head), query)))


def _state_head(found: Mapping[str, Any]) -> StateHead:
    branch = found.get("branch") or found["graph_branch"] or ids.MAIN
    version = found.get("version", found["graph_manifest_version"])
    return StateHead(branch, version, found["commit_id"], rebuilt.pins(found["datasets"]))


def arrow(state: StateHead, table_key: str, columns: Sequence[str] | None) -> Flow[pa.Table]:
    """Rows of a type in a state, as they are stored."""
    return (yield from ask(rows_of(state, table_key, columns)))


def rows_of(state: StateHead, table_key: str, columns: Sequence[str] | None) -> WireCall[pa.Table]:
    """The call that asks for the rows of a type."""
    if isinstance(columns, str):
        raise InputError(f"columns is a list of names, not the text '{columns}'", hint=f"pass [{columns!r}]")
    content = {
        "type": table_key,
        "columns": None if columns is None else given.texts(columns, "columns"),
        "at": state.commit_id,
    }
    return WireCall("POST", "/rows", RowsReader, content=content, accept=ARROW)


@dataclass(frozen=True, slots=True)
class BlobHead:
    """What is known of a blob before its bytes are read.

    Attributes:
        uri: where an external one is; None for one in the graph.
    """

    size: int
    etag: str | None
    uri: str | None


def blob_address(state: StateHead, table_key: str, id: str | int, property: str) -> tuple[tuple[str, str], ...]:
    """The parameters that name a blob."""
    entity, _, type_name = table_key.partition(":")
    row_id = str(given.whole_number(id, "an id")) if not isinstance(id, str) else id
    return parameters(
        entity=entity,
        type=type_name,
        id=row_id,
        property=given.text(property, "a property"),
        snapshot=state.commit_id,
    )


def blob_head(address: tuple[tuple[str, str], ...]) -> Flow[BlobHead]:
    """Size and tag of a blob. Asked for by its first byte, because an error has its reason in the body."""
    call = WireCall("GET", "/blob", HeadReader, address, headers={"range": "bytes=0-0"}, accept="*/*")
    head = yield from ask(call)
    if head.status == 302:
        return BlobHead(0, None, head.headers["location"])
    size = head.headers.get("content-range", "").rpartition("/")[2] or head.headers.get("content-length", "")
    if not size.isdigit():
        raise unknown_answer(head, "it does not tell the size of the blob")
    return BlobHead(int(size), _etag(head), None)


def blob_range(address: tuple[tuple[str, str], ...], offset: int, length: int) -> Flow[bytes]:
    """Some bytes of a blob."""
    if length == 0:
        return b""
    headers = {"range": f"bytes={offset}-{offset + length - 1}"}
    head, found = yield from ask(WireCall("GET", "/blob", BytesReader, address, headers=headers, accept="*/*"))
    if head.status == 200:
        found = found[offset : offset + length]
    if len(found) != length:
        raise unknown_answer(head, f"it has {len(found)} bytes of a blob instead of {length}")
    return found


def _etag(head: AnswerHead) -> str | None:
    tag = head.headers.get("etag")
    return None if tag is None else tag.removeprefix("W/").strip('"')


# --- answers in Arrow


class RowsReader:
    """Reads an answer that is an Arrow stream. What it holds lies in the bytes that came, without a copy."""

    def __init__(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._head = AnswerHead(0, {})

    def begin(self, head: AnswerHead) -> None:
        self._head = head

    def take(self, piece: bytes) -> None:
        self._sink.write(piece)

    def end(self) -> pa.Table:
        try:
            with pa.ipc.open_stream(self._sink.getvalue()) as stream:
                return stream.read_all()
        except pa.ArrowException as error:
            raise unknown_answer(self._head, str(error).split("\n", 1)[0]) from None

    def abandon(self) -> None:
        self._sink.close()


class ResultReader:
    """Reads the answer of a query."""

    def __init__(self, moment: str | int | datetime | None) -> None:
        self._sink = pa.BufferOutputStream()
        self._moment = moment

    def begin(self, head: AnswerHead) -> None:
        pass

    def take(self, piece: bytes) -> None:
        self._sink.write(piece)

    def end(self) -> Result:
        result = read_result(self._sink.getvalue())
        result.at = self._moment
        return result

    def abandon(self) -> None:
        self._sink.close()
