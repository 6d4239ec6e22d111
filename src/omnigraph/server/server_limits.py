"""What a server lets a request take: time, bytes, threads. Read `omnigraph/limits.py` for the reason of each number."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from omnigraph import limits
from omnigraph.logs import SERVER

#: Environment variable → the limit that it sets.
VARIABLES = {
    "OMNIGRAPH_QUERY_TIMEOUT_MS": "query_timeout_ms",
    "OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "actor_writes",
    "OMNIGRAPH_PER_ACTOR_BYTES_MAX": "actor_bytes",
}


def _processors() -> int:
    return os.cpu_count() or 2


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """The limits of one server.

    Attributes:
        json_body_bytes, load_body_bytes: most bytes of a JSON body, and of one with rows.
        spool_bytes: bytes of a body in memory before it goes to a temporary file.
        query_timeout_ms: milliseconds of one query; a request may ask for less.
        result_rows, result_bytes: most rows and bytes of one result.
        read_threads, write_threads, stream_threads: how many reads, writes and streams are worked on at once.
        waiting_reads, waiting_writes: how many more requests may wait for that.
        actor_writes, actor_bytes: running writes of one actor, and the bytes of their bodies.
        exports, export_wait_ms: running exports of the process, and how long one more waits.
        body_seconds: for the whole of a body to arrive.
        stall_seconds: for a client to take the next piece of an answer.
        drain_seconds: for running requests to end when the server stops.
        notice_seconds: how long a server that is told to stop says so before it takes no more connections.
        header_bytes: of all headers and of the address.
    """

    json_body_bytes: int = limits.JSON_BODY_BYTES
    load_body_bytes: int = limits.LOAD_BODY_BYTES
    spool_bytes: int = limits.BODY_SPOOL_BYTES
    query_timeout_ms: int = limits.SERVER_QUERY_MS
    result_rows: int = limits.SERVER_RESULT_ROWS
    result_bytes: int = limits.SERVER_RESULT_BYTES
    read_threads: int = field(default_factory=lambda: max(4, 2 * _processors()))
    write_threads: int = limits.WRITE_THREADS
    stream_threads: int = limits.STREAM_THREADS
    waiting_reads: int = limits.WAITING_REQUESTS
    waiting_writes: int = limits.WAITING_REQUESTS
    actor_writes: int = limits.ACTOR_WRITES
    actor_bytes: int = limits.ACTOR_BODY_BYTES
    exports: int = limits.EXPORT_STREAMS
    export_wait_ms: int = limits.EXPORT_WAIT_MS
    body_seconds: float = limits.BODY_SECONDS
    stall_seconds: float = limits.STALL_SECONDS
    drain_seconds: float = limits.DRAIN_SECONDS
    notice_seconds: float = 0
    header_bytes: int = limits.HEADER_BYTES

    def with_environment(self, environment: Mapping[str, str]) -> ServerLimits:
        """The same with what the environment says. A value that is no number from 1 on changes nothing."""
        changes: dict[str, int] = {}
        for variable, name in VARIABLES.items():
            text = environment.get(variable, "").strip()
            if text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0:
                changes[name] = int(text)
            elif text:
                SERVER.warning("%s is no number from 1 on; %s stays", variable, getattr(self, name))
        return replace(self, **changes) if changes else self
