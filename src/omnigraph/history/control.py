"""What `Graph.branches` and `Graph.commits` are: branch control and history of one open graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from omnigraph import given, ids
from omnigraph.errors import InputError
from omnigraph.history.commit_filter import commit_filter
from omnigraph.history.commit_list import list_commits
from omnigraph.history.readable_commits import marked
from omnigraph.history.state_at import At, get_commit, untagged
from omnigraph.ids import commit_message, known_branch
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.storage.store_guard import StoreFor

# A process that only reads never pays for branch control, which brings recovery along.
if TYPE_CHECKING:
    from omnigraph.choices import CommitKind, Engine
    from omnigraph.history.branches import Branch
    from omnigraph.history.commit_graph import CommitNode
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
        reader: StoreFor,
        writer: StoreFor,
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
            from_: the branch to start from, or ``tag:NAME`` for the state of a tag.
            at: start from an earlier state of it: a commit id, ``tag:NAME``, a manifest version or a time.

        Example:
            >>> graph.branches.create("review/names").name
            'review/names'
        """
        from omnigraph.history.branches import create_branch

        tag = ids.tag_in(str(from_))
        if tag is None:
            base = known_branch(from_)
            return create_branch(self._writer("branch_create", base, str(name).strip()), name, base, at)
        if at is not None:
            raise InputError("from_ and at both say which state the branch starts from", hint="give one of them")
        store = self._writer("branch_create", target=str(name).strip())
        return create_branch(store, name, ids.MAIN, f"{ids.TAG_PREFIX}{tag}")

    def list(self) -> list[str]:
        """Names, main first.

        Example:
            >>> graph.branches.list()
            ['main']
        """
        from omnigraph.history.branches import list_branches

        return [branch.name for branch in list_branches(self._reader("read"))]

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a branch and what only it holds. Commits that were merged stay in the history.

        Args:
            force: delete the tags on its states too; without it a branch that has tags stays.

        Raises:
            BranchInUse: another branch was made from it, or it has tags.

        Example:
            >>> branch = graph.branches.create("x")
            >>> graph.branches.delete("x")
            >>> graph.branches.list()
            ['main']
        """
        from omnigraph.history.branches import delete_branch

        delete_branch(self._writer("branch_delete", target=str(name).strip()), name, force=force)

    def rename(self, name: str, new_name: str, *, message: str | None = None) -> Branch:
        """Give a branch another name. Its commits, the branches made from it and its feed cursors stay its own; no
        row moves. Commits that were made before keep the name that they were made under.

        Args:
            message: what to say about it in the history.

        Example:
            >>> made = graph.branches.create("draft")
            >>> graph.branches.rename("draft", "review/names").name
            'review/names'
            >>> graph.branches.list()
            ['main', 'review/names']
        """
        from omnigraph.history.rename_branch import RenameRequest, rename_branch

        store = self._writer("branch_delete", target=str(name).strip())
        store.require("branch_create", str(name).strip(), str(new_name).strip())
        return rename_branch(store, RenameRequest(name, new_name, self._actor, commit_message(message)))

    def merge(
        self,
        source: str,
        into: str = ids.MAIN,
        *,
        dry_run: bool = False,
        resolve: Resolve | None = None,
        delete_branch: bool = False,
        engine: Engine = "auto",
        message: str | None = None,
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
            message: what to say about it in the history.

        Raises:
            MergeConflict: there are conflicts; nothing was written.

        Example:
            >>> branch = graph.branches.create("x").name
            >>> done = graph.mutate('query q() { delete Follows where from = "ana" }', branch=branch)
            >>> graph.branches.merge("x", delete_branch=True)
            MergeResult(fast_forward: x → main; edge:Follows +0 ~0 -1; commit 0...)
        """
        from omnigraph.history.merge.merge import MergeRequest, merge

        request = MergeRequest(
            known_branch(source),
            known_branch(into),
            self._actor,
            dry_run,
            resolve,
            delete_branch,
            commit_message(message),
        )
        store = (self._reader if dry_run else self._writer)("branch_merge", request.source, request.target)
        return merge(store, self._schemas, request, self._engines(engine))

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __repr__(self) -> str:
        return "<branches: create(…), list(), rename(…), delete(…), merge(…)>"


