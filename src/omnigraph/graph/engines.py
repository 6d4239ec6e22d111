"""Which engine runs a load or a merge: this process (``embedded``) or Spark.

With ``auto`` much data goes to Spark where pyspark and Java are installed; a few MiB do not, because starting Spark
takes seconds. No other module outside `spark/` and the command line imports it, and this one only when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph import limits
from omnigraph.errors import InputError, InternalError, MissingExtra, OmniGraphError
from omnigraph.history.merge import engine as merging
from omnigraph.history.merge.merge_source import MergeSource
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.objects import user_files
from omnigraph.write.load.load_result import LoadResult
from omnigraph.write.load.load_source import Format, format_of, is_arrow

AUTO, EMBEDDED, SPARK = ENGINES = ("auto", "embedded", "spark")

SparkLoad = Callable[..., LoadResult]


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """What Spark can do for a graph: `omnigraph.spark.load`, and the work on the rows of a merge."""

    load: SparkLoad
    merge: merging.MergeEngines


def spark_load(engine: str, source: Any, format_: str | None) -> SparkLoad | None:
    """The function that loads a source on Spark; None when this process loads it.

    Raises:
        MissingExtra: Spark was asked for by name, and pyspark or Java is not installed.
    """
    _check(engine)
    if engine == EMBEDDED or (engine == AUTO and not is_bulk(source, format_)):
        return None
    spark = _spark_or_none() if engine == AUTO else spark_engine()
    return spark.load if spark is not None else None


def merge_engine(engine: str) -> merging.MergeEngines:
    """The engine of a merge: the one that was asked for, or with ``auto`` the one that suits the number of rows."""
    _check(engine)
    if engine == EMBEDDED:
        return merging.embedded

    def on_spark(workspace: Workspace, source: MergeSource) -> merging.MergeEngine:
        return spark_engine().merge(workspace, source)

    def by_size(workspace: Workspace, source: MergeSource) -> merging.MergeEngine:
        def when_large() -> merging.MergeEngine | None:
            spark = _spark_or_none()
            return spark.merge(workspace, source) if spark is not None else None

        return merging.AdaptiveMerge(when_large)

    return by_size if engine == AUTO else on_spark


def spark_engine() -> SparkEngine:
    """Spark, imported now.

    Raises:
        MissingExtra: pyspark or Java is not installed.
        InternalError: pyspark is installed, but it or `omnigraph.spark` cannot be imported; names the cause.
    """
    try:
        from omnigraph.spark.session import require_spark

        require_spark()
        from omnigraph.spark.loading.spark_load import load
        from omnigraph.spark.spark_merge import spark_merge
    except OmniGraphError:
        raise
    except Exception as cause:
        raise InternalError(
            f"the Spark engine cannot be imported: {type(cause).__name__}: {cause}",
            hint="repair the installation of pyspark, or pass engine='embedded'",
        ) from cause
    return SparkEngine(load, spark_merge)


def _spark_or_none() -> SparkEngine | None:
    """Spark, or None where it is not installed. A broken installation is an error also for ``auto``."""
    try:
        return spark_engine()
    except MissingExtra:
        return None


def _check(engine: str) -> None:
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r} is not one of {', '.join(map(repr, ENGINES))}")


def is_bulk(source: Any, format_: str | None) -> bool:
    """Whether ``auto`` gives a source to Spark: directories, patterns, columnar files, DataFrames and large files."""
    if is_arrow(source):
        return False
    if isinstance(source, Mapping):
        return bool(source) and not any(is_arrow(value) for value in source.values())
    if isinstance(source, str | os.PathLike):
        return _is_bulk_path(os.fspath(source), format_)
    if not isinstance(source, Iterable):
        return True  # a frame of another library
    paths = [os.fspath(each) for each in source if isinstance(each, str | os.PathLike)]
    return any(_is_bulk_path(path, format_) for path in paths) or sum(map(_size, paths)) > limits.SPARK_LOAD_BYTES


def _is_bulk_path(path: str, format_: str | None) -> bool:
    if os.path.isdir(path) or user_files.is_pattern(path):
        return True
    if (format_ or format_of(path)) in (Format.PARQUET, Format.CSV):
        return True
    return _size(path) > limits.SPARK_LOAD_BYTES


def _size(path: str) -> int:
    """Bytes of a file; none for one that cannot be read, which the load itself will say."""
    try:
        return user_files.size_of(path)
    except (OSError, InputError):
        return 0
