"""Looks at tables as they are stored, for `verify`: files, transactions, rows, indexes and, if asked, every value.

Every answer is a value or a short sentence about what is wrong; nothing here writes. For `verify(deep=True)` every
value of a data file, deleted rows included, is compared with its digest. A child process does the reading, because
damaged bytes may ask for any amount of memory, or never end: one request a line, the answer is a sign of life for each
batch and then one line. Where no child can be started, the files are read in this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import CorruptGraph, OmniGraphError
from omnigraph.storage.metadata import manifest
from omnigraph.storage.objects.native_libraries import READ_EXCEPTIONS, panics_as_damage, reason, store_errors
from omnigraph.storage.objects.object_store import Location
from omnigraph.storage.tables import stage_rows
from omnigraph.storage.tables.datasets import AS_BYTES, Tables, TableVersion, is_blob
from omnigraph.storage.tables.filters import equals, one_of
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import is_understood, select_rows

#: Rows of a data file that a deep `verify` holds at once, and the address space of the process that reads them, in
#: bytes. Damaged lengths ask for more.
_VERIFY_DEEP_ROWS = 8_192
_VERIFY_DEEP_BYTES = 8 * 1024**3

#: Values that `verify` looks up through one index.
_VERIFY_LOOKUPS = 8


#: What looking at damaged files may raise.
DAMAGE: tuple[type[Exception], ...] = (OmniGraphError, *READ_EXCEPTIONS)


def damage_of(error: Exception) -> str:
    """What went wrong, in a phrase."""
    return error.message if isinstance(error, OmniGraphError) else reason(error)


def files_damage(handle: LanceTable) -> str | None:
    """Why a data file of this version, or the list of deleted rows that belongs to it, cannot be used."""
    try:
        handle.validate()
    except DAMAGE as error:
        return damage_of(error)
    return None


def made_by(handle: LanceTable) -> str | None:
    """Id of the transaction that made this version; None when it left no trace."""
    try:
        transaction = handle.read_transaction(handle.version)
    except READ_EXCEPTIONS:
        return None
    return None if transaction is None else str(transaction.uuid)


def stream(handle: LanceTable, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Columns of every row, a bounded number of rows at a time."""
    with store_errors("read a table", handle):
        if handle.get_fragments():
            yield from handle.scanner(columns=list(columns), batch_size=limits.VERIFY_BATCH_ROWS).to_batches()


def indexes(handle: LanceTable) -> list[Any]:
    """The indexes of a table."""
    with store_errors("read the indexes of a table"):
        return list(handle.describe_indices())


def index_damage(handle: LanceTable, index: Any) -> str | None:
    """Why an index gives no answer, or a wrong one; a few rows are looked up through it."""
    column = index.field_names[0]
    try:
        sample = _sample(handle, index, column)
        if sample.num_rows == 0:
            return None
        kind = str(index.index_type).lower()
        if "btree" in kind:
            return _wrong_lookup(handle, index.name, column, sample)
        _search(handle, column, sample.column(column)[0], kind)
    except DAMAGE as error:
        return damage_of(error)
    return None


def _sample(handle: LanceTable, index: Any, column: str) -> pa.Table:
    """A few rows that the index covers and that have a value, from its first and last fragments."""
    covered = sorted({number for segment in index.segments for number in segment.fragment_ids})
    present = {fragment.fragment_id: fragment for fragment in handle.get_fragments()}
    chosen = [present[number] for number in (*covered[:1], *covered[1:][-1:]) if number in present]
    found = []
    for fragment in chosen:
        scanner = handle.scanner(columns=[column], fragments=[fragment], with_row_id=True, limit=_VERIFY_LOOKUPS)
        found.append(scanner.to_table())
    if not found:
        return pa.table({column: [], "_rowid": []})
    rows = pa.concat_tables(found)
    return rows.filter(rows.column(column).is_valid())


def _wrong_lookup(handle: LanceTable, name: str, column: str, sample: pa.Table) -> str | None:
    values = sample.column(column).combine_chunks()
    if not is_understood(values.type):
        handle.index_statistics(name)  # opens it, which is all that can be asked of it here
        return None
    found = select_rows(handle, [column], one_of(column, values)).column("_rowid")
    lost = set(sample.column("_rowid").to_pylist()) - set(found.to_pylist())
    return f"it does not find {len(lost)} of {sample.num_rows} rows that are there" if lost else None


