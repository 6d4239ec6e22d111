"""How one version of a table lies in its files, from its version file alone: no data file and no index is opened.

Files are named by what a version refers to: a data file together with its large blobs, a file of deleted rows, the
directory of an index, the version file. `owner_of` gives the same names to paths of a listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph import limits
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.datasets import TableVersion, version_file
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.table_indexes import index_kind_of

_VERSIONS = "_versions"
_DATA = "data"
_INDEXES = "_indices"
_REFS = "_refs"
_TREE = "tree"

#: Directories of a table whose files stand for themselves, and those where a directory stands for one thing.
_FLAT = frozenset({_VERSIONS, "_deletions", "_transactions"})
_DEEP = frozenset({_DATA, _INDEXES})

_NEWEST_FIRST_DIGITS = 20
_VERSION_NUMBERS = 2**64 - 1


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """One index of a table, and how many rows it finds; the others are found by a scan.

    Attributes:
        kind: ``BTREE``, ``INVERTED`` or ``VECTOR``, or what another software calls its own.
    """

    name: str
    column: str
    kind: str
    indexed_rows: int
    unindexed_rows: int
    details: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)  # what Lance says of its making

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "column": self.column,
            "kind": self.kind,
            "indexed_rows": self.indexed_rows,
            "unindexed_rows": self.unindexed_rows,
        }


@dataclass(frozen=True, slots=True)
class TableLayout:
    """What a version consists of.

    Attributes:
        small_fragments: fragments that are small in the sense of `limits.SMALL_FRAGMENT_ROWS`.
        deleted_rows: rows that lie in the data files and are not shown.
        files: what the version refers to, as paths below the graph root.
    """

    fragments: int
    small_fragments: int
    deleted_rows: int
    indexes: tuple[IndexCoverage, ...]
    files: frozenset[str]


def table_layout(table: TableVersion, handle: LanceTable) -> TableLayout:
    """The layout of an open version."""
    with store_errors("read how a table lies in its files", handle):
        fragments = [fragment.metadata for fragment in handle.get_fragments()]
        indexes = handle.describe_indices()
        roots = _Roots(table, handle)
        files = {f"{roots.own}/{version_file(table.version)}"}
        for fragment in fragments:
            files |= {_without_suffix(f"{roots.of(file.base_id)}/{_DATA}/{file._path}") for file in fragment.files}
            if (gone := fragment.deletion_file) is not None:
                files.add(f"{roots.of(gone.base_id)}/{gone.path(fragment.id)}")
        for index in indexes:
            files |= {f"{roots.of(segment.base_id)}/{_INDEXES}/{segment.uuid}" for segment in index.segments}
    live = {fragment.id: fragment.physical_rows - _deleted(fragment) for fragment in fragments}
    return TableLayout(
        fragments=len(fragments),
        small_fragments=sum(fragment.physical_rows <= limits.SMALL_FRAGMENT_ROWS for fragment in fragments),
        deleted_rows=sum(map(_deleted, fragments)),
        indexes=tuple(sorted((_coverage(index, live) for index in indexes), key=lambda index: index.name)),
        files=frozenset(files),
    )


def _deleted(fragment: Any) -> int:
    return fragment.deletion_file.num_deleted_rows if fragment.deletion_file is not None else 0


def _coverage(index: Any, live: dict[int, int]) -> IndexCoverage:
    covered = {number for segment in index.segments for number in segment.fragment_ids}
    found = sum(rows for number, rows in live.items() if number in covered)
    column = ", ".join(index.field_names)
    return IndexCoverage(index.name, column, index_kind_of(index), found, sum(live.values()) - found, index.details)


def directory_of(location: str, lineage: str | None) -> str:
    """Where a table lies below the graph root, or its part of a Lance branch."""
    return f"{location}/{_TREE}/{lineage}" if lineage else location


class _Roots:
    """Where files of a table lie: those of a branch beside those that it took over from its parents.

    Lance records the place of the latter in full. The table lies below it wherever the graph was moved to.
    """

    def __init__(self, table: TableVersion, handle: LanceTable) -> None:
        self.own = directory_of(table.location, table.branch)
        self._location = table.location
        self._bases = handle.base_paths()

    def of(self, base: int | None) -> str:
        if base is None:
            return self.own
        _, found, below = str(self._bases[base].path).rpartition(f"/{self._location}")
        return f"{self._location}{below}" if found else self.own


@dataclass(frozen=True, slots=True)
class FileOwner:
    """What a file of a listing belongs to.

    Attributes:
        directory: the table, or the part of it that belongs to a Lance branch, as a path below the graph root.
        name: what a version calls it, as in `TableLayout.files`.
        version: of a version file, the number of its version.
    """

    directory: str
    name: str
    version: int | None = None

    @property
    def table(self) -> str:
        """The whole table, with the parts of all its branches."""
        return self.directory.partition(f"/{_TREE}/")[0]

    @property
    def lineage(self) -> str | None:
        """The Lance branch that the file was written for; None is the main lineage."""
        return self.directory.partition(f"/{_TREE}/")[2] or None


def owner_of(path: str) -> FileOwner:
    """Tell what a file is by its path.

    >>> owner_of("nodes/1f/tree/dev/data/abc/7.blob").name
    'nodes/1f/tree/dev/data/abc'
    """
    *above, directory, name = ("", "", *path.split("/"))
    if directory in _FLAT:
        return FileOwner(_joined(above), path, _number(name) if directory == _VERSIONS else None)
    if directory == _DATA:
        return FileOwner(_joined(above), _without_suffix(path))
    if above[-1] in _DEEP:
        return FileOwner(_joined(above[:-1]), path.rpartition("/")[0])
    table, of_table, _ = path.partition(f"/{_REFS}/")
    return FileOwner(table if of_table else path.rpartition("/")[0], path)


def _joined(parts: list[str]) -> str:
    return "/".join(parts).lstrip("/")


def _without_suffix(path: str) -> str:
    return path.removesuffix(".lance")


def _number(name: str) -> int | None:
    """The version of a version file; None for one outside every lineage, and for a hint about the newest."""
    digits, is_version, _ = name.partition(".manifest")
    if not is_version or not digits.isdecimal():
        return None
    return _VERSION_NUMBERS - int(digits) if len(digits) == _NEWEST_FIRST_DIGITS else int(digits)
