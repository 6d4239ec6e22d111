"""The log of a server: a line of JSON for each request and for each record of the loggers ``omnigraph.*``.

Nobody waits for whoever reads the log: records stand in a bounded queue, and a thread writes them. If the reader stops,
the newest records are dropped, and their number is logged later. A record names ids, operations and times: never a
token, the text of a query, or a parameter.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec

from omnigraph import limits
from omnigraph.server.asgi import Request

_WRITE_EVERY = 0.1

_encoder = msgspec.json.Encoder()


class RequestLog(logging.Handler):
    """Writes records to a file, by default the standard error. Also a handler for loggers.

    Args:
        file: where lines go; it is not closed.
    """

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._records: deque[dict[str, Any]] = deque()
        self._dropped = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write_always, name="omnigraph-log", daemon=True)
        self._thread.start()

    def request(self, request: Request, seconds: float) -> None:
        """One request that was answered."""
        self._put(
            {
                "time": time.time(),
                "level": "info",
                "event": "request",
                "request_id": request.id,
                "method": request.method,
                "operation": request.operation or None,
                "graph": request.graph,
                "actor": request.actor,
                "status": request.status,
                "ms": round(seconds * 1000, 3),
            }
        )

    def emit(self, record: logging.LogRecord) -> None:
        entry = {
            "time": record.created,
            "level": record.levelname.lower(),
            "event": record.name.removeprefix("omnigraph."),
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            entry["trace"] = (self.formatter or logging.Formatter()).formatException(record.exc_info)
        self._put(entry)

    def close(self) -> None:
        """Write what is left, and stop."""
        self._end.set()
        self._thread.join(timeout=5)
        super().close()

    def _put(self, entry: dict[str, Any]) -> None:
        if len(self._records) >= limits.LOG_RECORDS:
            self._dropped += 1
        else:
            self._records.append(entry)

    def _write_always(self) -> None:
        while not self._end.wait(_WRITE_EVERY):
            self._write()
        self._write()

    def _write(self) -> None:
        lines: list[dict[str, Any]] = []
        while self._records:
            entry = self._records.popleft()
            entry["time"] = _time_text(entry["time"])
            lines.append(entry)
        if self._dropped:
            lines.append({"level": "warning", "event": "log", "dropped": self._dropped})
            self._dropped = 0
        if lines:
            try:
                self._file.write(_encoder.encode_lines(lines))
                self._file.flush()
            except (OSError, ValueError):
                self._dropped += len(lines)


def _time_text(seconds: float) -> str:
    """An instant as ISO 8601 has it, with milliseconds.

    >>> _time_text(1.25)
    '1970-01-01T00:00:01.250+00:00'
    """
    return f"{_second_text(int(seconds))}.{int(seconds % 1 * 1000):03d}+00:00"


@lru_cache(maxsize=8)
def _second_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
