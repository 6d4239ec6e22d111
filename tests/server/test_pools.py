"""Nothing that waits, streams or stalls holds up anything else, and each of them is bounded."""

from __future__ import annotations

import gc
import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from omnigraph.errors import TooManyRequests
from omnigraph.server.server_limits import ServerLimits
from omnigraph.server.work_pool import WorkPool
from tests.server.probes import Probes
from tests.support.http_call import Reply, call
from tests.support.served import Served
from tests.support.waiting import wait_until

Start = Callable[..., Served]
HERE = "/graphs/people"
SECONDS = 30


def limits(**given: float) -> ServerLimits:
    return ServerLimits(**{"drain_seconds": 5, "read_threads": 2, "waiting_reads": 2} | given)  # type: ignore[arg-type]


@contextmanager
def posting(port: int, *paths: str, token: str | None = None) -> Iterator[list[Callable[[], Reply]]]:
    """Requests that are under way; each gives its answer when it is asked for."""
    with ThreadPoolExecutor(len(paths)) as pool:
        started = [pool.submit(call, port, "POST", f"{HERE}{path}", token=token) for path in paths]
        yield [each.result for each in started]


def entered(probes: Probes, count: int) -> None:
    for _ in range(count):
        assert probes.entered.acquire(timeout=SECONDS)


def test_waiting_reads_hold_up_neither_health_nor_writes(serve_probes: Start, probes: Probes) -> None:
    port = serve_probes(limits=limits()).port
    with posting(port, "/wait/read", "/wait/read") as answers:
        entered(probes, 2)
        assert call(port, "GET", "/healthz").status == 200
        with posting(port, "/wait/write") as writes:
            entered(probes, 1)
            probes.gate.set()
            assert [answer().status for answer in (*answers, *writes)] == [200, 200, 200]
    assert probes.most_running == 3


def test_reads_that_wait_too_many_are_refused(serve_probes: Start, probes: Probes) -> None:
    found = serve_probes(limits=limits())
    with posting(found.port, *["/wait/read"] * 4) as answers:
        entered(probes, 2)
        wait_until(
            lambda: b'omnigraph_pool_waiting{pool="read"} 2.0' in found.app.metrics.text(), timeout=SECONDS, what="4"
        )
        refused = call(found.port, "POST", f"{HERE}/wait/read")
        assert (refused.status, refused.json()["code"]) == (429, "too_many_requests")
        assert refused.headers["retry-after"] == "60"
        probes.gate.set()
        assert [answer().status for answer in answers] == [200] * 4
    assert probes.most_running == 2
    assert b'omnigraph_refusals_total{counted="read pool"} 1.0' in found.app.metrics.text()


def test_a_call_that_turns_out_to_write_runs_with_the_writes(serve_probes: Start, probes: Probes) -> None:
    port = serve_probes(limits=limits(actor_writes=1)).port
    with posting(port, "/wait/either?word=w", "/wait/either") as answers:
        entered(probes, 2)
        assert call(port, "POST", f"{HERE}/wait/either?word=w").status == 429
        probes.gate.set()
        assert [answer().status for answer in answers] == [200, 200]


def test_work_of_a_client_that_went_away_is_cancelled(serve_probes: Start, probes: Probes) -> None:
    port = serve_probes(limits=limits()).port
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", f"{HERE}/wait/read")
    entered(probes, 1)
    connection.close()
    assert probes.cancelled.wait(SECONDS)


def test_a_stream_waits_for_its_reader_and_leaves_the_pool(serve_probes: Start, probes: Probes) -> None:
    found = serve_probes(limits=limits(read_threads=1))
    with slow_reader(found.port, "/stream"):
        entered(probes, 1)
        wait_until(lambda: probes.streamed > 0, timeout=SECONDS, what="the stream to begin")
        assert call(found.port, "GET", f"{HERE}/long").status == 200
        assert probes.streamed < 64 << 20
    wait_until(lambda: probes.ended == ["ClientGone"], timeout=SECONDS, what="the end of the stream")


