"""Makes the vectors that a branch lacks: reads, asks the provider, keeps what it answered, commits, and goes on.

Every answer is durable in the ledger before the next request goes out, so a run that is killed anywhere pays at most
for the request in flight a second time. Each commit is small and stands for itself; running again does the rest. Rows
are read from the state that the branch had at the beginning, and every commit looks at the texts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import failpoints, limits
from omnigraph.embed.embedder import Embedder, in_requests, require_model
from omnigraph.embed.managed.ask_provider import Answered, Asker, EmbedEngine, TextRequest, made_of
from omnigraph.embed.managed.embed_result import EmbedResult
from omnigraph.embed.managed.ledger import FactLedger, no_facts
from omnigraph.embed.managed.put_vectors import NewVectors, VectorWriter
from omnigraph.embed.managed.row_states import (
    ManagedProperty,
    RowState,
    TextRows,
    batches_of,
    managed_properties,
    states_of,
)
from omnigraph.embed.managed.settled_parts import TableParts
from omnigraph.embed.vector_rules import Vectors
from omnigraph.errors import EmbeddingModelMismatch
from omnigraph.progress import ProgressListener, Stage
from omnigraph.schema.catalog import Scalar
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.graph_store import GraphStore

#: The engine for a number of rows that may need a vector.
EmbedEngines: TypeAlias = Callable[[GraphStore, int], EmbedEngine]


@dataclass(frozen=True, slots=True)
class EmbedRequest:
    """What a run may do.

    Attributes:
        limit: most rows that get a vector.
        budget: most characters that are sent.
        rows: rows of one commit.
        reembed: also rows whose vector was given, or made by another model.
        retry_failed: also rows whose text was refused before.
    """

    branch: str
    types: list[str] | None = None
    limit: int | None = None
    budget: int | None = None
    rows: int = limits.EMBEDDING_COMMIT_ROWS
    reembed: bool = False
    retry_failed: bool = False
    actor: str | None = None


def embed_graph(
    store: GraphStore,
    schemas: SchemaRegistry,
    request: EmbedRequest,
    embedder: Embedder,
    engines: EmbedEngines,
    report: ProgressListener,
) -> EmbedResult:
    """Embed the texts of a branch that have no vector of their own.

    Raises:
        EmbeddingModelMismatch: a property declares another model, or has vectors of another one.
        EmbeddingError: the provider failed; what it had answered before is committed.
    """
    snapshot = store.snapshot(request.branch)
    targets = managed_properties(schemas.of(store.named(snapshot)).catalog, request.types)
    store.permit(target.type.table_key for target in targets)
    for target in targets:
        require_model(target.embed.model, embedder, target.label)
    tally = _Tally(request)
    with Stage("embed", report, {}) as stage:
        for target in targets:
            if not tally.stopped:
                _PropertyRun(store, schemas, request, embedder, engines, target, tally, stage).run()
    return tally.result(embedder.model)


@dataclass(slots=True)
class _Tally:
    """What a run did so far, and what it may still do."""

    request: EmbedRequest
    embedded: int = 0
    reused: int = 0
    cleared: int = 0
    failed: int = 0
    skipped: int = 0
    characters: int = 0
    commits: list[str] = field(default_factory=list)
    stopped: str | None = None
    engine: str = "embedded"

    @property
    def rows_left(self) -> int | None:
        limit = self.request.limit
        return None if limit is None else limit - self.embedded - self.reused - self.failed

    def may_send(self, texts: list[str]) -> bool:
        wanted = self.characters + sum(map(len, texts))
        return self.request.budget is None or wanted <= self.request.budget

    def result(self, model: str) -> EmbedResult:
        return EmbedResult(
            self.request.branch,
            model,
            self.embedded,
            self.reused,
            self.cleared,
            self.failed,
            self.skipped,
            self.characters,
            tuple(self.commits),
            self.stopped,
            self.engine,
        )


class _PropertyRun:
    """One vector property of a branch."""

    def __init__(
        self,
        store: GraphStore,
        schemas: SchemaRegistry,
        request: EmbedRequest,
        embedder: Embedder,
        engines: EmbedEngines,
        target: ManagedProperty,
        tally: _Tally,
        stage: Stage,
    ) -> None:
        self._request = request
        self._embedder = embedder
        self._target = target
        self._tally = tally
        self._stage = stage
        pin = store.snapshot(request.branch).pins[target.type.table_key]
        self._handle = store.table(pin)
        self._ledger = FactLedger(store.location, pin.location)
        self._facts = self._ledger.read()
        looks_again = request.reembed or request.retry_failed
        self._parts = TableParts.of(self._handle, target, embedder.model)
        self._unsettled = self._parts.outside(set() if looks_again else self._facts.settled)
        self._touched: set[int] = set()
        self._writer = VectorWriter(store, schemas, request.branch, request.actor, target)
        has_blobs = any(each.type.scalar is Scalar.BLOB for each in target.type.properties.values())
        self._rows = min(request.rows, limits.DELTA_BLOB_BATCH_ROWS) if has_blobs else request.rows
        self._engine = engines(store, self._candidates())
        self._at_once = self._engine.rows_at_once(self._rows, target.dimension)

    def _candidates(self) -> int:
        """At most so many rows get a vector."""
        rows = sum(int(self._handle.get_fragment(number).count_rows()) for number in self._unsettled)
        left = self._tally.rows_left
        return rows if left is None else min(rows, left)

    def run(self) -> None:
        self._require_one_model()
        for batch in self._wanted():
            self._tally.engine = self._engine.name
            self._embed(batch)
            self._stage.rows = self._tally.embedded + self._tally.reused
            self._stage.tell()
            if self._tally.stopped:
                break
        if self._tally.stopped:
            return
        self._note_settled()
        kept = [file for file in self._facts.files if file.values is not None]
        if kept:  # the run came to its end, so nobody waits for these vectors any more
            self._ledger.fold(kept)
        self._ledger.fold_many(self._ledger.read())

    def _require_one_model(self) -> None:
        """Refuse to put vectors of two models side by side, before the first of them is made."""
        others = self._facts.models() - {self._embedder.model}
        if self._request.reembed or not others:
            return
        for batch in batches_of(self._handle, self._target, self._unsettled):
            found = states_of(batch, self._facts, self._target, self._embedder.model)
            if found.are(RowState.OTHER_MODEL).any():
                other = batch.facts.take(np.flatnonzero(found.are(RowState.OTHER_MODEL)))
                named = next(model for model in sorted(others) if self._facts.made_by(model, other).any())
                raise EmbeddingModelMismatch(
                    f"{self._target.label} holds vectors of model '{named}', and the configured model is "
                    f"'{self._embedder.model}'",
                    hint="set OMNIGRAPH_EMBED_MODEL to it, or make them all again with reembed=True",
                    property=self._target.label,
                    declared=named,
                    configured=self._embedder.model,
                )

    def _wanted(self) -> Iterator[TextRows]:
        """Rows that need a vector, as many at a time as the engine wants, from as many fragments as that needs."""
        held: list[TextRows] = []
        count = size = 0
        for rows in self._found():
            start = 0
            while start < len(rows.ids):
                room = self._room()
                if not room:
                    self._tally.stopped = "limit"
                    return
                end = min(start + room - count, len(rows.ids))
                held.append(rows.take(np.arange(start, end)))
                start, count = end, count + end - start
                size += held[-1].texts.nbytes
                if count == room or size > limits.EMBEDDING_TEXT_BYTES:
                    yield TextRows.joined(held)
                    held, count, size = [], 0, 0
        if held:
            yield TextRows.joined(held)

    def _room(self) -> int:
        """Rows that may be asked for next."""
        left = self._tally.rows_left
        return self._at_once if left is None else max(0, min(self._at_once, left))

    def _found(self) -> Iterator[TextRows]:
        """Rows that need a vector, batch by batch as they are read. Notes what was given with the data."""
        wanted = [RowState.PENDING, RowState.STALE]
        wanted += [RowState.FAILED] if self._request.retry_failed else []
        wanted += [RowState.GIVEN, RowState.OTHER_MODEL] if self._request.reembed else []
        for batch in batches_of(self._handle, self._target, self._unsettled):
            found = states_of(batch, self._facts, self._target, self._embedder.model)
            self._note_given(batch, found.are(RowState.GIVEN))
            chosen = np.flatnonzero(found.are(*wanted) & (batch.has_text | found.are(RowState.STALE)))
            self._touched.update(np.unique(batch.fragments[chosen]).tolist())
            yield batch.take(chosen)

    def _note_given(self, batch: TextRows, given: npt.NDArray[np.bool_]) -> None:
        """Remember with which text a vector came, so that it is known when the text changes."""
        if self._request.reembed:
            return
        new = np.flatnonzero(given & batch.has_text & ~self._facts.made_by(None, batch.facts))
        if len(new):
            self._ledger.add(None, self._target.dimension, batch.facts.take(new))

    def _note_settled(self) -> None:
        """Remember the parts of the table in which nothing was to be done, so that no run reads them again."""
        settled = self._parts.numbers_of(number for number in self._unsettled if number not in self._touched)
        if len(settled):
            self._ledger.add(self._embedder.model, self._target.dimension, no_facts(), settled=settled)

    def _embed(self, batch: TextRows) -> None:
        """Make the vectors of one batch and commit them; also those that were made before a provider failed."""
        made = Answered(self._facts.kept_vectors(self._embedder.model, self._target.dimension, batch.facts))
        self._tally.reused += len(made.vectors)
        missing = [place for place in np.flatnonzero(batch.has_text).tolist() if place not in made.vectors]
        cleared = np.flatnonzero(~batch.has_text).tolist()
        try:
            self._ask(self._requests(batch, missing), made)
        finally:
            self._commit(batch, made, cleared)

    def _requests(self, batch: TextRows, places: list[int]) -> list[TextRequest]:
        """What goes out for some rows, as far as the budget reaches."""
        texts: list[str] = batch.texts.take(pa.array(places, pa.int64())).to_pylist()
        requests: list[TextRequest] = []
        start = 0
        for part in in_requests(texts, self._embedder.settings.patience.batch):
            if not self._tally.may_send(list(part)):
                self._tally.stopped = "budget"
                break
            self._tally.characters += sum(map(len, part))
            rows = places[start : start + len(part)]
            start += len(part)
            requests.append(TextRequest(rows, list(part), batch.facts.take(np.array(rows))))
        return requests

    def _ask(self, requests: list[TextRequest], made: Answered) -> None:
        asker = Asker(self._embedder, self._ledger, self._target.dimension, bool(self._tally.embedded))
        for answered in self._engine.answers(asker, requests) if requests else ():
            made.vectors |= answered.vectors
            made.files += answered.files
            self._tally.embedded += len(answered.vectors)
            self._tally.failed += answered.failed

    def _commit(self, batch: TextRows, made: Answered, cleared: list[int]) -> None:
        places = [*made.vectors, *cleared]
        for start in range(0, len(places), self._rows):
            self._put(batch, places[start : start + self._rows], made)
        self._ledger.remove(made.files)

    def _put(self, batch: TextRows, places: list[int], made: Answered) -> None:
        """One commit: rows that get a vector, then rows that lose theirs."""
        vectors = [made.vectors[place] for place in places if place in made.vectors]
        cleared = len(places) - len(vectors)
        values = np.stack(vectors) if vectors else np.empty((0, self._target.dimension), np.float32)
        chosen = batch.take(np.array(places))
        done = self._writer.put(NewVectors(chosen.ids, chosen.texts, _column(values, cleared, self._target.dimension)))
        failpoints.reach("embed.after_commit")
        if done.commit is not None:
            self._tally.commits.append(done.commit.id)
        self._tally.cleared += cleared
        self._tally.skipped += len(places) - done.report
        if vectors:
            facts = made_of(chosen.facts.take(np.arange(len(vectors))), values)
            self._ledger.add(self._embedder.model, self._target.dimension, facts)
            failpoints.reach("embed.after_facts")


def _column(values: Vectors, nulls: int, dimension: int) -> pa.Array:
    """Vectors, then nulls, as Arrow."""
    flat = pa.array(np.ascontiguousarray(values, np.float32).reshape(-1), pa.float32())
    known = pa.FixedSizeListArray.from_arrays(flat, dimension)
    return pa.concat_arrays([known, pa.nulls(nulls, known.type)])
