"""The rows of a read as a stream of Arrow, and back.

What Arrow does not hold (which query, which state, the types of the graph) is in the schema's metadata under the key
``omnigraph``. Columns are told by their place, so repeated names stay apart. Nothing is compressed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa

from omnigraph.engine.query_result import Result
from omnigraph.engine.result_values import native_type
from omnigraph.errors import UnknownAnswer
from omnigraph.query.temporal import format_datetime
from omnigraph.schema.catalog import PropertyType, Scalar

MEDIA_TYPE = "application/vnd.apache.arrow.stream"

_KEY = b"omnigraph"

#: Rows of one message; enough that messages cost nothing, few enough that the receiver can begin.
_MESSAGE_ROWS = 128 * 1024


class ResultHead(msgspec.Struct):
    """What the metadata of a stream says.

    Attributes:
        at: the moment that was asked for; a time as text.
        types: of the columns, in the spelling of the language.
    """

    query_name: str
    branch: str
    at: str | int | None
    graph_commit_id: str | None
    columns: list[str]
    types: list[str]


def length_of(result: Result) -> int:
    """Bytes that `write_result` writes; nothing is copied for it."""
    counted = pa.MockOutputStream()
    write_result(result, counted)
    return int(counted.size())


def write_result(result: Result, file: BinaryIO | pa.NativeFile) -> None:
    """Write the rows as they lie in memory."""
    table = result.to_arrow()
    moment = format_datetime(result.at) if isinstance(result.at, datetime) else result.at
    head = ResultHead(
        result.query_name, result.branch, moment, result.commit_id, result.columns, list(map(str, result.types))
    )
    schema = table.schema.with_metadata({_KEY: msgspec.json.encode(head)})
    with pa.ipc.new_stream(file, schema) as writer:
        writer.write_table(table.cast(schema) if table.schema != schema else table, max_chunksize=_MESSAGE_ROWS)


def read_result(source: Any) -> Result:
    """The result of a stream.

    Args:
        source: a file, a buffer or a reader of record batches.

    Raises:
        UnknownAnswer: it is no such stream, or is damaged.
    """
    try:
        reader = source if isinstance(source, pa.RecordBatchReader) else pa.ipc.open_stream(source)
        metadata: Mapping[bytes, bytes] = reader.schema.metadata or {}
        head = msgspec.json.decode(metadata[_KEY], type=ResultHead)
        types = tuple(map(property_type, head.types))
        table = reader.read_all().replace_schema_metadata(None)
        table.validate()
        known = [native_type(kind) for kind in types]
        if len(head.columns) != len(types) or table.schema.types != known:
            raise ValueError("its columns are not those that it tells of")
    except (pa.ArrowInvalid, KeyError, ValueError, msgspec.DecodeError) as error:
        raise UnknownAnswer(f"the answer is no Arrow stream of a query: {error}") from None
    return Result(
        table,
        head.columns,
        query_name=head.query_name,
        branch=head.branch,
        at=head.at,
        commit_id=head.graph_commit_id,
        types=types,
    )


def property_type(text: str) -> PropertyType:
    """A type from its spelling.

    >>> property_type("[Date]?") == PropertyType(Scalar.DATE, nullable=True, list=True)
    True
    """
    core = text.removesuffix("?")
    nullable = core != text
    if core.startswith("enum(") and core.endswith(")"):
        return PropertyType(Scalar.STRING, nullable, enum_values=tuple(core[5:-1].split(", ")))
    if core.startswith("Vector(") and core.endswith(")"):
        return PropertyType(Scalar.VECTOR, nullable, dimension=int(core[7:-1]))
    if core.startswith("[") and core.endswith("]"):
        return PropertyType(Scalar(core[1:-1]), nullable, list=True)
    return PropertyType(Scalar(core), nullable)
