"""Which commits of a listing can still be read: those whose state was neither cleaned up nor went with its branch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from omnigraph import ids
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata import reclaimed
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.storage.metadata.reclaimed import Reclaimed


def marked(store: GraphStore, commits: Sequence[Commit], branch: str = ids.MAIN) -> list[Commit]:
    """The same commits, each saying whether its state is readable.

    Args:
        branch: that they were listed of; one that made all of them needs no listing of all branches.
    """
    commits = [store.told(commit) for commit in commits]
    gone = reclaimed.read(store.objects)
    if not gone.lineages and {commit.branch for commit in commits} <= {ids.MAIN, branch}:
        return commits
    refs = store.branch_refs()
    return [commit if _is_readable(commit, refs, gone) else replace(commit, readable=False) for commit in commits]


def _is_readable(commit: Commit, refs: Iterable[BranchRef], gone: Reclaimed) -> bool:
    """Whether a branch that was called so then has the version, and no cleanup gave it up. One that others were
    published with is told by the version before, too."""
    needed = (commit.version - 1, commit.version) if commit.parts else (commit.version,)
    return any(
        commit.version > ref.parent_version
        and not any(gone.of(ref.lineage, ref.identity).covers(version) for version in needed)
        for ref in refs
        if commit.branch in (ref.name, *ref.formerly)
    )
