"""On which branch an agent works when it names none.

By default that is a branch of its own, ``agent/<actor>``: made from main by the first write, read from as long as it is
there, and merged only when somebody asks for it. So several agents and people work on one graph without meeting each
other's unfinished work, and what an agent did can be looked at before it counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from omnigraph import ids
from omnigraph.errors import (
    BranchExists,
    BranchNotFound,
    OmniGraphError,
    OutcomeUnknown,
    PolicyDenied,
    RecoveryRequired,
)

if TYPE_CHECKING:
    from omnigraph import Graph

#: The setting by which writes go to the base branch itself.
DIRECT = "direct"

#: What stands for the actor in a setting.
ACTOR_PLACE = "{actor}"

_OWN = f"agent/{ACTOR_PLACE}"
_NOBODY = "anonymous"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_ACTOR = 80

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class AgentBranch:
    """The branch that an agent works on when it names none.

    Attributes:
        own: the agent's branch; None to work on the base itself.
        base: what the own branch is made from and merged into, and what is read until it exists.
    """

    own: str | None
    base: str = ids.MAIN

    @classmethod
    def of(cls, setting: str | None, actor: str | None, base: str | None = None) -> AgentBranch:
        """The rule for an actor.

        Args:
            setting: ``direct``, the name of a branch, in which ``{actor}`` stands for the actor, or None for a branch
                of the actor's own.

        Raises:
            InvalidName: one of them is no name of a branch.

        >>> AgentBranch.of(None, "act-ana"), AgentBranch.of("direct", "act-ana", "dev")
        (AgentBranch(own='agent/act-ana', base='main'), AgentBranch(own=None, base='dev'))
        """
        start = ids.known_branch(base) if base is not None and base.strip() else ids.MAIN
        wanted = (setting or "").strip() or _OWN
        if wanted == DIRECT:
            return cls(None, start)
        own = ids.known_branch(wanted.replace(ACTOR_PLACE, branch_segment(actor)))
        return cls(own if own != start else None, start)

    @property
    def for_writes(self) -> str:
        return self.own or self.base

    def reading(
        self, branch: str | None, exists: Callable[[str], bool], read: Callable[[str], _Answer]
    ) -> tuple[_Answer, str]:
        """Read from the branch that was named, from the own one if it is there, or from the base; says which it was."""
        if branch is not None:
            return read(branch), ids.known_branch(branch)
        if self.own is not None and exists(self.own):
            try:
                return read(self.own), self.own
            except BranchNotFound as error:
                if error.details.get("branch") != self.own:
                    raise
        return read(self.base), self.base

    def writing(
        self, branch: str | None, graph: Graph, write: Callable[[str], _Answer], drop: Callable[[str], None]
    ) -> tuple[_Answer, str, bool]:
        """Write to the branch that was named or to the default one, which is made when it is not there; says which
        branch it was, and whether it was made.

        Args:
            drop: called with a branch that was made for a write that was refused, so that no old state is read from it.
        """
        if branch is not None:
            return write(branch), ids.known_branch(branch), False
        try:
            return write(self.for_writes), self.for_writes, False
        except BranchNotFound as error:
            if self.own is None or error.details.get("branch") != self.own:
                raise
        made = self.make(graph)
        try:
            return write(self.own), self.own, made
        except (OutcomeUnknown, RecoveryRequired):
            raise
        except OmniGraphError:
            if made:
                drop(self.own)
            raise

    def make(self, graph: Graph) -> bool:
        """Make the own branch; False when another call was faster."""
        if self.own is None:
            return False
        with suppress(BranchExists):
            try:
                graph.branches.create(self.own, self.base)
                return True
            except PolicyDenied as denied:
                denied.hint = (
                    f"writes go to '{self.own}' unless a branch is named; name one that you may write to, or ask for "
                    f"the right to create it"
                )
                raise
        return False


def branch_segment(actor: str | None) -> str:
    """An actor as one part of the name of a branch. Two actors never get the same one.

    >>> branch_segment("act-ana"), branch_segment("ana@example.org")
    ('act-ana', 'ana-example-org-86b9260a')
    """
    if actor is None:
        return _NOBODY
    safe = _UNSAFE.sub("-", actor).strip("-_")[:_LONGEST_ACTOR]
    if safe == actor and actor != _NOBODY:
        return actor
    return f"{safe}-{hashlib.sha256(actor.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}".lstrip("-")
