"""OpenTelemetry traces: a span for each request. Nothing of it is imported unless traces are wanted.

A span names the operation, the graph and the status; never the actor, a query or a parameter. Where spans go is said
by the variables of OpenTelemetry, such as ``OTEL_EXPORTER_OTLP_ENDPOINT``.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from omnigraph.errors import MissingExtra
from omnigraph.server.asgi import Request

#: How long the last spans may take when the server stops.
_CLOSE_SECONDS = 1.0


class Traces:
    """Makes spans.

    Args:
        provider: the tracer provider of the SDK.
    """

    def __init__(self, provider: Any) -> None:
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind, Status, StatusCode

        self._provider = provider
        self._tracer = provider.get_tracer("omnigraph.server")
        self._extract = extract
        self._kind = SpanKind.SERVER
        self._failed = Status(StatusCode.ERROR)

    def request(self, request: Request, seconds: float) -> None:
        """One request that was answered; it belongs to the trace that the client named."""
        carrier = {name: request.headers[name][0] for name in ("traceparent", "tracestate") if name in request.headers}
        end = time.time_ns()
        span = self._tracer.start_span(
            f"{request.method} {request.operation or 'none'}",
            context=self._extract(carrier) if carrier else None,
            kind=self._kind,
            start_time=end - round(seconds * 1e9),
            attributes={
                "http.request.method": request.method,
                "http.response.status_code": request.status,
                "omnigraph.operation": request.operation or "none",
                "omnigraph.request_id": request.id,
                **({"omnigraph.graph": request.graph} if request.graph is not None else {}),
            },
        )
        if request.status >= 500:
            span.set_status(self._failed)
        span.end(end)

    def close(self) -> None:
        """Send what is left, if the place for it takes it soon: the stop waits for none that is away."""
        sending = threading.Thread(target=self._provider.shutdown, name="omnigraph-traces", daemon=True)
        sending.start()
        sending.join(_CLOSE_SECONDS)


def traces_for(wanted: bool | None, endpoint: str | None) -> Traces | None:
    """Traces if they are wanted, or if the environment names an endpoint for them and OpenTelemetry is installed.

    Raises:
        MissingExtra: they are wanted and it is not.
    """
    if wanted is False or (wanted is None and not endpoint):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        if wanted is None:
            return None
        raise MissingExtra(f"traces need the package '{error.name}'", hint="pip install 'omnigraph[otel]'") from None
    provider = TracerProvider(shutdown_on_exit=False, resource=Resource.create({"service.name": "omnigraph"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Traces(provider)
