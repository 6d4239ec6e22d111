"""Runs Python functions as tasks of a Spark session, and brings back few rows of metadata.

The only module of a load or merge that talks to Spark; functions of rows live in the task modules and know no Spark.
Spark tells the driver only the text of what a task raised; here it becomes an error of this package again.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from omnigraph import errors, limits
from omnigraph.errors import InternalError, OmniGraphError, ResourceLimitExceeded
from omnigraph.progress import Stage, watched
from omnigraph.spark.messages import MESSAGE_DDL, decode
from omnigraph.spark.session import is_connected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Task = Callable[[Iterator[Any]], Iterator[Any]]

_Kind = TypeVar("_Kind")


class Cluster:
    """A session, as a load or a merge (``work``, for messages) uses it."""

    def __init__(self, spark: SparkSession, work: str = "load") -> None:
        self.spark = spark
        self._work = work
        self._group = f"omnigraph-{uuid.uuid4()}"

    @property
    def cores(self) -> int:
        """How many tasks run at once, as far as anybody knows."""
        context = self._context
        return int(context.defaultParallelism) if context is not None else 8

    @property
    def _context(self) -> Any:
        return None if is_connected(self.spark) else self.spark.sparkContext

    def each(self, count: int, task: Task, ddl: str) -> DataFrame:
        """A DataFrame of what the task answers for the numbers up to ``count``, one partition each."""
        return self.spark.range(0, count, 1, max(1, count)).mapInArrow(task, ddl)

    def runs_here(self, rows: int) -> bool:
        """Whether tasks that look at so many rows run in this process: few rows are not worth a job."""
        return rows <= limits.DRIVER_ROWS

    def messages(self, kind: type[_Kind], count: int, task: Task, rows: int) -> list[_Kind]:
        """What tasks tell for the numbers up to ``count``.

        Args:
            rows: how many rows the tasks look at, about.
        """
        if self.runs_here(rows):
            return list(decode(self.here(count, task), kind))
        return list(decode(self.collect(self.each(count, task, MESSAGE_DDL)), kind))

    def here(self, count: int, *tasks: Task) -> list[Any]:
        """Rows that tasks, one after another, make of the numbers up to ``count``, in this process."""
        batches = numbers(count)
        for task in tasks:
            batches = task(batches)
        return [row for batch in batches for row in batch.to_pylist()]

    def collect(self, frame: DataFrame, stage: Stage | None = None) -> list[Any]:
        """Run, and bring the rows here."""
        with self._named(stage), job_errors(self._work):
            rows: list[Any] = frame.collect()
            return rows

    @contextmanager
    def _named(self, stage: Stage | None) -> Iterator[None]:
        context = self._context
        if stage is None or context is None:
            yield
            return
        context.setJobGroup(self._group, f"omnigraph {stage.name}", interruptOnCancel=True)
        try:
            with watched(lambda: _share(context.statusTracker()), stage):
                yield
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
            context.setLocalProperty("spark.job.description", None)


class LocalCluster(Cluster):
    """Runs every task in this process, one after another: for processes of Spark that have no session."""

    def __init__(self) -> None:
        self._work = "write"

    def runs_here(self, rows: int) -> bool:
        """Always.

        Raises:
            ResourceLimitExceeded: the keys of so many rows are too much for one process.
        """
        if rows > limits.SINK_ROWS:
            hint = "use omnigraph.spark.load, which checks keys on the executors"
            raise ResourceLimitExceeded("rows whose keys one write checks", rows, limits.SINK_ROWS, hint=hint)
        return True


def numbers(count: int) -> Iterator[Any]:
    """The numbers up to ``count``, as tasks get them."""
    yield pa.RecordBatch.from_pydict({"id": pa.array(range(count), pa.int64())})


def _share(tracker: Any) -> float | None:
    """Share of the finished tasks among those that are known."""
    stages = [tracker.getStageInfo(stage) for job in tracker.getActiveJobsIds() for stage in _stages(tracker, job)]
    total = sum(stage.numTasks for stage in stages if stage)
    return sum(stage.numCompletedTasks for stage in stages if stage) / total if total else None


def _stages(tracker: Any, job: int) -> list[int]:
    info = tracker.getJobInfo(job)
    return list(info.stageIds) if info else []


_OURS = re.compile(r"^(?:\w+\.)*omnigraph\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextmanager
def job_errors(what: str) -> Iterator[None]:
    """Run a job; an error of ours that a task raised comes out as itself, any other as one sentence."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as failure:
        raise task_error(what, str(failure)) from failure


def task_error(what: str, text: str) -> OmniGraphError:
    """The error behind the text of a failed job."""
    for name, message in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, OmniGraphError):
            found = kind.__new__(kind)
            OmniGraphError.__init__(found, message)
            return found
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
    return InternalError(f"the Spark {what} failed: {first[:200]}")
