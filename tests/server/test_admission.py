"""An actor has only so many writes under way; others do not notice."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from omnigraph.errors import TooManyRequests
from omnigraph.server.admission import Admission
from omnigraph.server.server_limits import ServerLimits
from tests.server.probes import Probes
from tests.support.http_call import call
from tests.support.served import Served

Start = Callable[..., Served]
HERE = "/graphs/people"
RULES = """
version: 1
groups: {team: [act-ana, act-bo]}
rules: [{id: all, allow: {actors: {group: team}, actions: [read, change]}}]
"""


def test_running_writes_are_counted_by_actor() -> None:
    admission = Admission(2, 100)
    with admission.held("a", 10), admission.held("a", 10):
        with pytest.raises(TooManyRequests, match="2 writes of this actor"), admission.held("a", 1):
            pass
        with admission.held("b", 1), admission.held(None, 1), admission.held(None, 1):
            pass
    with admission.held("a", 60):
        with pytest.raises(TooManyRequests, match="too many bytes"), admission.held("a", 41):
            pass
        with admission.held("a", 40):
            pass
    with pytest.raises(TooManyRequests), admission.held("c", 101):
        pass
    with pytest.raises(RuntimeError), admission.held("a", 100):
        raise RuntimeError
    with admission.held("a", 100):
        pass


def test_one_more_write_of_an_actor_waits_for_nothing(serve_probes: Start, probes: Probes, tmp_path: object) -> None:
    tokens = {"act-ana": "ana", "act-bo": "bo"}
    port = serve_probes(tokens=tokens, limits=ServerLimits(actor_writes=2, drain_seconds=5)).port
    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(call, port, "POST", f"{HERE}/wait/write", token="ana") for _ in range(2)]
        assert all(probes.entered.acquire(timeout=30) for _ in range(2))
        refused = call(port, "POST", f"{HERE}/wait/write", token="ana")
        assert (refused.status, refused.headers["retry-after"]) == (429, "60")
        assert refused.json()["code"] == "too_many_requests"
        other = pool.submit(call, port, "POST", f"{HERE}/wait/write", token="bo")
        assert probes.entered.acquire(timeout=30)
        probes.gate.set()
        assert [each.result().status for each in (*running, other)] == [200, 200, 200]
        assert call(port, "POST", f"{HERE}/wait/write", token="ana").status == 200


def test_bytes_count_as_the_operation_weighs_them(serve_probes: Start, probes: Probes) -> None:
    probes.gate.set()
    assert call(serve_probes(limits=ServerLimits(actor_bytes=999)).port, "POST", f"{HERE}/wait/heavy").status == 429
    assert call(serve_probes(limits=ServerLimits(actor_bytes=1000)).port, "POST", f"{HERE}/wait/heavy").status == 200


@pytest.mark.parametrize("text", ["0", "-1", "x", "1.5", "1e3", "9" * 30])
def test_limits_of_the_environment_that_are_none_change_nothing(text: str, caplog: pytest.LogCaptureFixture) -> None:
    names = ("OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX", "OMNIGRAPH_PER_ACTOR_BYTES_MAX", "OMNIGRAPH_QUERY_TIMEOUT_MS")
    assert ServerLimits().with_environment(dict.fromkeys(names, text)) == ServerLimits()
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3


def test_limits_of_the_environment_hold() -> None:
    found = ServerLimits().with_environment(
        {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": " 3 ", "OMNIGRAPH_QUERY_TIMEOUT_MS": "70"}
    )
    assert (found.actor_writes, found.query_timeout_ms, found.actor_bytes) == (3, 70, ServerLimits().actor_bytes)
