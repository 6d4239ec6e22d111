"""The figures of a server for Prometheus. Labels are operations, statuses and pools: nothing that a user sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class ServerMetrics:
    """What one server counts, in a registry of its own.

    Attributes:
        refusals: requests that were too many, by what was full.
        commits: commits that requests have made.
        stream_bytes: bytes of streamed answers.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        names: Any = {"registry": self._registry}
        self._requests = Counter("omnigraph_requests", "Requests", ("operation", "status"), **names)
        self._seconds = Histogram("omnigraph_request_seconds", "Seconds", ("operation",), buckets=_BOUNDS, **names)
        self._running = 0
        running = Gauge("omnigraph_requests_running", "Requests that are being served", **names)
        running.set_function(lambda: self._running)
        self._refusals = Counter("omnigraph_refusals", "Requests that were too many", ("counted",), **names)
        self.commits = Counter("omnigraph_commits", "Commits that requests have made", **names)
        self.stream_bytes = Counter("omnigraph_stream_bytes", "Bytes of streamed answers", **names)
        self._queues = Gauge("omnigraph_pool_waiting", "Requests that wait for a thread", ("pool",), **names)
        self._jobs = Gauge("omnigraph_pool_requests", "Requests that wait or run", ("pool",), **names)
        self._graphs = Gauge("omnigraph_graphs", "Graphs by state", ("state",), **names)
        self._by_operation: dict[tuple[str, int], tuple[Any, Any]] = {}

    def follow_pool(self, name: str, waiting: Callable[[], float], jobs: Callable[[], float]) -> None:
        """Show how full a pool is whenever somebody looks."""
        self._queues.labels(name).set_function(waiting)
        self._jobs.labels(name).set_function(jobs)

    def set_graphs(self, served: int, quarantined: int) -> None:
        self._graphs.labels("served").set(served)
        self._graphs.labels("quarantined").set(quarantined)

    def began(self) -> None:
        """Called in the event loop, as `ended` is."""
        self._running += 1

    def ended(self, operation: str, status: int, seconds: float) -> None:
        key = (operation, status)
        found = self._by_operation.get(key)
        if found is None:
            found = self._requests.labels(operation, str(status)), self._seconds.labels(operation)
            self._by_operation[key] = found
        found[0].inc()
        found[1].observe(seconds)
        self._running -= 1

    def refused(self, counted: str) -> None:
        self._refusals.labels(counted).inc()

    def text(self) -> bytes:
        """The figures in the text format."""
        return generate_latest(self._registry)

    @property
    def media_type(self) -> str:
        return CONTENT_TYPE_PLAIN_0_0_4

    @property
    def names(self) -> Iterable[str]:
        """What is counted."""
        return sorted(each.name for each in self._registry.collect())
