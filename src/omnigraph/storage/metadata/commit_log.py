"""The commits of a graph: who came after whom.

Commit rows live in the manifest, written by the same publish that makes the commit visible. Graphs made by other
software keep theirs in `_graph_commits.lance`; it is read only where the manifest's own chain ends early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC

from omnigraph import ids
from omnigraph.storage.metadata import commit_rows, manifest
from omnigraph.storage.metadata.commit_rows import recorded_commits as recorded_commits
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.storage.tables.datasets import Tables
from omnigraph.storage.tables.filters import equals

COMMITS_PATH = "_graph_commits.lance"
ACTORS_PATH = "_graph_commit_actors.lance"


def commits_of(tables: Tables, snapshot: ManifestSnapshot) -> dict[str, Commit]:
    """Every commit known on the snapshot's branch, by id."""
    _at_hand(snapshot)
    found = recorded_commits(snapshot.handle)
    ends_early = any(commit.parent is not None and commit.parent not in found for commit in found.values())
    if not found or ends_early or (snapshot.head and snapshot.head.version != snapshot.version):
        reach = _reach(tables, snapshot)
        for commit in mirrored_commits(tables, snapshot.lineage):
            if commit.version <= reach.get(commit.branch, 0):
                found.setdefault(commit.id, commit)
    return found


def own_commits(tables: Tables, snapshot: ManifestSnapshot) -> list[Commit]:
    """The commits that a branch itself went through, without those of branches merged into it."""
    known = commits_of(tables, snapshot)
    chain = list(first_parents(head_id(tables, snapshot), known))
    if chain and chain[-1].parent is None:
        return chain
    return _within_reach(tables, snapshot, known)


def _within_reach(tables: Tables, snapshot: ManifestSnapshot, known: dict[str, Commit]) -> list[Commit]:
    reach = _reach(tables, snapshot)
    return [commit for commit in known.values() if commit.version <= reach.get(commit.branch, 0)]


def _reach(tables: Tables, snapshot: ManifestSnapshot) -> dict[str, int]:
    """How much of each branch's own history a snapshot shows: its branch up to now, its ancestors up to the forks."""
    refs = tables.branches(manifest.PATH)
    reach, branch, lineage, version = {}, snapshot.branch, snapshot.lineage, snapshot.version
    while branch not in reach:
        reach[branch] = version
        if lineage in refs:
            reach.setdefault(lineage, version)  # as other software calls a branch that was renamed
            lineage, version = refs[lineage]["parent_branch"], min(version, int(refs[lineage]["parent_version"]))
            branch = ids.MAIN if lineage is None else ids.lineage_owner(lineage) or lineage
    return reach


def is_recorded(snapshot: ManifestSnapshot) -> bool:
    """Whether the manifest alone tells the whole history of a state, so that the mirrors are nothing but copies."""
    head = snapshot.head
    if head is None or head.version != snapshot.version:
        return False
    chain = list(first_parents(head.commit_id, recorded_commits(snapshot.handle)))
    return bool(chain) and chain[-1].parent is None


def head_id(tables: Tables, snapshot: ManifestSnapshot) -> str:
    """Id of the newest commit of a snapshot; free when the last publish was ours."""
    if snapshot.head and snapshot.head.version == snapshot.version:
        return snapshot.head.commit_id
    return head_commit(tables, snapshot).id


def head_commit(tables: Tables, snapshot: ManifestSnapshot) -> Commit:
    """The newest commit of a snapshot, synthetic if nothing recorded one."""
    if snapshot.head and snapshot.head.version == snapshot.version:
        commit = find_commit(snapshot, snapshot.head.commit_id)
        if commit:
            return commit
    own = _within_reach(tables, snapshot, commits_of(tables, snapshot))
    if own:
        return max(own, key=lineage_order)
    return Commit(
        id=ids.synthetic_commit_id(snapshot.branch, snapshot.version),
        branch=snapshot.branch,
        version=snapshot.version,
        parent=None,
        merged_parent=None,
        actor=None,
        created_at=ids.from_micros(0),
    )


def lineage_order(commit: Commit) -> tuple[int, int, str]:
    return commit.version, ids.micros(commit.created_at), commit.id


def first_parents(head: str, known: dict[str, Commit]) -> Iterator[Commit]:
    """The chain a reader of the branch experienced, newest first. Ends quietly where history was removed.

    Ends as well where a damaged row leads back into the chain; `verify` says so.
    """
    current = known.get(head)
    seen: set[str] = set()
    while current is not None and current.id not in seen:
        seen.add(current.id)
        yield current
        current = known.get(current.parent) if current.parent else None