class Commits:
    """History of one graph.

    Args:
        reader: gives the storage to read from, or raises when the graph may not be used.
    """

    def __init__(self, reader: StoreFor) -> None:
        self._reader = reader

    def list(
        self,
        branch: str = ids.MAIN,
        limit: int | None = None,
        before: str | None = None,
        *,
        actor: str | Sequence[str] | None = None,
        kind: CommitKind | Sequence[CommitKind] | None = None,
        message: str | Sequence[str] | None = None,
        made_on: str | Sequence[str] | None = None,
        since: At | None = None,
        until: At | None = None,
    ) -> list[Commit]:
        """First-parent history, newest first. Reads no further back than the last commit of the answer.

        Args:
            limit: at most so many.
            before: only those that are older than this commit.
            actor: only those of this author, or of one of several.
            kind: only those that did this, as `Commit.kind` says.
            message: only those whose message holds this text.
            made_on: only those that were made on this branch; a branch shares older ones with its parents.
            since: only those after this commit or version, or from this time on.
            until: only this commit, version or time, and what came before it.

        Raises:
            InputError: a filter cannot be meant.
            CommitNotFound: ``before``, ``since`` or ``until`` is no commit of this history.

        Example:
            >>> [commit.version for commit in graph.commits.list(limit=1)] == [graph.snapshot().version]
            True
            >>> [commit.summary for commit in graph.commits.list(actor="act-first", kind="load")]
            ['load: Follows +1, Person +2']
        """
        store = self._reader("read", known_branch(branch))
        bounds = {"since": untagged(store, since), "until": untagged(store, until)}
        wanted = commit_filter(actor=actor, kind=kind, message=message, made_on=made_on, **bounds)
        return list_commits(store, known_branch(branch), limit, untagged(store, before), wanted)

    def graph(
        self,
        branches: Sequence[str] | None = None,
        limit: int | None = None,
        *,
        actor: str | Sequence[str] | None = None,
        kind: CommitKind | Sequence[CommitKind] | None = None,
        message: str | Sequence[str] | None = None,
        made_on: str | Sequence[str] | None = None,
        since: At | None = None,
        until: At | None = None,
    ) -> Sequence[CommitNode]:
        """Commits of several branches and of all that was merged into them, each once, children before their parents.

        Args:
            branches: names; None for all branches.
            limit: at most so many, the newest ones.
            since: only those that this commit does not descend from, or from this time on.
            until: only this commit and what it descends from, or until this time.

        The other arguments are those of `list`. Commits that do not fit are left out; the parents of a node are the
        nearest ancestors that are left.

        Example:
            >>> branch = graph.branches.create("x").name
            >>> done = graph.mutate('query q() { delete Follows where from = "ana" }', branch=branch)
            >>> [(node.heads, node.commit.kind) for node in graph.commits.graph()]
            [(('x',), 'mutation'), (('main',), 'load'), ((), 'init')]
        """
        from omnigraph.history.commit_graph import commit_graph

        names = None if branches is None else [known_branch(name) for name in branches]
        store = [self._reader("read", name) for name in names][-1] if names else self._reader("read")
        bounds = {"since": untagged(store, since), "until": untagged(store, until)}
        wanted = commit_filter(actor=actor, kind=kind, message=message, made_on=made_on, **bounds)
        return commit_graph(store, names, limit, wanted)

    def get(self, commit_id: str) -> Commit:
        """A commit by its id or by ``tag:NAME``, on whatever branch it was made.

        Example:
            >>> graph.commits.get(graph.commits.head().id)
            Commit('0...', main v..., ... by act-first; load: Follows +1, Person +2)
        """
        store = self._reader("read")
        return marked(store, [get_commit(store, given.text(commit_id, "the id of a commit"))])[0]

    def head(self, branch: str = ids.MAIN) -> Commit:
        """The newest commit of a branch.

        Example:
            >>> graph.commits.head().actor
            'act-first'
        """
        return self.list(branch, limit=1)[0]

    def __repr__(self) -> str:
        return "<commits: list(…), graph(…), get(…), head(…)>"
