"""The rules of one policy file as values. `policy_file.py` makes them, `cedar_rules.py` decides with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from omnigraph.policy.actions import ACTIONS, Kind, Scope


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows some actions to a group.

    Attributes:
        scope: the branches that it is about, by whichever of the two keys its actions take; no scope means ``any``.
        types: the node and edge types that it is about; None means all.
    """

    id: str
    group: str
    actions: tuple[str, ...]
    scope: Scope = "any"
    types: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Bundle:
    """Everything that one file says. What no rule grants is denied.

    Attributes:
        groups: actors by group.
        protected_branches: exact names.
    """

    groups: Mapping[str, tuple[str, ...]]
    protected_branches: frozenset[str] = frozenset()
    rules: tuple[Rule, ...] = ()
    kind: Kind = field(default="graph")

    @cached_property
    def actors(self) -> frozenset[str]:
        """Everybody whom a group names."""
        return frozenset(actor for members in self.groups.values() for actor in members)

    @cached_property
    def limited_actions(self) -> frozenset[str]:
        """Actions that a rule grants for some types only."""
        limited = (rule.actions for rule in self.rules if rule.types is not None)
        return frozenset(action for actions in limited for action in actions if ACTIONS[action].has_types)
