"""Which row is which: ids from keys, from the caller, or fresh.

The id of a keyed node is the canonical text of its key; everything else brings its own id or gets a ULID.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.ids import new_ulids
from omnigraph.schema.canonical import canonical_text, composite_id
from omnigraph.schema.catalog import EdgeType, NodeType


def with_ids(type_: NodeType | EdgeType, rows: pa.Table, given: pa.Array | None) -> tuple[pa.Array, bool]:
    """Ids of rows in their stored types, and whether all of them are fresh (no existing row can have one). The rules
    for given ids are in `row_rules.py`."""
    if isinstance(type_, NodeType) and type_.key:
        texts = [canonical_text(rows.column(name).combine_chunks(), type_.properties[name].type) for name in type_.key]
        return (texts[0] if len(texts) == 1 else composite_id(texts)), False
    if given is None:
        return new_ulids(rows.num_rows), True
    return (pc.coalesce(given, new_ulids(rows.num_rows)) if given.null_count else given), False


def key_label(type_: NodeType) -> str:
    """How messages name the key: ``Person.handle`` or ``Person.(a, b)``."""
    return column_label(type_.name, type_.key or ("id",))


def column_label(type_name: str, columns: tuple[str, ...]) -> str:
    return f"{type_name}.{columns[0]}" if len(columns) == 1 else f"{type_name}.({', '.join(columns)})"


def first_true(mask: Any) -> int | None:
    """Position of the first true value of a boolean array."""
    position: int = pc.index(mask, True).as_py()
    return None if position < 0 else position
