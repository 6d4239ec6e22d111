"""Checks on the rows of a branch: ids, keys, values, unique tuples, endpoints, cardinality.

Rows are streamed and become hashes; only those are held, a bounded number at a time. Whatever looks wrong by its
hash is read again as text before it is called a problem.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import InvalidRow
from omnigraph.schema.canonical import canonical_text, composite_id
from omnigraph.schema.catalog import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.storage.inspect import stream
from omnigraph.storage.tables import Handle
from omnigraph.text_hash import TextHashes, hash_texts
from omnigraph.write.rows import check_values

Type: TypeAlias = NodeType | EdgeType

_TEXT = PropertyType(Scalar.STRING)
_SECRET = secrets.randbits(64)  # nobody can choose texts that collide


@dataclass(frozen=True, slots=True)
class Texts:
    """One text per row of a table, null where the rule does not look at the row."""

    columns: tuple[str, ...]
    of: Callable[[pa.RecordBatch], pa.Array]

    def batches(self, handle: Handle) -> Iterator[pa.Array]:
        for batch in stream(handle, self.columns):
            yield self.of(batch).drop_null()


@dataclass(frozen=True, slots=True)
class Wrong:
    """Rows that break a rule: how many, and a few of them."""

    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"'{example}'" for example in self.examples)
        return shown if self.count <= len(self.examples) else f"{shown} and {self.count - len(self.examples)} more"


def column_text(name: str) -> Texts:
    """The texts of one column of text."""
    return Texts((name,), lambda batch: batch.column(name))


def tuple_text(type_: Type, columns: tuple[str, ...]) -> Texts:
    """One text per row that is equal exactly for equal tuples; null where any column is null."""

    def of(batch: pa.RecordBatch) -> pa.Array:
        texts = [canonical_text(batch.column(name), _type_of(type_, name)) for name in columns]
        return texts[0] if len(texts) == 1 else composite_id(texts)

    return Texts(columns, of)


def _type_of(type_: Type, column: str) -> PropertyType:
    found = type_.properties.get(column)
    return found.type if found else _TEXT  # src and dst


def parts_of(rows: int) -> int:
    """In how many parts a table of so many rows is looked at."""
    return max(1, -(-rows // limits.VERIFY_PART_ROWS))


def collect(handle: Handle, texts: Texts, part: int = 0, parts: int = 1) -> TextHashes:
    """The hashes of one part of a table, in ascending order."""
    found = [_of_part(hash_texts(batch, _SECRET), part, parts) for batch in texts.batches(handle)]
    return np.sort(np.concatenate(found)) if found else np.empty(0, np.int64)


def _of_part(values: TextHashes, part: int, parts: int) -> TextHashes:
    return values if parts == 1 else values[values % parts == part]


def repeated(handle: Handle, texts: Texts, known: TextHashes) -> Wrong | None:
    """Texts that occur more than once; ``known`` are the sorted hashes of (a part of) the table."""
    suspects = np.unique(known[1:][known[1:] == known[:-1]])
    counts = _exact_counts(handle, texts, suspects)
    return _wrong(counts.field("values").filter(pc.greater(counts.field("counts"), 1)))


def outside(handle: Handle, texts: Texts, known: TextHashes, low: int, high: int | None) -> Wrong | None:
    """Texts that occur, but less often than ``low`` or more often than ``high``."""
    values, times = np.unique(known, return_counts=True)
    most = np.iinfo(np.int64).max if high is None else high
    counts = _exact_counts(handle, texts, values[(times < low) | (times > most)])
    wrong = pc.or_(pc.less(counts.field("counts"), low), pc.greater(counts.field("counts"), most))
    return _wrong(counts.field("values").filter(wrong))


def missing(handle: Handle, texts: Texts, known: TextHashes, part: int, parts: int) -> Wrong | None:
    """Texts that are not among the known ones; ``known`` are the sorted hashes of one part."""
    lost: list[pa.Array] = []
    count = 0
    for batch in texts.batches(handle):
        values = hash_texts(batch, _SECRET)
        places = np.minimum(np.searchsorted(known, values), max(len(known) - 1, 0))
        is_lost = known[places] != values if len(known) else np.ones(len(values), bool)
        if parts > 1:
            is_lost &= values % parts == part
        if is_lost.any():
            count += int(is_lost.sum())
            lost.append(pc.unique(batch.filter(pa.array(is_lost)))[: limits.VERIFY_EXAMPLES])
    if not lost:
        return None
    return Wrong(count, tuple(pc.unique(pa.concat_arrays(lost)).sort().to_pylist()[: limits.VERIFY_EXAMPLES]))


def wrong_keys(handle: Handle, node: NodeType) -> Wrong | None:
    """Nodes whose id is not the text of their key."""
    if node.key is None:
        return None
    key = tuple_text(node, node.key)
    count, examples = 0, []
    for batch in stream(handle, ("id", *node.key)):
        differs = pc.fill_null(pc.not_equal(batch.column("id"), key.of(batch)), True)
        found = batch.column("id").filter(differs)
        count += len(found)
        examples += found[: limits.VERIFY_EXAMPLES].to_pylist()
    return Wrong(count, tuple(examples[: limits.VERIFY_EXAMPLES])) if count else None


def ruled_columns(type_: Type) -> tuple[str, ...]:
    """The properties whose single values have a rule."""
    enums = {name for name, found in type_.properties.items() if found.type.enum_values is not None}
    if isinstance(type_, EdgeType):
        return tuple(sorted(enums))
    return tuple(sorted(enums | {rule.property for rule in type_.ranges} | {rule.property for rule in type_.checks}))


def wrong_value(handle: Handle, type_: Type) -> str | None:
    """The first value that breaks ``@range``, ``@check`` or an enum, in the words in which a write is refused."""
    for batch in stream(handle, ruled_columns(type_)):
        try:
            check_values(type_, {name: batch.column(name) for name in batch.schema.names})
        except InvalidRow as error:
            return error.message
    return None


def _exact_counts(handle: Handle, texts: Texts, suspects: TextHashes) -> pa.StructArray:
    """How often each suspicious text really occurs."""
    suspects = suspects[: limits.VERIFY_SUSPECTS]
    found = []
    if len(suspects):
        for batch in texts.batches(handle):
            found.append(batch.filter(pa.array(np.isin(hash_texts(batch, _SECRET), suspects))))
    return pc.value_counts(pa.concat_arrays(found) if found else pa.array([], pa.string()))


def _wrong(texts: pa.Array) -> Wrong | None:
    if len(texts) == 0:
        return None
    return Wrong(len(texts), tuple(texts.sort()[: limits.VERIFY_EXAMPLES].to_pylist()))
