"""How many rows of each vector property have the vector of their text, and how many do not, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from omnigraph.embed.managed.ledger import FactLedger
from omnigraph.embed.managed.row_states import ManagedProperty, RowState, batches_of, managed_properties, states_of
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """The vectors of one property at one state.

    Attributes:
        pending: rows with a text and no vector.
        ready: rows whose vector was made of their text.
        stale: rows whose text changed since their vector was made.
        failed: rows whose text could not be embedded; ``reasons`` counts them by why.
        given: rows whose vector came with the data.
        models: how many of the ready rows each model made.
    """

    type: str
    property: str
    source: str
    pending: int
    ready: int
    stale: int
    failed: int
    given: int
    reasons: Mapping[str, int]
    models: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        figures = {name: getattr(self, name) for name in ("pending", "ready", "stale", "failed", "given")}
        named = {"type": self.type, "property": self.property, "source": self.source}
        return {**named, **figures, "reasons": dict(self.reasons), "models": dict(self.models)}


def embedding_statuses(store: GraphStore, snapshot: ManifestSnapshot, catalog: Catalog) -> tuple[EmbeddingStatus, ...]:
    """The state of every vector property that follows a text. Reads ids, texts and vectors of their tables."""
    return tuple(_status(store, snapshot, target) for target in managed_properties(catalog))


def _status(store: GraphStore, snapshot: ManifestSnapshot, target: ManagedProperty) -> EmbeddingStatus:
    pin = snapshot.pins[target.type.table_key]
    facts = FactLedger(store.location, pin.location).read()
    counts = np.zeros(len(RowState), np.int64)
    reasons: dict[str, int] = {}
    models: dict[str, int] = {}
    for batch in batches_of(store.table(pin), target):
        found = states_of(batch, facts, target, target.embed.model)
        counts += np.bincount(found.states, minlength=len(RowState))
        for place, reason in enumerate(found.reasons):
            number = int((found.failures == place).sum())
            if number:
                reasons[reason] = reasons.get(reason, 0) + number
        ready = batch.facts.take(np.flatnonzero(found.are(RowState.READY)))
        for model in facts.models():
            number = int(facts.made_by(model, ready).sum())
            if number:
                models[model] = models.get(model, 0) + number
    return EmbeddingStatus(
        target.type.name,
        target.name,
        target.embed.source,
        pending=int(counts[RowState.PENDING]),
        ready=int(counts[RowState.READY]),
        stale=int(counts[RowState.STALE] + counts[RowState.OTHER_MODEL]),
        failed=int(counts[RowState.FAILED]),
        given=int(counts[RowState.GIVEN]),
        reasons=reasons,
        models=dict(sorted(models.items())),
    )
