"""Changes of nodes and edges as every interface shows them: what happened, and how it looked before and after.

Images hold JSON values: dates and instants as text, blobs as ``base64:…``, everything else as it is. Rows become
objects one batch at a time; `columns` keeps them in Arrow. `ChangeFilter` says which changes a caller wants.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import given
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.ids import did_you_mean
from omnigraph.schema.arrow import instant_texts
from omnigraph.storage.delta import DELETE, INSERT, OPS, UPDATE, ChangeSlice
from omnigraph.storage.tables.row_equality import differing_columns

#: Columns of an edge's table that are its endpoints, by what images call them.
ENDPOINTS = {"from": "src", "to": "dst"}

Image = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EntityChange:
    """One node or edge that was inserted, updated or deleted.

    Attributes:
        kind: ``node`` or ``edge``.
        type: name of the type; a renamed one has its later name.
        id: id of the entity.
        op: ``insert``, ``update`` or ``delete``.
        before: ``{"properties": …}``, for edges also ``{"endpoints": {"from": …, "to": …}}``; None for an insert.
        after: the same; None for a delete.
        changed: properties of an update that differ; ``from`` and ``to`` stand for moved endpoints.
        type_id: opaque; stays when a type is renamed.
    """

    kind: str
    type: str
    id: str
    op: str
    before: Image | None
    after: Image | None
    changed: tuple[str, ...] = ()
    type_id: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form of all interfaces."""
        found: dict[str, Any] = {
            "kind": self.kind,
            "type": {"id": self.type_id, "name": self.type},
            "id": self.id,
            "op": self.op,
        }
        if self.before is not None:
            found["before"] = self.before
        if self.after is not None:
            found["after"] = self.after
        if self.op == UPDATE:
            found["changed"] = list(self.changed)
        return found


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Some changes of one type in order."""

    kind: str
    type: str
    type_id: str
    rows: ChangeSlice

    def __len__(self) -> int:
        return len(self.rows.ids)

    def __iter__(self) -> Iterator[EntityChange]:
        before, after = iter(self._images(self.rows.before)), iter(self._images(self.rows.after))
        changed = iter(self._changed())
        for id_, code in zip(self.rows.ids.to_pylist(), self.rows.ops.tolist(), strict=True):
            op = OPS[code]
            yield EntityChange(
                self.kind,
                self.type,
                id_,
                op,
                None if op == INSERT else next(before),
                None if op == DELETE else next(after),
                next(changed) if op == UPDATE else (),
                self.type_id,
            )

    def columns(self) -> pa.Table:
        """``id``, ``op``, ``changed``, and the images as structs in native types, null where there is none."""
        ops = self.rows.ops
        changed = np.full(len(ops), None, object)
        changed[ops == OPS.index(UPDATE)] = _objects(self._changed())
        return pa.table(
            {
                "id": self.rows.ids,
                "op": pa.array(OPS, pa.string()).take(pa.array(ops)),
                "changed": pa.array(changed, pa.list_(pa.string())),
                "before": _struct(self.rows.before, ops != OPS.index(INSERT)),
                "after": _struct(self.rows.after, ops != OPS.index(DELETE)),
            }
        )

    def _images(self, rows: pa.Table) -> list[Image]:
        edge = self.kind == "edge"
        own = [name for name in rows.column_names if name != "id" and not (edge and name in ENDPOINTS.values())]
        values = [json_values(rows.column(name)) for name in own]
        images = [{"properties": dict(zip(own, row, strict=True))} for row in zip(*values, strict=True)]
        if not own:
            images = [{"properties": {}} for _ in range(rows.num_rows)]
        if edge and rows.num_rows:
            sources, targets = (rows.column(name).to_pylist() for name in ENDPOINTS.values())
            for image, source, target in zip(images, sources, targets, strict=True):
                image["endpoints"] = {"from": source, "to": target}
        return images

    def _changed(self) -> list[tuple[str, ...]]:
        """Names of the differing columns of each update."""
        ops = self.rows.ops
        updates = ops == OPS.index(UPDATE)
        if not updates.any():
            return []
        before = self.rows.before.filter(pa.array(updates[ops != OPS.index(INSERT)]))
        after = self.rows.after.filter(pa.array(updates[ops != OPS.index(DELETE)]))
        words = {column: word for word, column in ENDPOINTS.items()} if self.kind == "edge" else {}
        masks = differing_columns(before, after)
        names = np.array([words.get(name, name) for name in masks], object)
        table = np.column_stack(list(masks.values()))
        return [tuple(names[row]) for row in table]


def json_values(column: pa.ChunkedArray) -> list[Any]:
    """A stored column as JSON values."""
    type_ = column.type
    if pa.types.is_date32(type_):
        column = column.cast(pa.string())
    elif pa.types.is_date64(type_):
        column = _instants(column)
    elif pa.types.is_list(type_) and (pa.types.is_date32(type_.value_type) or pa.types.is_date64(type_.value_type)):
        column = pa.chunked_array([_dated_lists(chunk) for chunk in column.chunks], pa.list_(pa.string()))
    elif pa.types.is_large_binary(type_):
        return [None if each is None else f"base64:{base64.b64encode(each).decode()}" for each in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    items = type_.value_type if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_) else type_
    return [_worded(value) for value in values] if pa.types.is_floating(items) else values


def _worded(value: Any) -> Any:
    """Numbers that JSON has no number for are words; our own writes store none."""
    if isinstance(value, list):
        return [_worded(item) for item in value]
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _instants(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Without a zone, because the zone is known and its database need not be installed."""
    texts = [instant_texts(chunk.view(pa.int64()).view(pa.timestamp("ms"))) for chunk in column.chunks]
    return pa.chunked_array(texts, pa.string())


