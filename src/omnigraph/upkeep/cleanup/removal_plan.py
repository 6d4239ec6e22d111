"""What a cleanup removes: the files that were listed and that nothing needs which stays.

Everything that stays was read and opened before; what could not be resolved refused the cleanup. Files that only given
up versions name go at once. Files that no version names are of writes that did not come to their end, or have not yet;
they go when they are old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from omnigraph import ids, limits
from omnigraph.errors import CleanupRefused, CorruptGraph, HistoricalVersionReclaimed
from omnigraph.storage.metadata import manifest
from omnigraph.storage.objects.file_sizes import ListedFile
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.named_files import NamedFiles
from omnigraph.upkeep.cleanup.graph_files import COPIES, GraphFiles, TableFiles

_MARK = "/removed"


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays, as it was read after every branch got a commit of the cleanup.

    Attributes:
        pins: versions that states show which stay, by table and lineage; those of the manifest are the states.
        floors: the oldest version of a lineage from which on everything stays, because its branch goes on from there.
        lineages: of the branches that exist.
        keys: table keys by location.
    """

    pins: Mapping[tuple[str, str | None], frozenset[int]]
    floors: Mapping[tuple[str, str | None], int]
    lineages: frozenset[str]
    keys: Mapping[str, str]

    def has(self, location: str) -> bool:
        """Whether a state shows a table."""
        return any(place == location for place, _ in self.pins)

    def is_alive(self, location: str, lineage: str | None) -> bool:
        """Whether a lineage of a table belongs to a branch, or is shown by one."""
        if lineage is None or (location, lineage) in self.pins:
            return True
        return any(ids.is_lineage_of(lineage, owner) for owner in self.lineages)


@dataclass(slots=True)
class TableRemoval:
    """What goes of one table.

    Attributes:
        key: the table key, or the location of a table that has none.
        versions: version files.
        files: what only these versions named.
        unfinished: what no version names.
        forks: lineages of branches that are gone, with all their files.
        whole: nothing shows the table any more.
        error: why nothing goes.
    """

    location: str
    key: str
    versions: list[ListedFile] = field(default_factory=list)
    files: list[ListedFile] = field(default_factory=list)
    unfinished: list[ListedFile] = field(default_factory=list)
    forks: dict[str, list[ListedFile]] = field(default_factory=dict)
    whole: list[ListedFile] = field(default_factory=list)
    error: str | None = None

    @property
    def all(self) -> list[ListedFile]:
        forked = [file for part in self.forks.values() for file in part]
        return [*self.versions, *self.files, *self.unfinished, *forked, *self.whole]


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """What goes of a graph."""

    tables: Sequence[TableRemoval]
    legacy: Sequence[ListedFile]
    topologies: Sequence[ListedFile]

    @property
    def is_worthwhile(self) -> bool:
        """Whether anything goes but copies of the commits, of which every cleanup makes one."""
        return bool(self.legacy or any(table.all for table in self.tables if table.location not in COPIES))


