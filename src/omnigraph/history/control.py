"""What `Graph.branches` and `Graph.commits` are: branch control and history of one open graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from omnigraph import ids
from omnigraph.history.resolve import At, get_commit, list_commits
from omnigraph.storage.manifest import Commit
from omnigraph.storage.store import GraphStore

# A process that only reads never pays for branch control, which brings recovery along.
if TYPE_CHECKING:
    from omnigraph.history.branches import Branch
    from omnigraph.history.merge.resolve import Resolve
    from omnigraph.history.merge.result import MergeResult
    from omnigraph.schema.catalog import Catalog


class Branches:
    """Branch control of one graph.

    Args:
        reader: gives the storage to read from, or raises when the graph may not be used.
        writer: the same for writing.
        catalog: gives the types of a branch; merged rows must keep their rules.
        actor: whom commits of merges name as their author.
    """

    def __init__(
        self,
        reader: Callable[[], GraphStore],
        writer: Callable[[], GraphStore],
        catalog: Callable[[str], Catalog],
        actor: str | None,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._catalog = catalog
        self._actor = actor

    def create(self, name: str, from_: str = ids.MAIN, at: At | None = None) -> Branch:
        """Make a branch; nothing is copied."""
        from omnigraph.history.branches import create_branch

        return create_branch(self._writer(), name, known_branch(from_), at)

    def list(self) -> list[str]:
        """Names, main first."""
        from omnigraph.history.branches import list_branches

        return [branch.name for branch in list_branches(self._reader())]

    def delete(self, name: str) -> None:
        from omnigraph.history.branches import delete_branch

        delete_branch(self._writer(), name)

    def merge(
        self,
        source: str,
        into: str = ids.MAIN,
        *,
        dry_run: bool = False,
        resolve: Resolve | None = None,
        delete_branch: bool = False,
    ) -> MergeResult:
        """Merge what a branch changed into another one, as one commit with two parents.

        Args:
            source: the branch to merge, as it stands now; it is not changed.
            into: the branch that gets the changes.
            dry_run: only tell what would happen: entities by type, and conflicts. Writes nothing.
            resolve: what to do with conflicts: ``"ours"`` (the target) or ``"theirs"`` (the source) for all of them, a
                mapping from entities like ``node:Person/Eve`` to ``"ours"``, ``"theirs"`` or the row itself, or a
                function from a conflict to one of these. The result is validated again.
            delete_branch: delete the source afterwards. If that fails, the result says so; the merge is done.

        Raises:
            MergeConflict: there are conflicts; nothing was written.
        """
        from omnigraph.history.merge.merge import MergeRequest, merge

        request = MergeRequest(known_branch(source), known_branch(into), self._actor, dry_run, resolve, delete_branch)
        return merge(self._reader() if dry_run else self._writer(), self._catalog(request.target), request)

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())


class Commits:
    """History of one graph.

    Args:
        reader: gives the storage to read from, or raises when the graph may not be used.
    """

    def __init__(self, reader: Callable[[], GraphStore]) -> None:
        self._reader = reader

    def list(self, branch: str = ids.MAIN, limit: int | None = None, before: str | None = None) -> list[Commit]:
        """First-parent history, newest first."""
        return list_commits(self._reader(), known_branch(branch), limit, before)

    def get(self, commit_id: str) -> Commit:
        return get_commit(self._reader(), commit_id)

    def head(self, branch: str = ids.MAIN) -> Commit:
        return self.list(branch, limit=1)[0]


def known_branch(name: str) -> str:
    """A branch as a caller names it, in its normal form."""
    return ids.MAIN if name.strip() == ids.MAIN else ids.branch_name(name)
