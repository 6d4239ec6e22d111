"""What holds on a server with tokens for a graph without a policy: whoever is known may read, and nothing else."""

from __future__ import annotations

from functools import lru_cache

from omnigraph import limits
from omnigraph.policy.access_policy import Policy, known_action
from omnigraph.policy.bundle import Bundle
from omnigraph.policy.decision import AccessDecision, AccessRequest

_RULE = "tokens-read"


class DefaultDeny(Policy):
    """A policy without a file. Actors come from tokens, so each one that is named is known."""

    def __init__(self) -> None:
        self._bundle = Bundle({})

    @property
    def name(self) -> str:
        return "default"

    @property
    def bundle(self) -> Bundle:
        return self._bundle

    def decide(
        self,
        actor: str | None,
        action: str,
        branch: str | None = None,
        target_branch: str | None = None,
        type: str | None = None,
    ) -> AccessDecision:
        return _decided(actor, action, branch, target_branch, type)

    def limits_types(self, action: str) -> bool:
        return False

    def __repr__(self) -> str:
        return "DefaultDeny()"


@lru_cache(maxsize=limits.POLICY_DECISIONS)
def _decided(
    actor: str | None, action: str, branch: str | None, target_branch: str | None, type: str | None
) -> AccessDecision:
    request = AccessRequest(actor, known_action(action), branch, target_branch, type)
    if actor is not None and request.action == "read":
        return AccessDecision(request, (_RULE,), "known actors may read")
    who = "a request without an actor" if actor is None else f"actor '{actor}'"
    denial = f"the graph has no policy, so action '{request.action}' is denied to {who}; only reading is allowed"
    return AccessDecision(request, (), denial)
