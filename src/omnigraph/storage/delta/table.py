"""What changed between two states of one table: which method finds out.

Three methods give the same answer at different cost; the cheapest one that is exact runs. Files and deletions come
first, because two fragment lists say at once how many rows they leave open; a table that was rewritten is asked for
its row versions instead. `answer.py` is what comes out.
"""

from __future__ import annotations

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.storage.delta import fragments, versions
from omnigraph.storage.delta.answer import Method, TableDelta
from omnigraph.storage.delta.candidates import ID, Candidates, Rows, Settled, no_rows, rows_of, settle
from omnigraph.storage.delta.columns import Matched, match, side_of
from omnigraph.storage.delta.live import State
from omnigraph.storage.faults import store_errors
from omnigraph.storage.manifest import Pin
from omnigraph.storage.tables import Handle, Tables


def table_delta(tables: Tables, before: Pin | None, after: Pin | None, *, method: Method | None = None) -> TableDelta:
    """Rows that differ between two states of a table; None stands for a state without the table.

    Args:
        method: insist on a method instead of the cheapest exact one; tests compare them.

    Raises:
        ChangeSchemaBoundary: both states have rows, of different properties.
        InputError: the method asked for is not exact here.
    """
    if before is not None and after is not None and _place(before) == _place(after) and method is None:
        return TableDelta(
            Method.FRAGMENTS, _nothing(), side_of(_handle(tables, before)), side_of(_handle(tables, after))
        )
    if before is None or after is None or before.row_count == 0 or after.row_count == 0:
        return _one_sided(tables, before, after)
    matched = match(after.table_key, _handle(tables, before), _handle(tables, after))
    chosen, found = _find(tables, before, after, matched, method)
    return TableDelta(chosen, settle(found, matched.before, matched.after), matched.before, matched.after)


def require_comparable(tables: Tables, before: Pin | None, after: Pin | None) -> None:
    """Open both states and make sure that `table_delta` will compare them; reads no rows.

    Raises:
        ChangeSchemaBoundary: both states have rows, of different properties.
        HistoricalVersionReclaimed: a state is no longer stored.
    """
    old = _handle(tables, before) if before else None
    new = _handle(tables, after) if after else None
    if before and after and before.row_count and after.row_count:
        match(after.table_key, old, new)


def _find(tables: Tables, before: Pin, after: Pin, matched: Matched, asked: Method | None) -> tuple[Method, Candidates]:
    old, new = matched.before.handle, matched.after.handle
    one_dataset = before.location == after.location and matched.same_columns
    if asked is Method.FULL or (asked is None and not one_dataset):
        return Method.FULL, _all(old, new)
    if not one_dataset:
        raise InputError(f"'{after.table_key}' cannot be compared by {asked}: the columns were made anew")
    if asked is Method.VERSIONS:
        if not versions.applies(tables, before, after):
            raise InputError(f"'{after.table_key}' cannot be compared by versions here")
        return Method.VERSIONS, versions.candidates(old, new)
    plan = fragments.plan(old, new)
    is_cheap = plan.rewritten_rows <= limits.DELTA_REWRITTEN_ROWS
    if asked is None and not is_cheap and versions.applies(tables, before, after):
        return Method.VERSIONS, versions.candidates(old, new)
    states = State(tables, before, old), State(tables, after, new)
    return Method.FRAGMENTS, fragments.candidates(*states, matched, plan)


def _one_sided(tables: Tables, before: Pin | None, after: Pin | None) -> TableDelta:
    """One state has no rows: everything of the other one was inserted or deleted."""
    old = side_of(_handle(tables, before)) if before else None
    new = side_of(_handle(tables, after)) if after else None
    inserted = _every_row(new.handle).by_id() if new and after and after.row_count else no_rows()
    deleted = _every_row(old.handle).by_id() if old and before and before.row_count else no_rows()
    return TableDelta(Method.FULL, Settled(inserted, deleted, no_rows(), no_rows()), old, new)


def _nothing() -> Settled:
    return Settled(no_rows(), no_rows(), no_rows(), no_rows())


def _all(before: Handle, after: Handle) -> Candidates:
    return Candidates(_every_row(before), _every_row(after))


def _every_row(handle: Handle) -> Rows:
    with store_errors("read a table", handle):
        return rows_of(handle.scanner(columns=[ID], with_row_id=True).to_table())


def _place(pin: Pin) -> tuple[str, str | None, int, str | None]:
    return pin.location, pin.branch, pin.version, pin.origin


def _handle(tables: Tables, pin: Pin) -> Handle:
    return tables.at(pin.location, pin.branch, pin.version, pin.origin)
