"""What the thread of a request does: asks the policy, counts the write, runs the operation, makes its answer."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from omnigraph import limits
from omnigraph.errors import InternalError, ResourceLimitExceeded, TooManyRequests
from omnigraph.graph.recent_looks import ASKED
from omnigraph.policy.audit_log import REQUEST_ID
from omnigraph.server.admission import Admission
from omnigraph.server.answer_stream import AnswerFile, Exchange
from omnigraph.server.authorize import require_needs
from omnigraph.server.operation import Answer, Call, HttpOperation, Pieces, Streamed
from omnigraph.server.replies import Headers, Reply, as_headers, compressor, reply_of
from omnigraph.server.served_graph import ServedGraph
from omnigraph.server.server_limits import ServerLimits
from omnigraph.server.server_metrics import ServerMetrics
from omnigraph.server.work_pool import Job, WorkPool


class Workplace:
    """What all requests share: threads, and the places that are counted.

    Attributes:
        pools: by the name that an operation gives.
        admission: the running writes.

    Args:
        deliver: tells the event loop what reads had to say that did not wake it.
    """

    def __init__(self, limits: ServerLimits, metrics: ServerMetrics, deliver: Callable[[], None]) -> None:
        self.limits, self.metrics = limits, metrics
        reads = WorkPool("read", limits.read_threads, limits.waiting_reads, one_by_one=True, deliver=deliver)
        writes = WorkPool("write", limits.write_threads, limits.waiting_writes, one_by_one=False)
        self.pools = {"read": reads, "write": writes, "stream": reads}
        self.admission = Admission(limits.actor_writes, limits.actor_bytes)
        self._streams = threading.Semaphore(limits.stream_threads)
        self._exports = threading.Semaphore(limits.exports)
        for pool in (reads, writes):
            metrics.follow_pool(pool.name, partial(_waiting, pool), partial(_unfinished, pool))

    def close(self) -> None:
        for pool in {id(pool): pool for pool in self.pools.values()}.values():
            pool.close()

    @contextlib.contextmanager
    def streaming(self, pool: WorkPool) -> Iterator[None]:
        """The calling thread leaves its pool for a stream.

        Raises:
            TooManyRequests: there are too many streams.
        """
        if not self._streams.acquire(blocking=False):
            most = self.limits.stream_threads
            raise TooManyRequests(
                f"{most} answers are being streamed, and that is the limit",
                hint="wait until one has ended",
                counted="streams",
                retry_after=limits.BUSY_SECONDS,
            )
        try:
            pool.leave()
            yield
        finally:
            self._streams.release()

    @contextlib.contextmanager
    def exporting(self, served: ServedGraph) -> Iterator[None]:
        """The place of the one export of a graph, and one of those of the process.

        Raises:
            ResourceLimitExceeded: it is taken.
        """
        if not served.export_slot.acquire(blocking=False):
            raise ResourceLimitExceeded("stream_export_slots", 2, 1, hint="wait until the running export has ended")
        try:
            if not self._exports.acquire(timeout=self.limits.export_wait_ms / 1000):
                most = self.limits.exports
                hint = "wait until another export has ended"
                raise ResourceLimitExceeded("stream_export_transport_bytes", most + 1, most, hint=hint)
            try:
                yield
            finally:
                self._exports.release()
        finally:
            served.export_slot.release()


def _waiting(pool: WorkPool) -> float:
    return pool.queued


def _unfinished(pool: WorkPool) -> float:
    return pool.unfinished


@dataclass(slots=True)
class RequestWork:
    """One call on its way through a thread.

    Attributes:
        encoding: the compression that the client takes.
        weight: bytes of its body.
        asked: when all of it had arrived, by the monotonic clock.
    """

    place: Workplace
    operation: HttpOperation
    exchange: Exchange
    request_id: str
    encoding: str | None = None
    weight: int = 0
    asked: float = 0.0
    pool: WorkPool = field(init=False)

    def __post_init__(self) -> None:
        self.pool = self.place.pools[self.operation.pool]

    def authorised(self, call: Call) -> Reply:
        """Ask the policy, before the body is read."""
        REQUEST_ID.set(self.request_id)
        require_needs(call.graph, self.operation.needs(call))
        return Reply(200, [])

    def run(self, call: Call, *, authorised: bool = False) -> None:
        """Do the work and hand the answer, or the error, to the exchange."""
        REQUEST_ID.set(self.request_id)
        operation = self.operation
        if not authorised:
            require_needs(call.graph, operation.needs(call))
        if operation.pool == "stream":
            with self.place.exporting(call.served), self.place.streaming(self.pool):
                self._tell(operation.run(call))
        elif operation.writes is not None and operation.writes(call):
            self.pool = self.place.pools["write"]
            self.submit(lambda: self._write(call))
        elif operation.admitted:
            self._write(call)
        else:
            token = ASKED.set(self.asked)
            try:
                answer = operation.run(call)
            finally:
                ASKED.reset(token)
            self._tell(answer)

    def submit(self, job: Job, exchange: Exchange | None = None) -> None:
        """Do something in the pool of the request; what it raises goes to the exchange.

        Raises:
            TooManyRequests: too many wait already.
        """
        told = exchange or self.exchange
        self.asked = time.monotonic()

        def do() -> None:
            try:
                job()
            except BaseException as error:
                told.fail(error)

        self.pool.submit(do)

    def _write(self, call: Call) -> None:
        REQUEST_ID.set(self.request_id)
        weight = self.weight if self.operation.weight is None else self.operation.weight(call)
        with self.place.admission.held(call.actor, weight):
            answer = self.operation.run(call)
        if isinstance(answer, Mapping) and answer.get("commit") is not None:
            self.place.metrics.commits.inc()
        self._tell(answer)

    def _tell(self, answer: Answer) -> None:
        if isinstance(answer, Streamed):
            self._stream(answer)
        elif isinstance(answer, Pieces):
            self._pieces(answer)
        else:
            reply = reply_of(answer, self.encoding)
            reply.headers += self._successor()
            self.exchange.answer(reply, wakes=not self.pool.delivers)

    def _successor(self) -> Headers:
        """What tells that another operation replaces this one."""
        successor = self.operation.successor
        if successor is None:
            return []
        return as_headers({"Deprecation": "true", "Link": f'{successor}; rel="successor-version"'})

    def _stream(self, answer: Streamed) -> None:
        reply = Reply(answer.status, [(b"content-type", answer.media_type.encode()), *as_headers(answer.headers)])
        reply.headers += self._successor()
        tool = None
        if answer.compressible:
            reply.headers.append((b"vary", b"accept-encoding"))
            if self.encoding is not None:
                tool = compressor(self.encoding)
                reply.headers.append((b"content-encoding", self.encoding.encode()))
        reply.length = answer.length if tool is None else None
        has_place = self.operation.pool == "stream"
        with contextlib.nullcontext() if has_place else self.place.streaming(self.pool):
            file = AnswerFile(self.exchange, reply, tool)
            answer.write(file)  # type: ignore[arg-type]
            file.finish()

    def _pieces(self, answer: Pieces) -> None:
        reply = Reply(answer.status, [(b"content-type", answer.media_type.encode()), *as_headers(answer.headers)])
        reply.length = answer.length
        if self.operation.method == "HEAD" or answer.status == 304:
            self.exchange.answer(reply)
            return
        with self.place.streaming(self.pool):
            file = AnswerFile(self.exchange, reply, None)
            for piece in answer.pieces:
                file.write(piece)
            if file.tell() != answer.length:
                raise InternalError("the pieces of an answer do not have the length that was told")
            file.finish()
