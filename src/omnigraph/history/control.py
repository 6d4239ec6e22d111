"""What `Graph.branches` and `Graph.commits` are: branch control and history of one open graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from omnigraph import ids
from omnigraph.history.state_at import At, get_commit, list_commits
from omnigraph.ids import known_branch
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit

# A process that only reads never pays for branch control, which brings recovery along.
if TYPE_CHECKING:
    from omnigraph.history.branches import Branch
    from omnigraph.history.merge.engine import MergeEngines
    from omnigraph.history.merge.merge_result import MergeResult
    from omnigraph.history.merge.resolution import Resolve
    from omnigraph.schema_registry import SchemaRegistry


class Branches:
    """Branch control of one graph.

    Args:
        reader: gives the storage to read from, or raises when the graph may not be used.
        writer: the same for writing.
        schemas: knows the schema of every state; merged rows must keep its rules.
        actor: whom commits of merges name as their author.
        engines: gives the engines of a merge by their name.
    """

    def __init__(
        self,
        reader: Callable[[], GraphStore],
        writer: Callable[[], GraphStore],
        schemas: SchemaRegistry,
        actor: str | None,
        engines: Callable[[str], MergeEngines],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._schemas = schemas
        self._actor = actor
        self._engines = engines

    def create(self, name: str, from_: str = ids.MAIN, at: At | None = None) -> Branch:
        """Make a branch; nothing is copied.

        Args:
            from_: the branch to start from.
            at: start from an earlier state of it: a commit id, a manifest version or a time.

        Example:
            >>> graph.branches.create("review/names").name
            'review/names'
        """
        from omnigraph.history.branches import create_branch

        return create_branch(self._writer(), name, known_branch(from_), at)

    def list(self) -> list[str]:
        """Names, main first.

        Example:
            >>> graph.branches.list()
            ['main']
        """
        from omnigraph.history.branches import list_branches

        return [branch.name for branch in list_branches(self._reader())]

    def delete(self, name: str) -> None:
        """Delete a branch and what only it holds. Commits that were merged stay in the history.

        Example:
            >>> branch = graph.branches.create("x")
            >>> graph.branches.delete("x")
            >>> graph.branches.list()
            ['main']
        """
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
        engine: str = "auto",
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
            engine: ``embedded`` looks at all rows in this process, ``spark`` on Spark, with the same result. By default
                a merge of much data goes to Spark where pyspark and Java are installed.

        Raises:
            MergeConflict: there are conflicts; nothing was written.

        Example:
            >>> branch = graph.branches.create("x").name
            >>> done = graph.mutate('query q() { delete Follows where from = "ana" }', branch=branch)
            >>> graph.branches.merge("x", delete_branch=True)
            MergeResult(fast_forward: x → main; edge:Follows +0 ~0 -1; commit 0...)
        """
        from omnigraph.history.merge.merge import MergeRequest, merge

        request = MergeRequest(known_branch(source), known_branch(into), self._actor, dry_run, resolve, delete_branch)
        store = self._reader() if dry_run else self._writer()
        return merge(store, self._schemas, request, self._engines(engine))

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __repr__(self) -> str:
        return "<branches: create(…), list(), delete(…), merge(…)>"


class Commits:
    """History of one graph.

    Args:
        reader: gives the storage to read from, or raises when the graph may not be used.
    """

    def __init__(self, reader: Callable[[], GraphStore]) -> None:
        self._reader = reader

    def list(self, branch: str = ids.MAIN, limit: int | None = None, before: str | None = None) -> list[Commit]:
        """First-parent history, newest first.

        Args:
            limit: at most so many.
            before: only those that are older than this commit.

        Example:
            >>> [commit.version for commit in graph.commits.list(limit=1)] == [graph.snapshot().version]
            True
        """
        return list_commits(self._reader(), known_branch(branch), limit, before)

    def get(self, commit_id: str) -> Commit:
        """A commit by its id, on whatever branch it was made.

        Example:
            >>> graph.commits.get(graph.commits.head().id)
            Commit('0...', main v..., ... by act-first)
        """
        return get_commit(self._reader(), commit_id)

    def head(self, branch: str = ids.MAIN) -> Commit:
        """The newest commit of a branch.

        Example:
            >>> graph.commits.head().actor
            'act-first'
        """
        return self.list(branch, limit=1)[0]

    def __repr__(self) -> str:
        return "<commits: list(…), get(…), head(…)>"
