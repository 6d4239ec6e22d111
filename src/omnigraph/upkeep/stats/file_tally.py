"""Adds up the files of a graph by what they are for, from one listing that is passed through once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

from omnigraph import ids
from omnigraph.storage.metadata import manifest, reclaimed
from omnigraph.storage.metadata.commit_log import ACTORS_PATH, COMMITS_PATH
from omnigraph.storage.objects.locks import RECOVERY_DIRECTORY
from omnigraph.storage.recovery import audit
from omnigraph.storage.tables.table_layout import owner_of
from omnigraph.upkeep.stats.graph_stats import StoredFiles

TABLES = "tables"
MANIFEST = "manifest"
OTHER = "other"

#: What the files below the directories at the top of a graph are for.
_PARTS = {
    manifest.PATH: MANIFEST,
    COMMITS_PATH: "mirrors",
    ACTORS_PATH: "mirrors",
    audit.PATH: "recovery",
    RECOVERY_DIRECTORY: "recovery",
    "__topology": "topology",  # which the query engine keeps
    "__embeddings": "embeddings",  # what is known of vectors
    reclaimed.DIRECTORY: "upkeep",
}
_NAMES = (TABLES, MANIFEST, "mirrors", "topology", "embeddings", "recovery", "upkeep", OTHER)


class FileTally:
    """The files of a graph, counted.

    Args:
        shown: what the shown version of each table refers to, by the location of the table.

    Attributes:
        parts: all files by what they are for.
        shown_bytes: bytes of what is shown, by location.
        other_bytes: bytes of the other files of these tables, by location.
        versions: how many versions are stored, by the directory of a table or of its part of a branch.
        newest: the newest of them, likewise.
        lineages: files of the parts of branches, by lineage.
    """

    def __init__(self, shown: Mapping[str, Set[str]]) -> None:
        self._shown = shown
        self.parts = dict.fromkeys(_NAMES, StoredFiles())
        self.shown_bytes: dict[str, int] = defaultdict(int)
        self.other_bytes: dict[str, int] = defaultdict(int)
        self.versions: dict[str, int] = defaultdict(int)
        self.newest: dict[str, int] = defaultdict(int)
        self.lineages: dict[str, StoredFiles] = defaultdict(StoredFiles)

    def count(self, files: Iterable[tuple[str, int]]) -> None:
        for path, size in files:
            owner = owner_of(path)
            if owner.version is not None:
                self.versions[owner.directory] += 1
                self.newest[owner.directory] = max(self.newest[owner.directory], owner.version)
            if owner.lineage is not None:
                self.lineages[owner.lineage] = _with(self.lineages[owner.lineage], size)
            part = _PARTS.get(path.partition("/")[0], OTHER)
            if owner.table in self._shown:
                part = TABLES
                counted = self.shown_bytes if owner.name in self._shown[owner.table] else self.other_bytes
                counted[owner.table] += size
            self.parts[part] = _with(self.parts[part], size)

    def outside(self, live: Set[str]) -> StoredFiles:
        """Files of branches that do not exist, given the lineages of those that do."""
        dead = (files for name, files in self.lineages.items() if not {name, ids.lineage_owner(name)} & live)
        return total_of(dead)


def total_of(counted: Iterable[StoredFiles]) -> StoredFiles:
    several = list(counted)
    return StoredFiles(sum(each.files for each in several), sum(each.bytes for each in several))


def _with(counted: StoredFiles, size: int) -> StoredFiles:
    return StoredFiles(counted.files + 1, counted.bytes + size)
