"""The server as an ASGI application: `make_app`.

Every request goes the same way: token, graph, route, body, then a thread (`request_work.py`), then the answer. The
event loop itself only moves bytes; whatever may wait for a disk is done by threads. What operations do is in
`operations/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, Protocol

from omnigraph.errors import GraphNotFound, InvalidRequest, OmniGraphError, TooManyRequests
from omnigraph.logs import SERVER
from omnigraph.server import request_body
from omnigraph.server.answer_stream import Exchange, Mailbox, StreamedReply
from omnigraph.server.asgi import ClientGone, Receive, Request, Scope, Send, by_preference
from omnigraph.server.connection import ARRIVED, Watchers, send_reply, send_stream
from omnigraph.server.flat_routes import FlatRoutes
from omnigraph.server.known_hosts import host_of, is_here, require_known_host
from omnigraph.server.open_graphs import Opened, open_graphs
from omnigraph.server.operation import Call, HttpOperation
from omnigraph.server.operations import OPERATIONS
from omnigraph.server.replies import Reply, compression, reply_of_problem
from omnigraph.server.request_work import RequestWork, Workplace
from omnigraph.server.route_table import RouteTable, decoded
from omnigraph.server.served_graph import ServedGraph
from omnigraph.server.served_operation import ServedOperation
from omnigraph.server.server_file import ID_RULE, is_graph_id
from omnigraph.server.server_metrics import ServerMetrics
from omnigraph.server.server_settings import ServerSettings
from omnigraph.server.sub_app import SubApp, SubRequest
from omnigraph.wire.problems import problem_of

_GRAPHS = b"/graphs/"

#: What is logged for a request whose client did not wait for the answer.
_GONE = 499


def _unknown() -> bool:
    """Whether a request has arrived whole, where the connection does not say it."""
    return False


class Observer(Protocol):
    """Somebody who wants to know of requests, such as a log."""

    def request(self, request: Request, seconds: float) -> None: ...


def make_app(
    settings: ServerSettings,
    *,
    operations: Sequence[HttpOperation] = OPERATIONS,
    sub_apps: Sequence[SubApp] = (),
    observers: Sequence[Observer] = (),
) -> ServerApp:
    """Open the graphs and make the application that serves them. It is closed by `ServerApp.close`.

    Args:
        operations: what is served below each graph.
        sub_apps: further applications below each graph.
        observers: told of each request that was answered.

    Raises:
        DeniedError: the settings would serve strangers, or could tell nobody apart.
        InputError: there is no graph that can be served.
    """
    return ServerApp(settings, open_graphs(settings), operations, sub_apps, observers)


class ServerApp:
    """The application.

    Attributes:
        opened: the graphs, tokens and rules of the server.
        metrics: what it counts.
        is_draining: it was told to stop, and says so at ``/readyz``.
    """

    def __init__(
        self,
        settings: ServerSettings,
        opened: Opened,
        operations: Sequence[HttpOperation],
        sub_apps: Sequence[SubApp],
        observers: Sequence[Observer],
    ) -> None:
        self.opened = opened
        self.metrics = ServerMetrics()
        self.is_draining = False
        self._limits = settings.limits
        self._is_private = is_here(host_of(f"//{settings.bind}"))
        self._mailbox: Mailbox | None = None
        self._watchers = Watchers()
        self._place = Workplace(settings.limits, self.metrics, self._deliver)
        self._observers = tuple(observers)
        self._routes = RouteTable(
            (each.method, each.path, ServedOperation(each, settings.limits)) for each in operations
        )
        self._sub_apps = {each.path.encode(): each for each in sub_apps}
        self._flat = FlatRoutes(self, operations)
        self._running = contextlib.AsyncExitStack()
        self.metrics.set_graphs(len(opened.graphs), len(opened.quarantined))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(Request(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    def _mail(self) -> Mailbox:
        """The way from threads to the loop that runs."""
        if self._mailbox is None:
            self._mailbox = Mailbox(asyncio.get_running_loop())
        return self._mailbox

    def _deliver(self) -> None:
        if self._mailbox is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped without waiting
                self._mailbox.wake()

    def close(self) -> None:
        """Close the graphs; no request may be running."""
        self._place.close()
        for served in self.opened.graphs.values():
            served.graph.close()

    def reload_tokens(self) -> None:
        """Read the tokens again; a server without tokens has nothing to read."""
        if self.opened.tokens is not None:
            self.opened.tokens.reload()

    def authenticate(self, request: Request) -> str | None:
        """The actor of a request; None on a server that knows none.

        Raises:
            Unauthenticated: it has no token that is known.
            DeniedError: it called a server of this machine, which asks nobody for a token, by a stranger's name.
        """
        if self.opened.tokens is not None:
            given = request.headers.get("authorization", ())
            request.actor = self.opened.tokens.actor(given[0] if len(given) == 1 else None)
        elif self._is_private:
            require_known_host(request.headers.get("host", ()))
        return request.actor

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._running:
            try:
                for each in self._sub_apps.values():
                    await self._running.enter_async_context(each.running())
            except Exception as error:
                SERVER.exception("a part of the server did not start")
                await send({"type": "lifespan.startup.failed", "message": type(error).__name__})
                return
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, request: Request) -> None:
        started = time.perf_counter()
        self.metrics.began()
        try:
            await self._answer(request)
        except ClientGone:
            request.status = request.status or _GONE
        finally:
            seconds = time.perf_counter() - started
            self.metrics.ended(request.operation or "none", request.status, seconds)
            for observer in self._observers:
                observer.request(request, seconds)

    async def _answer(self, request: Request) -> None:
        try:
            reply = await self._reply(request)
        except OmniGraphError as error:
            reply = self._told(request, error)
        except ClientGone:
            raise
        except Exception as error:
            SERVER.error("request %s failed", request.id, exc_info=error)
            reply = reply_of_problem(problem_of(error, request.id))
        if reply is not None:
            await send_reply(request, reply, self._limits.stall_seconds)

    def _told(self, request: Request, error: OmniGraphError) -> Reply:
        """The answer for an error. What the storage said goes to the log."""
        is_gone = isinstance(error, GraphNotFound) and request.graph is not None
        problem = problem_of(RuntimeError() if is_gone else error, request.id)
        if problem.status >= 500:
            SERVER.error("request %s: %s: %s", request.id, error.code, error.message, exc_info=error)
        if problem.status == 429:
            self.metrics.refused(str(error.details.get("counted", "other")))
        reply = reply_of_problem(problem)
        if problem.status == 405:
            reply.headers.append((b"allow", str(error.details.get("allow", "")).encode()))
        elif problem.status == 401:
            reply.headers.append((b"www-authenticate", b"Bearer"))
        elif problem.status == 408:
            reply.headers.append((b"connection", b"close"))
        return reply

    async def _reply(self, request: Request) -> Reply | None:
        """The answer; None when it was sent already."""
        if not request.path.startswith(_GRAPHS):
            return await self._outside(request)
        self.authenticate(request)
        graph_id, *segments = request.path[len(_GRAPHS) :].split(b"/")
        served = self._graph(graph_id)
        request.graph = served.id
        if len(segments) == 1 and segments[0] in self._sub_apps:
            await self._sub_call(self._sub_apps[segments[0]], request, served)
            return None
        route, values = self._routes.find(request.method, segments)
        request.operation = route.operation.id
        return await self._call(request, served, route, values)

    async def _outside(self, request: Request) -> Reply | None:
        sub_app = self._sub_apps.get(request.path[1:])
        if sub_app is None or len(self.opened.graphs) != 1:
            return self._flat.reply(request)
        self.authenticate(request)
        (served,) = self.opened.graphs.values()
        request.graph = served.id
        await self._sub_call(sub_app, request, served)
        return None

    def _graph(self, segment: bytes) -> ServedGraph:
        name = decoded(segment)
        if not is_graph_id(name):
            raise InvalidRequest("this is no id of a graph", hint=ID_RULE)
        found = self.opened.graphs.get(name)
        if found is None:
            raise GraphNotFound(f"graph '{name}' not found")
        return found

    async def _sub_call(self, sub_app: SubApp, request: Request, served: ServedGraph) -> None:
        request.operation = sub_app.path
        caller = SubRequest(
            served,
            served.graph.acting_as(request.actor),
            request.actor,
            request.id,
            place=self._place,
            graphs=lambda: self._flat.graphs(request)["graphs"],
            has_tokens=self.opened.tokens is not None,
        )

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request.id.encode())]
            await request.send(message)

        await sub_app.handle({**request.scope, SubRequest.KEY: caller}, request.receive, send)

    async def _call(
        self, request: Request, served: ServedGraph, route: ServedOperation, values: Mapping[str, str]
    ) -> Reply | None:
        accept = request.headers.get("accept")
        exchange = Exchange(self._mail())
        encoding = compression(",".join(request.headers.get("accept-encoding", ())))
        work = RequestWork(self._place, route.operation, exchange, request.id, encoding)
        call = partial(
            Call,
            served.graph.acting_as(request.actor),
            served,
            request.actor,
            values,
            route.parameters(request.scope["query_string"]),
            headers=request.headers,
            accepts=by_preference(",".join(accept)) if accept else (),
            is_cancelled=exchange.is_cancelled,
        )
        if not route.takes_body:
            return await self._in_thread(request, work, lambda: work.run(call()))
        body = await self._body(request, route, work, call)
        packing, allowed = request_body.encoding_of(request.headers), route.body_limit

        def run() -> None:
            plain = request_body.unpacked(body, packing, allowed)
            if route.operation.raw_body is None:
                text = request_body.whole(plain)
                work.weight = len(text)
                work.run(call(body=route.body(text)))
                return
            with request_body.as_file(plain) as raw:
                work.weight = request_body.size_of(raw)
                work.run(call(raw=raw), authorised=True)

        try:
            return await self._in_thread(request, work, run)
        except TooManyRequests:
            request_body.close_body(body)
            raise

    async def _body(
        self, request: Request, route: ServedOperation, work: RequestWork, call: Callable[[], Call]
    ) -> BinaryIO | bytes:
        """The body as it came. A raw one is read only for somebody who may send it."""
        allowed, wanted = route.body_limit, route.operation.raw_body
        if wanted is not None:
            permission = Exchange(self._mail())
            work.submit(lambda: permission.answer(work.authorised(call())), permission)
            await permission.reply
            request_body.require_type(request.headers, wanted)
        request_body.encoding_of(request.headers)
        request_body.check_length(request.headers, allowed)
        has_arrived = request.scope.get("extensions", {}).get(ARRIVED, _unknown)
        body = await request_body.read_body(
            request.receive, allowed, self._limits.body_seconds, has_arrived=has_arrived()
        )
        request.is_read = True
        if wanted is None and (body != b"" or not route.operation.body_optional):
            try:
                request_body.require_type(request.headers, "application/json")
            except InvalidRequest:
                request_body.close_body(body)
                raise
        return body

    async def _in_thread(self, request: Request, work: RequestWork, job: Callable[[], None]) -> Reply | None:
        """Do the work of a request. A client that goes away meanwhile cancels it."""
        exchange = work.exchange
        work.submit(job)
        watcher = self._watchers.begin(request, exchange)
        try:
            found = await exchange.reply
            if not isinstance(found, StreamedReply):
                return found
            await send_stream(request, exchange, found, self._limits.stall_seconds, self.metrics.stream_bytes)
            return None
        except asyncio.CancelledError:
            exchange.cancel()
            raise
        finally:
            watcher.stop()
            exchange.end()