def history(tables: Tables, snapshot: ManifestSnapshot) -> Iterator[Commit]:
    """The first-parent history that a state shows, newest first; the head is synthetic if nothing recorded one.

    Costs as much as is asked for: the newest commits do not get dearer by those before them.
    """
    read: dict[str, Commit] = {}
    if snapshot.head and snapshot.head.version == snapshot.version:
        _at_hand(snapshot)
        for commit in commit_rows.first_parents(snapshot.handle, snapshot.head.commit_id):
            read[commit.id] = commit
            yield commit
            if commit.parent is None:
                return
    head = head_commit(tables, snapshot)
    whole = first_parents(head.id, {head.id: head, **commits_of(tables, snapshot)})
    yield from (commit for commit in whole if commit.id not in read)  # older ones that only the mirrors have


def finder(tables: Tables, snapshot: ManifestSnapshot) -> Callable[[str], Commit | None]:
    """Finds by id the commits that a state descends from, also by merges. Reads as far back as it takes."""
    _at_hand(snapshot)
    recorded = commit_rows.finder(snapshot.handle)
    mirrored: dict[str, Commit] | None = None

    def find(commit_id: str) -> Commit | None:
        nonlocal mirrored
        found = recorded(commit_id)
        if found is None:
            mirrored = commits_of(tables, snapshot) if mirrored is None else mirrored
            found = mirrored.get(commit_id)
        return found

    return find


def genesis(tables: Tables, snapshot: ManifestSnapshot) -> Commit:
    """The first commit of the graph, or of what is left of its history."""
    _at_hand(snapshot)
    first = commit_rows.first_recorded(snapshot.handle)
    if first is not None and first.parent is None and snapshot.head and snapshot.head.version == snapshot.version:
        return first
    return list(history(tables, snapshot))[-1]


def newest_commit(snapshot: ManifestSnapshot) -> Commit | None:
    """The head commit from the fragment that its publish wrote; None when somebody else wrote since."""
    if snapshot.head is None or snapshot.head.version != snapshot.version:
        return None
    _at_hand(snapshot)
    return next(commit_rows.first_parents(snapshot.handle, snapshot.head.commit_id), None)


def unknown_commits(snapshot: ManifestSnapshot, commits: Sequence[Commit]) -> list[Commit]:
    """Those of some commits that a state has no row of."""
    if not commits:
        return []
    _at_hand(snapshot)
    known = commit_rows.known_among(snapshot.handle, {commit.id for commit in commits})
    return [commit for commit in commits if commit.id not in known]


def _at_hand(snapshot: ManifestSnapshot) -> None:
    """The commits of the newest fragment need no reading: a snapshot was read from it, or written into it."""
    if snapshot.recent is not None:
        commit_rows.keep_newest(snapshot.handle, snapshot.recent)


def find_commit(snapshot: ManifestSnapshot, commit_id: str) -> Commit | None:
    """One commit by id from the commit rows that a state has."""
    _at_hand(snapshot)
    kept = commit_rows.kept_commit(snapshot.handle, commit_id)
    if kept is not None:
        return kept
    scanner = snapshot.handle.scanner(columns=manifest.COLUMNS, filter=equals("object_id", commit_id))
    rows = scanner.to_table().to_pylist()
    return next((manifest.commit_of(row) for row in rows if row["object_type"] == manifest.GRAPH_COMMIT), None)


def find_by_id(snapshot: ManifestSnapshot, commit_id: str) -> Commit | None:
    """The same for an id that somebody made up: every commit row is read once, so that the next such look is free."""
    _at_hand(snapshot)
    return recorded_commits(snapshot.handle).get(commit_id)


def mirrored_commits(tables: Tables, lineage: str | None) -> list[Commit]:
    """Commits as `_graph_commits.lance` and `_graph_commit_actors.lance` tell them; absent datasets are empty."""
    handle = tables.newest_or_none(COMMITS_PATH, lineage)
    handle = handle if handle is not None else tables.newest_or_none(COMMITS_PATH)
    if handle is None:
        return []
    actors_handle = tables.newest_or_none(ACTORS_PATH)
    actors = (
        {row["graph_commit_id"]: row["actor_id"] for row in actors_handle.to_table().to_pylist()}
        if actors_handle is not None
        else {}
    )
    return [
        Commit(
            id=row["graph_commit_id"],
            branch=row["manifest_branch"] or ids.MAIN,
            version=row["manifest_version"],
            parent=row["parent_commit_id"],
            merged_parent=row["merged_parent_commit_id"],
            actor=actors.get(row["graph_commit_id"]),
            created_at=row["created_at"].replace(tzinfo=UTC),
        )
        for row in handle.to_table().to_pylist()
    ]


def find_by_label(tables: Tables, snapshot: ManifestSnapshot, name: str, value: str) -> Commit | None:
    """The newest commit in the history of a branch, merged branches included, that carries a label."""
    labelled = [commit for commit in commits_of(tables, snapshot).values() if commit.labels.get(name) == value]
    return max(labelled, key=lineage_order, default=None)
