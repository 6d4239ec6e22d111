"""Which files of a graph a copy has, and in which order they come.

Files that nothing refers to yet come first, then what refers to them, and at the end what makes the graph visible. So
a copy that is interrupted anywhere is no graph; and one that is brought up to date shows whole states all the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from omnigraph.storage.metadata import branch_entries, manifest, schema_files, tag_entries
from omnigraph.storage.objects.file_tree import StoredFile
from omnigraph.upkeep.clone.cut import MANIFEST_REFS, MIRRORS, SCHEMA_FILES, Cut, is_tag

_VERSION = re.compile(r"(?:tree/(?P<lineage>.+)/)?_versions/(?P<number>\d+)\.manifest")

#: Directories of a graph. A graph may lie in a place that holds other things too.
_TABLES = ("nodes", "edges")
_LEGACY = ("_graph_runs.lance", "_graph_run_actors.lance")
_WHOLE = (manifest.PATH, *MIRRORS, *_LEGACY, schema_files.HISTORY, "__topology", "__embeddings")


#: Files that the graph replaces by others while it is read; a copy can do without one of them.
DERIVED = ("__topology/", "__embeddings/")


class Step(IntEnum):
    """What comes before what; the files of one step may come in any order."""

    DATA = 1
    TABLES = 2
    BRANCHES = 3
    NAMES = 4
    MAIN = 5
    TAGS = 6
    SCHEMA = 7


@dataclass(frozen=True, slots=True)
class VersionFile:
    """What the path of a version file says."""

    table: str
    lineage: str | None
    version: int


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of a copy.

    Attributes:
        file: as the source lists it.
        step: when it comes.
        moved: the directory of its table, if the file names addresses that have to follow it.
        content: what it holds, of files that were read with the cut.
    """

    file: StoredFile
    step: Step
    moved: str | None = None
    content: bytes | None = None

    @property
    def path(self) -> str:
        return self.file.path


def version_file(path: str) -> VersionFile | None:
    """The version that a file of a table makes, or None for any other file."""
    if not _belongs(path):
        return None
    table, rest = _split(path)
    found = _VERSION.fullmatch(rest)
    if found is None:
        return None
    number = int(found["number"])
    version = 2**64 - 1 - number if len(found["number"]) == 20 else number
    return VersionFile(table, found["lineage"], version)


def plan_copy(files: Iterable[StoredFile], cut: Cut) -> list[PlannedFile]:
    """The files of a graph that belong to a cut.

    Args:
        files: a listing that was made after the cut.
    """
    newest = cut.newest()
    planned = [each for file in files if (each := _planned(file, cut, newest)) is not None]
    for path, content in cut.names.items():
        step = Step.SCHEMA if path in SCHEMA_FILES else Step.TAGS if is_tag(path) else Step.NAMES
        planned.append(PlannedFile(StoredFile(path, len(content), ""), step, content=content))
    return planned


def _planned(file: StoredFile, cut: Cut, newest: dict[tuple[str, str | None], int]) -> PlannedFile | None:
    if not _belongs(file.path) or file.path in cut.names or file.path.startswith(f"{MANIFEST_REFS}/"):
        return None
    found = version_file(file.path)
    if found is None:
        if "/_versions/" in file.path:  # hints, and versions of transactions, which nobody else reads
            return None
        return PlannedFile(file, Step.TABLES if "/_refs/" in file.path else Step.DATA)
    if found.table in MIRRORS and file.path not in cut.mirrors:
        return None
    if found.version > newest.get((found.table, found.lineage), found.version):
        return None
    moved = found.table if found.lineage is not None else None
    if found.table != manifest.PATH:
        return PlannedFile(file, Step.TABLES, moved)
    return PlannedFile(file, Step.MAIN if found.lineage is None else Step.BRANCHES, moved)


def surplus(present: Iterable[str], planned: Iterable[str]) -> Iterator[str]:
    """Version files of a copy that are newer than the newest of their lineage should be: whoever opens the lineage
    would find them. They are of a branch that was deleted and made again under its name."""
    newest = newest_versions(planned)
    for path in present:
        each = version_file(path)
        if each is not None and each.version > newest.get((each.table, each.lineage), each.version):
            yield path


def newest_versions(planned: Iterable[str]) -> dict[tuple[str, str | None], int]:
    """The newest version of each lineage of a table that is among some files."""
    newest: dict[tuple[str, str | None], int] = {}
    for found in filter(None, map(version_file, planned)):
        lineage = (found.table, found.lineage)
        newest[lineage] = max(found.version, newest.get(lineage, 0))
    return newest


def is_older(path: str, newest: Mapping[tuple[str, str | None], int]) -> bool:
    """Whether a file is a version of a lineage that has newer ones, see `newest_versions`."""
    found = version_file(path)
    return found is not None and found.version < newest.get((found.table, found.lineage), 0)


def is_name(path: str) -> bool:
    """Whether a file says that a branch, a tag or a version exists."""
    below = (f"{branch_entries.DIRECTORY}/", f"{tag_entries.DIRECTORY}/", f"{MANIFEST_REFS}/")
    return path.startswith(below) or "/_refs/" in path or version_file(path) is not None


def _belongs(path: str) -> bool:
    top, _, rest = path.partition("/")
    return bool(rest) and (top in _TABLES or top in _WHOLE)


def _split(path: str) -> tuple[str, str]:
    """The directory of a table, and the rest of a path below it."""
    segments = path.split("/")
    length = 2 if segments[0] in _TABLES else 1
    return "/".join(segments[:length]), "/".join(segments[length:])