def test_a_reader_that_stalls_is_cut_off(serve_probes: Start, probes: Probes) -> None:
    found = serve_probes(limits=limits(stall_seconds=0.5))
    with slow_reader(found.port, "/stream"):
        wait_until(lambda: probes.ended == ["ClientGone"], timeout=SECONDS, what="the stalled reader to be cut off")
    with slow_reader(found.port, "/huge", "GET") as connection:
        wait_until(lambda: is_reset(connection), timeout=SECONDS, what="the large answer to be cut off")
    assert call(found.port, "GET", "/healthz").status == 200


def test_what_a_broken_off_answer_held_is_free_at_once(serve_probes: Start, probes: Probes) -> None:
    found = serve_probes(limits=limits(stall_seconds=0.5))
    gc.disable()
    try:
        with slow_reader(found.port, "/stream"):
            wait_until(lambda: probes.ended == ["ClientGone"], timeout=SECONDS, what="the reader to be cut off")
            wait_until(lambda: probes.files[0]() is None, timeout=SECONDS, what="the memory of the answer")
    finally:
        gc.enable()


def test_too_many_streams_are_refused(serve_probes: Start, probes: Probes) -> None:
    found = serve_probes(limits=limits(stream_threads=1))
    with slow_reader(found.port, "/stream"):
        entered(probes, 1)
        assert call(found.port, "POST", f"{HERE}/stream").status == 429


def test_a_graph_has_one_export_at_a_time(serve_probes: Start, probes: Probes) -> None:
    found = serve_probes(limits=limits())
    with slow_reader(found.port, "/export"):
        entered(probes, 1)
        refused = call(found.port, "POST", f"{HERE}/export")
        assert refused.status == 413
        assert refused.json()["resource_limit"] == {"resource": "stream_export_slots", "limit": 1, "actual": 2}
    wait_until(lambda: probes.ended == ["ClientGone"], timeout=SECONDS, what="the end of the export")
    probes.stream_bytes = 0
    wait_until(lambda: call(found.port, "POST", f"{HERE}/export").status == 200, timeout=SECONDS, what="the free place")


def test_a_process_has_so_many_exports_at_a_time(serve_probes: Start, probes: Probes) -> None:
    found = serve_probes(limits=limits(exports=1, export_wait_ms=1))
    with found.app.opened.graphs["people"].export_slot:
        assert call(found.port, "POST", f"{HERE}/export").json()["resource_limit"]["resource"] == "stream_export_slots"
    with slow_reader(found.port, "/export"):
        entered(probes, 1)
        found.app.opened.graphs["people"].export_slot.release()
        refused = call(found.port, "POST", f"{HERE}/export")
        assert refused.json()["resource_limit"]["resource"] == "stream_export_transport_bytes"
        found.app.opened.graphs["people"].export_slot.acquire()