def _dated_lists(lists: pa.Array) -> pa.Array:
    items = pa.chunked_array([pc.list_flatten(lists)])
    texts = items.cast(pa.string()) if pa.types.is_date32(items.type) else _instants(items)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)]).cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, texts.combine_chunks(), mask=pc.is_null(lists))


def _struct(rows: pa.Table, present: Any) -> pa.Array:
    """Images as one struct column, null where there is none."""
    places = np.full(len(present), -1, np.int64)
    places[present] = np.arange(rows.num_rows)
    positions = pa.array(places, mask=places < 0)
    fields = [field.with_nullable(True) for field in rows.schema]
    columns = [column.combine_chunks().take(positions) for column in rows.columns]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(~present))


def _objects(values: list[tuple[str, ...]]) -> Any:
    found = np.empty(len(values), object)
    found[:] = [list(each) for each in values]
    return found


#: Kinds in their order.
KINDS = ("node", "edge")


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Normal form of a filter: every member sorted and without repetitions; None lets everything through."""

    kinds: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    ops: tuple[str, ...] | None = None

    def wants_table(self, table_key: str) -> bool:
        kind, _, name = table_key.partition(":")
        return (self.kinds is None or kind in self.kinds) and (self.types is None or name in self.types)

    @property
    def wanted_ops(self) -> tuple[str, ...]:
        return OPS if self.ops is None else self.ops

    def require_known_types(self, table_keys: Sequence[str]) -> None:
        """Refuse names of types that no state in question has."""
        known = {key.partition(":")[2] for key in table_keys}
        unknown = next((name for name in self.types or () if name not in known), None)
        if unknown is not None:
            raise TypeNotFound(f"unknown type '{unknown}'", hint=did_you_mean(unknown, known), type=unknown)

    def digest(self) -> str:
        """The same for filters that mean the same; what tokens are bound to."""
        text = json.dumps([self.kinds, self.types, self.ops], separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def change_filter(kinds: Sequence[str] | None, types: Sequence[str] | None, ops: Sequence[str] | None) -> ChangeFilter:
    """Check a filter as a caller gave it."""
    return ChangeFilter(
        _chosen("kind", kinds, KINDS),
        _chosen("type", types, None),
        _chosen("op", ops, OPS),
    )


def _chosen(what: str, asked: Sequence[str] | None, known: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if asked is None:
        return None
    values = given.texts(asked, f"{what}s")
    for value in values:
        if known is not None and value not in known:
            raise InputError(f"{value!r} is no {what} of changes", hint=f"known: {', '.join(known)}")
    if not values:
        raise InputError(f"an empty list of {what}s lets no change through", hint="leave it out to get all of them")
    return tuple(sorted(set(values)))
