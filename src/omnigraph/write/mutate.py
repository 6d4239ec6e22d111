"""A `.gq` write from text to commit: parse, check, bind, run, and run again when somebody else was faster.

The statements are run on the state they are committed on. When that state moves first, everything is computed again,
never patched: inserts quietly, updates and deletes as a conflict that `mutate` retries.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from omnigraph import ids, limits
from omnigraph.errors import ExpectedVersionMismatch, ReadSetChanged
from omnigraph.query import bind_params, check_write, parse_queries
from omnigraph.query.temporal import to_utc
from omnigraph.query.typed import ConstantValue, TypedMutation
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.commit.protocol import Workspace
from omnigraph.storage.manifest import Commit
from omnigraph.storage.store import GraphStore
from omnigraph.storage.texts import text_of
from omnigraph.write.change import Change
from omnigraph.write.commit import WriteRequest, write
from omnigraph.write.statements import Pending
from omnigraph.write.values import Values


@dataclass(frozen=True, slots=True)
class MutationOutcome:
    """What one run of a mutation did: its commit (None when it changed nothing) and the affected rows."""

    commit: Commit | None
    affected_nodes: int
    affected_edges: int


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What a mutation did.

    Attributes:
        commit: None when no row matched and so nothing changed.
        affected_nodes, affected_edges: an insert counts one, an update the rows it matched, deletes the distinct rows
            that the whole query removed, cascaded edges included.
    """

    commit: Commit | None
    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor: str | None

    def __repr__(self) -> str:
        changed = f"{self.affected_nodes} nodes, {self.affected_edges} edges"
        return f"MutationResult({self.query_name!r} on {self.branch}: {changed}; {_commit_id(self.commit)})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that every interface shows."""
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor,
            "commit": self.commit.to_dict() if self.commit else None,
        }


@dataclass(frozen=True, slots=True)
class MutationRequest:
    """A mutation as a caller asks for it; the fields are those of `omnigraph.Graph.mutate`."""

    source: str | Path
    name: str | None
    params: Mapping[str, object] | None
    branch: str
    actor: str | None
    if_commit: str | None


def _commit_id(commit: Commit | None) -> str:
    return f"commit {commit.id}" if commit is not None else "no commit"


def mutate(store: GraphStore, catalog: Catalog, request: MutationRequest) -> MutationResult:
    """Run a named write of a `.gq` text as one commit.

    A mutation holds no stale input of its caller, so when a table it read has moved it is run again as a whole, a few
    times after a short pause. The last time it is computed inside the commit section, where nothing moves, so that a
    busy table starves nobody. ``if_commit`` is checked at each attempt; a moved head is `PreconditionFailed`.
    """
    text, file = text_of(request.source, ".gq")
    mutation = check_write(parse_queries(text, file).find(request.name), catalog)
    params = bind_params(mutation, request.params)
    now = to_utc(ids.now())
    for attempt in range(limits.MUTATION_RETRIES + 1):
        try:
            outcome = run_mutation(
                store,
                catalog,
                mutation,
                params,
                branch=request.branch,
                actor=request.actor,
                if_commit=request.if_commit,
                now=now,
                strict=attempt < limits.MUTATION_RETRIES,
            )
            break
        except (ExpectedVersionMismatch, ReadSetChanged):
            if attempt == limits.MUTATION_RETRIES:
                raise
            time.sleep(random.uniform(*limits.MUTATION_BACKOFF_SECONDS))
    return MutationResult(
        commit=outcome.commit,
        branch=request.branch,
        query_name=mutation.name,
        affected_nodes=outcome.affected_nodes,
        affected_edges=outcome.affected_edges,
        actor=request.actor,
    )


def run_mutation(
    store: GraphStore,
    catalog: Catalog,
    mutation: TypedMutation,
    params: Mapping[str, ConstantValue],
    *,
    branch: str,
    actor: str | None,
    if_commit: str | None,
    now: datetime,
    strict: bool = True,
) -> MutationOutcome:
    """Run a checked write with bound parameters as one commit; none when nothing changes.

    Inserts are computed again when the branch moves before the commit. So is everything else, but a table whose rows
    were read and changed must not have moved since the first look.

    Args:
        now: the instant of ``now()``.
        strict: False lets such a table move too; the mutation then means the state it is committed on, not the one
            that was first seen.

    Raises:
        ExpectedVersionMismatch: an updated or deleted table moved meanwhile (with ``strict``).
        PreconditionFailed: ``if_commit`` is not the head.
    """
    values = Values(params, now)
    ran: list[Pending] = []

    def compute(workspace: Workspace) -> list[Change]:
        pending = Pending(workspace, catalog, values)
        for statement in mutation.statements:
            pending.run(statement)
        ran[:] = [pending]
        return pending.changes()

    request = WriteRequest(branch, (), actor, if_commit=if_commit, compute=compute, strict=strict)
    commit = write(store, catalog, request).commit
    return MutationOutcome(commit, ran[0].nodes, ran[0].edges)
