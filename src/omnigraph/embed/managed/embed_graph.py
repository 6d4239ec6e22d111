"""Makes the vectors that a branch lacks: reads, asks the provider, keeps what it answered, commits, and goes on.

Every answer is durable in the ledger before the next request goes out, so a run that is killed anywhere pays at most
for the request in flight a second time. Each commit is small and stands for itself; running again does the rest. Rows
are read from the state that the branch had at the beginning, and every commit looks at the texts again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph import failpoints, limits
from omnigraph.embed.embedder import Embedder, in_requests, require_model
from omnigraph.embed.managed.embed_result import EmbedResult
from omnigraph.embed.managed.ledger import (
    FIRST_REASON,
    MADE,
    FactLedger,
    FactRows,
    no_facts,
    vector_hashes,
)
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
from omnigraph.errors import EmbeddingError, EmbeddingModelMismatch, InvalidEmbedding, ProviderRefused
from omnigraph.progress import ProgressListener, Stage
from omnigraph.schema.catalog import Scalar
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.graph_store import GraphStore

#: Statuses by which a provider refuses a text rather than whoever asks.
_ABOUT_THE_TEXT = frozenset({400, 413, 422})


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
    store: GraphStore, schemas: SchemaRegistry, request: EmbedRequest, embedder: Embedder, report: ProgressListener
) -> EmbedResult:
    """Embed the texts of a branch that have no vector of their own.

    Raises:
        EmbeddingModelMismatch: a property declares another model, or has vectors of another one.
        EmbeddingError: the provider failed; what it had answered before is committed.
    """
    snapshot = store.snapshot(request.branch)
    targets = managed_properties(schemas.of(snapshot).catalog, request.types)
    for target in targets:
        require_model(target.embed.model, embedder, target.label)
    tally = _Tally(request)
    with Stage("embed", report, {}) as stage:
        for target in targets:
            if not tally.stopped:
                _PropertyRun(store, schemas, request, embedder, target, tally, stage).run()
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
        )


@dataclass(slots=True)
class _Made:
    """Vectors of one commit: by the place of the row in its batch, and the files that keep them until then."""

    vectors: dict[int, npt.NDArray[np.float32]] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)


class _PropertyRun:
    """One vector property of a branch."""

    def __init__(
        self,
        store: GraphStore,
        schemas: SchemaRegistry,
        request: EmbedRequest,
        embedder: Embedder,
        target: ManagedProperty,
        tally: _Tally,
        stage: Stage,
    ) -> None:
        self._request = request
        self._embedder = embedder
        self._target = target
        self._tally = tally
        self._stage = stage
        self._refusal: EmbeddingError | None = None
        pin = store.snapshot(request.branch).pins[target.type.table_key]
        self._handle = store.table(pin)
        self._ledger = FactLedger(store, pin.location)
        self._facts = self._ledger.read()
        looks_again = request.reembed or request.retry_failed
        self._parts = TableParts.of(self._handle, target, embedder.model)
        self._unsettled = self._parts.outside(set() if looks_again else self._facts.settled)
        self._touched: set[int] = set()
        self._writer = VectorWriter(store, schemas, request.branch, request.actor, target)
        has_blobs = any(each.type.scalar is Scalar.BLOB for each in target.type.properties.values())
        self._rows = min(request.rows, limits.DELTA_BLOB_BATCH_ROWS) if has_blobs else request.rows

    def run(self) -> None:
        self._require_one_model()
        for batch in self._wanted():
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
        """Rows that need a vector, as many at a time as one commit takes, from as many fragments as that needs."""
        held: list[TextRows] = []
        count = 0
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
                if count == room:
                    yield TextRows.joined(held)
                    held, count = [], 0
        if held:
            yield TextRows.joined(held)

    def _room(self) -> int:
        """Rows that the next commit may have."""
        left = self._tally.rows_left
        return self._rows if left is None else max(0, min(self._rows, left))

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
        made = _Made(self._facts.kept_vectors(self._embedder.model, self._target.dimension, batch.facts))
        self._tally.reused += len(made.vectors)
        missing = [place for place in np.flatnonzero(batch.has_text).tolist() if place not in made.vectors]
        cleared = np.flatnonzero(~batch.has_text).tolist()
        try:
            self._ask(batch, missing, made)
        finally:
            self._commit(batch, made, cleared)

    def _ask(self, batch: TextRows, places: list[int], made: _Made) -> None:
        texts: list[str] = batch.texts.take(pa.array(places, pa.int64())).to_pylist()
        start = 0
        for part in in_requests(texts, self._embedder.settings.patience.batch):
            if not self._tally.may_send(list(part)):
                self._tally.stopped = "budget"
                return
            self._tally.characters += sum(map(len, part))
            rows = places[start : start + len(part)]
            start += len(part)
            vectors, reasons = self._answers(list(part))
            if self._refusal is not None and not vectors and len(part) > 1 and not self._tally.embedded:
                raise self._refusal  # nothing works, so it is not about the texts
            self._keep(batch, rows, vectors, reasons, made)
            failpoints.reach("embed.after_answer")

    def _answers(self, texts: list[str]) -> tuple[dict[int, npt.NDArray[np.float32]], dict[int, str]]:
        """Vectors by the place of their text, and why others have none. A refused request is asked for in halves."""
        try:
            return dict(enumerate(self._embedder.ask(texts, self._target.dimension))), {}
        except EmbeddingError as error:
            if not _is_about_a_text(error):
                raise
            self._refusal = error
            if len(texts) == 1:
                return {}, {0: _reason(error)}
        half = len(texts) // 2
        vectors, reasons = self._answers(texts[:half])
        more_vectors, more_reasons = self._answers(texts[half:])
        vectors |= {half + place: vector for place, vector in more_vectors.items()}
        reasons |= {half + place: reason for place, reason in more_reasons.items()}
        return vectors, reasons

    def _keep(
        self,
        batch: TextRows,
        rows: list[int],
        vectors: dict[int, npt.NDArray[np.float32]],
        reasons: dict[int, str],
        made: _Made,
    ) -> None:
        """Make an answer durable before anything else happens."""
        model, dimension = self._embedder.model, self._target.dimension
        if reasons:
            refused = batch.facts.take(np.array([rows[place] for place in reasons]))
            words = list(dict.fromkeys(reasons.values()))
            outcomes = np.array([FIRST_REASON + words.index(each) for each in reasons.values()], np.int32)
            nothing = np.zeros(len(refused), np.int64)
            self._ledger.add(model, dimension, FactRows(refused.ids, refused.texts, nothing, outcomes), words)
            self._tally.failed += len(reasons)
        if vectors:
            places = [rows[place] for place in vectors]
            values = np.stack(list(vectors.values()))
            facts = _made_of(batch.facts.take(np.array(places)), values)
            made.files.append(self._ledger.add(model, dimension, facts, values=values))
            made.vectors |= dict(zip(places, values, strict=True))
            self._tally.embedded += len(vectors)

    def _commit(self, batch: TextRows, made: _Made, cleared: list[int]) -> None:
        places = [*made.vectors, *cleared]
        if not places:
            return
        chosen = batch.take(np.array(places))
        nothing = np.empty((0, self._target.dimension), np.float32)
        values = np.stack(list(made.vectors.values())) if made.vectors else nothing
        new = NewVectors(chosen.ids, chosen.texts, _column(values, len(cleared), self._target.dimension))
        done = self._writer.put(new)
        failpoints.reach("embed.after_commit")
        if done.commit is not None:
            self._tally.commits.append(done.commit.id)
        self._tally.cleared += len(cleared)
        self._tally.skipped += len(places) - done.report
        if made.vectors:
            facts = _made_of(batch.facts.take(np.array(list(made.vectors))), values)
            self._ledger.add(self._embedder.model, self._target.dimension, facts)
            failpoints.reach("embed.after_facts")
            self._ledger.remove(made.files)


def _made_of(rows: FactRows, values: Vectors) -> FactRows:
    """The facts that these vectors were made of the texts of these rows."""
    return FactRows(rows.ids, rows.texts, vector_hashes(values), np.full(len(rows), MADE, np.int32))


def _column(values: Vectors, nulls: int, dimension: int) -> pa.Array:
    """Vectors, then nulls, as Arrow."""
    flat = pa.array(np.ascontiguousarray(values, np.float32).reshape(-1), pa.float32())
    known = pa.FixedSizeListArray.from_arrays(flat, dimension)
    return pa.concat_arrays([known, pa.nulls(nulls, known.type)])


def _is_about_a_text(error: EmbeddingError) -> bool:
    if isinstance(error, ProviderRefused):
        return error.details.get("status") in _ABOUT_THE_TEXT
    return isinstance(error, InvalidEmbedding) and "row" in error.details


def _reason(error: EmbeddingError) -> str:
    status = error.details.get("status")
    return f"refused with status {status}" if status is not None else error.message
