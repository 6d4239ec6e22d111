"""The files of a clone or a backup on Spark: one task for some files, which the executors read, write and compare.

What crosses is names and sizes. Which files there are, and everything that makes the copy visible, is up to
`upkeep/clone`. A task that runs twice, or late, writes the same files again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from omnigraph.spark.cluster import Cluster
from omnigraph.spark.session import active_session, require_spark
from omnigraph.spark.upkeep_tasks import answers_of
from omnigraph.storage.objects.file_tree import FileTree
from omnigraph.storage.objects.object_store import Location
from omnigraph.upkeep.clone.carry_files import Carried, CarriedFile, FileCarrier, carry_file

#: What one task carries at most; a larger file is a task of its own.
_TASK_FILES = 256
_TASK_BYTES = 256 * 1024**2

#: Files of one job: every task gets the names of all of them.
_JOB_FILES = 32 * 1024


class SparkCarrier:
    """Carries files by tasks of a session."""

    def __init__(self, cluster: Cluster, source: Location, target: Location) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target

    def carry(self, files: Sequence[CarriedFile]) -> list[Carried]:
        done: list[Carried] = []
        for start in range(0, len(files), _JOB_FILES):
            done += self._carried(files[start : start + _JOB_FILES])
        return done

    def _carried(self, files: Sequence[CarriedFile]) -> Iterator[Carried]:
        source, target, shares = self._source, self._target, list(_shares(files))

        def carried(number: int) -> str:
            one, other = FileTree(source), FileTree(target)
            found = [carry_file(one, other, file) for file in shares[number]]
            copied = [file.path for file, each in zip(shares[number], found, strict=True) if each == Carried.COPIED]
            other.sync(copied)
            return json.dumps(found)

        told = answers_of(self._cluster, len(shares), carried)
        return (Carried(each) for text in told for each in json.loads(text))


def _shares(files: Sequence[CarriedFile]) -> Iterator[list[CarriedFile]]:
    """Consecutive files that one task carries."""
    share: list[CarriedFile] = []
    size = 0
    for file in files:
        if share and (len(share) == _TASK_FILES or size + file.size > _TASK_BYTES):
            yield share
            share, size = [], 0
        share.append(file)
        size += file.size
    if share:
        yield share


def spark_carrier(source: Location, target: Location) -> FileCarrier:
    """The carrier on the session of this process.

    Raises:
        MissingExtra: pyspark or Java is not installed.
    """
    require_spark()
    return SparkCarrier(Cluster(active_session(), "copy"), source, target)
