"""A server that is told to stop lets running requests end, and a killed one loses nothing that it acknowledged."""

from __future__ import annotations

import http.client
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import omnigraph as og
from omnigraph.server.server_limits import ServerLimits
from tests.server.probes import Probes
from tests.support.http_call import call
from tests.support.served import Served, served
from tests.support.server_process import server_process
from tests.support.small_graphs import ids_of, people
from tests.support.waiting import wait_until

HERE = "/graphs/people"


def test_a_running_request_ends_before_the_server_does(people_path: Path, probes: Probes) -> None:
    with ThreadPoolExecutor(1) as pool:
        with served({"people": people_path}, operations=probes.operations()) as found:
            running = pool.submit(call, found.port, "POST", f"{HERE}/wait/write")
            assert probes.entered.acquire(timeout=30)
            threading.Timer(0.3, probes.gate.set).start()
        assert running.result().status == 200


def test_a_server_that_stops_says_so_first(people_path: Path, probes: Probes) -> None:
    limits = ServerLimits(notice_seconds=2, drain_seconds=10)
    told: list[tuple[int, str]] = []
    with served({"people": people_path}, operations=probes.operations(), limits=limits) as found:
        connection = http.client.HTTPConnection("127.0.0.1", found.port)

        def ready() -> tuple[int, str]:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        assert ready()[0] == 200

        def look() -> None:
            wait_until(lambda: found.app.is_draining, timeout=30, what="the stop")
            told.append(ready())

        watching = threading.Thread(target=look)
        watching.start()
    watching.join(30)
    connection.close()
    assert [status for status, _ in told] == [503] and '"draining"' in told[0][1]


def test_a_request_that_does_not_end_is_cut_off(
    people_path: Path, probes: Probes, serve_probes: Callable[..., Served]
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with served(
            {"people": people_path}, operations=probes.operations(), limits=ServerLimits(drain_seconds=1)
        ) as found:
            running = pool.submit(call, found.port, "POST", f"{HERE}/wait/read")
            assert probes.entered.acquire(timeout=30)
        assert probes.cancelled.wait(30)
        assert isinstance(running.exception(30), OSError | http.client.HTTPException) or running.result().status == 500


def test_signals_stop_a_process(people_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with server_process(people_path) as found:
            assert call(found.port, "GET", "/readyz").json()["ready"] is True
            found.signal(number)
            assert found.child.wait(30) == 0
            assert '"message":"the server was told to stop; ' in found.log_text()
            assert '"message":"the server has stopped"' in found.log_text()


def test_a_killed_server_has_what_it_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "people.omni"
    people(path).close()
    acknowledged: list[str] = []

    def write(port: int, first: int) -> None:
        for place in range(first, first + 1000):
            text = f'query q() {{ insert Person {{ handle: "p{place}" }} }}'
            try:
                answer = call(port, "POST", f"{HERE}/mutate", {"query": text})
            except (OSError, http.client.HTTPException):
                return
            if answer.status == 200:
                acknowledged.append(f"p{place}")

    with server_process(path) as found, ThreadPoolExecutor(4) as pool:
        for writer in range(4):
            pool.submit(write, found.port, writer * 1000)
        wait_until(lambda: len(acknowledged) >= 10, timeout=60, what="some writes")
        found.kill()
    with og.open(path) as graph:
        there = ids_of(graph, "Person")
    assert set(acknowledged) <= there and len(there) <= len(acknowledged) + 4
    with server_process(path) as again:
        assert call(again.port, "GET", f"{HERE}/snapshot").json()["datasets"]
