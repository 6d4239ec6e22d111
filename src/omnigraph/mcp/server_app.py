"""The protocol over streamable HTTP: ``/graphs/{id}/mcp`` of a server, and ``/mcp`` of a server of one graph.

The server has checked the token before it calls this. Every message is worked on in the hands of the actor whose token
came with that very message. Sessions belong to one actor at one graph: another actor finds none under that id.
There is no stream from the server to the client beside the answers, so a GET is refused and an unused session can end.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request

from omnigraph import limits
from omnigraph.errors import DeniedError, InvalidRequest
from omnigraph.mcp.agent_branch import AgentBranch
from omnigraph.mcp.desk import Desk
from omnigraph.mcp.hosted_surroundings import HostedSurroundings
from omnigraph.mcp.protocol_server import Visit, protocol_server
from omnigraph.server.asgi import Message, Receive, Scope, Send
from omnigraph.server.known_hosts import host_of, is_here, require_known_host
from omnigraph.server.request_body import BodyLimit, read_body, whole
from omnigraph.server.sub_app import SubApp, SubRequest

_Answer = TypeVar("_Answer")

PATH = "mcp"

#: Names a branch for the writes of one client, or ``direct``; see `AgentBranch`.
BRANCH_HEADER = "omnigraph-mcp-branch"

_VISIT = "omnigraph.mcp.visit"
_METHODS = ("POST", "DELETE")


def mcp_sub_app() -> SubApp:
    """The tools as an application below each graph of a server."""
    rooms = _Rooms()
    return SubApp(PATH, rooms.handle, rooms.running)


class _Rooms:
    """The sessions of all actors, apart from each other."""

    def __init__(self) -> None:
        self._protocol = protocol_server(_visit_of)
        self._managers: dict[tuple[str, str | None], StreamableHTTPSessionManager] = {}
        self._tasks: TaskGroup | None = None
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """As long as the server runs."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        caller: SubRequest = scope[SubRequest.KEY]
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        _require_method(scope["method"])
        _require_known_origin(headers, has_tokens=caller.has_tokens)
        body = await _body(receive)
        leaving = _Leaving(receive)
        visit = _visit(caller, headers, leaving.gone, len(body))
        manager = await self._manager(caller)
        async with leaving.watched():
            inner = {**scope, _VISIT: visit}
            await manager.handle_request(inner, leaving.replayed(body), send)

    async def _manager(self, caller: SubRequest) -> StreamableHTTPSessionManager:
        """The sessions of an actor at a graph."""
        key = (caller.served.id, caller.actor)
        async with self._lock:
            if key not in self._managers:
                manager = StreamableHTTPSessionManager(
                    self._protocol,
                    json_response=True,
                    session_idle_timeout=limits.MCP_IDLE_SECONDS,
                    max_request_body_size=limits.MCP_MESSAGE_BYTES,
                    max_sessions=limits.MCP_SESSIONS,
                )
                assert self._tasks is not None
                await self._tasks.start(_keep, manager)
                self._managers[key] = manager
            return self._managers[key]


async def _keep(
    manager: StreamableHTTPSessionManager, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    async with manager.run():
        task_status.started()
        await anyio.sleep_forever()


def _visit_of(request: Request | None) -> Visit:
    assert request is not None  # whatever comes over HTTP comes in a request
    visit: Visit = request.scope[_VISIT]
    return visit


def _visit(caller: SubRequest, headers: dict[str, str], gone: threading.Event, weight: int) -> Visit:
    allowed = caller.served.limits
    budget = {
        "timeout": allowed.query_timeout_ms / 1_000,
        "max_rows": allowed.result_rows,
        "max_bytes": allowed.result_bytes,
        "is_cancelled": gone.is_set,
    }
    setting = headers.get(BRANCH_HEADER) or os.environ.get("OMNIGRAPH_MCP_BRANCH")
    desk = Desk(
        caller.graph,
        HostedSurroundings(caller, budget),
        AgentBranch.of(setting, caller.actor),
        budget=budget,
    )
    return Visit(desk, _PoolThreads(caller, gone, weight), caller.request_id)


@dataclass(frozen=True, slots=True)
class _PoolThreads:
    """The threads of the server; writes are counted like those of any other route.

    Attributes:
        gone: set when nobody waits for the answer any more.
        weight: bytes of the message.
    """

    caller: SubRequest
    gone: threading.Event
    weight: int

    async def __call__(self, pool: Literal["read", "write"], work: Callable[[], _Answer]) -> _Answer:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_Answer] = loop.create_future()
        context = contextvars.copy_context()

        def tell(answer: _Answer | None, error: BaseException | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(answer)  # type: ignore[arg-type]
            else:
                done.set_exception(error)

        def job() -> None:
            answer, failed = None, None
            try:
                with self._counted(pool):
                    answer = context.run(work)
            except BaseException as error:
                failed = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(tell, answer, failed)

        self.caller.place.pools[pool].submit(job)
        try:
            return await done
        except asyncio.CancelledError:
            self.gone.set()
            raise

    def _counted(self, pool: str) -> contextlib.AbstractContextManager[None]:
        if pool != "write":
            return contextlib.nullcontext()
        return self.caller.place.admission.held(self.caller.actor, self.weight)


class _Leaving:
    """Notices that a client goes away while its message is worked on.

    Attributes:
        gone: set then.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = asyncio.Event()
        self.gone = threading.Event()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        watcher = asyncio.ensure_future(self._watch())
        try:
            yield
        finally:
            watcher.cancel()

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.gone.set()
        self._left.set()

    def replayed(self, body: bytes) -> Receive:
        """The body again, then the end of the connection when it comes."""
        first = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if first:
                return first.pop()
            await self._left.wait()
            return {"type": "http.disconnect"}

        return receive


async def _body(receive: Receive) -> bytes:
    most = limits.MCP_MESSAGE_BYTES
    return whole(await read_body(receive, BodyLimit(most, "mcp_message_bytes", most), limits.BODY_SECONDS))


def _require_method(method: str) -> None:
    if method not in _METHODS:
        raise InvalidRequest(
            f"{method} is not offered here", hint=f"send {' or '.join(_METHODS)}", status=405, allow=", ".join(_METHODS)
        )


def _require_known_origin(headers: dict[str, str], *, has_tokens: bool) -> None:
    """Refuse pages of strangers in somebody's browser, also when they have made a name of theirs point to this machine.

    A browser always says where a page is from. Without tokens there is nothing else that tells a caller, so then the
    name that was called is checked too.
    """
    origin = headers.get("origin")
    if origin is not None and not (is_here(host_of(origin)) or origin in _known_pages()):
        raise DeniedError(
            f"pages from {origin[:200]!r} may not call this server",
            hint="its operator can allow them in OMNIGRAPH_MCP_ORIGINS",
        )
    if has_tokens:
        return
    require_known_host([headers.get("host", "")])


def _known_pages() -> frozenset[str]:
    """Addresses of pages that may call this from a browser."""
    return frozenset(os.environ.get("OMNIGRAPH_MCP_ORIGINS", "").split())
