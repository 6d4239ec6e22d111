"""Runs the server: binds, says where, serves until it is told to stop, and lets running requests end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence

import uvicorn

from omnigraph.errors import InputError
from omnigraph.logs import SERVER
from omnigraph.server.asgi_app import ServerApp, make_app
from omnigraph.server.http_protocol import http_protocol
from omnigraph.server.operation import HttpOperation
from omnigraph.server.operations import OPERATIONS
from omnigraph.server.request_log import RequestLog
from omnigraph.server.server_settings import ServerSettings
from omnigraph.server.sub_app import SubApp
from omnigraph.server.traces import traces_for

#: Connections that the system keeps until they are accepted.
_BACKLOG = 2048

#: How long a thread that computes keeps the interpreter from the event loop; Python's 5 ms are felt by every request.
_SWITCH_SECONDS = 0.001

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class GraphServer(uvicorn.Server):
    """One running server.

    Args:
        on_bound: called with ``host:port`` as soon as it can be reached.
    """

    def __init__(self, app: ServerApp, settings: ServerSettings, on_bound: Callable[[str], None]) -> None:
        config = uvicorn.Config(
            app,
            http=http_protocol(settings.limits),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=max(1, round(settings.limits.drain_seconds)),
        )
        super().__init__(config)
        self._app = app
        self._notice = settings.limits.notice_seconds
        self._drain = settings.limits.drain_seconds
        self._on_bound = on_bound
        self._stopping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            self._on_bound(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    def stop(self) -> None:
        """Say that it stops, then take no more connections and let running requests end; called in the event loop."""
        if self._app.is_draining:
            self.force_exit = self.should_exit = True
            return
        self._app.is_draining = True
        SERVER.info("the server was told to stop; running requests have %g s to end", self._drain)
        self._stopping = asyncio.ensure_future(self._stop_later())

    async def _stop_later(self) -> None:
        await asyncio.sleep(self._notice)
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to whoever runs the server, see `serve`."""
        yield


def serve(
    settings: ServerSettings,
    *,
    operations: Sequence[HttpOperation] = OPERATIONS,
    sub_apps: Sequence[SubApp] = (),
    say: Callable[[str], None] = print,
) -> None:
    """Serve until SIGTERM or SIGINT. SIGHUP reads the tokens again.

    Args:
        say: called with the one line that tells the address.

    Raises:
        OmniGraphError: the server cannot start; the message says why.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    log = RequestLog(sys.stderr.buffer)
    logger = logging.getLogger("omnigraph")
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    logging.getLogger("uvicorn").addHandler(log)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    try:
        listener = bind(settings.bind)
        with listener:
            traces = traces_for(settings.traces, _endpoint())
            observers = (log,) if traces is None else (log, traces)
            app = make_app(settings, operations=operations, sub_apps=sub_apps, observers=observers)
            try:
                server = GraphServer(app, settings, lambda address: say(f"OMNIGRAPH_LISTEN_ADDR={address}"))
                with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
                    runner.run(_run(server, app, listener))
            finally:
                app.close()
                if traces is not None:
                    traces.close()
            SERVER.info("the server has stopped")
    finally:
        logging.getLogger("uvicorn").removeHandler(log)
        logger.removeHandler(log)
        log.close()


def _endpoint() -> str | None:
    """Where traces go, as OpenTelemetry names it."""
    return os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")


async def _run(server: GraphServer, app: ServerApp, listener: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, server.stop)
    loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, app.reload_tokens))
    await server.serve([listener])


def bind(address: str) -> socket.socket:
    """A listening socket.

    Args:
        address: ``host:port``; an IPv6 host stands in brackets, and the port 0 lets the system choose.

    Raises:
        InputError: it is no such address, or cannot be had.
    """
    host, separator, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdigit() or int(port) > 65_535:
        raise InputError(f"'{address}' is not an address to bind", hint="write HOST:PORT, such as 127.0.0.1:8080")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise InputError(f"cannot listen at {address}: {reason}", hint="choose another address") from None
