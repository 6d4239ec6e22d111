"""Opens the graphs of a server with the policy that its state asks for, or says why it does not start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import omnigraph
from omnigraph.errors import DeniedError, InputError, OmniGraphError
from omnigraph.logs import SERVER
from omnigraph.policy.access_policy import Policy
from omnigraph.policy.audit_log import AuditLog
from omnigraph.server.default_deny import DefaultDeny
from omnigraph.server.served_graph import ServedGraph
from omnigraph.server.server_settings import GraphSettings, ServerSettings
from omnigraph.server.stored_queries import StoredQueries
from omnigraph.server.tokens import TokenTable


@dataclass(frozen=True, slots=True)
class Opened:
    """What a server serves.

    Attributes:
        tokens: None when everybody is served.
        policy: the rules of the server itself.
        quarantined: graphs that could not be opened, with the reason.
    """

    graphs: Mapping[str, ServedGraph]
    tokens: TokenTable | None
    policy: Policy | None
    audit: AuditLog | None
    quarantined: Mapping[str, str]


def open_graphs(settings: ServerSettings) -> Opened:
    """Open everything.

    Raises:
        DeniedError: the settings would serve strangers, or could tell nobody apart.
        InputError: there is no graph that can be served.
    """
    tokens = TokenTable(settings.tokens) if settings.tokens.any else None
    _require_clear_state(settings, tokens)
    policy = Policy.from_file(settings.policy, kind="server") if settings.policy is not None else None
    audit = AuditLog(settings.audit) if settings.audit is not None else None
    graphs: dict[str, ServedGraph] = {}
    quarantined: dict[str, str] = {}
    try:
        for each in settings.graphs:
            rules = _rules(each, tokens)
            try:
                graph = omnigraph.open(each.uri, policy=rules, audit=audit)
                stored = StoredQueries.read(each.queries, graph)
            except OmniGraphError as error:
                if settings.require_all_graphs:
                    raise
                quarantined[each.id] = str(error).partition("\n")[0]  # with the place in a text, without its lines
                SERVER.error("graph '%s' cannot be opened and is not served: %s", each.id, quarantined[each.id])
                continue
            graphs[each.id] = ServedGraph(each.id, graph, settings.limits, stored)
            SERVER.info("graph '%s' is served from %s", each.id, graph.uri)
        if not graphs:
            hint = None if quarantined else "name a graph, a directory of graphs, or a server.yaml"
            raise InputError(_nothing(quarantined), hint=hint)
    except BaseException:
        for served in graphs.values():
            served.graph.close()
        raise
    return Opened(graphs, tokens, policy, audit, quarantined)


def _require_clear_state(settings: ServerSettings, tokens: TokenTable | None) -> None:
    has_policy = settings.policy is not None or any(each.policy is not None for each in settings.graphs)
    if tokens is not None and not len(tokens):
        raise DeniedError("the source of the tokens holds none", hint="give an actor a token")
    if tokens is None and has_policy:
        raise DeniedError(
            "there is a policy and no token, so nobody could be told apart",
            hint="configure tokens, or leave the policy out",
        )
    if tokens is None and not settings.unauthenticated:
        raise DeniedError(
            "there is neither a token nor a policy, so everybody could read and write",
            hint="configure tokens, or pass --unauthenticated to serve everybody",
        )


def _rules(given: GraphSettings, tokens: TokenTable | None) -> Policy | None:
    if given.policy is not None:
        return Policy.from_file(given.policy, graph=given.id)
    return None if tokens is None else DefaultDeny()


def _nothing(quarantined: Mapping[str, str]) -> str:
    if not quarantined:
        return "there is no graph to serve"
    name, reason = next(iter(quarantined.items()))
    return f"none of the graphs can be opened; '{name}': {reason}"
