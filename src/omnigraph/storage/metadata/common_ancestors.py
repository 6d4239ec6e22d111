"""What two commits have in common: the ancestors that both share last."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from omnigraph.storage.metadata.manifest import Commit


def merge_bases(source: str, target: str, known: Mapping[str, Commit]) -> list[Commit]:
    """The common ancestors that both heads share last, the best one first; empty when they share none.

    An ancestor of another common ancestor is never among them, however short the way to it: what happened in between
    has reached both sides, and would be taken for a change of one of them. Criss-cross histories have several left:
    first the one nearest to both heads together, then the greater manifest version, then the greater id, so that
    everybody finds the same order. Commits that nobody knows any more end a path quietly.
    """
    from_source, from_target = distances(source, known), distances(target, known)
    common = from_source.keys() & from_target.keys()
    older = {parent for each in common for parent in (known[each].parent, known[each].merged_parent)}
    newest = common - older  # whatever leads to a common ancestor is one, so this leaves the newest of each line

    def nearness(commit_id: str) -> tuple[int, int, str]:
        return -(from_source[commit_id] + from_target[commit_id]), known[commit_id].version, commit_id

    return [known[each] for each in sorted(newest, key=nearness, reverse=True)]


def merge_base(source: str, target: str, known: Mapping[str, Commit]) -> Commit | None:
    """The best common ancestor; None when there is none."""
    return next(iter(merge_bases(source, target, known)), None)


def distances(head: str, known: Mapping[str, Commit]) -> dict[str, int]:
    """Every ancestor of a commit with the number of steps to it; the commit itself is 0 away."""
    found: dict[str, int] = {}
    waiting = deque([(head, 0)])
    while waiting:
        commit_id, steps = waiting.popleft()
        commit = known.get(commit_id)
        if commit is None or commit_id in found:
            continue
        found[commit_id] = steps
        waiting += [(parent, steps + 1) for parent in (commit.parent, commit.merged_parent) if parent]
    return found
