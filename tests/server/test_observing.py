"""Figures, logs and traces: what they tell, and what they must not."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from omnigraph import limits
from omnigraph.server import traces as traces_of_server
from omnigraph.server.request_log import RequestLog
from omnigraph.server.server_metrics import ServerMetrics
from omnigraph.server.traces import Traces, traces_for
from tests.support.http_call import call
from tests.support.served import Served, served
from tests.support.small_graphs import people
from tests.support.source_tree import ROOT

HERE = "/graphs/people"
TOKENS = {"act-ana": "tok-s3cret"}


def test_figures_count_requests_by_operation_and_status(serve_probes: Callable[..., Served]) -> None:
    port = serve_probes(tokens=TOKENS).port
    for _ in range(3):
        call(port, "POST", f"{HERE}/echo", {"text": "s3cret"}, token="tok-s3cret")
    call(port, "POST", f"{HERE}/echo", {}, token="tok-s3cret")
    call(port, "GET", "/s3cret", token="s3cret")
    assert call(port, "GET", "/metrics").status == 401
    answer = call(port, "GET", "/metrics", token="tok-s3cret")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    for line in (
        'omnigraph_requests_total{operation="echo",status="200"} 3.0',
        'omnigraph_requests_total{operation="echo",status="400"} 1.0',
        'omnigraph_requests_total{operation="none",status="401"} 1.0',
        'omnigraph_request_seconds_count{operation="echo"} 4.0',
        "omnigraph_requests_running 1.0",
        'omnigraph_pool_waiting{pool="write"} 0.0',
        'omnigraph_graphs{state="served"} 1.0',
    ):
        assert line in answer.text.splitlines()
    assert "s3cret" not in answer.text and "act-ana" not in answer.text


def test_figures_count_commits_and_bytes_of_streams(tmp_path: Path) -> None:
    people(tmp_path / "people.omni").close()
    with served({"people": tmp_path / "people.omni"}) as found:
        for place in range(3):
            text = f'query q() {{ insert Person {{ handle: "p{place}" }} }}'
            assert call(found.port, "POST", f"{HERE}/mutate", {"query": text}).status == 200
        call(found.port, "POST", f"{HERE}/mutate", {"query": 'query q() { delete Person where handle = "no" }'})
        assert "omnigraph_commits_total 3.0" in call(found.port, "GET", "/metrics").text.splitlines()


def test_the_page_about_the_server_names_every_figure_with_its_labels() -> None:
    metrics = ServerMetrics()
    table = (ROOT / "docs" / "server.md").read_text("utf-8").partition("<!-- figures -->")[2].partition("<!-- /fig")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(name.strip(" `").removesuffix("_total") for name, _ in rows) == metrics.names
    metrics.began()
    metrics.ended("query", 200, 0.1)
    metrics.refused("reads")
    metrics.follow_pool("read", lambda: 0, lambda: 0)
    metrics.set_graphs(1, 0)
    text = metrics.text().decode()
    for name, labels in rows:
        found = re.search(rf"^{name.strip(' `')}(?:_count)?(?:{{(.*)}})? ", text, re.MULTILINE)
        assert found is not None, name
        assert re.findall(r"(\w+)=", found[1] or "") == re.findall(r"`(\w+)`", labels), name


def test_each_request_is_one_line_of_the_log(serve_probes: Callable[..., Served]) -> None:
    written = io.BytesIO()
    log = RequestLog(written)
    port = serve_probes(tokens=TOKENS, observers=[log]).port
    headers = {"X-Request-Id": "r-1"}
    call(port, "POST", f"{HERE}/echo", {"text": "s3cret"}, headers, token="tok-s3cret")
    call(port, "GET", "/healthz")
    call(port, "GET", f"{HERE}/words/s3cret/and/b?word=s3cret", token="tok-s3cret")
    log.close()
    first, second, third = [json.loads(line) for line in written.getvalue().splitlines()]
    assert {
        name: first[name] for name in ("event", "request_id", "operation", "graph", "actor", "status", "method")
    } == {
        "event": "request",
        "request_id": "r-1",
        "operation": "echo",
        "graph": "people",
        "actor": "act-ana",
        "status": 200,
        "method": "POST",
    }
    assert first["ms"] > 0 and second["operation"] == "health" and second["actor"] is None
    assert (third["operation"], third["status"]) == ("words", 200)
    assert b"s3cret" not in written.getvalue()


def test_records_of_loggers_are_lines_too() -> None:
    written = io.BytesIO()
    log = RequestLog(written)
    logger = logging.getLogger("omnigraph.server")
    logger.addHandler(log)
    try:
        raise ValueError("odd")
    except ValueError as error:
        logger.error("it failed: %s", "why", exc_info=error)
    finally:
        logger.removeHandler(log)
        log.close()
    entry = json.loads(written.getvalue())
    assert (entry["level"], entry["event"], entry["message"]) == ("error", "server", "it failed: why")
    assert "ValueError: odd" in entry["trace"]


def test_a_log_that_nobody_reads_holds_up_nobody_and_counts_what_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LOG_RECORDS", 5)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "wb", buffering=0) as writer:
        log = RequestLog(writer)
        for place in range(5_000):
            log.emit(logging.LogRecord("omnigraph.x", logging.INFO, "", 0, "%s", (str(place) * 5_000,), None))
        lines: list[bytes] = []
        reads = threading.Thread(target=lambda: lines.extend(reader))
        reads.start()
        log.close()
        writer.close()
        reads.join(30)
    entries = [json.loads(line) for line in lines]
    lost = sum(entry.get("dropped", 0) for entry in entries)
    assert lost > 0 and lost + sum("message" in entry for entry in entries) == 5_000


def test_a_request_is_a_span_of_the_clients_trace(serve_probes: Callable[..., Served]) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Traces(provider)
    port = serve_probes(observers=[traces]).port
    trace = "0af7651916cd43dd8448eb211c80319c"
    call(port, "POST", f"{HERE}/echo", {"text": "s3cret"}, {"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    call(port, "GET", f"{HERE}/fail")
    spans = exporter.get_finished_spans()
    traces.close()
    assert [span.name for span in spans] == ["POST echo", "GET fail"]
    assert f"{spans[0].context.trace_id:032x}" == trace
    told = dict(spans[0].attributes or {})
    assert (told["omnigraph.graph"], told["http.response.status_code"]) == ("people", 200)
    assert [span.status.is_ok for span in spans] == [True, False]
    assert "s3cret" not in str([span.to_json() for span in spans])


def test_a_place_for_traces_that_is_away_does_not_hold_up_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces_of_server, "_CLOSE_SECONDS", 0.05)
    provider, gate, ended = TracerProvider(shutdown_on_exit=False), threading.Event(), threading.Event()

    def shutdown() -> None:
        gate.wait(30)
        ended.set()

    monkeypatch.setattr(provider, "shutdown", shutdown)
    Traces(provider).close()
    assert not ended.is_set()
    gate.set()
    assert ended.wait(30)


def test_traces_are_made_only_when_they_are_wanted() -> None:
    assert traces_for(None, None) is None
    assert traces_for(False, "http://127.0.0.1:9") is None
    found = traces_for(None, "http://127.0.0.1:9")
    assert found is not None
    found.close()
