"""The files of a graph in the order of its tables, from one listing that was made before anything else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.commit_log import ACTORS_PATH, COMMITS_PATH
from omnigraph.storage.objects.file_sizes import ListedFile
from omnigraph.storage.recovery import audit
from omnigraph.storage.tables.table_layout import FileOwner, owner_of

#: Tables with copies of the commits.
COPIES = (COMMITS_PATH, ACTORS_PATH, audit.PATH)

#: Tables of older software, which nobody reads.
LEGACY = ("_graph_runs.lance", "_graph_run_actors.lance")

_TYPES = ("nodes", "edges")

#: Directories of a table whose files a version names, or that hold nothing but versions of drafts.
_NAMED = ("/data/", "/_deletions/", "/_indices/", "/_transactions/")


@dataclass(slots=True)
class TableFiles:
    """The files of one table, with those of all its lineages.

    Attributes:
        versions: version files by lineage and number.
        named: files that versions name, by that name.
        parts: all files by lineage.
    """

    location: str
    versions: dict[str | None, dict[int, ListedFile]] = field(default_factory=lambda: defaultdict(dict))
    named: dict[str, list[ListedFile]] = field(default_factory=lambda: defaultdict(list))
    parts: dict[str | None, list[ListedFile]] = field(default_factory=lambda: defaultdict(list))

    def add(self, file: ListedFile, owner: FileOwner) -> None:
        lineage = owner.lineage
        self.parts[lineage].append(file)
        if owner.version is not None and not _is_unfinished(file.path):
            self.versions[lineage][owner.version] = file
        elif any(part in file.path for part in _NAMED) or _is_draft(file.path) or _is_unfinished(file.path):
            self.named[owner.name].append(file)

    @property
    def all(self) -> Iterator[ListedFile]:
        return (file for part in self.parts.values() for file in part)


class GraphFiles:
    """All files of a graph that a cleanup may be about."""

    def __init__(self, files: Iterable[ListedFile]) -> None:
        self.tables: dict[str, TableFiles] = {}
        self.legacy: list[ListedFile] = []
        self.topologies: dict[str, list[ListedFile]] = defaultdict(list)
        for file in files:
            top, _, rest = file.path.partition("/")
            if top in LEGACY:
                self.legacy.append(file)
            elif top == "__topology":
                self.topologies[rest.partition("/")[0].replace(".", "/", 1)].append(file)
            elif rest and (top in _TYPES or top == manifest.PATH or top in COPIES):
                owner = owner_of(file.path)
                location = "/".join(file.path.split("/")[:2]) if top in _TYPES else top
                self.tables.setdefault(location, TableFiles(location)).add(file, owner)

    @property
    def of_types(self) -> Iterator[TableFiles]:
        """Tables that hold rows of types."""
        return (table for location, table in sorted(self.tables.items()) if location.partition("/")[0] in _TYPES)


def _is_draft(path: str) -> bool:
    """Whether a file is a version outside every lineage, as transactions make them."""
    name = path.rpartition("/")[2]
    return "/_versions/" in path and name.startswith("d") and name.endswith(".manifest")


def _is_unfinished(path: str) -> bool:
    """Whether a file was to be renamed when it was complete."""
    return "#" in path or path.rpartition("/")[2].startswith(".tmp")
