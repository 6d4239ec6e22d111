"""Answers of the routes, as clients read them.

An operation may answer with a mapping of the same shape; these classes are what the description of the server is made
from. Times are microseconds since 1970.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class RowCountsOutput(msgspec.Struct):
    """Rows of one type that a commit changed."""

    inserted: int | UnsetType = UNSET
    updated: int | UnsetType = UNSET
    deleted: int | UnsetType = UNSET


class CommitOutput(msgspec.Struct):
    """One commit. `graph_branch` is null on main. `kind`, `message` and `rows` are there where they were recorded;
    `readable` is false for a state that was cleaned up."""

    graph_commit_id: str
    graph_branch: str | None
    graph_manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    kind: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    rows: dict[str, object] | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    readable: bool | UnsetType = UNSET


class TargetOutput(msgspec.Struct):
    """What was read: a branch or a snapshot; the other one is null."""

    branch: str | None
    snapshot: str | None


class ReadOutput(msgspec.Struct):
    """Rows of a read query. Integers are numbers in full width, dates and instants texts."""

    query_name: str
    target: TargetOutput
    row_count: int
    rows: list[dict[str, object]]
    columns: list[str] | UnsetType = UNSET
    graph_commit_id: str | UnsetType = UNSET


class ChangeOutput(msgspec.Struct):
    """What a write query did; `commit` is null when nothing changed."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: CommitOutput | None


class ExplainOutput(msgspec.Struct):
    """The steps of a plan, with rows and seconds where it was run; `text` shows them to people."""

    steps: list[dict[str, object]]
    row_count: int | None
    seconds: float | None
    text: str


class LintOutput(msgspec.Struct):
    """What is wrong with a text of queries."""

    status: Literal["ok", "error"]
    schema_source: dict[str, object]
    query_path: str | None
    queries_processed: int
    errors: int
    warnings: int
    infos: int
    results: list[dict[str, object]]
    findings: list[dict[str, object]]


class SearchOutput(msgspec.Struct):
    """Nodes that words were found in, best first."""

    words: str
    branch: str | None
    graph_commit_id: str | None
    hits: list[dict[str, object]]


class DatasetOutput(msgspec.Struct):
    """The table of one type."""

    entity_kind: Literal["node", "edge"]
    type_name: str
    dataset_path: str
    published_dataset_version: int
    native_dataset_branch: str | None
    entity_count: int


class SnapshotOutput(msgspec.Struct):
    """What a state consists of."""

    graph_branch: str
    graph_manifest_version: int
    internal_schema_version: int
    datasets: list[DatasetOutput]
    branch: str
    version: int
    commit_id: str


class QueryParamOutput(msgspec.Struct):
    """A parameter of a stored query."""

    name: str
    kind: Literal["string", "bool", "int", "bigint", "float", "date", "datetime", "blob", "vector", "list"]
    nullable: bool
    item_kind: str | UnsetType = UNSET
    vector_dim: int | UnsetType = UNSET


class QueryCatalogEntry(msgspec.Struct):
    """A stored query."""

    name: str
    tool_name: str
    mutation: bool
    params: list[QueryParamOutput]
    description: str | UnsetType = UNSET
    instruction: str | UnsetType = UNSET


class QueriesOutput(msgspec.Struct):
    """The stored queries of a graph, by name."""

    queries: list[QueryCatalogEntry]


class SchemaOutput(msgspec.Struct):
    """The schema of main."""

    schema_source: str
    hash: str


class SchemaPlanOutput(msgspec.Struct):
    """Steps to another schema."""

    supported: bool
    step_count: int
    steps: list[dict[str, object]]
    warnings: list[dict[str, object]]


class SchemaApplyOutput(msgspec.Struct):
    """Steps that were taken."""

    uri: str
    supported: bool
    applied: bool
    step_count: int
    graph_manifest_version: int
    steps: list[dict[str, object]]
    commit: CommitOutput | None
    warnings: list[dict[str, object]]


class LoadedTypeOutput(msgspec.Struct):
    """Records of one type."""

    name: str
    entities_loaded: int


