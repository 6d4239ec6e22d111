"""Puts a graph in order whose directory or prefix was moved: its branches name the files they share by address.

Each file is replaced as a whole, and one that fits stays. The newest state of every branch comes last, so a graph whose
relocation was interrupted refuses its branches as before, and a second run does the rest.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph import failpoints
from omnigraph.errors import CorruptGraph
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import manifest
from omnigraph.storage.objects.file_tree import FileTree
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.objects.object_store import Location, parse_location
from omnigraph.storage.tables import version_addresses
from omnigraph.upkeep.clone.copy_plan import VersionFile, version_file
from omnigraph.upkeep.clone.places import require_graph

_THREADS = 4


@dataclass(frozen=True, slots=True)
class RelocateResult:
    """What a relocation looked at.

    Attributes:
        files: version files of branches.
        changed: those that named another place.
    """

    files: int
    changed: int

    def to_dict(self) -> dict[str, int]:
        """The result as plain values, for JSON."""
        return {"files": self.files, "changed": self.changed}


def relocate(uri: str | os.PathLike[str] | Location) -> RelocateResult:
    """Make the branches of a graph that was moved, or copied by other means, name the place where it is now.

    Main needs it never; a graph that lies where it was is left alone. Nobody may write to the graph meanwhile.

    Raises:
        GraphNotFound: there is no graph.

    Example:
        >>> og.relocate("people.omni").changed
        0
    """
    store = GraphStore(parse_location(uri))
    require_graph(store)
    with store.sections.hold(CONTROL) as fence, fence.kept():
        found = [
            (file.path, each)
            for file in FileTree(store.location).files()
            if (each := version_file(file.path)) is not None and each.lineage is not None
        ]
        newest = {(each.table, each.lineage): each.version for _, each in sorted(found, key=lambda one: one[1].version)}
        changed = 0
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-relocate") as threads:
            for step in range(3):
                chosen = [(path, each.table) for path, each in found if _step(each, newest) == step]
                changed += sum(threads.map(lambda one: _change(store, *one), chosen))
    return RelocateResult(len(found), changed)


def _step(file: VersionFile, newest: dict[tuple[str, str | None], int]) -> int:
    """Tables, then the past of the branches, then their present."""
    if file.table != manifest.PATH:
        return 0
    return 2 if newest[file.table, file.lineage] == file.version else 1


def _change(store: GraphStore, path: str, table: str) -> bool:
    content = store.objects.read(path)
    if content is None:
        raise CorruptGraph(f"{store.location.child(path)} was removed meanwhile", file=path)
    fitting = version_addresses.with_table_at(content, store.tables.address(table))
    if fitting == content:
        return False
    failpoints.reach("relocate.between_files")
    store.objects.write(path, fitting)
    return True