def _search(handle: LanceTable, column: str, value: pa.Scalar, kind: str) -> None:
    if "inverted" in kind:
        searched: dict[str, Any] = {"full_text_query": {"columns": [column], "query": value.as_py()}}
    else:
        searched = {"nearest": {"column": column, "q": value.as_py(), "k": 1}}
    handle.scanner(columns=["id"], limit=1, disable_scoring_autoprojection=True, **searched).to_table()


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file with the columns of it that a version of its table shows.

    Attributes:
        name: unique in the graph.
        fragment: number of the fragment whose rows it holds.
        columns: the name of each and its place in the file.
        width: how many columns the file has.
    """

    name: str
    fragment: int
    columns: tuple[tuple[str, int], ...]
    width: int

    def recorded(self, known: Mapping[str, str]) -> list[str] | None:
        """The digests of the columns that are shown; None when none was recorded."""
        found = stage_rows.columns_of(known.get(self.name), self.width)
        return [found[place] for _, place in self.columns] if found is not None else None


def recorded_digests(handle: LanceTable) -> dict[str, str]:
    """All digests that an open manifest has, by the name of the data file."""
    with store_errors("read the manifest"):
        scanner = handle.scanner(columns=["metadata"], filter=equals("object_type", manifest.TABLE_VERSION))
        texts = scanner.to_table().column("metadata").to_pylist()
    return {name: digest for text in texts for name, digest in manifest.digests_of(text).items()}


def data_files(handle: LanceTable) -> list[DataFile]:
    """The data files of one version of a table."""
    owners = {number: field.name() for field in handle.lance_schema.fields() for number in _numbers(field)}
    return [
        DataFile(
            file.path,
            fragment.fragment_id,
            tuple((owners[number], place) for place, number in enumerate(file.fields) if number in owners),
            len(file.fields),
        )
        for fragment in handle.get_fragments()
        for file in fragment.metadata.files
    ]


def _numbers(field: Any) -> list[int]:
    return [field.id(), *(number for child in field.children() for number in _numbers(child))]


def read_digests(
    handle: LanceTable, fragment: int, columns: Sequence[str], after_batch: Callable[[], None]
) -> list[str]:
    """The digests of some columns of a fragment, from what can be read now."""
    with store_errors("read a data file"), panics_as_damage():
        found = stage_rows.of_batches(_batches(handle, fragment, list(columns), after_batch))
    return [column.hex() for column in found]


def _batches(
    handle: LanceTable, fragment: int, columns: list[str], after_batch: Callable[[], None]
) -> Iterator[pa.RecordBatch]:
    blobs = any(is_blob(handle.schema.field(name)) for name in columns)
    scanner = handle.scanner(
        columns=columns,
        fragments=[handle.get_fragment(fragment)],
        batch_size=limits.EXPORT_BLOB_BATCH_ROWS if blobs else _VERIFY_DEEP_ROWS,
        blob_handling=AS_BYTES,
        with_row_id=True,  # tells deleted rows from others; they are not returned without
        include_deleted_rows=True,
        scan_in_order=True,
    )
    for batch in scanner.to_batches():
        yield batch.select(columns)
        after_batch()


_READY = "ready"
_ALIVE = "alive"
_START_SECONDS = 120.0


class _Child:
    """A running child. A thread listens to it, so that nobody waits for it for ever."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._listener = threading.Thread(target=self._listen, name="omnigraph-values", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(line.rstrip("\n"))
        self._said.put("")

    def ask(self, line: str, seconds: float) -> str:
        """The answer to one line; empty when there is none."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = _ALIVE
            while answer == _ALIVE:
                answer = self._said.get(timeout=seconds)
            return answer
        except (OSError, queue.Empty):
            return ""

    def end(self) -> None:
        self._process.kill()
        self._listener.join()
        self._process.communicate()


class ValueProcess:
    """Reads the values of data files of one graph; use it in a ``with`` block."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._child: _Child | None = None
        self._works_alone = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def digests(self, table: TableVersion, file: DataFile) -> list[str]:
        """The digests of the columns that a file has now.

        Raises:
            CorruptGraph: the file cannot be decoded.
        """
        request = [asdict(table), file.fragment, [name for name, _ in file.columns]]
        child = self._started()
        answer = self._ask(child, request) if child else _answer(Tables(self._location), request, lambda: None)
        if "damage" in answer:
            raise CorruptGraph(answer["damage"])
        return list(answer["digests"])

    def _ask(self, child: _Child, request: Sequence[Any]) -> dict[str, Any]:
        answer = child.ask(json.dumps(request), limits.VERIFY_DEEP_SECONDS)
        if not answer:
            self._end()
            return {"damage": "the process that reads it comes to no end, or to a sudden one"}
        found: dict[str, Any] = json.loads(answer)
        return found

    def _started(self) -> _Child | None:
        if self._child is None and not self._works_alone:
            self._child = _Child()
            place = json.dumps({"uri": self._location.uri, "options": dict(self._location.options)})
            if self._child.ask(place, _START_SECONDS) != _READY:
                self._end()
                self._works_alone = True
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _answer(tables: Tables, request: Sequence[Any], sign_of_life: Callable[[], None]) -> dict[str, Any]:
    table, fragment, columns = request
    try:
        return {"digests": read_digests(tables.fresh(TableVersion(**table)), fragment, columns, sign_of_life)}
    except DAMAGE as error:
        return {"damage": damage_of(error)}


def serve() -> None:
    """The child: answers until nobody asks."""
    _bound_memory()
    place = json.loads(sys.stdin.readline())
    tables = Tables(Location(place["uri"], place["options"]))
    _say(_READY)
    for line in sys.stdin:
        _say(json.dumps(_answer(tables, json.loads(line), lambda: _say(_ALIVE))))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _bound_memory() -> None:
    """Let this process be the one that ends when memory does."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_VERIFY_DEEP_BYTES, _VERIFY_DEEP_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    serve()
