"""The address of a graph behind a server: `http://host:8080/graphs/people`, below a path of a proxy too."""

from __future__ import annotations

import os
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from omnigraph.errors import InvalidUri

_GRAPHS = "/graphs"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server, and one of its graphs.

    Attributes:
        root: of the server, without a slash at the end.
        graph: id of the graph; None when the address names none.
    """

    root: str
    graph: str | None

    @property
    def uri(self) -> str:
        """The address of the graph in full."""
        return self.root if self.graph is None else f"{self.root}{_GRAPHS}/{quoted(self.graph)}"


def is_server(uri: object) -> bool:
    """Whether an address is that of a server, and not of a storage."""
    return isinstance(uri, str) and uri[:8].lower().startswith(("http://", "https://"))


def server_address(uri: str) -> ServerAddress:
    """Understand the address of a server or of a graph behind one.

    >>> server_address("http://host:8080/graphs/people/")
    ServerAddress(root='http://host:8080', graph='people')

    Raises:
        InvalidUri: it holds a password, a query or a fragment, or is no address.
    """
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        raise InvalidUri("the address of the server cannot be read", hint=_FORM) from None
    if parts.username is not None or parts.password is not None:
        raise InvalidUri("the address of a server holds no name and password", hint="pass token=…, and leave them out")
    if parts.query or parts.fragment or not parts.hostname or any(sign <= " " for sign in uri):
        raise InvalidUri("the address of a server has a host and a path, and nothing else", hint=_FORM)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = parts.path.rstrip("/")
    before, found, graph = path.rpartition(f"{_GRAPHS}/")
    root = f"{parts.scheme.lower()}://{host}{'' if port is None else f':{port}'}"
    if found and "/" not in graph:
        return ServerAddress(root + before, unquote(graph))
    return ServerAddress(root + path.removesuffix(_GRAPHS), None)


_FORM = "write http://host:8080/graphs/<id>"


def quoted(part: str) -> str:
    """One part of a path, with everything quoted that could end it."""
    return quote(part, safe="")


def token_of(given: str | None) -> str | None:
    """The token of the caller, else that of the environment."""
    token = given if given is not None else os.environ.get("OMNIGRAPH_BEARER_TOKEN")
    token = (token or "").strip()
    if not token:
        return None
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InvalidUri("the token holds a blank, a control character or a letter that is not ASCII", hint=_ONE_TOKEN)
    return token


_ONE_TOKEN = "pass it as the server knows it, without the word Bearer"
