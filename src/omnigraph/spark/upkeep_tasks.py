"""The heavy part of upkeep on Spark: one task for each group of fragments that is joined and each segment of an index.

A task gets the address of a table version and numbers of fragments, and tells the metadata of the files it wrote; rows
stay on the executors. Planning and both commits are those of `upkeep/optimize`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from omnigraph import limits
from omnigraph.spark.cluster import Cluster, Task
from omnigraph.spark.messages import MESSAGE_DDL, WorkDone, decode, encode
from omnigraph.spark.session import active_session, require_spark
from omnigraph.storage.commit import sidecar
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.objects.object_store import Location
from omnigraph.storage.tables.compaction import RewrittenGroup, rewrite_group
from omnigraph.storage.tables.table_indexes import BuiltSegment, build_segment
from omnigraph.storage.tables.task_staging import StageTable
from omnigraph.upkeep.work_engine import EmbeddedUpkeep, RewriteTask, SegmentTask, UpkeepEngine


class SparkUpkeep:
    """Pieces of work as tasks of a session."""

    name = "spark"
    segment_rows = 2 * limits.INDEX_SEGMENT_ROWS  # none is so small that it would be joined with others

    def __init__(self, cluster: Cluster, location: Location) -> None:
        self._cluster = cluster
        self._location = location

    def rewrite(self, tasks: Sequence[RewriteTask]) -> list[RewrittenGroup]:
        pieces = [(StageTable(self._location, task.table), task.fragments) for task in tasks]

        def rewritten(number: int) -> str:
            table, fragments = pieces[number]
            return rewrite_group(table.open(), fragments).to_text()

        return [RewrittenGroup.from_text(text) for text in answers_of(self._cluster, len(tasks), rewritten)]

    def build(self, tasks: Sequence[SegmentTask]) -> list[BuiltSegment]:
        pieces = [(StageTable(self._location, task.table), task.work, task.version) for task in tasks]

        def built(number: int) -> str:
            table, work, version = pieces[number]
            return json.dumps(sidecar.index_to_json(build_segment(table.open(), work, version).index))

        told = answers_of(self._cluster, len(tasks), built)
        return [
            BuiltSegment(task.work, sidecar.index_from_json(json.loads(text)))
            for task, text in zip(tasks, told, strict=True)
        ]


def answers_of(cluster: Cluster, count: int, work: Callable[[int], str]) -> list[str]:
    """What pieces of work with the numbers up to ``count`` answer, one task each, in their order."""
    told = cluster.collect(cluster.each(count, _each_number(work), MESSAGE_DDL))
    return [done.text for done in sorted(decode(told, WorkDone), key=lambda done: done.number)]


def _each_number(work: Callable[[int], str]) -> Task:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield encode([WorkDone(number, work(number))])

    return run


def spark_upkeep(store: GraphStore) -> UpkeepEngine:
    """The engine on the session of this process.

    Raises:
        MissingExtra: pyspark or Java is not installed.
    """
    require_spark()
    return SparkUpkeep(Cluster(active_session(), "upkeep"), store.location)


def after_load(store: GraphStore, rows: int) -> UpkeepEngine:
    """The engine that indexes what a load on Spark put into a graph: the session runs, so it pays off sooner."""
    return spark_upkeep(store) if rows > limits.INDEX_SEGMENT_ROWS else EmbeddedUpkeep(store)
