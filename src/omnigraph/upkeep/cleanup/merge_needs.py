"""Which commits merges of live branches will ask for: the last ones that two branches have in common.

For every pair of branches at once: each commit knows which heads descend from it, and it is wanted if two of these
heads have none of its children in common. Where two branches share several such commits, or one that lay on a branch
that is gone, a merge also looks at others; see `history/merge/merge_source.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations

from omnigraph.storage.metadata.common_ancestors import merge_bases
from omnigraph.storage.metadata.manifest import Commit


def needed_for_merges(heads: Iterable[str], known: Mapping[str, Commit], gone: Collection[str] = ()) -> set[str]:
    """Ids of the commits whose states merges of the branches with these heads compare with.

    Args:
        known: all commits of all branches.
        gone: commits whose states nobody can read any more.
    """
    chosen = [head for head in dict.fromkeys(heads) if head in known]
    bases: dict[tuple[int, int], set[str]] = defaultdict(set)
    for commit_id, pairs in _last_in_common(chosen, known):
        for pair in pairs:
            bases[pair].add(commit_id)
    needed = {commit_id for several in bases.values() for commit_id in several}
    for several in {frozenset(each) for each in bases.values() if len(each) > 1}:
        for one, other in combinations(sorted(several), 2):
            needed |= {base.id for base in merge_bases(one, other, known)[:1]}
    for commit_id in needed & set(gone):
        needed |= _stand_ins(commit_id, known)
    return needed


def _last_in_common(heads: list[str], known: Mapping[str, Commit]) -> Iterator[tuple[str, Iterator[tuple[int, int]]]]:
    """Each commit that some pairs of heads have in common last, with these pairs."""
    children: dict[str, list[str]] = defaultdict(list)
    waiting, reached = list(heads), set(heads)
    while waiting:
        current = waiting.pop()
        for parent in _parents(current, known):
            children[parent].append(current)
            if parent not in reached:
                reached.add(parent)
                waiting.append(parent)
    masks = {head: 1 << number for number, head in enumerate(heads)}
    for current in _children_first(reached, children, known):
        below = [masks[child] for child in children[current]]
        own = masks.get(current, 0)
        for mask in below:
            own |= mask
        masks[current] = own
        if own.bit_count() > 1 and own not in below:
            yield current, _pairs_outside(own, below)


def _children_first(
    reached: Collection[str], children: Mapping[str, list[str]], known: Mapping[str, Commit]
) -> Iterator[str]:
    left = {commit_id: len(children.get(commit_id, ())) for commit_id in reached}
    ready = [commit_id for commit_id, count in left.items() if count == 0]
    while ready:
        current = ready.pop()
        yield current
        for parent in _parents(current, known):
            left[parent] -= 1
            if left[parent] == 0:
                ready.append(parent)


def _parents(commit_id: str, known: Mapping[str, Commit]) -> list[str]:
    commit = known[commit_id]
    return [parent for parent in dict.fromkeys((commit.parent, commit.merged_parent)) if parent and parent in known]


def _pairs_outside(own: int, below: list[int]) -> Iterator[tuple[int, int]]:
    """Pairs of heads that descend from a commit, and not both from the same child of it."""
    numbers = [number for number in range(own.bit_length()) if own >> number & 1]
    for one, other in combinations(numbers, 2):
        both = 1 << one | 1 << other
        if not any(mask & both == both for mask in below):
            yield one, other


def _stand_ins(commit_id: str, known: Mapping[str, Commit]) -> set[str]:
    """What a merge compares with in the place of a commit whose branch is gone: the merges of it."""
    found: set[str] = set()
    for merged in known.values():
        parent = known.get(merged.parent or "")
        if merged.merged_parent == commit_id and parent is not None:
            found |= {merged.id, parent.id, *(base.id for base in merge_bases(parent.id, commit_id, known)[:1])}
    return found
