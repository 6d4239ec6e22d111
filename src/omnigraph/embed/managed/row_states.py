"""What the vector of each row is: missing, made of the row's text, made of an older one, given, or impossible.

Derived from the row and the ledger alone, so it is right on every branch and at every state, and nothing has to be kept
up to date when rows are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.embed.managed.ledger import GIVEN, FactRows, Facts, id_hashes, text_hashes, vector_hashes
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.ids import did_you_mean
from omnigraph.schema.catalog import Catalog, Embed, NodeType
from omnigraph.storage.objects.native_libraries import store_errors
from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.row_lookup import ROW_ADDRESS


class RowState(IntEnum):
    """The state of the vector of one row.

    Attributes:
        EMPTY: no text and no vector; nothing to do.
        PENDING: a text without a vector.
        READY: the vector was made of the text.
        STALE: the vector was made of, or came with, another text than the row has now.
        FAILED: the text could not be embedded.
        GIVEN: the vector came with the data.
        OTHER_MODEL: the vector was made of the text, by another model than the one that is asked for.
    """

    EMPTY = 0
    PENDING = 1
    READY = 2
    STALE = 3
    FAILED = 4
    GIVEN = 5
    OTHER_MODEL = 6


@dataclass(frozen=True, slots=True)
class ManagedProperty:
    """A vector property with ``@embed``, and the property that it is made of."""

    type: NodeType
    name: str
    embed: Embed
    dimension: int
    nullable: bool

    @property
    def label(self) -> str:
        return f"{self.type.name}.{self.name}"


def managed_properties(catalog: Catalog, types: list[str] | None = None) -> list[ManagedProperty]:
    """The vector properties of some types that follow a text; of all types when none is named.

    Raises:
        TypeNotFound: there is no such type of nodes.
        InputError: a type that is named has none.
    """
    for name in types or ():
        if name not in catalog.nodes:
            raise TypeNotFound(f"there is no type '{name}'", hint=did_you_mean(name, catalog.nodes), type=name)
    found = [
        ManagedProperty(node, name, declared.embed, declared.type.dimension or 0, declared.type.nullable)
        for node in catalog.nodes.values()
        if types is None or node.name in types
        for name, declared in node.properties.items()
        if declared.embed is not None
    ]
    without = sorted(set(types or ()) - {each.type.name for each in found})
    if without:
        raise InputError(
            f"{without[0]} has no vector that is made of a text",
            hint='declare one, such as vec: Vector(384)? @embed("body")',
        )
    return found


@dataclass(frozen=True, slots=True)
class TextRows:
    """Some rows of a table, with the hashes that facts are about.

    Attributes:
        has_text: rows with a text that is not blank.
        facts: with 0 for the hash of what a row does not have.
        fragments: the fragment of the table that each row lies in.
    """

    ids: pa.Array
    texts: pa.Array
    has_text: npt.NDArray[np.bool_]
    has_vector: npt.NDArray[np.bool_]
    facts: FactRows
    fragments: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, batch: pa.RecordBatch, target: ManagedProperty) -> TextRows:
        """From rows as the table has them, with their addresses."""
        ids, vectors = batch.column("id"), batch.column(target.name)
        texts = batch.column(target.embed.source).cast(pa.string())
        written = pc.greater(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0).fill_null(False)
        has_vector = np.asarray(vectors.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        hashed = np.zeros(len(ids), np.int64)
        if has_vector.any():
            known = vectors.drop_null().flatten().to_numpy(zero_copy_only=False)
            hashed[has_vector] = vector_hashes(known.reshape(-1, vectors.type.list_size).astype(np.float32))
        facts = FactRows(id_hashes(ids), text_hashes(texts.fill_null("")), hashed, np.full(len(ids), GIVEN, np.int32))
        has_text = np.asarray(written.to_numpy(zero_copy_only=False), np.bool_)
        fragments = np.asarray(batch.column(ROW_ADDRESS).to_numpy(), np.uint64) >> np.uint64(32)
        return cls(ids, texts, has_text, has_vector, facts, fragments)

    @classmethod
    def joined(cls, parts: Sequence[TextRows]) -> TextRows:
        """All rows of several, in their order."""
        return cls(
            pa.concat_arrays([part.ids for part in parts]),
            pa.concat_arrays([part.texts for part in parts]),
            np.concatenate([part.has_text for part in parts]),
            np.concatenate([part.has_vector for part in parts]),
            FactRows.joined([part.facts for part in parts]),
            np.concatenate([part.fragments for part in parts]),
        )

    def take(self, rows: npt.NDArray[np.int64]) -> TextRows:
        """Some of the rows."""
        places = pa.array(rows)
        return TextRows(
            self.ids.take(places),
            self.texts.take(places),
            self.has_text[rows],
            self.has_vector[rows],
            self.facts.take(rows),
            self.fragments[rows],
        )


def batches_of(
    handle: LanceTable, target: ManagedProperty, fragments: Sequence[int] | None = None
) -> Iterator[TextRows]:
    """All rows of a table at one state, batch by batch; of some fragments only if they are given."""
    with store_errors("read texts and vectors", handle):
        chosen = None if fragments is None else [handle.get_fragment(number) for number in fragments]
        if chosen == [] or not handle.get_fragments():
            return
        columns = ["id", target.embed.source, target.name]
        for batch in handle.scanner(columns=columns, fragments=chosen, with_row_address=True).to_reader():
            yield TextRows.of(batch, target)


@dataclass(frozen=True, slots=True)
class BatchStates:
    """The states of some rows.

    Attributes:
        states: a `RowState` for each row.
        failures: of failed rows the place of the reason in ``reasons``; -1 for others.
    """

    states: npt.NDArray[np.int8]
    failures: npt.NDArray[np.int32]
    reasons: list[str]

    def are(self, *wanted: RowState) -> npt.NDArray[np.bool_]:
        return np.isin(self.states, wanted)


def states_of(batch: TextRows, facts: Facts, target: ManagedProperty, model: str | None) -> BatchStates:
    """The state of each row.

    Args:
        model: the one whose vectors are wanted; None for any.
    """
    rows, written, there = batch.facts, batch.has_text, batch.has_vector
    made, others = np.zeros(len(there), np.bool_), np.zeros(len(there), np.bool_)
    for each in facts.models():
        by_model = facts.made_by(each, rows)
        made |= by_model if model in (None, each) else False
        others |= by_model if model not in (None, each) else False
    states = np.full(len(there), RowState.EMPTY, np.int8)
    states[written & ~there] = RowState.PENDING
    outdated = facts.knows_vector(rows) & ~facts.made_by(None, rows) & (written | target.nullable)
    states[there] = np.where(outdated[there], RowState.STALE, RowState.GIVEN)
    states[there & written & others] = RowState.OTHER_MODEL
    states[there & written & made] = RowState.READY
    waiting = np.flatnonzero(np.isin(states, (RowState.PENDING, RowState.STALE)) & written)
    failures = np.full(len(there), -1, np.int32)
    failures[waiting], reasons = facts.failures(model, target.dimension, rows.take(waiting))
    states[failures >= 0] = RowState.FAILED
    return BatchStates(states, failures, reasons)
