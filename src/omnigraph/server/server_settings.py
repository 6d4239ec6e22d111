"""What a server is told when it starts: graphs, address, tokens, policies, limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.server.server_limits import ServerLimits
from omnigraph.server.stored_queries import QueryFiles
from omnigraph.server.tokens import TokenSources

DEFAULT_BIND = "127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """One graph to serve.

    Attributes:
        id: its name in addresses.
        queries: where its stored queries are.
        policy: file of its rules.
    """

    id: str
    uri: str
    queries: QueryFiles = field(default_factory=QueryFiles)
    policy: Path | None = None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server.

    Attributes:
        bind: ``host:port``; the port 0 lets the system choose.
        policy: file of the rules of the server itself.
        audit: where decisions and commits are recorded; a path, or ``-`` for the standard output.
        unauthenticated: serve everybody, when there is neither a token nor a policy.
        require_all_graphs: a graph that cannot be opened stops the start.
        traces: send OpenTelemetry traces; None does so if the environment names a place for them.
    """

    graphs: tuple[GraphSettings, ...]
    bind: str = DEFAULT_BIND
    tokens: TokenSources = field(default_factory=TokenSources)
    policy: Path | None = None
    audit: str | None = None
    unauthenticated: bool = False
    require_all_graphs: bool = False
    limits: ServerLimits = field(default_factory=ServerLimits)
    traces: bool | None = None
