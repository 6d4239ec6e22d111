"""`ogs.load`: a load on Spark, which `Graph.load` uses for much data.

The branch is made before anything is staged, because files belong to a branch, and is removed again when the load is
refused. A job that is run again under its name answers with the commit it made the first time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from omnigraph import ids
from omnigraph.errors import BranchNotFound, InputError, OutcomeUnknown, RecoveryRequired
from omnigraph.graph.graph import Graph
from omnigraph.history.branch_load import LoadDestination, make_branch, unmake_branch, with_indexes
from omnigraph.ids import known_branch
from omnigraph.progress import ProgressListener, reporter
from omnigraph.spark.cluster import Cluster
from omnigraph.spark.loading.load_commit import LoadTarget
from omnigraph.spark.loading.load_job import LoadJob
from omnigraph.spark.session import active_session, require_spark
from omnigraph.spark.upkeep_tasks import after_load
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import Commit
from omnigraph.upkeep.indexes import ensure_indices
from omnigraph.write.arrow_rows import is_rows
from omnigraph.write.load.gather import LoadRequest, request_of
from omnigraph.write.load.load_result import LoadResult
from omnigraph.write.load.load_source import Part, left_out, parts_of
from omnigraph.write.load.violations import rejects_table

ENGINE = "spark"


def is_frame(value: Any) -> bool:
    """Whether a value is a Spark DataFrame, without importing Spark for one that is not."""
    return type(value).__module__.startswith("pyspark.") and hasattr(value, "mapInArrow")


def load(
    graph: Graph,
    source: Any,
    mode: str,
    *,
    branch: str = ids.MAIN,
    from_: str | None = None,
    on_error: Literal["fail", "reject"] = "fail",
    max_rejects: int | None = None,
    format: str | None = None,
    type: str | None = None,
    columns: Literal["replace", "keep"] = "replace",
    times: Literal["exact", "round"] = "exact",
    job_id: str | None = None,
    message: str | None = None,
    progress: bool | ProgressListener | None = None,
) -> LoadResult:
    """Load files or DataFrames on Spark as one commit: all of it or nothing.

    Args:
        source: as for `Graph.load`, local or ``s3://``; or a DataFrame, or a mapping from type names to DataFrames.
        mode: ``append``, ``merge`` or ``overwrite``.
        from_: branch to fork from when ``branch`` does not exist.
        on_error: ``fail`` refuses the load for one bad row, ``reject`` leaves bad rows out and reports them.
        max_rejects: more rejected rows than this refuse the load after all.
        format: ``jsonl``, ``json``, ``parquet`` or ``csv`` for files whose suffix does not say it.
        type: type of the rows when the source does not name one.
        columns: of a ``merge``: ``replace`` makes null what the input does not have, ``keep`` leaves it as it is.
        times: ``exact`` refuses times finer than a millisecond, ``round`` rounds them.
        job_id: name of the job. A job of this name that was committed on the branch is not done again.
        message: what to say about it in the history.
        progress: True or False to show progress or not, or a function that is told; by default a bar on a terminal.
    """
    require_spark()
    request = request_of(source, mode, on_error, max_rejects, times, columns, format=format, type=type)
    base = known_branch(from_) if from_ is not None else None
    internals = graph.internals
    destination = LoadDestination(known_branch(branch), base, internals.actor, ids.commit_message(message))
    store = internals.writer("change", destination.branch)
    schema = internals.schema_for_rows(store, destination.branch, base)
    store.branch_ref(base if base is not None else destination.branch)
    parts = [_frame(part) for part in parts_of(schema.named, request.source, format, type, _is_table)]
    with reporter(progress) as report:
        done = _finished(store, destination, job_id) if job_id else None
        if done is not None:
            return _result(destination, request, done, json.loads(done.labels.get("rows", "{}")), [], False, {})
        cluster = Cluster(active_session())
        created = make_branch(store, destination)
        job = LoadJob(
            cluster,
            LoadTarget(
                store,
                schema,
                destination.branch,
                destination.actor,
                job_id or ids.new_ulid(),
                destination.message,
            ),
            request,
            parts,
            report,
        )
        try:
            job.read()
            commit = job.commit()
        except (OutcomeUnknown, RecoveryRequired):
            raise  # the commit may still come true
        except BaseException:
            job.remove_files()
            if created:
                unmake_branch(store, destination.branch)
            raise
        finally:
            job.end()
        result = _result(destination, request, commit, job.counts, job.rejected, created, job.timings)
        return with_indexes(
            result, lambda name: ensure_indices(store, internals.schemas, name, after_load).commit, report
        )


def _is_table(value: Any) -> bool:
    return is_frame(value) or is_rows(value)


def _frame(part: Part) -> Part:
    """What tasks on other machines can read: files by their names, and DataFrames."""
    if part.stream is not None:
        raise InputError(f"{part.name} is an open file of this process", hint="pass its path, or engine='embedded'")
    if part.table is None or is_frame(part.table):
        return part
    raise InputError(
        f"rows of {part.name} are in the memory of this process", hint="pass engine='embedded', or a Spark DataFrame"
    )


def _finished(store: GraphStore, destination: LoadDestination, job_id: str) -> Commit | None:
    try:
        snapshot = store.snapshot(destination.branch)
    except BranchNotFound:
        return None
    return commit_log.find_by_label(store.tables, snapshot, "job", job_id)


def _result(
    destination: LoadDestination,
    request: LoadRequest,
    commit: Commit | None,
    counts: Mapping[str, int],
    rejected: list[Any],
    created: bool,
    timings: dict[str, float],
) -> LoadResult:
    names = [(*key.partition(":")[::2], count) for key, count in sorted(counts.items())]
    return LoadResult(
        commit=commit,
        branch=destination.branch,
        base_branch=destination.base,
        branch_created=created,
        mode=str(request.mode),
        nodes={name: count for kind, name, count in names if kind == "node"},
        edges={name: count for kind, name, count in names if kind == "edge"},
        rejects=rejects_table(rejected),
        actor=destination.actor,
        timings=timings,
        engine=ENGINE,
        left_out=left_out(request.source),
    )
