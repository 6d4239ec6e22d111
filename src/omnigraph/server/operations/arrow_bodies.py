"""Streams of Arrow that a client sends: read whole, and looked at closely before anything believes their offsets."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa

from omnigraph.errors import InputError, ResourceLimitExceeded

#: Bytes that the rows of a stream may take in memory; compressed buffers can be much smaller on the wire.
_MOST_BYTES = 512 * 1024**2


def arrow_table(body: BinaryIO) -> pa.Table:
    """The rows of a stream.

    Raises:
        InputError: it is no stream of Arrow, or a damaged one.
        ResourceLimitExceeded: its rows take too much memory.
    """
    size = 0
    batches = []
    try:
        with pa.ipc.open_stream(body) as reader:
            for batch in reader:
                batch.validate(full=True)
                size += batch.nbytes
                if size > _MOST_BYTES:
                    raise ResourceLimitExceeded("strict_input_arrow_bytes", size, _MOST_BYTES, hint="split the load")
                batches.append(batch)
            return pa.Table.from_batches(batches, reader.schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"the body is no stream of Arrow that can be read: {str(error)[:200]}") from None
