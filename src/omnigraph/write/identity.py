"""Which row is which: ids from keys, from the caller, or fresh.

The id of a keyed node is the canonical text of its key; everything else brings its own id or gets a ULID.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import IdMismatch, InvalidRow, MissingValue
from omnigraph.schema.canonical import canonical_text, composite_id
from omnigraph.schema.catalog import EdgeType, NodeType

_ALPHABET = np.frombuffer(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ", np.uint8)


def fresh_ids(count: int) -> pa.Array:
    """That many ULIDs, made column-wise."""
    moment = time.time_ns() // 1_000_000
    text = np.empty((count, 26), np.uint8)
    text[:, :10] = _ALPHABET[[(moment >> shift) & 31 for shift in range(45, -1, -5)]]
    entropy = np.frombuffer(secrets.token_bytes(16 * count), np.uint8).reshape(count, 16)
    text[:, 10:] = _ALPHABET[entropy & 31]
    offsets = pa.py_buffer(np.arange(0, 26 * (count + 1), 26, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), count, [None, offsets, pa.py_buffer(text)])


def with_ids(type_: NodeType | EdgeType, rows: pa.Table, given: pa.Array | None) -> tuple[pa.Array, bool]:
    """Ids of conformed rows, and whether all of them are fresh (no existing row can have one)."""
    if isinstance(type_, NodeType) and type_.key:
        ids = _key_ids(type_, rows)
        if given is not None:
            _require_agreement(type_, ids, given)
        return ids, False
    if given is None:
        return fresh_ids(rows.num_rows), True
    _refuse_blank(type_, given)
    if given.null_count:
        given = pc.coalesce(given, fresh_ids(rows.num_rows))
    return given, False


def key_label(type_: NodeType) -> str:
    """How messages name the key: ``Person.handle`` or ``Person.(a, b)``."""
    return column_label(type_.name, type_.key or ("id",))


def column_label(type_name: str, columns: tuple[str, ...]) -> str:
    return f"{type_name}.{columns[0]}" if len(columns) == 1 else f"{type_name}.({', '.join(columns)})"


def _key_ids(type_: NodeType, rows: pa.Table) -> pa.Array:
    texts = []
    for name in type_.key or ():
        column = rows.column(name).combine_chunks()
        if column.null_count:
            raise MissingValue(f"node {type_.name} missing @key property '{name}'", type=type_.name, property=name)
        texts.append(canonical_text(column, type_.properties[name].type))
    return texts[0] if len(texts) == 1 else composite_id(texts)


def _require_agreement(type_: NodeType, ids: pa.Array, given: pa.Array) -> None:
    differs = pc.fill_null(pc.not_equal(ids, given), False)
    row = first_true(differs)
    if row is not None:
        raise IdMismatch(
            f"node {type_.name} explicit id '{given[row]}' does not match its canonical @key id '{ids[row]}'",
            type=type_.name,
            row=row,
        )


def _refuse_blank(type_: NodeType | EdgeType, given: pa.Array) -> None:
    row = first_true(pc.equal(given, ""))
    if row is not None:
        raise InvalidRow(f"{type_.table_key} has an empty id", type=type_.name, row=row)


def first_true(mask: Any) -> int | None:
    """Position of the first true value of a boolean array."""
    position: int = pc.index(mask, True).as_py()
    return None if position < 0 else position
