"""What a caller may see of a graph and do to it, as far as storage and the rooms above it ask.

A store without a guard shows everything and takes everything. `graph/guard.py` holds a store to a policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from omnigraph.storage.graph_store import GraphStore
    from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot


class StoreFor(Protocol):
    """Gives the storage for one action, or raises when the action is not allowed or the graph may not be used."""

    def __call__(self, action: str, branch: str | None = None, target: str | None = None) -> GraphStore: ...


class StoreGuard(Protocol):
    """Goes with a store that was given for one action."""

    def require(self, action: str, branch: str | None = None, target: str | None = None) -> None:
        """Refuse an action that is part of another one.

        Raises:
            PolicyDenied: it is not allowed.
        """

    def sees(self, branch: str) -> bool:
        """Whether a branch may be known at all."""

    def seen(self, snapshot: ManifestSnapshot) -> ManifestSnapshot:
        """A state without the tables that may not be seen.

        Raises:
            BranchNotFound: nothing of its branch may be seen.
        """

    def named(self, snapshot: ManifestSnapshot) -> ManifestSnapshot:
        """A state with the tables that a write may name."""

    def permit(self, table_keys: Iterable[str]) -> None:
        """Refuse to change tables.

        Raises:
            PolicyDenied: one of them may not be changed.
        """

    def told(self, commit: Commit) -> Commit:
        """A commit that says nothing of tables that may not be seen."""

    def committed(self, commit: Commit) -> None:
        """Learn of a commit that was made."""
