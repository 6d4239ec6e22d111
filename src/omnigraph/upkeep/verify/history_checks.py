"""Checks on one branch's own account of itself: manifest, head, commits, and the copies of the commits."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import ids
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log, manifest
from omnigraph.storage.metadata.commit_log import ACTORS_PATH, COMMITS_PATH
from omnigraph.storage.metadata.manifest import Commit, Head, ManifestSnapshot
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.upkeep.verify.report import Problem

MANIFEST = "manifest"
LINEAGE = "lineage"
MIRRORS = "mirrors"


def read_branch(store: GraphStore, branch: str) -> ManifestSnapshot:
    """The newest state of a branch as the store has it, whatever this process remembers."""
    return store.read_lineage(store.branch_ref(branch))


def manifest_problems(snapshot: ManifestSnapshot) -> list[Problem]:
    """Whether the rows of the present say the same as all rows of the history."""
    columns = ["object_id", "object_type", "table_key", "table_version"]
    with store_errors("read the manifest"):
        rows = snapshot.handle.scanner(columns=columns).to_table()
    found = [
        Problem(MANIFEST, snapshot.branch, None, f"the manifest has {count} rows for '{name}'")
        for name, count in _repeated(rows.column("object_id"))
    ]
    newest, tombstones = (_greatest(rows, kind) for kind in (manifest.TABLE_VERSION, manifest.TABLE_TOMBSTONE))
    visible = {key: version for key, version in newest.items() if tombstones.get(key, 0) < version}
    shown = {key: pin.version for key, pin in snapshot.pins.items()}
    for key in sorted(visible.keys() | shown.keys()):
        if visible.get(key) != shown.get(key):
            message = f"the present shows {_version(shown.get(key))}, the history {_version(visible.get(key))}"
            found.append(Problem(MANIFEST, snapshot.branch, key, message))
    return found


def _greatest(rows: pa.Table, kind: str) -> dict[str, int]:
    """The greatest version of each table among the rows of one kind."""
    chosen = rows.filter(pc.equal(rows.column("object_type"), kind))
    grouped = chosen.group_by("table_key").aggregate([("table_version", "max")])
    return dict(zip(*(grouped.column(name).to_pylist() for name in ("table_key", "table_version_max")), strict=True))


def _repeated(values: pa.ChunkedArray) -> Iterator[tuple[str, int]]:
    counts = pc.value_counts(values.combine_chunks())
    many = counts.filter(pc.greater(counts.field("counts"), 1))
    return zip(many.field("values").to_pylist(), many.field("counts").to_pylist(), strict=True)


def _version(version: int | None) -> str:
    return "no table" if version is None else f"version {version}"


class Lineages:
    """Whether each head is the newest commit of its branch and every commit leads back to the first.

    What a merge brought may be told by the branch it came from, so merged parents are looked for at the end.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._merges: list[tuple[str, Commit]] = []

    def problems(self, store: GraphStore, snapshot: ManifestSnapshot) -> list[Problem]:
        """What is wrong with one branch by itself."""
        known = commit_log.commits_of(store.tables, snapshot)
        self._known |= known.keys()
        self._merges += [(snapshot.branch, each) for each in known.values() if each.merged_parent is not None]
        head = snapshot.head
        if head is None or head.version != snapshot.version:
            return []  # other software wrote last; it keeps no head rows
        found = [*_wrong_head(head, known), *(said for each in known.values() for said in _wrong_parent(each, known))]
        return [Problem(LINEAGE, snapshot.branch, None, message) for message in found]

    def lost_merges(self) -> list[Problem]:
        """Merges whose other parent no branch knows."""
        return [
            Problem(LINEAGE, branch, None, _unknown(commit, "merged parent", commit.merged_parent))
            for branch, commit in self._merges
            if commit.merged_parent not in self._known
        ]


def _wrong_head(head: Head, known: dict[str, Commit]) -> Iterator[str]:
    commit = known.get(head.commit_id)
    if commit is None:
        yield f"the head names commit {head.commit_id}, and there is no such commit"
    elif (commit.version, commit.parent) != (head.version, head.parent):
        yield (
            f"the head says that commit {head.commit_id} is version {head.version} after {head.parent}, "
            f"its row says version {commit.version} after {commit.parent}"
        )


def _wrong_parent(commit: Commit, known: dict[str, Commit]) -> Iterator[str]:
    if commit.parent is None:
        return
    parent = known.get(commit.parent)
    if parent is None:
        yield _unknown(commit, "parent", commit.parent)
    elif parent.version >= commit.version and not (parent.version == commit.version and parent.parts):
        yield f"commit {commit.id} (version {commit.version}) comes after {parent.id} (version {parent.version})"


def _unknown(commit: Commit, role: str, name: str | None) -> str:
    return f"commit {commit.id} names {name} as its {role}, and there is no such commit"


def mirror_problems(store: GraphStore, branch: str) -> list[Problem]:
    """Whether readers that know only the copies of the commits see this branch's whole history."""
    snapshot = read_branch(store, branch)
    own = {commit.id: commit for commit in commit_log.own_commits(store.tables, snapshot)}
    if snapshot.head is None or not own:
        return []
    mirror = store.tables.newest_or_none(COMMITS_PATH, snapshot.lineage)
    if mirror is None:
        if branch != ids.MAIN and all(commit.branch != branch for commit in own.values()):
            return []  # a branch without commits of its own needs none
        return [_behind(branch, f"{COMMITS_PATH} has no copy of this branch")]
    copied = {commit.id: commit for commit in commit_log.mirrored_commits(store.tables, snapshot.lineage)}
    behind = [f"{COMMITS_PATH} lacks commit {name}" for name in own if name not in copied]
    found = []
    with store_errors("read the copies of the commits"):
        rows = mirror.to_table(columns=["graph_commit_id"]).column(0)
    found += [f"{COMMITS_PATH} has commit {name} {count} times" for name, count in _repeated(rows)]
    for name, commit in own.items():
        copy = copied.get(name)
        if copy is None:
            continue
        if (copy.version, copy.parent, copy.merged_parent) != (commit.version, commit.parent, commit.merged_parent):
            found.append(f"{COMMITS_PATH} tells commit {name} differently")
        if copy.actor is None and commit.actor is not None:
            behind.append(f"{ACTORS_PATH} does not say that commit {name} is by {commit.actor}")
        elif copy.actor != commit.actor:
            found.append(f"{ACTORS_PATH} says that commit {name} is by {copy.actor}, it is by {commit.actor}")
    return [*(Problem(MIRRORS, branch, None, said) for said in found), *(_behind(branch, said) for said in behind)]


def _behind(branch: str, message: str) -> Problem:
    """A copy that follows late, or whose writer died: the next write of the branch copies what it lacks."""
    return Problem(MIRRORS, branch, None, f"{message}; `omnigraph recover` copies it", harmless=True)


def unreadable_mirror(snapshot: ManifestSnapshot, damage: str) -> Problem:
    """Copies that cannot be read lose nothing while the manifest tells all that they told."""
    message = f"the copies of its commits cannot be read: {damage}"
    if commit_log.is_recorded(snapshot):
        return Problem(MIRRORS, snapshot.branch, None, f"{message}; `omnigraph recover` makes them anew", harmless=True)
    return Problem(MIRRORS, snapshot.branch, None, f"{message}; some commits are recorded nowhere else")
