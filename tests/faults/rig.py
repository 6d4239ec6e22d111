"""One graph behind a faulty wire: runs an operation while a request goes wrong, then asks the ledger and the graph."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import omnigraph as og
from omnigraph.errors import OmniGraphError, OutcomeUnknown, RecoveryRequired
from omnigraph.storage.objects.object_store import parse_location
from tests.faults.operations import OPERATIONS, pair, present
from tests.support import ledger as ledgers
from tests.support.children import running
from tests.support.crash_checks import assert_pins_are_heads, assert_whole, files, records
from tests.support.crash_graph import ACTOR, SCHEMA
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.kill_runner import CHILD_SECONDS
from tests.support.ledger import Ledger
from tests.support.light_python import run_module
from tests.support.s3_server import S3Server

#: Requests of one operation at most; a sweep that comes here does not end.
MOST = 120


@dataclass(slots=True)
class FaultRig:
    """A graph with a handle behind the proxy and one beside it.

    Attributes:
        address: of the proxy.
        ended: how often each operation ended which way, by the name of the error or ``done``.
    """

    uri: str
    address: str
    proxy: FaultProxy
    faulty: og.Graph
    ledger: Path
    ended: dict[str, int] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def attempt(self, operation: str, fault: Fault) -> str:
        """One operation under one fault. Then the same handle writes at once, and the ledger explains all.

        Returns:
            ``done``, or the name of the error.
        """
        mark, chosen = f"m{next(self._numbers)}", OPERATIONS[operation]
        ledger = Ledger(self.ledger)
        with og.open(self.uri, actor=ACTOR) as calm:
            chosen.arrange(calm, ledger, mark)
        ledger.start(mark, chosen.adds(mark), chosen.removes(mark))
        ended = "done"
        with self.proxy.armed(fault):
            try:
                chosen.run(self.faulty, mark)
                ledger.acknowledge(mark)
            except (RecoveryRequired, OutcomeUnknown) as error:
                ended = type(error).__name__
            except OmniGraphError as error:
                ended = type(error).__name__
                ledger.refuse(mark)
        self.ended[ended] = self.ended.get(ended, 0) + 1
        self.proxy.let_late_effects_happen()
        self._write_on(f"{mark}-next")
        self.check(f"{operation} under {fault} ended as {ended}")
        return ended

    def sweep(self, operation: str, kind: str, *, times: int = 1, step: int = 1, **matching: object) -> int:
        """The fault at the first request, the second, and so on until the operation has no more; returns how many."""
        for first in range(1, MOST, step):
            self.attempt(operation, Fault(kind, first, times, **matching))  # type: ignore[arg-type]
            if self.proxy.seen < first:
                assert first > 1, f"{operation} makes no request that matches"
                return first - 1
        raise AssertionError(f"{operation} makes more than {MOST} requests")

    def kill_before(self, operation: str, request: int) -> bool:
        """Run an operation in another process that dies when it makes its n-th durable request.

        Returns:
            Whether it made that many.
        """
        mark, chosen = f"m{next(self._numbers)}", OPERATIONS[operation]
        ledger = Ledger(self.ledger)
        with og.open(self.uri, actor=ACTOR) as calm:
            chosen.arrange(calm, ledger, mark)
        ledger.start(mark, chosen.adds(mark), chosen.removes(mark))
        with self.proxy.armed(Fault("reset_before", request, MOST)), self._child(operation, mark) as child:
            self.proxy.on_fault = lambda _: child.kill()
            complaint = child.communicate(timeout=CHILD_SECONDS)[1]
            self.proxy.on_fault = None
        assert child.returncode in (0, -signal.SIGKILL), complaint[-2000:]
        with og.open(self.uri, actor=ACTOR) as graph:
            assert records(self.uri) == {}, "an open left a record"
            graph.recover()
        self._write_on(f"{mark}-next")
        self.check(f"{operation} killed before its request {request}")
        return child.returncode != 0

    def _child(self, operation: str, mark: str) -> AbstractContextManager[subprocess.Popen[str]]:
        command = run_module("tests.faults.child", self.uri, operation, mark, str(self.ledger))
        return running(command, {"AWS_ENDPOINT_URL": self.address}, reads_output=False)

    def _write_on(self, mark: str) -> None:
        """A failure leaves the next write free: in the same process, without opening anything again."""
        ledger = Ledger(self.ledger)
        ledger.start(mark, {table: [mark] for table in ("node:Person", "edge:Knows")})
        assert self.faulty.write(pair(mark)).commit is not None
        ledger.acknowledge(mark)

    def check(self, what: str) -> None:
        with og.open(self.uri, mode="ro") as reader:
            assert ledgers.violations(ledgers.read(self.ledger), present(reader)) == [], what
            assert records(self.uri) == {}, what
            assert_pins_are_heads(reader, "main")

    def finish(self) -> None:
        """Everything once more, and a second open that changes nothing."""
        self.faulty.close()
        with og.open(self.uri, actor=ACTOR) as graph:
            graph.recover()
            assert_whole(graph)
        before = files(self.uri)
        with og.open(self.uri, actor=ACTOR):
            pass
        assert files(self.uri) == before, "a second open changed something"


@contextmanager
def fault_rig(server: S3Server, uri: str, folder: Path) -> Iterator[FaultRig]:
    """A new graph with a few rows, checked at the end of the block."""
    og.init(uri, SCHEMA, actor=ACTOR).close()
    proxy = FaultProxy(server.endpoint)
    with proxy.serve() as address:
        location = parse_location(uri, {**os.environ, "AWS_ENDPOINT_URL": address})
        with og.open(location, actor=ACTOR) as faulty:
            made = FaultRig(uri, address, proxy, faulty, folder / "ledger.jsonl")
            yield made
        made.finish()
