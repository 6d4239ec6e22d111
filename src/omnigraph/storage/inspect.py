"""Looks at one table as it lies in the store, for `verify`: its files, its transaction, its rows, its indexes.

Every answer is a value or a short sentence about what is wrong; nothing here writes, and nothing raises for damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import OmniGraphError
from omnigraph.storage.faults import READ_EXCEPTIONS, reason, store_errors
from omnigraph.storage.filters import one_of
from omnigraph.storage.select import is_understood, select_rows
from omnigraph.storage.tables import Handle

#: What looking at damaged files may raise.
DAMAGE: tuple[type[Exception], ...] = (OmniGraphError, *READ_EXCEPTIONS)


def damage_of(error: Exception) -> str:
    """What went wrong, in a phrase."""
    return error.message if isinstance(error, OmniGraphError) else reason(error)


def files_damage(handle: Handle) -> str | None:
    """Why a data file of this version, or the list of deleted rows that belongs to it, cannot be used."""
    try:
        handle.validate()
    except DAMAGE as error:
        return damage_of(error)
    return None


def made_by(handle: Handle) -> str | None:
    """Id of the transaction that made this version; None when it left no trace."""
    try:
        transaction = handle.read_transaction(handle.version)
    except READ_EXCEPTIONS:
        return None
    return None if transaction is None else str(transaction.uuid)


def stream(handle: Handle, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Columns of every row, a bounded number of rows at a time."""
    with store_errors("read a table", handle):
        if handle.get_fragments():
            yield from handle.scanner(columns=list(columns), batch_size=limits.VERIFY_BATCH_ROWS).to_batches()


def indexes(handle: Handle) -> list[Any]:
    """The indexes of a table."""
    with store_errors("read the indexes of a table"):
        return list(handle.describe_indices())


def index_damage(handle: Handle, index: Any) -> str | None:
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


def _sample(handle: Handle, index: Any, column: str) -> pa.Table:
    """A few rows that the index covers and that have a value, from its first and last fragments."""
    covered = sorted({number for segment in index.segments for number in segment.fragment_ids})
    present = {fragment.fragment_id: fragment for fragment in handle.get_fragments()}
    chosen = [present[number] for number in (*covered[:1], *covered[1:][-1:]) if number in present]
    found = []
    for fragment in chosen:
        scanner = handle.scanner(columns=[column], fragments=[fragment], with_row_id=True, limit=limits.VERIFY_LOOKUPS)
        found.append(scanner.to_table())
    if not found:
        return pa.table({column: [], "_rowid": []})
    rows = pa.concat_tables(found)
    return rows.filter(rows.column(column).is_valid())


def _wrong_lookup(handle: Handle, name: str, column: str, sample: pa.Table) -> str | None:
    values = sample.column(column).combine_chunks()
    if not is_understood(values.type):
        handle.index_statistics(name)  # opens it, which is all that can be asked of it here
        return None
    found = select_rows(handle, [column], one_of(column, values)).column("_rowid")
    lost = set(sample.column("_rowid").to_pylist()) - set(found.to_pylist())
    return f"it does not find {len(lost)} of {sample.num_rows} rows that are there" if lost else None


def _search(handle: Handle, column: str, value: pa.Scalar, kind: str) -> None:
    if "inverted" in kind:
        searched: dict[str, Any] = {"full_text_query": {"columns": [column], "query": value.as_py()}}
    else:
        searched = {"nearest": {"column": column, "q": value.as_py(), "k": 1}}
    handle.scanner(columns=["id"], limit=1, disable_scoring_autoprojection=True, **searched).to_table()
