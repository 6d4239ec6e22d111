"""The record of what was decided and written: one line of JSON each, in a file or on the standard output.

A line is written by one call, to a file that is opened for appending each time, so lines of several processes never
mix, and a file that was moved away is made again. A record holds names and ids: never a value of a row, the text of a
query, or a message.
"""

from __future__ import annotations

import json
import os
import sys
from contextvars import ContextVar
from typing import Any, TextIO

from omnigraph import ids
from omnigraph.errors import AuditFailed, InputError

#: The request that is being served, for servers to set; it stands in every record that is made meanwhile.
REQUEST_ID: ContextVar[str | None] = ContextVar("omnigraph_request_id", default=None)

STANDARD_OUTPUT = "-"


class AuditLog:
    """Where records go.

    Args:
        target: a path, ``"-"`` for the standard output, or an open text file.
    """

    def __init__(self, target: str | os.PathLike[str] | TextIO) -> None:
        self._stream: TextIO | None = None
        self._path = ""
        if isinstance(target, str | os.PathLike):
            self._path = os.fspath(target)
            if self._path == STANDARD_OUTPUT:
                self._stream = sys.stdout
        elif hasattr(target, "write"):
            self._stream = target
        else:
            raise InputError(f"an audit log is a path, '-' or an open file, not a {type(target).__name__}")

    def write(self, kind: str, **fields: Any) -> None:
        """Write one record. It names the request that is being served, unless ``request_id`` names another one.

        Raises:
            AuditFailed: it could not be written whole.
        """
        record = {"time": ids.now().isoformat(), "kind": kind, "request_id": REQUEST_ID.get(), **fields}
        line = json.dumps(record, separators=(",", ":")) + "\n"
        try:
            if self._stream is None:
                _append(self._path, line.encode())
            else:
                self._stream.write(line)
                self._stream.flush()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise AuditFailed(
                f"the audit log cannot be written: {reason}", hint="make room, or name another file", file=self._path
            ) from error


def _append(path: str, line: bytes) -> None:
    number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.write(number, line) != len(line):
            raise OSError("the line was cut off; the disk may be full")
    finally:
        os.close(number)
