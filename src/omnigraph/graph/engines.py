"""Which engine runs a load, a merge, an embedding, upkeep or a copy of a graph: this process (``embedded``) or Spark.

With ``auto`` much data goes to Spark where pyspark and Java are installed; some MiB do not, whatever their format,
because starting Spark takes seconds. No other module outside `spark/` and the command line imports it, and this one
only when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph import limits
from omnigraph.errors import InputError, InternalError, MissingExtra, OmniGraphError
from omnigraph.history.merge import engine as merging
from omnigraph.history.merge.merge_source import MergeSource
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.objects import user_files
from omnigraph.storage.objects.object_store import Location
from omnigraph.upkeep import work_engine
from omnigraph.upkeep.clone import carry_files
from omnigraph.write.arrow_rows import is_rows
from omnigraph.write.load.load_result import LoadResult
from omnigraph.write.load.load_source import is_file

if TYPE_CHECKING:
    from omnigraph.embed.managed.ask_provider import EmbedEngine

AUTO, EMBEDDED, SPARK = ENGINES = ("auto", "embedded", "spark")

SparkLoad = Callable[..., LoadResult]


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """What Spark can do for a graph: `omnigraph.spark.load`, the work on the rows of a merge, that of upkeep, asking an
    embedding provider, and the files of a copy."""

    load: SparkLoad
    merge: merging.MergeEngines
    upkeep: Callable[[GraphStore], work_engine.UpkeepEngine]
    embed: Callable[[GraphStore], EmbedEngine]
    copy: Callable[[Location, Location], carry_files.FileCarrier]


def spark_load(engine: str, source: Any) -> SparkLoad | None:
    """The function that loads a source on Spark; None when this process loads it.

    Raises:
        MissingExtra: Spark was asked for by name, and pyspark or Java is not installed.
    """
    _check(engine)
    if engine == EMBEDDED or (engine == AUTO and not is_bulk(source)):
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


def upkeep_engine(engine: str) -> work_engine.UpkeepEngines:
    """The engine of upkeep: the one that was asked for, or with ``auto`` the one that suits the number of rows."""
    _check(engine)
    if engine == EMBEDDED:
        return work_engine.embedded
    if engine == SPARK:
        spark = spark_engine()
        return lambda store, rows: spark.upkeep(store)

    def by_size(store: GraphStore, rows: int) -> work_engine.UpkeepEngine:
        found = _spark_or_none() if rows > limits.SPARK_UPKEEP_ROWS else None
        return found.upkeep(store) if found is not None else work_engine.embedded(store, rows)

    return by_size


def embed_engine(engine: str) -> Callable[[GraphStore, int], EmbedEngine]:
    """Who asks the embedding provider: as was asked for, or with ``auto`` as suits the number of rows."""
    from omnigraph.embed.managed.ask_provider import EmbeddedAsking

    _check(engine)
    if engine == SPARK:
        spark = spark_engine()
        return lambda store, rows: spark.embed(store)

    def by_size(store: GraphStore, rows: int) -> EmbedEngine:
        found = _spark_or_none() if engine == AUTO and rows > limits.SPARK_EMBED_ROWS else None
        return found.embed(store) if found is not None else EmbeddedAsking()

    return by_size


def copy_engine(engine: str) -> carry_files.FileCarriers:
    """Who carries the files of a copy: what was asked for, or with ``auto`` what suits their number. From disk to disk
    that is this process, because a disk is no faster for many than for one."""
    _check(engine)
    if engine == EMBEDDED:
        return carry_files.carried_here
    if engine == SPARK:
        spark = spark_engine()
        return lambda source, target, files: spark.copy(source, target)

    def by_size(
        source: Location, target: Location, files: Sequence[carry_files.CarriedFile]
    ) -> carry_files.FileCarrier | None:
        is_much = len(files) > limits.SPARK_COPY_FILES or sum(file.size for file in files) > limits.SPARK_COPY_BYTES
        found = _spark_or_none() if is_much and not (source.is_local and target.is_local) else None
        return found.copy(source, target) if found is not None else None

    return by_size


def spark_engine() -> SparkEngine:
    """Spark, imported now.

    Raises:
        MissingExtra: pyspark or Java is not installed.
        InternalError: pyspark is installed, but it or `omnigraph.spark` cannot be imported; names the cause.
    """
    try:
        from omnigraph.spark.session import require_spark

        require_spark()
        from omnigraph.spark.copy_tasks import spark_carrier
        from omnigraph.spark.embedding_tasks import spark_asking
        from omnigraph.spark.loading.spark_load import load
        from omnigraph.spark.spark_merge import spark_merge
        from omnigraph.spark.upkeep_tasks import spark_upkeep
    except OmniGraphError:
        raise
    except Exception as cause:
        raise InternalError(
            f"the Spark engine cannot be imported: {type(cause).__name__}: {cause}",
            hint="repair the installation of pyspark, or pass engine='embedded'",
        ) from cause
    return SparkEngine(load, spark_merge, spark_upkeep, spark_asking, spark_carrier)


def _spark_or_none() -> SparkEngine | None:
    """Spark, or None where it is not installed. A broken installation is an error also for ``auto``."""
    try:
        return spark_engine()
    except MissingExtra:
        return None


def _check(engine: str) -> None:
    if engine not in ENGINES:
        raise InputError(f"engine {engine!r} is not one of {', '.join(map(repr, ENGINES))}")


def is_bulk(source: Any) -> bool:
    """Whether ``auto`` gives a source to Spark: Spark's own DataFrames, and files that are large together."""
    frames, files = _contents(source)
    return frames or sum(map(_size, files)) > limits.SPARK_LOAD_BYTES


def _contents(source: Any) -> tuple[bool, list[str]]:
    """Whether there is a DataFrame of Spark in a source, and the paths in it."""
    if isinstance(source, str | os.PathLike):
        return False, [os.fspath(source)]
    if is_rows(source) or is_file(source) or not isinstance(source, Iterable):
        return type(source).__module__.startswith("pyspark."), []
    found = [_contents(each) for each in (source.values() if isinstance(source, Mapping) else source)]
    return any(frames for frames, _ in found), [path for _, paths in found for path in paths]


def _size(path: str) -> int:
    """Bytes of the files that a path means; none for what cannot be read, which the load itself will say."""
    try:
        return user_files.total_size(path)
    except (OSError, InputError):
        return 0
