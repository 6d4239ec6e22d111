"""What is asked of a policy, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """One question: may this actor do that?

    Attributes:
        branch: the branch that is read or changed, or that a new or merged one comes from.
        target_branch: the branch that is made, deleted, merged into or given another schema.
        type: a node or edge type; None asks whether the action is allowed for any type.
    """

    actor: str | None
    action: str
    branch: str | None = None
    target_branch: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """The answer of a policy.

    Attributes:
        rules: ids of the rules that allow it, in order; empty when it is denied.
        message: why, in one sentence.
    """

    request: AccessRequest
    rules: tuple[str, ...]
    message: str

    @property
    def allowed(self) -> bool:
        return bool(self.rules)

    @property
    def matched_rule(self) -> str | None:
        """The first of the rules by id."""
        return self.rules[0] if self.rules else None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        asked = self.request
        return {
            "decision": "allow" if self.allowed else "deny",
            "actor": asked.actor,
            "action": asked.action,
            "branch": asked.branch,
            "target_branch": asked.target_branch,
            "type": asked.type,
            "matched_rule": self.matched_rule,
            "message": self.message,
        }
