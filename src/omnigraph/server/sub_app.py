"""An ASGI application of its own below each graph, such as ``/graphs/{id}/mcp``. It is called for somebody whose token
was checked, and finds the graph in the hands of that actor in its scope."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import ClassVar

from omnigraph.graph import Graph
from omnigraph.server.asgi import Receive, Scope, Send
from omnigraph.server.request_work import Workplace
from omnigraph.server.served_graph import ServedGraph


@dataclass(frozen=True, slots=True)
class SubRequest:
    """What the scope of such a call holds under `KEY`.

    Attributes:
        graph: in the hands of the actor; policy and audit log are in it.
        place: the threads of the server, and the counting of its writes.
        graphs: the list of the graphs of the server, if the actor may see it.
        has_tokens: the server knows its callers by tokens; else it serves everybody.
    """

    KEY: ClassVar[str] = "omnigraph"

    served: ServedGraph
    graph: Graph
    actor: str | None
    request_id: str
    place: Workplace
    graphs: Callable[[], list[dict[str, str]]]
    has_tokens: bool


@dataclass(frozen=True, slots=True)
class SubApp:
    """One application.

    Attributes:
        path: one segment, such as ``mcp``. On a server of one graph it is served at the root too.
        handle: called for each request.
        running: what lasts as long as the server.
    """

    path: str
    handle: Callable[[Scope, Receive, Send], Awaitable[None]]
    running: Callable[[], AbstractAsyncContextManager[object]]
