"""The actions that a policy can grant, and what a rule may say about each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Scope: TypeAlias = Literal["any", "protected", "unprotected"]
Kind: TypeAlias = Literal["graph", "server"]

SCOPES: tuple[Scope, ...] = ("any", "protected", "unprotected")
BRANCH_SCOPE, TARGET_BRANCH_SCOPE = "branch_scope", "target_branch_scope"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that an actor can be allowed to do.

    Attributes:
        scope_key: how a rule limits it to some branches; None where it cannot.
        has_types: whether a rule can limit it to some types.
        resource: what it is done to.
    """

    name: str
    scope_key: str | None = None
    has_types: bool = False
    resource: Kind = "graph"


ACTIONS = {
    action.name: action
    for action in (
        Action("read", BRANCH_SCOPE, has_types=True),
        Action("export", BRANCH_SCOPE, has_types=True),
        Action("change", BRANCH_SCOPE, has_types=True),
        Action("schema_apply", TARGET_BRANCH_SCOPE),
        Action("branch_create", TARGET_BRANCH_SCOPE),
        Action("branch_delete", TARGET_BRANCH_SCOPE),
        Action("branch_merge", TARGET_BRANCH_SCOPE, has_types=True),
        Action("admin"),
        Action("invoke_query"),
        Action("graph_list", resource="server"),
    )
}
