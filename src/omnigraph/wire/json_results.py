"""The rows of a read as JSON: the envelope of the interfaces, or one object a line.

A small result is one text. A larger one is made piece by piece, so that it is never a tree of Python objects. Of
columns with the same name a row keeps the last one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from omnigraph import limits
from omnigraph.engine.query_result import Result

#: Bytes of Arrow that become Python objects at a time, unless a single row is larger.
_PIECE_BYTES = 1024**2

_encode = msgspec.json.encode


def is_small(result: Result) -> bool:
    """Whether the whole answer may be one text in memory."""
    if len(result) > limits.RESULT_BATCH_ROWS:
        return False
    return result.buffer_bytes <= _PIECE_BYTES or bool(result.to_arrow().nbytes <= _PIECE_BYTES)


def envelope(result: Result, *, with_commit: bool = True) -> bytes:
    """The whole answer of a small result."""
    shown = _head(result)
    shown["rows"] = result.json_rows(0, len(result))
    if with_commit and result.commit_id is not None:
        shown["graph_commit_id"] = result.commit_id
    return _encode(shown)


def envelope_pieces(result: Result, *, with_commit: bool = True) -> Iterator[bytes]:
    """The same in pieces, for any size."""
    yield _encode(_head(result))[:-1] + b',"rows":['
    for place, rows in enumerate(_pieces(result)):
        yield (b"," if place else b"") + _encode(rows)[1:-1]
    has_commit = with_commit and result.commit_id is not None
    yield (b'],"graph_commit_id":' + _encode(result.commit_id) + b"}") if has_commit else b"]}"


def line_pieces(result: Result) -> Iterator[bytes]:
    """One JSON object a line, without the envelope."""
    encoder = msgspec.json.Encoder()
    for rows in _pieces(result):
        yield encoder.encode_lines(rows)


def _head(result: Result) -> dict[str, Any]:
    head = result.head()
    if not head["columns"]:
        del head["columns"]
    return head


def _pieces(result: Result) -> Iterator[list[dict[str, Any]]]:
    count = len(result)
    if not count:
        return
    per_row = max(result.to_arrow().nbytes // count, 1)
    step = min(max(_PIECE_BYTES // per_row, 1), limits.RESULT_BATCH_ROWS)
    for start in range(0, count, step):
        yield result.json_rows(start, step)