class Planner:
    """Plans removals from one listing.

    Args:
        older_than: files that no version names go when they were written before this moment, in seconds since the
            epoch; None spares them.
    """

    def __init__(self, files: GraphFiles, named: NamedFiles, older_than: float | None) -> None:
        self._files = files
        self._named = named
        self._older_than = older_than

    def plan(self, kept: Kept) -> RemovalPlan:
        """What goes, given what stays.

        Raises:
            CleanupRefused: something that stays cannot be read.
        """
        tables, topologies = [], []
        for table in self._files.of_types:
            key = kept.keys.get(table.location, table.location)
            if kept.has(table.location):
                tables.append(self._of_table(table, key, kept))
            else:
                whole = [file for file in table.all if not file.path.endswith(_MARK)]
                tables.append(TableRemoval(table.location, key, whole=whole))
                topologies += self._files.topologies.get(table.location, [])
        own = self._files.tables.get(manifest.PATH)
        if own is not None:
            tables.append(self._of_table(own, manifest.PATH, kept))
        tables += [self._of_copies(self._files.tables[path], kept) for path in COPIES if path in self._files.tables]
        return RemovalPlan(tables, self._files.legacy, topologies)

    def _of_table(self, table: TableFiles, key: str, kept: Kept) -> TableRemoval:
        stays: list[TableVersion] = []
        goes: list[TableVersion] = []
        removal = TableRemoval(table.location, key)
        for lineage, versions in table.versions.items():
            place = (table.location, lineage)
            if not kept.is_alive(*place):
                continue
            pinned = kept.pins.get(place, frozenset())
            floor = kept.floors.get(place, max(versions, default=0))
            if lineage is not None and not pinned:
                floor = 0  # a fork that a write began; its branch may go on from there
            for version in versions:
                (stays if version >= floor or version in pinned else goes).append(
                    TableVersion(table.location, lineage, version)
                )
        listed = {(each.branch, each.version) for each in stays}
        for (location, lineage), versions_shown in kept.pins.items():
            if location == table.location:
                new = (version for version in versions_shown if (lineage, version) not in listed)
                stays += [TableVersion(location, lineage, version) for version in new]
        self._take(removal, table, stays, goes, kept)
        return removal

    def _of_copies(self, table: TableFiles, kept: Kept) -> TableRemoval:
        """Of copies of the commits the newest versions stay. Files that no version names are left alone: a copy is
        made without a look at the head of its branch."""
        removal = TableRemoval(table.location, table.location)
        stays, goes = [], []
        for lineage, versions in table.versions.items():
            if kept.is_alive(table.location, lineage):
                ordered = sorted(versions, reverse=True)
                stays += [TableVersion(table.location, lineage, each) for each in ordered[: limits.KEPT_COPIES]]
                goes += [TableVersion(table.location, lineage, each) for each in ordered[limits.KEPT_COPIES :]]
        try:
            self._take(removal, table, stays, goes, kept)
        except CleanupRefused as error:
            return TableRemoval(table.location, table.location, error=error.message)
        removal.unfinished.clear()
        return removal

    def _take(
        self,
        removal: TableRemoval,
        table: TableFiles,
        stays: Sequence[TableVersion],
        goes: Sequence[TableVersion],
        kept: Kept,
    ) -> None:
        needed = self._needed(stays, removal.key)
        for lineage, part in table.parts.items():
            if lineage is not None and not kept.is_alive(table.location, lineage):
                shared = {file.path for name in needed for file in table.named.get(name, ())}
                removal.forks[lineage] = [file for file in part if file.path not in shared]
        forked = {file.path for part in removal.forks.values() for file in part}
        removal.versions += [table.versions[each.branch][each.version] for each in goes]
        with ThreadPoolExecutor(limits.CLEANUP_THREADS) as threads:
            given_up = set().union(*threads.map(self._named.read_or_nothing, goes)) - needed
        for name, files in table.named.items():
            left = [file for file in files if file.path not in forked]
            if name in given_up:
                removal.files += left
            elif name not in needed and self._older_than is not None:
                removal.unfinished += [file for file in left if file.modified < self._older_than]

    def _needed(self, versions: Sequence[TableVersion], key: str) -> set[str]:
        """What versions that stay refer to."""

        def named(version: TableVersion) -> frozenset[str]:
            try:
                return self._named.of(version)
            except (HistoricalVersionReclaimed, CorruptGraph) as error:
                raise CleanupRefused(
                    f"version {version.version} of '{key}' is needed and cannot be read: {error.message}",
                    hint="nothing was removed; run verify, and restore the file from a copy",
                    table_key=key,
                    version=version.version,
                ) from error

        with ThreadPoolExecutor(limits.CLEANUP_THREADS) as threads:
            return set().union(*threads.map(named, versions))


def total(files: Iterable[ListedFile]) -> int:
    """Bytes of some files."""
    return sum(file.size for file in files)
