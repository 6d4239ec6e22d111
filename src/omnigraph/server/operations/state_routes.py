"""Routes that show what a state consists of: its tables, its figures."""

from __future__ import annotations

from omnigraph import limits
from omnigraph.graph.snapshot import Snapshot
from omnigraph.server.operation import Answer, Call, HttpOperation, Need
from omnigraph.server.operations.asked_branch import branch_of, reads, state_of
from omnigraph.wire import answers, requests


def _snapshot(call: Call) -> Answer:
    snapshot = call.graph.snapshot(**state_of(call.query))
    return {
        "graph_branch": snapshot.branch,
        "graph_manifest_version": snapshot.version,
        "internal_schema_version": limits.INTERNAL_SCHEMA_VERSION,
        "datasets": list(_datasets(snapshot)),
        "branch": snapshot.branch,
        "version": snapshot.version,
        "commit_id": snapshot.commit_id,
    }


def _datasets(snapshot: Snapshot) -> list[dict[str, object]]:
    """Edges before nodes, then by name."""
    shown = []
    for key, pin in sorted(snapshot.tables.items()):
        kind, _, name = key.partition(":")
        shown.append(
            {
                "entity_kind": kind,
                "type_name": name,
                "dataset_path": pin.location,
                "published_dataset_version": pin.version,
                "native_dataset_branch": pin.branch,
                "entity_count": pin.row_count,
            }
        )
    return shown


def _stats(call: Call) -> Answer:
    asked: requests.StatsQuery = call.query
    return call.graph.stats(branch_of(asked.branch), embeddings=bool(asked.embeddings)).to_dict()


STATE_ROUTES = (
    HttpOperation(
        "GET",
        "/snapshot",
        "getSnapshot",
        "snapshots",
        "Show what a state consists of",
        _snapshot,
        reads,
        query=requests.StateQuery,
        answer=answers.SnapshotOutput,
    ),
    HttpOperation(
        "GET",
        "/stats",
        "stats",
        "snapshots",
        "Show how big the graph is and how it lies in its files",
        _stats,
        lambda call: (Need("read", branch_of(call.query.branch)),),
        query=requests.StatsQuery,
        answer=answers.StatsOutput,
    ),
)
