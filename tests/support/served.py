"""A server in this process, on a free port: as fast to start as opening a graph."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnigraph.server.asgi_app import Observer, ServerApp, make_app
from omnigraph.server.operation import HttpOperation
from omnigraph.server.operations import OPERATIONS
from omnigraph.server.serve import GraphServer, bind
from omnigraph.server.server_limits import ServerLimits
from omnigraph.server.server_settings import GraphSettings, ServerSettings
from omnigraph.server.stored_queries import QueryFiles
from omnigraph.server.sub_app import SubApp
from omnigraph.server.tokens import TokenSources

START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Served:
    """A running server.

    Attributes:
        port: on 127.0.0.1.
        app: the application, to look into.
        tokens: token by actor; empty for a server that serves everybody.
    """

    port: int
    app: ServerApp
    tokens: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def graph_url(self, graph_id: str = "people") -> str:
        return f"{self.url}/graphs/{graph_id}"


@contextmanager
def served(
    graphs: Mapping[str, str | Path],
    *,
    tokens: Mapping[str, str] | None = None,
    policy: Path | None = None,
    server_policy: Path | None = None,
    audit: str | None = None,
    queries: Path | None = None,
    limits: ServerLimits | None = None,
    operations: Sequence[HttpOperation] = OPERATIONS,
    sub_apps: Sequence[SubApp] = (),
    observers: Sequence[Observer] = (),
) -> Iterator[Served]:
    """Serve graphs as long as the block lasts.

    Args:
        graphs: address by id.
        tokens: token by actor; None serves everybody.
        policy: rules for each of the graphs.
        server_policy: rules of the server.
    """
    settings = ServerSettings(
        tuple(GraphSettings(name, str(uri), QueryFiles.at(queries), policy) for name, uri in graphs.items()),
        bind="127.0.0.1:0",
        tokens=TokenSources(text=json.dumps(dict(tokens)) if tokens is not None else None),
        policy=server_policy,
        audit=audit,
        unauthenticated=tokens is None,
        limits=limits or ServerLimits(drain_seconds=10),
        traces=False,
    )
    with serving(settings, operations=operations, sub_apps=sub_apps, observers=observers) as found:
        yield Served(found.port, found.app, tokens or {})


@contextmanager
def serving(
    settings: ServerSettings,
    *,
    operations: Sequence[HttpOperation] = OPERATIONS,
    sub_apps: Sequence[SubApp] = (),
    observers: Sequence[Observer] = (),
) -> Iterator[Served]:
    """The same with settings of any kind."""
    app = make_app(settings, operations=operations, sub_apps=sub_apps, observers=observers)
    told: queue.Queue[Any] = queue.Queue()
    with bind("127.0.0.1:0") as listener:
        server = GraphServer(app, settings, told.put)

        async def run() -> None:
            told.put(asyncio.get_running_loop())
            await server.serve([listener])

        def work() -> None:
            try:
                with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
                    runner.run(run())
            except BaseException as error:
                told.put(error)

        thread = threading.Thread(target=work, name="served", daemon=True)
        thread.start()
        loop = told.get(timeout=START_SECONDS)
        address = loop if isinstance(loop, BaseException) else told.get(timeout=START_SECONDS)
        if isinstance(address, BaseException):
            raise address
        try:
            yield Served(int(address.rpartition(":")[2]), app)
        finally:
            loop.call_soon_threadsafe(server.stop)
            thread.join(START_SECONDS)
            assert not thread.is_alive(), "the server did not stop"
            app.close()
