"""Asks an embedding provider from the executors: each task sends requests of its own, and keeps every answer itself.

Tasks get texts and give nothing back but errors; the driver finds the vectors where a later run would find them too.
The settings of the provider, with its key, travel inside the function of the tasks, as the options of the storage do:
no setting of the session, no description of a job and no log holds them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph import limits
from omnigraph.embed.embedder import Embedder
from omnigraph.embed.embedding_settings import EmbeddingSettings
from omnigraph.embed.managed.ask_provider import Answered, Asker, EmbedEngine, TextRequest
from omnigraph.embed.managed.ledger import FactRows, Facts
from omnigraph.errors import EmbeddingError, OmniGraphError
from omnigraph.spark.cluster import Cluster, Task
from omnigraph.spark.messages import MESSAGE_DDL, TaskError, decode, encode
from omnigraph.spark.session import active_session, require_spark
from omnigraph.storage.graph_store import GraphStore
from omnigraph.text_hash import combined


class SparkAsking:
    """Requests as rows of a DataFrame, some for each task."""

    name = "spark"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def rows_at_once(self, commit_rows: int, dimension: int) -> int:
        return max(commit_rows, limits.EMBEDDING_TEXT_BYTES // (np.dtype(np.float32).itemsize * dimension))

    def answers(self, asker: Asker, requests: list[TextRequest]) -> Iterator[Answered]:
        known = asker.ledger.names()
        settings, tasks = _shared(asker.embedder.settings, min(self._cluster.cores, len(requests)))
        frame = self._cluster.spark.createDataFrame(_table(requests)).repartition(tasks)
        failure: OmniGraphError | None = None
        try:
            told = self._cluster.collect(frame.mapInArrow(_asking(asker, settings, known), MESSAGE_DDL))
            failure = next((each.rebuilt() for each in decode(told, TaskError)), None)
        except OmniGraphError as error:
            failure = error
        yield _found(asker, requests, asker.ledger.read(besides=known))
        if failure is not None:
            raise failure


def _shared(settings: EmbeddingSettings, tasks: int) -> tuple[EmbeddingSettings, int]:
    """The settings of one of several tasks, which together keep to the rate; and how many of them may be."""
    rate = settings.patience.rate
    if rate is None:
        return settings, tasks
    tasks = min(tasks, rate)
    return replace(settings, patience=replace(settings.patience, rate=rate // tasks)), tasks


def _table(requests: list[TextRequest]) -> pa.Table:
    columns = {
        "texts": pa.array([each.texts for each in requests], pa.list_(pa.string())),
        "ids": pa.array([each.facts.ids for each in requests], pa.list_(pa.int64())),
        "hashes": pa.array([each.facts.texts for each in requests], pa.list_(pa.int64())),
    }
    return pa.table(columns)


def _asking(asker: Asker, settings: EmbeddingSettings, known: frozenset[str]) -> Task:
    """Ask for what nobody was asked for yet: another attempt of this task may have kept answers before it died."""
    ledger, dimension, is_answered = asker.ledger, asker.dimension, asker.is_answered

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        mine = Asker(Embedder(settings), ledger, dimension, is_answered)
        kept = ledger.read(besides=known)
        if settings.patience.rate is not None:
            time.sleep(60 / settings.patience.rate)  # the task before may just have asked
        for batch in batches:
            for row in batch.to_pylist():
                request = _unanswered(_request(row), kept, settings.model, dimension)
                try:
                    if request.texts:
                        mine.ask(request)
                except EmbeddingError as error:
                    yield encode([TaskError.of(error)])
                    return

    return run


def _request(row: dict[str, Any]) -> TextRequest:
    ids, hashes = np.array(row["ids"], np.int64), np.array(row["hashes"], np.int64)
    nothing = np.zeros(len(ids), np.int64)
    return TextRequest(list(range(len(ids))), row["texts"], FactRows(ids, hashes, nothing, nothing.astype(np.int32)))


def _unanswered(request: TextRequest, kept: Facts, model: str, dimension: int) -> TextRequest:
    vectors = kept.kept_vectors(model, dimension, request.facts)
    refused, _ = kept.failures(model, dimension, request.facts)
    left = [place for place in request.places if place not in vectors and refused[place] < 0]
    texts = [request.texts[place] for place in left]
    return TextRequest(left, texts, request.facts.take(np.array(left, np.int64)))


def _found(asker: Asker, requests: list[TextRequest], facts: Facts) -> Answered:
    """What all attempts of all tasks kept."""
    model, dimension = asker.embedder.model, asker.dimension
    rows = FactRows.joined([each.facts for each in requests])
    places = [place for each in requests for place in each.places]
    vectors = facts.kept_vectors(model, dimension, rows)
    refused, _ = facts.failures(model, dimension, rows)
    asked = combined(rows.ids, rows.texts)
    files = [
        file.name
        for file in facts.files
        if file.values is not None and np.isin(combined(file.rows.ids, file.rows.texts), asked).all()
    ]
    failed = int((refused >= 0).sum())
    return Answered({places[row]: vector for row, vector in vectors.items()}, failed, files)


def spark_asking(_: GraphStore) -> EmbedEngine:
    """The engine on the session of this process.

    Raises:
        MissingExtra: pyspark or Java is not installed.
    """
    require_spark()
    return SparkAsking(Cluster(active_session(), "embedding"))
