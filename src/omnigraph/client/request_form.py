"""What both connections share: settings of the HTTP client, the request of an call, the error of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec

from omnigraph import limits
from omnigraph.client.address import ServerAddress
from omnigraph.client.patience import Lost, Patience, Refused, of_foreign
from omnigraph.client.wire_call import AnswerHead, WireCall
from omnigraph.errors import GraphClosed, ReadOnly
from omnigraph.wire import CONTRACT_VERSION
from omnigraph.wire.problems import error_of

if TYPE_CHECKING:
    from omnigraph.choices import OpenMode

#: Failures before a request was sent.
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How a handle talks to its server.

    Attributes:
        token: shown to the server with each request, and to nobody else.
        attempts: how often a call is tried; None for as often as limits say.
        unreached: how often the server may not be reached meanwhile; None for as often as a call is tried.
    """

    address: ServerAddress
    token: str | None
    mode: OpenMode
    attempts: int | None = None
    unreached: int | None = None

    def __repr__(self) -> str:
        return f"ConnectionSettings({self.address.uri!r}, mode={self.mode!r})"

    def client_arguments(self) -> dict[str, Any]:
        """For `httpx2.Client` and `httpx2.AsyncClient`. Redirects are not followed: they would take the token along."""
        headers = {"user-agent": f"omnigraph-client ({CONTRACT_VERSION})"}
        if self.address.root.startswith(("http://127.", "http://localhost", "http://[::1]")):
            headers["accept-encoding"] = "identity"  # packing costs more than the bytes
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        return {
            "headers": headers,
            "follow_redirects": False,
            "timeout": httpx2.Timeout(
                connect=limits.CLIENT_CONNECT_SECONDS,
                read=limits.CLIENT_READ_SECONDS,
                write=limits.CLIENT_WRITE_SECONDS,
                pool=limits.CLIENT_READ_SECONDS,
            ),
            "limits": httpx2.Limits(
                max_connections=limits.CLIENT_CONNECTIONS,
                max_keepalive_connections=limits.CLIENT_IDLE_CONNECTIONS,
                keepalive_expiry=limits.CLIENT_IDLE_SECONDS,
            ),
        }

    def patience(self, call: WireCall[Any]) -> Patience:
        """For the attempts at a call."""
        return Patience(call, self.address.uri, self.attempts, self.unreached)

    def require_usable(self, call: WireCall[Any], is_closed: bool) -> None:
        """Refuse a call through a handle that was closed, or a write through one that only reads."""
        if is_closed:
            raise GraphClosed(f"{self.address.uri} was closed", hint="open it again with omnigraph.open")
        if call.writes and self.mode != "rw":
            raise ReadOnly(f"{self.address.uri} is open read-only", hint="open it with mode='rw'")

    def request_arguments(self, call: WireCall[Any]) -> dict[str, Any]:
        """Method, address, parameters and headers of a call."""
        headers = {"accept": call.accept, **call.headers}
        if call.content is not None:
            headers["content-type"] = "application/json"
        elif call.body is not None:
            headers["content-type"] = call.body.media_type
        return {
            "method": call.method,
            "url": httpx2.URL(f"{self.address.uri}{call.path}", params=list(call.query)),
            "headers": headers,
        }


def head_of(response: httpx2.Response) -> AnswerHead:
    return AnswerHead(response.status_code, dict(response.headers.items()))


def is_good(head: AnswerHead, call: WireCall[Any]) -> bool:
    """Whether an answer is one that its reader understands; the address of an external blob is one."""
    return 200 <= head.status < 300 or (head.status in (302, 416) and call.path == "/blob")


def refused(head: AnswerHead, body: bytes) -> Refused:
    """The error of an answer."""
    try:
        envelope: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        envelope = None
    told = isinstance(envelope, Mapping) and isinstance(envelope.get("problem"), Mapping)
    error = error_of(head.status, envelope)
    if not told:
        error = of_foreign(head, error)
    return Refused(head, error, told)


def lost(error: httpx2.TransportError | httpx2.DecodingError) -> Lost:
    """Why no whole answer came. What the libraries say may hold the address, but no header."""
    kind = type(error).__name__
    said = str(error).split("\n", 1)[0][:200]
    return Lost(f"{kind}: {said}" if said else kind, arrived=not isinstance(error, _NOT_SENT))
