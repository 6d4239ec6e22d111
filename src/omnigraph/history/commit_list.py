"""The first-parent history of a branch, newest first, as far as somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from omnigraph import given
from omnigraph.errors import CommitNotFound
from omnigraph.history.commit_filter import CommitFilter
from omnigraph.history.readable_commits import marked
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import Commit


def list_commits(
    store: GraphStore, branch: str, limit: int | None, before: str | None, wanted: CommitFilter
) -> list[Commit]:
    """The commits of a branch that are wanted; ``before`` continues below one. Reads no further than they reach.

    Raises:
        CommitNotFound: the history has no commit that ``before`` or the filter names.
    """
    chain = commit_log.history(store.tables, store.snapshot(branch))
    if before is not None and all(commit.id != before for commit in chain):  # reads on until it is found
        raise not_in_history(before, branch)
    found = islice(_between(chain, wanted, branch), None if limit is None else given.count(limit, "limit"))
    return marked(store, list(found), branch)


def _between(chain: Iterator[Commit], wanted: CommitFilter, branch: str) -> Iterator[Commit]:
    is_too_new = wanted.until is not None
    for commit in chain:
        if wanted.is_too_old(commit):
            return
        is_too_new = is_too_new and wanted.is_too_new(commit)
        if not is_too_new and wanted.fits(commit):
            yield commit
    for bound, was_met in ((wanted.until, not is_too_new), (wanted.since, False)):
        if isinstance(bound, str) and not was_met:
            raise not_in_history(bound, branch)


def not_in_history(commit_id: str, *branches: str) -> CommitNotFound:
    where = f"branch '{branches[0]}'" if len(branches) == 1 else "these branches"
    return CommitNotFound(f"commit {commit_id!r} is not in the history of {where}", commit_id=commit_id)