class GraphBatchLoadOutput(msgspec.Struct):
    """What a load did. `rejected` counts the records that were left out; `rejects` has the first of them."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: Literal["overwrite", "append", "merge"]
    nodes: list[LoadedTypeOutput]
    edges: list[LoadedTypeOutput]
    total_entities: int
    actor_id: str | None
    commit: CommitOutput | None
    rejected: int
    rejects: list[dict[str, object]]
    index_commit: CommitOutput | None
    timings: dict[str, float]


class IngestOutput(GraphBatchLoadOutput, kw_only=True):
    """The same, with the address of the graph."""

    uri: str


class BranchesOutput(msgspec.Struct):
    """Names of the branches, sorted, which one each was made from, and whom the server takes the caller for."""

    branches: list[str]
    parents: dict[str, str | None]
    actor_id: str | None = None


class BranchCreateOutput(msgspec.Struct):
    """A branch that was made."""

    uri: str
    from_: str = msgspec.field(name="from")
    name: str
    actor_id: str | None
    parent: str | None


class BranchRenameOutput(msgspec.Struct):
    """A branch under its new name."""

    uri: str
    from_: str = msgspec.field(name="from")
    name: str
    actor_id: str | None
    parent: str | None


class BranchDeleteOutput(msgspec.Struct):
    """A branch that is gone."""

    uri: str
    name: str
    actor_id: str | None


class BranchMergeOutput(msgspec.Struct):
    """What a merge did. `branch_deleted` is there when it was asked for, `branch_delete_error` when it failed."""

    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged", "conflicts"]
    actor_id: str | None
    commit: CommitOutput | None
    base_commit_id: str
    source_commit_id: str
    dry_run: bool
    tables: dict[str, dict[str, object]]
    conflicts: list[dict[str, object]]
    branch_deleted: bool | UnsetType = UNSET
    branch_delete_error: str | UnsetType = UNSET


class TagOutput(msgspec.Struct):
    """A name for a state."""

    name: str
    graph_commit_id: str
    branch: str
    graph_manifest_version: int
    created_at: int
    actor_id: str | None
    message: str | None


class TagsOutput(msgspec.Struct):
    """All tags, by name."""

    tags: list[TagOutput]


class TagDeleteOutput(msgspec.Struct):
    """A tag that is gone."""

    uri: str
    name: str
    actor_id: str | None


class UndoOutput(msgspec.Struct):
    """What a revert or a restore did."""

    branch: str
    undone_commit_id: str
    commit: CommitOutput | None
    tables: dict[str, dict[str, object]]
    actor_id: str | None


class CommitsOutput(msgspec.Struct):
    """Commits, newest first."""

    commits: list[CommitOutput]


class CommitNodeOutput(CommitOutput, kw_only=True):
    """A commit of a drawn history, with its nearest shown ancestors and the branches whose head it is."""

    shown_parent_ids: list[str]
    heads: list[str]


class CommitGraphOutput(msgspec.Struct):
    """Commits of several branches, children before their parents."""

    commits: list[CommitNodeOutput]


class CauseOutput(msgspec.Struct):
    """The commit that made a change."""

    graph_commit_id: str
    authored_branch: str
    authored_at: int
    parent_commit_id: str | UnsetType = UNSET
    merged_parent_commit_id: str | UnsetType = UNSET
    actor_id: str | UnsetType = UNSET


class ChangedTypeOutput(msgspec.Struct):
    """A type: `id` is opaque and stays when it is renamed."""

    id: str
    name: str


class EndpointsOutput(msgspec.Struct):
    """The two ends of an edge."""

    from_: str = msgspec.field(name="from")
    to: str


class ImageOutput(msgspec.Struct):
    """A node or an edge as it was, or is."""

    properties: dict[str, object]
    endpoints: EndpointsOutput | UnsetType = UNSET


class EntityChangeOutput(msgspec.Struct):
    """One change. An insert has only `after`, a delete only `before`, an update also the names of what `changed`."""

    kind: Literal["node", "edge"]
    type: ChangedTypeOutput
    id: str
    op: Literal["insert", "update", "delete"]
    before: ImageOutput | UnsetType = UNSET
    after: ImageOutput | UnsetType = UNSET
    changed: list[str] | UnsetType = UNSET


class CommitChangesOutput(msgspec.Struct):
    """A page of the changes of one commit."""

    cause: CauseOutput
    changes: list[EntityChangeOutput]
    commit: CommitOutput
    next_page_token: str | UnsetType = UNSET


class ChangeBlockOutput(msgspec.Struct):
    """What one commit changed."""

    cause: CauseOutput
    changes: list[EntityChangeOutput]
    commit: CommitOutput


class ChangeFeedOutput(msgspec.Struct):
    """A page of a feed: `next_page_token` where it ends inside a block, else `cursor` and `caught_up`."""

    blocks: list[ChangeBlockOutput]
    next_page_token: str | UnsetType = UNSET
    cursor: str | UnsetType = UNSET
    caught_up: bool | UnsetType = UNSET


class DiffStatsOutput(msgspec.Struct):
    """Counts of changes."""

    inserts: int
    updates: int
    deletes: int
    types_affected: list[str]


class DiffOutput(msgspec.Struct):
    """The changes that lead from one state to another; a summary has none."""

    from_commit_id: str
    to_commit_id: str
    from_version: int
    to_version: int
    branch: str
    stats: DiffStatsOutput
    changes: list[EntityChangeOutput] | UnsetType = UNSET


class StatsOutput(msgspec.Struct):
    """How big a graph is and how it lies in its files."""

    uri: str
    branch: str
    commits: int
    totals: dict[str, int]
    tables: list[dict[str, object]]
    manifest: dict[str, int]
    branches: list[str]
    tags: list[str]
    pending: list[dict[str, object]]
    drift: list[dict[str, object]]
    stored: dict[str, int]
    parts: dict[str, dict[str, int]]
    unreferenced: dict[str, int]
    embeddings: list[dict[str, object]]
