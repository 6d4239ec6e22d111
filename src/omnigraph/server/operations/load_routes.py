"""Routes that load records: as text in JSON, as NDJSON, and as Arrow."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.server.operation import Answer, Call, HttpOperation, Need
from omnigraph.server.operations.arrow_bodies import arrow_table
from omnigraph.server.operations.asked_branch import branch_of, changes
from omnigraph.server.operations.shown_commit import commit_or_null
from omnigraph.wire import answers, requests
from omnigraph.wire.arrow_results import MEDIA_TYPE
from omnigraph.write.load.load_result import LoadResult

#: Rejected records that an answer tells.
_SHOWN_REJECTS = 1_000

_GZIP = b"\x1f\x8b"


class _Body(io.RawIOBase):
    """A body under the name that messages call it by."""

    name = "body"

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._file.read(size)

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def shown_load(done: LoadResult) -> dict[str, Any]:
    """What a load did, with the first of the records that were left out."""
    return {
        **done.to_dict(),
        "commit": commit_or_null(done.commit),
        "rejected": done.rejects.num_rows,
        "rejects": done.rejects.slice(0, _SHOWN_REJECTS).to_pylist(),
        "index_commit": commit_or_null(done.index_commit),
        "timings": done.timings,
    }


def loaded(call: Call, source: Any, asked: requests.IngestRequest | requests.LoadQuery, **how: Any) -> LoadResult:
    """Load a source as a request wants it. It is always done in this process."""
    return call.graph.load(
        source,
        asked.mode or "merge",
        branch=branch_of(asked.branch),
        from_=None if asked.from_ is None else branch_of(asked.from_),
        on_error=asked.on_error or "fail",
        max_rejects=asked.max_rejects,
        columns=asked.columns or "replace",
        times=asked.times or "exact",
        engine="embedded",
        message=asked.message,
        commit_id=asked.commit_id,
        progress=False,
        **how,
    )


def _load(call: Call) -> Answer:
    source = _Body(io.BytesIO(call.body.data.encode("utf-8", "surrogatepass")))
    return {"uri": call.served.uri, **shown_load(loaded(call, source, call.body, format="jsonl"))}


def _load_ndjson(call: Call) -> Answer:
    assert call.raw is not None
    if call.raw.read(len(_GZIP)) == _GZIP:
        raise InputError("the body is compressed", hint="say so with the header Content-Encoding: gzip")
    call.raw.seek(0)
    return shown_load(loaded(call, _Body(call.raw), call.query, format="jsonl"))


def _load_arrow(call: Call) -> Answer:
    assert call.raw is not None
    return shown_load(loaded(call, arrow_table(call.raw), call.query, type=call.query.type))


def change_of_query(call: Call) -> tuple[Need, ...]:
    """To change the branch of the query string."""
    return (Need("change", branch_of(call.query.branch)),)


LOAD_ROUTES = (
    HttpOperation(
        "POST",
        "/load",
        "load",
        "mutations",
        "Load records",
        _load,
        changes,
        body=requests.IngestRequest,
        answer=answers.IngestOutput,
        pool="write",
        admitted=True,
        body_limit=limits.LOAD_BODY_BYTES,
        statuses=(409, 413),
    ),
    HttpOperation(
        "POST",
        "/load/ndjson",
        "loadNdjson",
        "mutations",
        "Load records that are the body itself",
        _load_ndjson,
        change_of_query,
        query=requests.LoadQuery,
        raw_body="application/x-ndjson",
        answer=answers.GraphBatchLoadOutput,
        pool="write",
        admitted=True,
        body_limit=limits.LOAD_BODY_BYTES,
        statuses=(409, 413),
    ),
    HttpOperation(
        "POST",
        "/load/arrow",
        "load_arrow",
        "mutations",
        "Load rows of one type as a stream of Arrow",
        _load_arrow,
        change_of_query,
        query=requests.LoadArrowQuery,
        raw_body=MEDIA_TYPE,
        answer=answers.GraphBatchLoadOutput,
        pool="write",
        admitted=True,
        body_limit=limits.LOAD_BODY_BYTES,
        statuses=(409, 413),
    ),
    HttpOperation(
        "POST",
        "/ingest",
        "ingest",
        "mutations",
        "Load records, by the path of older clients",
        _load,
        changes,
        body=requests.IngestRequest,
        answer=answers.IngestOutput,
        pool="write",
        admitted=True,
        body_limit=limits.LOAD_BODY_BYTES,
        statuses=(409, 413),
        successor="<load>",
    ),
)
