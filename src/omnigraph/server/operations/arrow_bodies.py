"""Streams of Arrow that a client sends: looked at closely before anything believes their offsets and lengths.

What is small on the wire may not become large in memory: compressed buffers are refused, rows and repeated values are
counted before they are laid out.
"""

from __future__ import annotations

import io
import struct
from typing import BinaryIO

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import InputError, ResourceLimitExceeded
from omnigraph.server.operations.arrow_sizes import own_bytes, shares_values

_RESOURCE = "strict_input_arrow_bytes"

#: Numbers of the parts of a message in the format of Arrow: of a message, of a batch of rows, and of a dictionary.
_HEADER_TYPE, _HEADER = 1, 2
_DICTIONARY, _ROWS = 2, 3
_COMPRESSION, _DICTIONARY_ROWS = 3, 1


def arrow_table(body: BinaryIO) -> pa.Table:
    """The rows of a stream.

    Raises:
        InputError: it is no stream of Arrow, or a damaged or compressed one.
        ResourceLimitExceeded: its rows take too much memory.
    """
    try:
        return _checked(body)
    except (pa.ArrowException, OSError, ValueError, IndexError, struct.error) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the body is no stream of Arrow that can be read: {str(error)[:200]}") from None


def _checked(body: BinaryIO) -> pa.Table:
    _refuse_compression(body)
    most_rows = 8 * body.seek(0, io.SEEK_END)  # each row takes a bit at least, unless it says nothing at all
    body.seek(0)
    rows, size = 0, 0.0
    batches = []
    with pa.ipc.open_stream(body) as reader:
        for batch in reader:
            batch.validate(full=True)
            rows += batch.num_rows
            size += batch.nbytes + sum(own_bytes(each) for each in batch.columns if shares_values(each.type))
            if rows > most_rows or size > limits.SERVER_RESULT_BYTES:
                actual, limit = (rows, most_rows) if rows > most_rows else (int(size), limits.SERVER_RESULT_BYTES)
                raise ResourceLimitExceeded(_RESOURCE, actual, limit, hint="split the load")
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)


def _refuse_compression(body: BinaryIO) -> None:
    reader = pa.ipc.MessageReader.open_stream(body)
    for message in reader:
        if _is_compressed(message.metadata.to_pybytes()):
            raise InputError(
                "the buffers of the stream are compressed",
                hint="write it without compression, and send the body with Content-Encoding: zstd",
            )


def _is_compressed(metadata: bytes) -> bool:
    """Whether a message says that its buffers are compressed. `pyarrow` does not tell it before it unpacks them."""
    message = _Table(metadata, struct.unpack_from("<I", metadata)[0])
    at = message.field(_HEADER_TYPE)
    kind = metadata[at] if at is not None else 0
    if kind not in (_DICTIONARY, _ROWS):
        return False
    batch = message.table(_HEADER)
    if kind == _DICTIONARY:
        batch = batch.table(_DICTIONARY_ROWS)
    return batch.field(_COMPRESSION) is not None


class _Table:
    """A table of a FlatBuffer: its fields by their numbers."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._start = data, start
        self._fields = start - struct.unpack_from("<i", data, start)[0]

    def field(self, number: int) -> int | None:
        """Where a field is; None when it is not there."""
        place = 4 + 2 * number
        if place >= struct.unpack_from("<H", self._data, self._fields)[0]:
            return None
        offset: int = struct.unpack_from("<H", self._data, self._fields + place)[0]
        return self._start + offset if offset else None

    def table(self, number: int) -> _Table:
        at = self.field(number)
        if at is None:
            raise ValueError("a message has no content")
        return _Table(self._data, at + struct.unpack_from("<I", self._data, at)[0])
