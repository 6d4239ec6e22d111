"""A load onto a branch that need not exist yet.

The branch is made after every row was read and found good, and is removed again when the load is refused, so that a
failed load leaves nothing behind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from omnigraph import limits
from omnigraph.errors import (
    BranchExists,
    BranchNotFound,
    ConflictError,
    LimitError,
    OmniGraphError,
    OutcomeUnknown,
    RecoveryRequired,
    StorageError,
)
from omnigraph.history.branches import create_branch, delete_branch, list_branches
from omnigraph.logs import LOADS
from omnigraph.progress import ProgressListener, Stage, silent
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema_registry import RowSchema
from omnigraph.storage.commit import sidecar
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.write.change import Mode
from omnigraph.write.load.commit_load import Author, Loaded, commit
from omnigraph.write.load.gather import LoadRequest, read
from omnigraph.write.load.load_result import LoadResult
from omnigraph.write.load.load_source import left_out, listed
from omnigraph.write.load.stored_matches import StoredMatches


@dataclass(frozen=True, slots=True)
class LoadDestination:
    """Where a load goes.

    Attributes:
        base: branch to fork from when ``branch`` does not exist; None to insist that it does.
    """

    branch: str
    base: str | None
    actor: str | None
    message: str | None = None
    commit_id: str | None = None


def load(
    store: GraphStore,
    rows: RowSchema,
    request: LoadRequest,
    destination: LoadDestination,
    report: ProgressListener = silent,
) -> LoadResult:
    """Read everything, make the branch if it is missing and may be made, write one commit."""
    store.branch_ref(destination.branch if destination.base is None else destination.base)
    base = state_to_merge(store, request, destination)
    timings: dict[str, float] = {}
    schema = rows.whole
    with Stage("read", report, timings) as stage:
        gathered = read(rows.named, request, stored_matches(store, schema, request, base))
        stage.rows = sum(rows.num_rows for rows in gathered.rows.values())
    created = make_branch(store, destination)
    try:
        with Stage("commit", report, timings) as stage:
            kept = base if request.keeps else None
            author = Author(destination.actor, destination.message, destination.commit_id)
            loaded = commit(store, schema, request, gathered, destination.branch, author, base=kept)
            stage.rows = sum(loaded.counts.values())
    except (OutcomeUnknown, RecoveryRequired):
        raise
    except (OmniGraphError, KeyboardInterrupt):
        if created:
            unmake_branch(store, destination.branch)
        raise
    return _result(loaded, request, destination, created, timings)


def state_to_merge(store: GraphStore, request: LoadRequest, destination: LoadDestination) -> ManifestSnapshot | None:
    """The state whose rows those of a merge may mean; None for another load."""
    if request.mode is not Mode.MERGE:
        return None
    try:
        return store.snapshot(destination.branch)
    except BranchNotFound:
        return store.snapshot(destination.base or destination.branch)


def stored_matches(
    store: GraphStore, schema: CompiledSchema, request: LoadRequest, base: ManifestSnapshot | None
) -> StoredMatches | None:
    """The rows of a state that those of a load may mean."""
    if base is None:
        return None
    return StoredMatches.of(schema.catalog, base, store.location, request.keeps)


def unmake_branch(store: GraphStore, branch: str) -> None:
    """Remove a branch that a failed load made. One that has a commit, or may still get one, stays."""
    with contextlib.suppress(OmniGraphError):
        first = store.refresh(branch)
        if first.version == store.branch_ref(branch).parent_version and not sidecar.pending(store.objects):
            delete_branch(store, branch, seen=first)


def with_indexes(
    result: LoadResult, ensure: Callable[[str], Commit | None], report: ProgressListener = silent
) -> LoadResult:
    """Bring the indexes of a branch up to date after a load that put many rows into a table.

    The load stands, whatever comes of it: an index that is missing changes no answer.
    """
    LOADS.info(
        "%s on branch '%s': %d records, %d rejected, %s",
        *(result.mode, result.branch, result.total, result.rejects.num_rows, result.timings),
    )
    if result.left_out:
        LOADS.warning("files left out, because their suffix says nothing: %s", listed(result.left_out))
    if result.commit is None or max([0, *result.nodes.values(), *result.edges.values()]) <= limits.LOAD_INDEX_ROWS:
        return result
    timings = dict(result.timings)
    indexed = None
    with Stage("index", report, timings) as stage, contextlib.suppress(ConflictError, LimitError, StorageError):
        indexed = ensure(result.branch)
        stage.rows = result.total
    return replace(result, index_commit=indexed, timings=timings)


def make_branch(store: GraphStore, destination: LoadDestination) -> bool:
    """Make the branch of a load if it is missing and may be made; whether that happened."""
    if destination.base is None or destination.branch in {branch.name for branch in list_branches(store)}:
        return False
    store.require("branch_create", destination.base, destination.branch)
    try:
        create_branch(store, destination.branch, destination.base, None)
    except BranchExists:
        if destination.branch not in {branch.name for branch in list_branches(store)}:
            raise
        return False  # somebody else was faster
    return True


def _result(
    loaded: Loaded, request: LoadRequest, destination: LoadDestination, created: bool, timings: dict[str, float]
) -> LoadResult:
    counts = [(*key.partition(":")[::2], count) for key, count in sorted(loaded.counts.items())]
    return LoadResult(
        commit=loaded.commit,
        branch=destination.branch,
        base_branch=destination.base,
        branch_created=created,
        mode=str(request.mode),
        nodes={name: count for kind, name, count in counts if kind == "node"},
        edges={name: count for kind, name, count in counts if kind == "edge"},
        rejects=loaded.rejects,
        actor=destination.actor,
        timings=timings,
        left_out=left_out(request.source),
    )
