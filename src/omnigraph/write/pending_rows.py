"""The rows of one type as the statements of a mutation leave them, on top of the stored ones.

A row that was put hides the stored row with its id, so later statements see what earlier ones did. Inserts are kept as
plain values, one per statement, until somebody has to look at them; everything else is Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.canonical import canonical_text
from omnigraph.schema.catalog import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.storage.tables.datasets import Handle
from omnigraph.storage.tables.filters import ColumnFilter, equals
from omnigraph.storage.tables.row_lookup import find_rows, select_rows
from omnigraph.write.change import Change, Mode
from omnigraph.write.identity import with_ids
from omnigraph.write.stored_values import column

_TEXT = PropertyType(Scalar.STRING)
_POSITION = "#"  # no property can be called so


class PendingRows:
    """Pending changes of one type.

    Args:
        handle: the table as it is stored.
    """

    def __init__(self, type_: NodeType | EdgeType, handle: Handle) -> None:
        self.type = type_
        self._handle = handle
        self._schema = table_schema(type_)
        self._inserted: list[Mapping[str, Any]] = []
        self._rows = self._schema.empty_table()  # final images, each id once
        self._removed = pa.array([], pa.string())
        self._replaces_stored = False

    def insert(self, values: Mapping[str, Any]) -> None:
        """Put one row of stored values; what is not named is null. A row with the same key is replaced as a whole."""
        self._inserted.append(values)

    def update(self, filter_: ColumnFilter, values: Mapping[str, pa.Array]) -> int:
        """Give every matching row new values, one-element arrays by column; returns how many there are."""
        self._gather()
        matching = _matching(self._rows, filter_)
        stored = self._stored(self._schema.names, filter_)
        stored = stored.filter(pc.invert(pc.is_in(stored.column("id"), value_set=_ids(self._rows))))
        if stored.num_rows:
            self._replaces_stored = True
        touched = pa.concat_tables([self._rows.filter(matching), stored])
        first = pa.array(np.zeros(touched.num_rows, np.int8))
        for name, value in values.items():
            position = self._schema.get_field_index(name)
            touched = touched.set_column(position, self._schema.field(position), value.take(first))
        self._rows = pa.concat_tables([self._rows.filter(pc.invert(matching)), touched])
        return int(touched.num_rows)

    def remove(self, filter_: ColumnFilter) -> pa.Array:
        """Remove every matching row; returns the ids of those that were still there."""
        return self._forget(_ids(self._stored(["id"], filter_)))

    def remove_touching(self, end: str, nodes: pa.Array) -> int:
        """Remove every edge that has one of the nodes at this end; returns how many were still there."""
        return len(self._forget(_ids(find_rows(self._handle, nodes, end, ("id",)))))

    def change(self) -> Change | None:
        """What is to be written; None when nothing happened."""
        self._gather()
        key = self.type.table_key
        if len(self._removed):
            return Change(key, remove=self._removed, reads_rows=True)
        if self._rows.num_rows == 0:
            return None
        if isinstance(self.type, NodeType) and self.type.key:
            return Change(key, self._rows.drop_columns("id"), Mode.MERGE, reads_rows=self._replaces_stored)
        if self._replaces_stored:
            return Change(key, self._rows, Mode.MERGE, reads_rows=True)
        return Change(key, self._rows.drop_columns("id"), Mode.APPEND)

    def _stored(self, columns: list[str], filter_: ColumnFilter) -> pa.Table:
        filter_ = self._by_id(filter_)
        found = select_rows(self._handle, columns, filter_, limits.MUTATION_BYTES).select(columns)
        return found.cast(pa.schema([self._schema.field(name) for name in columns]))

    def _by_id(self, filter_: ColumnFilter) -> ColumnFilter:
        """Looking up a key goes through the index on id."""
        key = self.type.key if isinstance(self.type, NodeType) else None
        if filter_.equal_to is None or key != (filter_.column,):
            return filter_
        text = canonical_text(pa.repeat(filter_.equal_to, 1), self.type.properties[filter_.column].type)
        return ColumnFilter("id", equals("id", text[0].as_py()))

    def _gather(self) -> None:
        """Turn the inserts since the last look into rows."""
        if not self._inserted:
            return
        names = self._schema.names[1:]
        properties = self.type.properties
        columns = {
            name: column(
                properties[name].type if name in properties else _TEXT, [values.get(name) for values in self._inserted]
            )
            for name in names
        }
        self._inserted = []
        ids, is_fresh = with_ids(self.type, pa.table(columns), None)
        rows = pa.table([ids, *columns.values()], schema=self._schema)
        self._rows = pa.concat_tables([self._rows, rows])
        if not is_fresh:
            self._rows = _last_of_each_id(self._rows)

    def _forget(self, ids: pa.Array) -> pa.Array:
        gone = pc.unique(ids)
        gone = gone.filter(pc.invert(pc.is_in(gone, value_set=self._removed)))
        self._removed = pa.concat_arrays([self._removed, gone])
        return gone


def _matching(rows: pa.Table, filter_: ColumnFilter) -> pa.Array:
    """Which rows pass, as a mask."""
    mask = np.zeros(rows.num_rows, bool)
    numbered = pa.table({filter_.column: rows.column(filter_.column), _POSITION: pa.array(np.arange(rows.num_rows))})
    mask[numbered.filter(filter_.expression).column(_POSITION).to_numpy()] = True
    return pa.array(mask)


def _last_of_each_id(rows: pa.Table) -> pa.Table:
    ids = _ids(rows)
    if len(pc.unique(ids)) == len(ids):
        return rows
    positions = pa.table({"id": ids, "row": pa.array(np.arange(len(ids)))})
    last = positions.group_by("id").aggregate([("row", "max")]).column("row_max")
    return rows.take(last.combine_chunks().sort())


def _ids(rows: pa.Table) -> pa.Array:
    return rows.column("id").combine_chunks()
