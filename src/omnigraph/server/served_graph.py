"""`ServedGraph`: one graph of a server, with what the server knows of it besides its data."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from omnigraph.graph import Graph
from omnigraph.server.server_limits import ServerLimits
from omnigraph.server.stored_queries import StoredQueries


@dataclass(frozen=True, slots=True, eq=False)
class ServedGraph:
    """One graph of a server.

    Attributes:
        id: its name in addresses.
        graph: open, with policy and audit log; `Graph.acting_as` gives it into the hands of an actor.
        stored: its stored queries.
        export_slot: held by the one export or baseline that may run.
    """

    id: str
    graph: Graph
    limits: ServerLimits = field(default_factory=ServerLimits)
    stored: StoredQueries = field(default_factory=StoredQueries)
    export_slot: threading.Lock = field(default_factory=threading.Lock)

    @property
    def uri(self) -> str:
        """Where the graph is stored."""
        return self.graph.uri