def test_a_stream_is_packed_and_arrives_whole(serve_probes: Start, probes: Probes) -> None:
    import gzip

    found = serve_probes(limits=limits())
    probes.stream_bytes = 3 << 20
    answer = call(found.port, "POST", f"{HERE}/stream", headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(answer.body) == b"x" * (3 << 20) and answer.headers["content-encoding"] == "gzip"
    probes.streamed = 0
    assert len(call(found.port, "POST", f"{HERE}/stream").body) == 3 << 20
    assert probes.ended == ["whole", "whole"]


def test_a_stream_that_fails_early_is_an_error_and_later_breaks_off(serve_probes: Start) -> None:
    port = serve_probes(limits=limits()).port
    early = call(port, "POST", f"{HERE}/broken?word=early")
    assert early.status == 500 and b"secret" not in early.body
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        call(port, "POST", f"{HERE}/broken")


@contextmanager
def slow_reader(port: int, path: str, method: str = "POST") -> Iterator[socket.socket]:
    """A client that asks and does not read."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(SECONDS)
        connection.connect(("127.0.0.1", port))
        connection.sendall(f"{method} {HERE}{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        yield connection


def is_reset(connection: socket.socket) -> bool:
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


def test_short_jobs_share_a_thread_and_long_ones_get_help() -> None:
    pool = WorkPool("test", 4, 100, one_by_one=True)
    names: list[str] = []
    gate, done = threading.Event(), threading.Semaphore(0)

    def short() -> None:
        names.append(threading.current_thread().name)
        done.release()

    def long() -> None:
        done.release()
        gate.wait(SECONDS)

    for _ in range(4):
        pool.submit(long)
    for _ in range(4):
        assert done.acquire(timeout=SECONDS)
    pool.submit(short)
    assert pool.queued == 1 and pool.unfinished == 5
    gate.set()
    assert done.acquire(timeout=SECONDS)
    wait_until(lambda: pool.unfinished == 0, timeout=SECONDS, what="the jobs to end")
    pool.close()


def test_outcomes_of_jobs_that_follow_each_other_are_delivered_together() -> None:
    seen: list[str] = []
    pool = WorkPool("test", 1, 100, one_by_one=True, deliver=lambda: seen.append("delivered"))
    gate, ended = threading.Event(), threading.Event()

    def waits() -> None:
        gate.wait(SECONDS)
        seen.clear()

    def short() -> None:
        seen.append("may wait" if pool.delivers else "is last")

    pool.submit(waits)
    wait_until(lambda: pool.queued == 0, timeout=SECONDS, what="the job to begin")
    for job in (short, short, short, ended.set):
        pool.submit(job)
    gate.set()
    assert ended.wait(SECONDS)
    wait_until(lambda: pool.unfinished == 0, timeout=SECONDS, what="the jobs to end")
    pool.close()
    assert [each for each in seen if each != "delivered"] == ["may wait"] * 3
    assert seen[-1] == "delivered", "nothing is left when the thread waits again"


def test_a_thread_that_helped_leaves_a_line_that_moves() -> None:
    pool = WorkPool("test", 4, 1_000, one_by_one=True)
    gate, done = threading.Event(), threading.Semaphore(0)

    def long() -> None:
        gate.wait(SECONDS)

    for job in (long, long, done.release):
        pool.submit(job)
    assert done.acquire(timeout=SECONDS), "a third thread helped"
    gate.set()
    for _ in range(500):
        pool.submit(done.release)
    for _ in range(500):
        assert done.acquire(timeout=SECONDS)
    wait_until(lambda: pool.unfinished == 0, timeout=SECONDS, what="the jobs to end")
    pool.submit(done.release)
    assert done.acquire(timeout=SECONDS)
    pool.close()


def test_a_full_pool_refuses_and_recovers() -> None:
    pool = WorkPool("test", 1, 0, one_by_one=False)
    gate = threading.Event()

    def waits() -> None:
        gate.wait(SECONDS)

    pool.submit(waits)
    with pytest.raises(TooManyRequests):
        pool.submit(lambda: None)
    gate.set()
    wait_until(lambda: pool.unfinished == 0, timeout=SECONDS, what="the job to end")
    ran = threading.Event()
    pool.submit(ran.set)
    assert ran.wait(SECONDS)
    pool.close()


def test_a_job_that_leaves_makes_room_for_another() -> None:
    pool = WorkPool("test", 1, 1, one_by_one=True)
    gate, ran = threading.Event(), threading.Event()

    def streams() -> None:
        pool.leave()
        pool.leave()
        gate.wait(SECONDS)

    pool.submit(streams)
    pool.submit(ran.set)
    assert ran.wait(SECONDS)
    wait_until(lambda: pool.unfinished == 0, timeout=SECONDS, what="the pool to be empty")
    gate.set()
    pool.close()
