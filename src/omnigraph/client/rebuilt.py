"""JSON of a server → the values that an embedded graph answers with. Keys that are not known are passed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph import ids
from omnigraph.errors import Conflict
from omnigraph.history.branches import Branch
from omnigraph.history.commit_graph import CommitNode
from omnigraph.history.diff import DiffStats
from omnigraph.history.entity_changes import EntityChange
from omnigraph.history.feed.commit_changes import CommitPage
from omnigraph.history.feed.page import ChangeBlock, ChangePage
from omnigraph.history.merge.merge_result import MergedRows, MergeResult
from omnigraph.history.tags import Tag
from omnigraph.history.undo import UndoResult
from omnigraph.storage.metadata.commit_note import note_of
from omnigraph.storage.metadata.manifest import Commit, Pin
from omnigraph.write.load.load_result import LoadResult
from omnigraph.write.load.violations import REJECTS
from omnigraph.write.mutation_result import MutationResult

Json = Mapping[str, Any]


def commit(found: Json) -> Commit:
    return Commit(
        id=found["graph_commit_id"],
        branch=found["graph_branch"] or ids.MAIN,
        version=found["graph_manifest_version"],
        parent=found["parent_commit_id"],
        merged_parent=found["merged_parent_commit_id"],
        actor=found["actor_id"],
        created_at=ids.from_micros(found["created_at"]),
        labels=dict(found.get("labels") or {}),
        note=note_of(found),
        readable=found.get("readable", True),
    )


def commit_or_none(found: Json | None) -> Commit | None:
    return None if found is None else commit(found)


def commit_node(found: Json) -> CommitNode:
    return CommitNode(commit(found), tuple(found["shown_parent_ids"]), tuple(found["heads"]))


def mutation_result(found: Json) -> MutationResult:
    return MutationResult(
        commit=commit_or_none(found["commit"]),
        branch=found["branch"],
        query_name=found["query_name"],
        affected_nodes=found["affected_nodes"],
        affected_edges=found["affected_edges"],
        actor=found["actor_id"],
    )


def load_result(found: Json) -> LoadResult:
    rejects = [{name: each.get(name) for name in REJECTS.names} for each in found.get("rejects") or ()]
    return LoadResult(
        commit=commit_or_none(found["commit"]),
        branch=found["branch"],
        base_branch=found["base_branch"],
        branch_created=found["branch_created"],
        mode=found["mode"],
        nodes={each["name"]: each["entities_loaded"] for each in found["nodes"]},
        edges={each["name"]: each["entities_loaded"] for each in found["edges"]},
        rejects=pa.Table.from_pylist(rejects, schema=REJECTS),
        actor=found["actor_id"],
        index_commit=commit_or_none(found.get("index_commit")),
        timings=dict(found.get("timings") or {}),
    )


def branch(found: Json) -> Branch:
    return Branch(found["name"], found.get("parent", found.get("from")))


def tag(found: Json) -> Tag:
    return Tag(
        name=found["name"],
        commit_id=found["graph_commit_id"],
        branch=found["branch"],
        version=found["graph_manifest_version"],
        created_at=ids.from_micros(found["created_at"]),
        actor=found["actor_id"],
        message=found["message"],
    )


def merge_result(found: Json) -> MergeResult:
    return MergeResult(
        outcome=found["outcome"],
        source=found["source"],
        target=found["target"],
        commit=commit_or_none(found["commit"]),
        base=found["base_commit_id"],
        source_commit=found["source_commit_id"],
        tables=_merged(found["tables"]),
        conflicts=tuple(map(Conflict.of, found["conflicts"])),
        dry_run=found["dry_run"],
        branch_deleted=found.get("branch_deleted"),
        branch_delete_error=found.get("branch_delete_error"),
    )


def _merged(tables: Json) -> dict[str, MergedRows]:
    return {
        key: MergedRows(
            rows["inserted"],
            rows["updated"],
            rows["deleted"],
            {name: pa.array(each, pa.string()) for name, each in (rows.get("entities") or {}).items()},
        )
        for key, rows in tables.items()
    }


def undo_result(found: Json) -> UndoResult:
    return UndoResult(
        commit_or_none(found["commit"]), found["branch"], found["undone_commit_id"], _merged(found["tables"])
    )


def change(found: Json) -> EntityChange:
    return EntityChange(
        kind=found["kind"],
        type=found["type"]["name"],
        id=found["id"],
        op=found["op"],
        before=found.get("before"),
        after=found.get("after"),
        changed=tuple(found.get("changed") or ()),
        type_id=found["type"]["id"],
    )


def changes(found: Sequence[Json]) -> tuple[EntityChange, ...]:
    return tuple(map(change, found))


def change_page(found: Json) -> ChangePage:
    blocks = tuple(ChangeBlock(_cause(each), changes(each["changes"])) for each in found["blocks"])
    token = found.get("next_page_token")
    return ChangePage(blocks, found.get("cursor"), token, token is None and found["caught_up"])


def commit_page(found: Json) -> CommitPage:
    return CommitPage(_cause(found), changes(found["changes"]), found.get("next_page_token"))


def _cause(found: Json) -> Commit:
    """The commit of a block; a server that does not tell it whole tells its cause."""
    if found.get("commit") is not None:
        return commit(found["commit"])
    cause = found["cause"]
    return Commit(
        id=cause["graph_commit_id"],
        branch=cause["authored_branch"],
        version=0,
        parent=cause.get("parent_commit_id"),
        merged_parent=cause.get("merged_parent_commit_id"),
        actor=cause.get("actor_id"),
        created_at=ids.from_micros(cause["authored_at"]),
    )


def diff_stats(found: Json) -> DiffStats:
    return DiffStats(found["inserts"], found["updates"], found["deletes"], tuple(found["types_affected"]))


def pins(datasets: Sequence[Json]) -> dict[str, Pin]:
    """The tables of a state, in the order of their keys."""
    found = [
        Pin(
            table_key=f"{each['entity_kind']}:{each['type_name']}",
            location=each["dataset_path"],
            version=each["published_dataset_version"],
            branch=each["native_dataset_branch"],
            row_count=each["entity_count"],
            metadata="{}",
        )
        for each in datasets
    ]
    return {pin.table_key: pin for pin in sorted(found, key=lambda pin: pin.table_key)}


def found_merge(result: MergeResult, made: Commit) -> MergeResult:
    """A merge whose answer was lost and whose commit was found: what can be told of it afterwards."""
    tables = {key: MergedRows(rows.inserted, rows.updated, rows.deleted) for key, rows in made.rows.items()}
    return replace(result, outcome="merged", commit=made, dry_run=False, tables=tables, base=made.parent or result.base)
