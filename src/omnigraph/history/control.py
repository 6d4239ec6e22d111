"""What `Graph.branches` and `Graph.commits` are: branch control and history of one open graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from omnigraph import ids
from omnigraph.history import branches as branch_control
from omnigraph.history.branches import Branch
from omnigraph.history.resolve import At, get_commit, list_commits
from omnigraph.storage.manifest import Commit
from omnigraph.storage.store import GraphStore


class Branches:
    """Branch control of one graph.

    Args:
        reader: gives the storage to read from, or raises when the graph may not be used.
        writer: the same for writing.
    """

    def __init__(self, reader: Callable[[], GraphStore], writer: Callable[[], GraphStore]) -> None:
        self._reader = reader
        self._writer = writer

    def create(self, name: str, from_: str = ids.MAIN, at: At | None = None) -> Branch:
        """Make a branch; nothing is copied."""
        return branch_control.create_branch(self._writer(), name, known_branch(from_), at)

    def list(self) -> list[str]:
        """Names, main first."""
        return [branch.name for branch in branch_control.list_branches(self._reader())]

    def delete(self, name: str) -> None:
        branch_control.delete_branch(self._writer(), name)

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
