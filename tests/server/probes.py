"""Operations that tests of the server hang beside the real ones: they wait, stream, fail and echo as they are told."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import msgspec

from omnigraph.errors import CorruptGraph
from omnigraph.server.operation import Answer, Call, Content, HttpOperation, Need, Pieces, Streamed

WAIT_SECONDS = 30


class Echo(msgspec.Struct):
    """A body that comes back."""

    text: str
    params: dict[str, Any] | None = None


class Words(msgspec.Struct):
    """Query parameters."""

    word: str | None = None
    number: int | None = None
    many: list[str] = []


@dataclass
class Probes:
    """Operations and what they have seen.

    Attributes:
        gate: what waits goes on when it is set.
        entered: released by each call that waits.
        streamed: bytes that a stream has written so far.
        ended: how each stream ended.
        files: where each stream was written to; None when that is gone.
    """

    gate: threading.Event = field(default_factory=threading.Event)
    entered: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    streamed: int = 0
    stream_bytes: int = 1 << 40
    ended: list[str] = field(default_factory=list)
    files: list[weakref.ref[BinaryIO]] = field(default_factory=list)
    running: int = 0
    most_running: int = 0
    cancelled: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, call: Call) -> Answer:
        with self.lock:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        self.entered.release()
        try:
            for _ in range(WAIT_SECONDS * 50):
                if self.gate.wait(0.02):
                    break
                if call.is_cancelled():
                    self.cancelled.set()
                    break
        finally:
            with self.lock:
                self.running -= 1
        return {"waited": True}

    def stream(self, call: Call) -> Answer:
        def write(file: BinaryIO) -> None:
            self.files.append(weakref.ref(file))
            self.entered.release()
            try:
                while self.streamed < self.stream_bytes:
                    file.write(b"x" * 65_536)
                    self.streamed += 65_536
                self.ended.append("whole")
            except BaseException as error:
                self.ended.append(type(error).__name__)
                raise

        return Streamed(write, "text/plain")

    @staticmethod
    def break_stream(call: Call) -> Answer:
        early = call.query.word == "early"

        def write(file: BinaryIO) -> None:
            if not early:
                file.write(b"x" * (1 << 20))
            raise CorruptGraph("a file of the graph at /secret/place is damaged")

        return Streamed(write, "text/plain")

    @staticmethod
    def pieces(call: Call) -> Answer:
        def parts() -> Iterator[bytes]:
            for _ in range(10):
                yield b"abc" * 50_000

        return Pieces(parts(), 1_500_000, headers={"ETag": '"1"'})

    @staticmethod
    def echo(call: Call) -> Answer:
        return {"text": call.body.text, "params": call.body.params, "actor": call.actor}

    @staticmethod
    def count(call: Call) -> Answer:
        assert call.raw is not None
        return {"bytes": len(call.raw.read()), "actor": call.actor}

    @staticmethod
    def words(call: Call) -> Answer:
        return {**msgspec.to_builtins(call.query), "path": dict(call.path), "headers": dict(call.headers)}

    @staticmethod
    def fail(call: Call) -> Answer:
        raise RuntimeError("this must stay inside: s3cret")

    @staticmethod
    def not_modified(call: Call) -> Answer:
        return Pieces(iter(()), 1_500_000, status=304)

    def operations(self) -> tuple[HttpOperation, ...]:
        def change(call: Call) -> tuple[Need, ...]:
            return (Need("change", "main"),)

        def probe(method: Any, path: str, id: str, run: Any, **more: Any) -> HttpOperation:
            return HttpOperation(method, path, id, "probes", "A probe", run, **more)

        return (
            probe("POST", "/wait/read", "wait_read", self.wait),
            probe("POST", "/wait/write", "wait_write", self.wait, pool="write", admitted=True),
            probe(
                "POST", "/wait/heavy", "wait_heavy", self.wait, pool="write", admitted=True, weight=lambda call: 1000
            ),
            probe(
                "POST", "/wait/either", "wait_either", self.wait, query=Words, writes=lambda call: bool(call.query.word)
            ),
            probe("POST", "/stream", "stream", self.stream),
            probe("POST", "/export", "export", self.stream, pool="stream"),
            probe("POST", "/broken", "broken", self.break_stream, query=Words),
            probe("GET", "/pieces", "pieces", self.pieces),
            probe("HEAD", "/pieces", "head_pieces", self.pieces),
            probe("GET", "/unchanged", "unchanged", self.not_modified),
            probe("POST", "/echo", "echo", self.echo, body=Echo),
            probe("POST", "/count", "count", self.count, raw_body="application/x-ndjson", needs=change),
            probe("GET", "/words/{first}/and/{second}", "words", self.words, query=Words),
            probe("GET", "/strict", "strict", self.words, query=Words),
            probe("GET", "/long", "long", lambda call: Content(b"long " * 10_000, "text/plain")),
            probe("GET", "/huge", "huge", lambda call: Content(b"x" * (64 << 20), "text/plain", compressible=False)),
            probe("GET", "/fail", "fail", self.fail),
            probe("POST", "/branches/merge", "merge", self.fail),
            probe("DELETE", "/branches/{branch}", "delete", lambda call: {"branch": call.path["branch"]}),
        )
