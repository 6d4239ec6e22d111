"""A version of a table without some of the commits that made it together, for whoever reads the state between them.

It is made when somebody asks for it: a small table in a directory of this process that names the data files where they
lie, with deletions of its own. Nothing is written to the graph, so a handle that only reads can do it, and so can a
task of Spark. Rows, their ids and the numbers of fragments are those that a version of its own would have; indexes are
not taken along.
"""

from __future__ import annotations

import atexit
import itertools
import json
import os
import shutil
import tempfile
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import lance
import numpy as np
from lance import DatasetBasePath
from lance.fragment import FragmentMetadata

from omnigraph import limits
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.datasets import DATA_STORAGE_VERSION, TableVersion, as_dataset
from omnigraph.storage.tables.lance_types import LanceTable

if TYPE_CHECKING:
    from omnigraph.storage.tables.datasets import Tables

_numbers = itertools.count()

#: Made tables that nobody has a handle of any more, oldest first.
_left: deque[str] = deque()


def derive(tables: Tables, table: TableVersion) -> LanceTable:
    """The version that a `DerivedVersion` describes.

    Raises:
        HistoricalVersionReclaimed: one of the two versions that it is made from was cleaned up.
    """
    derived = table.derived
    assert derived is not None
    before = tables.at(derived.base)
    after = tables.at(TableVersion(table.location, table.branch, table.version))
    with store_errors("read a state between commits that were published together", before, after):
        known = {fragment.fragment_id for fragment in before.get_fragments()}
        new = [each for each in after.get_fragments() if each.fragment_id not in known]
        new.sort(key=lambda fragment: fragment.fragment_id)
        places = _Places(tables)
        fragments = [
            *(places.named(before, derived.base, each.metadata) for each in before.get_fragments()),
            *(places.named(after, table, each.metadata) for each in new),
        ]
        hidden = _offsets(derived.gone)
        for ordinal, fragment in enumerate(new):
            hidden[fragment.fragment_id] = _others(fragment.metadata.physical_rows, ordinal, derived.put)
        path = f"{_directory()}/{next(_numbers)}.lance"
        try:
            made = _scratch_table(tables, path, before, places)
            made = _committed(made, lance.LanceOperation.Overwrite(before.lance_schema, []))
            made = _committed(made, lance.LanceOperation.Update([], [], fragments))
            made = _without(made, hidden)
        except BaseException:
            _leave(path, os.getpid())
            raise
        weakref.finalize(made, _leave, path, os.getpid()).atexit = False
        return made


class _Places:
    """The directories that data files lie in, each with a number in the made table."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self.bases: dict[str, DatasetBasePath] = {}

    def named(self, handle: LanceTable, version: TableVersion, fragment: Any) -> FragmentMetadata:
        """A fragment of a version that names its files by where they lie."""
        record = json.loads(json.dumps(fragment.to_json()))
        for file in [*record["files"], *([record["deletion_file"]] if record["deletion_file"] else [])]:
            file["base_id"] = self._number(handle, version, file.get("base_id"))
        return FragmentMetadata.from_json(json.dumps(record))

    def _number(self, handle: LanceTable, version: TableVersion, base_id: int | None) -> int:
        """The number of a directory: of one that the version names, or of its own."""
        if base_id is None:
            path, is_root = self._tables.address(version.location, version.branch), True
        else:
            base = handle.base_paths()[base_id]
            path, is_root = base.path, base.is_dataset_root
        if path not in self.bases:
            number = len(self.bases) + 1
            self.bases[path] = DatasetBasePath(path, is_dataset_root=is_root, id=number)
        return int(self.bases[path].id)


def _scratch_table(tables: Tables, path: str, like: LanceTable, places: _Places) -> LanceTable:
    return lance.write_dataset(
        like.schema.empty_table(),
        f"file-object-store://{quote(path)}",
        mode="create",
        enable_stable_row_ids=True,
        data_storage_version=DATA_STORAGE_VERSION,
        storage_options=tables.options,
        initial_bases=list(places.bases.values()),
    )


@cache
def _directory() -> str:
    """Where this process makes such tables; gone with it."""
    path = tempfile.mkdtemp(prefix="omnigraph-states-")
    atexit.register(_remove, path, os.getpid())
    return path


def _leave(path: str, owner: int) -> None:
    """Nobody has a handle of a made table any more. A scan may still read it, so only the older ones of those are
    removed. Called by the garbage collector, in any thread."""
    _left.append(path)
    while len(_left) > limits.MADE_TABLES_LEFT:
        try:
            _remove(_left.popleft(), owner)
        except IndexError:  # another thread was faster
            return


def _remove(path: str, owner: int) -> None:
    """A child that was forked has the tables of its parent in mind, which are not its own."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def _committed(handle: LanceTable, operation: Any) -> LanceTable:
    return lance.LanceDataset.commit(as_dataset(handle), lance.Transaction(handle.version, operation), max_retries=0)


def _offsets(addresses: Iterable[int]) -> dict[int, list[int]]:
    """Places of rows by fragment."""
    found: dict[int, list[int]] = defaultdict(list)
    for address in addresses:
        found[address >> 32].append(address & 0xFFFFFFFF)
    return found


def _others(rows: int, ordinal: int, put: Iterable[tuple[int, int, int]]) -> list[int]:
    """Places of a new fragment that belong to other commits, or that hold old rows which were written anew."""
    own = np.zeros(rows, np.bool_)
    for fragment, first, stop in put:
        if fragment == ordinal:
            own[first:stop] = True
    return np.flatnonzero(~own).tolist()


def _without(handle: LanceTable, hidden: dict[int, list[int]]) -> LanceTable:
    removed, changed = [], []
    for fragment_id, offsets in sorted(hidden.items()):
        if not offsets:
            continue
        left = handle.get_fragment(fragment_id).delete_rows(offsets)
        if left is None:
            removed.append(fragment_id)
        else:
            changed.append(left)
    if not removed and not changed:
        return handle
    return _committed(handle, lance.LanceOperation.Update(removed, changed, []))
