"""A `.gq` write from text to commit: parse, then check, bind and run on the state that it is committed on.

When that state moves before the commit, everything is computed again, never patched: an update or delete means the
rows at the time of its commit. A mutation holds no stale input of its caller, so a moved table is no conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from omnigraph import ids
from omnigraph.query import bind_params, check_write, parse_queries
from omnigraph.query.syntax.tree import QueryDecl
from omnigraph.query.temporal import to_utc
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.prepared import Prepared
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.commit.workspace import Workspace
from omnigraph.storage.manifest import Commit
from omnigraph.storage.store import GraphStore
from omnigraph.storage.texts import text_of
from omnigraph.write.stage_changes import stage_changes, typed_changes
from omnigraph.write.statements import Pending
from omnigraph.write.values import Values


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


def mutate(store: GraphStore, schemas: SchemaRegistry, request: MutationRequest) -> MutationResult:
    """Run a named write of a `.gq` text as one commit.

    Raises:
        PreconditionFailed: ``if_commit`` is not the head.
    """
    text, file = text_of(request.source, ".gq")
    query = parse_queries(text, file).find(request.name)
    mutation = _Mutation(schemas, query, request.params, to_utc(ids.now()))
    done = run(
        store,
        Write(
            request.branch,
            WriterKind.MUTATION,
            request.actor,
            mutation.prepare,
            if_commit=request.if_commit,
            recomputes_reads=True,
        ),
    )
    return MutationResult(
        commit=done.commit,
        branch=request.branch,
        query_name=query.name,
        affected_nodes=done.report.nodes,
        affected_edges=done.report.edges,
        actor=request.actor,
    )


@dataclass(frozen=True, slots=True)
class _Affected:
    nodes: int
    edges: int


@dataclass(frozen=True, slots=True)
class _Mutation:
    """A parsed write with the values of its caller.

    Attributes:
        now: the instant of ``now()``, the same for every attempt.
    """

    schemas: SchemaRegistry
    query: QueryDecl
    params: Mapping[str, object] | None
    now: datetime

    def prepare(self, workspace: Workspace) -> Prepared[_Affected]:
        schema = self.schemas.of(workspace.snapshot)
        mutation = check_write(self.query, schema.catalog)
        values = Values(bind_params(mutation, self.params), self.now)
        pending = Pending(workspace, schema.catalog, values)
        for statement in mutation.statements:
            pending.run(statement)
        staged = stage_changes(workspace, schema.catalog, typed_changes(schema.catalog, pending.changes()))
        return Prepared(_Affected(pending.nodes, pending.edges), staged.tables, made_for=schema.hash)
