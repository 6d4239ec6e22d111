"""The state of a whole graph that a copy takes: one state of every branch, such that they fit together.

The graph may be written to meanwhile, and nothing here stops a writer. A state of a branch fits if it has every commit
that the states of the other branches know of it. So heads are looked at until none lags behind what another one knows.
A branch that is made or deleted while it is looked at is left out. Everything that a state needs was complete before it
became visible: what is listed after the cut has all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from omnigraph import ids
from omnigraph.errors import BranchNotFound, ConflictError, CorruptGraph, HistoricalVersionReclaimed, OmniGraphError
from omnigraph.schema.contract import IR_FILE, SOURCE_FILE, STATE_FILE
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata import branch_entries, commit_log, manifest, reclaimed, tag_entries
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.storage.metadata.tag_entries import TagEntry
from omnigraph.storage.objects.file_tree import FileTree
from omnigraph.storage.recovery import audit

#: Copies of the commits. They follow a publish, so they are looked at before the heads.
MIRRORS = (commit_log.COMMITS_PATH, commit_log.ACTORS_PATH, audit.PATH)

#: The live schema, in the order in which it is written: without the last file there is no graph.
SCHEMA_FILES = (STATE_FILE, IR_FILE, SOURCE_FILE)

#: What upkeep says of the whole graph: which states may be gone, and the rule by which they go.
UPKEEP_FILES = (reclaimed.PATH, f"{reclaimed.DIRECTORY}/retention.json")

MANIFEST_REFS = f"{manifest.PATH}/_refs/branches"

_ATTEMPTS = 20

#: What reading a branch may raise that is deleted meanwhile.
_VANISHED = (BranchNotFound, HistoricalVersionReclaimed, CorruptGraph)


@dataclass(frozen=True, slots=True)
class Cut:
    """What a copy shall show.

    Attributes:
        states: of each branch, by its name.
        names: content of the objects that say which branches and tags there are and what the live schema is, by path.
        mirrors: files of the copies of the commits, as they were before the states were looked at.
        commits: ids of the commits that each branch knows.
    """

    states: Mapping[str, ManifestSnapshot]
    names: Mapping[str, bytes]
    mirrors: frozenset[str]
    commits: Mapping[str, frozenset[str]]

    def newest(self) -> dict[tuple[str, str | None], int]:
        """The newest version that some branch shows of each lineage of a table, the manifest included."""
        found = {(manifest.PATH, state.lineage): state.version for state in self.states.values()}
        for state in self.states.values():
            for pin in state.pins.values():
                lineage = (pin.location, pin.branch)
                found[lineage] = max(pin.version, found.get(lineage, 0))
        return found

    def still_there(self, names: Mapping[str, bytes]) -> Cut:
        """The cut without the branches that were deleted or made again since. Their ref goes before any other file; one
        that was only renamed keeps it.

        Args:
            names: as they are now.
        """
        paths = {name: _paths(name, state.lineage) for name, state in self.states.items()}
        gone = {name for name, own in paths.items() if any(self.names.get(path) != names.get(path) for path in own[1:])}
        of_gone = {path for name in gone for path in paths[name]}
        of_gone |= {path for path in self.names if is_tag(path) and self.names[path] != names.get(path)}
        states = {name: state for name, state in self.states.items() if name not in gone}
        left = {path: content for path, content in self.names.items() if path not in of_gone}
        return replace(self, states=states, names=_with_tags_of(states, left))

    def tags(self) -> Iterator[TagEntry]:
        """The tags that the copy has."""
        return (_tag(path, content) for path, content in self.names.items() if is_tag(path))

    def needs(self, path: str) -> bool:
        """Whether a file is of the main lineage of a table or of a branch of the cut. Any other one is of a branch that
        was made since, or was left by a write or a branch that is gone."""
        _, below, rest = path.partition("/tree/")
        if not below:
            _, below, ref = path.partition("/_refs/branches/")
            rest = f"{unquote(ref.removesuffix('.json'))}/"
        lineages = (state.lineage for state in self.states.values() if state.lineage is not None)
        return not below or any(rest.startswith((f"{lineage}/", f"{lineage}.")) for lineage in lineages)


def take_cut(store: GraphStore, tree: FileTree) -> Cut:
    """States of all branches that fit together.

    Raises:
        GraphNotFound: there is no graph.
        ConflictError: the schema or the list of branches changes faster than it can be read.
    """
    for _ in range(_ATTEMPTS):
        mirrors = frozenset(file.path for path in MIRRORS for file in tree.files(path))
        before = read_names(store, tree)
        refs = _refs(store)
        look = _Look(store, refs)
        look.at_all()
        after = read_names(store, tree)
        if _is_renaming(before, after):
            continue
        if refs and all(before.get(path) == after.get(path) for path in SCHEMA_FILES):
            return look.cut(before, after, mirrors)
    raise ConflictError("the graph changes faster than its branches can be listed", hint="try again later")


def read_names(store: GraphStore, tree: FileTree) -> dict[str, bytes]:
    """The small objects that are replaced or removed: entries and refs of branches, tags, and the live schema."""
    listed = [
        *tree.files(branch_entries.DIRECTORY),
        *tree.files(MANIFEST_REFS),
        *tree.files(tag_entries.DIRECTORY),
    ]
    paths = [*(file.path for file in listed), *SCHEMA_FILES, *UPKEEP_FILES]
    return {path: content for path in paths if (content := store.objects.read(path)) is not None}


def is_tag(path: str) -> bool:
    """Whether an object is the entry of a tag."""
    return path.startswith(f"{tag_entries.DIRECTORY}/")


def _tag(path: str, content: bytes) -> TagEntry:
    return tag_entries.parse_tag(unquote(path.rpartition("/")[2].removesuffix(".json")), content)


def _with_tags_of(states: Mapping[str, ManifestSnapshot], names: Mapping[str, bytes]) -> dict[str, bytes]:
    """Names without the tags that are not live, or lie on branches that are not part of the copy."""
    lineages = {state.lineage for state in states.values()}

    def belongs(path: str, content: bytes) -> bool:
        entry = _tag(path, content)
        return entry.state == "live" and entry.lineage in lineages

    return {path: content for path, content in names.items() if not is_tag(path) or belongs(path, content)}


def _is_renaming(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """Whether a branch got another name between two looks; it would be left out under both."""
    return any(b'"renamed_to"' in content and before.get(path) != content for path, content in after.items())


def _refs(store: GraphStore) -> dict[str, BranchRef]:
    """The branches by name; none when they change while they are listed."""
    try:
        return {ref.name: ref for ref in store.branch_refs()}
    except CorruptGraph:
        return {}


def _paths(branch: str, lineage: str | None) -> tuple[str, ...]:
    """The objects that say that a branch exists. Main needs none."""
    if lineage is None:
        return ()
    entry = f"{branch_entries.DIRECTORY}/{quote(branch, safe='')}.json"
    return entry, f"{MANIFEST_REFS}/{lineage.replace('/', '%2F')}.json"


class _Look:
    """One look at all branches."""

    def __init__(self, store: GraphStore, refs: Mapping[str, BranchRef]) -> None:
        self._store = store
        self._refs = refs
        self._states: dict[str, ManifestSnapshot] = {}
        self._known: dict[str, dict[str, Commit]] = {}
        self._failed: dict[str, OmniGraphError] = {}

    def at_all(self) -> None:
        """Read the newest states, until none lags behind what another one knows of it."""
        newer = set(self._refs)
        while newer:
            for name in newer:
                self._read(self._refs[name])
            lagging = {name for name, version in self._needed() if self._states[name].version < version}
            newer = {name for name in lagging if self._moved(name)}

    def _read(self, ref: BranchRef) -> None:
        try:
            state = self._store.read_lineage(ref)
            self._known[ref.name] = commit_log.commits_of(self._store.tables, state)
            self._states[ref.name] = state
        except _VANISHED as error:
            self._failed[ref.name] = error
            self._states.pop(ref.name, None)
            self._known.pop(ref.name, None)

    def _needed(self) -> Iterator[tuple[str, int]]:
        """Branches, and the versions that others say they have. A number may be of a former branch of that name."""
        called = {name: ref.name for ref in self._refs.values() for name in (*ref.formerly, ref.name)}
        for commits in self._known.values():
            known = ((called.get(commit.branch), commit.version) for commit in commits.values())
            yield from ((name, version) for name, version in known if name in self._states)
        for name in self._states:
            ref = self._refs[name]
            if name != ids.MAIN and ref.parent in self._states:
                yield ref.parent, ref.parent_version

    def _moved(self, name: str) -> bool:
        """Whether the store has a newer state of a branch than the one that was read."""
        try:
            return self._store.read_lineage(self._refs[name]).version > self._states[name].version
        except _VANISHED:
            return True

    def cut(self, before: Mapping[str, bytes], after: Mapping[str, bytes], mirrors: frozenset[str]) -> Cut:
        """What was seen of the branches that are the same as before the look.

        Raises:
            OmniGraphError: one of them could not be read.
        """
        unstable: set[str] = set()
        for name, ref in self._refs.items():
            paths = _paths(name, ref.lineage)
            if any(before.get(path) != after.get(path) for path in paths):
                unstable.update(paths)
                self._states.pop(name, None)
            elif name in self._failed:
                raise self._failed[name]
        same = {path: it for path, it in before.items() if after.get(path) == it and path not in unstable}
        same |= {path: after[path] for path in UPKEEP_FILES if path in after}  # what may be gone only grows
        names = _with_tags_of(self._states, same)
        commits = {name: frozenset(self._known[name]) for name in self._states}
        return Cut(dict(self._states), names, mirrors, commits)
