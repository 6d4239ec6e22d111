"""The routes that belong to no graph: health, readiness, figures, the list of graphs, the description of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import omnigraph
from omnigraph import limits
from omnigraph.errors import PolicyDenied
from omnigraph.policy.audit_log import REQUEST_ID
from omnigraph.server.asgi import Request
from omnigraph.server.docs_page import docs_page
from omnigraph.server.open_graphs import Opened
from omnigraph.server.openapi import OpenApi
from omnigraph.server.operation import Answer, Content, HttpOperation
from omnigraph.server.replies import Reply, compression, reply_of
from omnigraph.server.route_table import no_such_path, wrong_method
from omnigraph.server.server_metrics import ServerMetrics
from omnigraph.wire import CONTRACT_VERSION


class ServerFacts(Protocol):
    """What these routes ask of the server."""

    opened: Opened
    metrics: ServerMetrics
    is_draining: bool

    def authenticate(self, request: Request) -> str | None: ...


@dataclass(frozen=True, slots=True)
class _Flat:
    name: str
    answer: Callable[[Request], Answer]
    is_public: bool = True


class FlatRoutes:
    """The flat routes of one server."""

    def __init__(self, facts: ServerFacts, operations: Sequence[HttpOperation]) -> None:
        self._facts = facts
        self._operations = operations
        self._routes: Mapping[bytes, _Flat] = {
            b"/healthz": _Flat("health", self._health),
            b"/readyz": _Flat("ready", self._ready),
            b"/metrics": _Flat("metrics", self._metrics, is_public=False),
            b"/graphs": _Flat("listGraphs", self.graphs, is_public=False),
            b"/openapi.json": _Flat("openapi", lambda request: self._document),
            b"/docs": _Flat("docs", lambda request: docs_page()),
        }

    def reply(self, request: Request) -> Reply:
        """The answer to a request whose path is below no graph.

        Raises:
            NotFoundError: there is nothing at the path.
        """
        route = self._routes.get(request.path)
        if route is None:
            self._facts.authenticate(request)
            raise no_such_path()
        request.operation = route.name
        if not route.is_public:
            self._facts.authenticate(request)
        if request.method not in ("GET", "HEAD"):
            raise wrong_method(request.method, ("GET", "HEAD"))
        encoding = compression(",".join(request.headers.get("accept-encoding", ())))
        return reply_of(route.answer(request), encoding)

    def _health(self, request: Request) -> Answer:
        return {
            "status": "ok",
            "version": CONTRACT_VERSION,
            "internal_schema_version": limits.INTERNAL_SCHEMA_VERSION,
            "source_version": omnigraph.__version__,
        }

    def _ready(self, request: Request) -> Answer:
        opened = self._facts.opened
        draining = self._facts.is_draining
        answer = {
            "ready": not draining,
            "status": "draining" if draining else "ready",
            "served_graph_count": len(opened.graphs),
            "quarantined_graph_count": len(opened.quarantined),
        }
        reply = reply_of(answer, None)
        return Content(reply.body, status=503 if draining else 200)

    def _metrics(self, request: Request) -> Answer:
        return Content(self._facts.metrics.text(), self._facts.metrics.media_type)

    def graphs(self, request: Request) -> dict[str, list[dict[str, str]]]:
        """The list of graphs, for an actor who may see it."""
        self._require_list(request)
        graphs = self._facts.opened.graphs
        return {"graphs": [{"graph_id": name, "uri": graphs[name].uri} for name in sorted(graphs)]}

    def _require_list(self, request: Request) -> None:
        """Decide about the list of graphs, and record it. Without rules of the server nobody may see it."""
        policy, audit = self._facts.opened.policy, self._facts.opened.audit
        decision = None if policy is None else policy.decide(request.actor, "graph_list")
        allowed = decision is not None and decision.allowed
        if audit is not None:
            REQUEST_ID.set(request.id)
            audit.write(
                "decision",
                actor=request.actor,
                action="graph_list",
                branch=None,
                target_branch=None,
                types=None,
                decision="allow" if allowed else "deny",
                rule=None if decision is None else decision.matched_rule,
                commit=None,
            )
        if not allowed:
            said = "no policy of the server allows action 'graph_list'" if decision is None else decision.message
            hint = "server.yaml names its rules as policy; without the list, graphs are at /graphs/<id>"
            raise PolicyDenied(said, hint=hint if decision is None else None, actor=request.actor, action="graph_list")

    @cached_property
    def _document(self) -> Content:
        tokens = self._facts.opened.tokens is not None
        return Content(OpenApi(self._operations, with_tokens=tokens).text())
