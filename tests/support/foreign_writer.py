"""What another program that knows only the published layout would do to a graph, with plain pylance.

Tables and manifest are written without the package under test, so that the two can disagree.
"""

from __future__ import annotations

import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

MANIFEST_SCHEMA = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"}),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("item", pa.string()))),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
)


def manifest_uri(root: Path, branch: str | None = None) -> str:
    return str(root / "__manifest" / "tree" / branch if branch else root / "__manifest")


def manifest_rows(root: Path, branch: str | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = lance.dataset(manifest_uri(root, branch)).to_table().to_pylist()
    return rows


def put_rows(root: Path, rows: list[dict[str, Any]], branch: str | None = None) -> None:
    """Upsert manifest rows by object id: the publish of a writer without head rows."""
    manifest = lance.dataset(manifest_uri(root, branch))
    merge = manifest.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all()
    merge.conflict_retries(0).use_index(False).execute(pa.Table.from_pylist(rows, schema=manifest.schema))


def version_row(key: str, version: int, rows: int, branch: str | None = None, **extra: Any) -> dict[str, Any]:
    details = {"manifest_path": "elsewhere", "manifest_size": None, "e_tag": None, "naming_scheme": "V2", **extra}
    return {
        "object_id": f"{key}${version:020d}",
        "object_type": "table_version",
        "metadata": json.dumps(details),
        "table_key": key,
        "table_version": version,
        "table_branch": branch,
        "row_count": rows,
    }


def append_and_publish(root: Path, key: str, rows: pa.Table, branch: str | None = None, **extra: Any) -> int:
    """Append rows to a table that the branch owns, and publish the new version. Returns that version."""
    location = next(
        row["location"] for row in manifest_rows(root, branch) if row["object_id"] == key and row["location"]
    )
    uri = str(root / location / "tree" / branch if branch else root / location)
    table = lance.write_dataset(rows, lance.dataset(uri), mode="append")
    put_rows(root, [version_row(key, table.version, table.count_rows(), branch, **extra)], branch)
    return int(table.version)


def append_commit(root: Path, commit_id: str, version: int, parent: str | None, created_at: Any) -> None:
    """Add a commit of main to the commit dataset, as a writer without commit rows does after its publish."""
    commits = lance.dataset(str(root / "_graph_commits.lance"))
    row = {
        "graph_commit_id": commit_id,
        "manifest_branch": None,
        "manifest_version": version,
        "parent_commit_id": parent,
        "merged_parent_commit_id": None,
        "created_at": created_at,
    }
    lance.write_dataset(pa.Table.from_pylist([row], schema=commits.schema), commits, mode="append")


PERSON_PATH, KNOWS_PATH = "nodes/40d76f1f51639ec0", "edges/602a25a3bd0b455b"
SCHEMA_TEXT = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person\n"
PERSON_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("age", pa.int32()),
        pa.field("name", pa.string(), nullable=False),
    ]
)
KNOWS_SCHEMA = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "src", "dst")])
COMMITS_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("manifest_branch", pa.string()),
        pa.field("manifest_version", pa.uint64(), nullable=False),
        pa.field("parent_commit_id", pa.string()),
        pa.field("merged_parent_commit_id", pa.string()),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)
ACTORS_SCHEMA = pa.schema(
    [
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("actor_id", pa.string(), nullable=False),
        pa.field("created_at", pa.timestamp("us"), nullable=False),
    ]
)

#: Ids of the commits that `old_graph` records, oldest first.
GENESIS, SECOND = "01HZZZZZZZZZZZZZZZZZZZZZZ1", "01HZZZZZZZZZZZZZZZZZZZZZZ2"


def old_graph(root: Path, stamp: str | None, *, runs: int = 0, commits: bool = True) -> Path:
    """A graph as earlier software left it: ann in the first state, ann, bob and an edge in the second.

    Args:
        stamp: layout stamp as text; None for the time before stamps, whose manifest marks no primary key either.
        runs: how many left-over run branches the manifest has.
        commits: whether the commit datasets exist.
    """
    import omnigraph  # only for the three schema files, whose text is not the subject here

    omnigraph.init(root / "scratch", SCHEMA_TEXT).close()
    for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json"):
        (root / name).write_bytes((root / "scratch" / name).read_bytes())
    shutil.rmtree(root / "scratch")
    people = _create(root / PERSON_PATH, pa.table({"id": ["ann"], "age": [1], "name": ["ann"]}, schema=PERSON_SCHEMA))
    edges = _create(root / KNOWS_PATH, KNOWS_SCHEMA.empty_table())
    _create(root / "__manifest", _first_rows(stamp))
    manifest = lance.dataset(manifest_uri(root))
    manifest.update_config({"table_version_management": "true"})
    if stamp is not None:
        manifest.update_schema_metadata({"omnigraph:internal_schema_version": stamp})
    first = lance.dataset(manifest_uri(root)).version
    people = lance.write_dataset(
        pa.table({"id": ["bob"], "age": [2], "name": ["bob"]}, schema=PERSON_SCHEMA), people, mode="append"
    )
    edge = pa.table({"id": ["e1"], "src": ["ann"], "dst": ["bob"]}, schema=KNOWS_SCHEMA)
    edges = lance.write_dataset(edge, edges, mode="append")
    put_rows(
        root,
        [version_row("node:Person", people.version, 2, seen="before"), version_row("edge:Knows", edges.version, 1)],
    )
    second = lance.dataset(manifest_uri(root)).version
    for number in range(runs):
        lance.dataset(manifest_uri(root)).create_branch(f"__run__{number}", (None, second))
    if commits:
        _create_commits(root, first, second)
    return root


def stamp_on_disk(root: Path, branch: str | None = None) -> str | None:
    raw = (lance.dataset(manifest_uri(root, branch)).schema.metadata or {}).get(b"omnigraph:internal_schema_version")
    return raw.decode() if raw is not None else None


def _create(path: Path, rows: pa.Table) -> Any:
    return lance.write_dataset(rows, str(path), mode="create", enable_stable_row_ids=True, data_storage_version="2.2")


def _first_rows(stamp: str | None) -> pa.Table:
    schema = MANIFEST_SCHEMA
    if stamp in (None, "1"):
        schema = schema.set(0, pa.field("object_id", pa.string(), nullable=False))
    rows: list[dict[str, Any]] = []
    for key, path, count in (("node:Person", PERSON_PATH, 1), ("edge:Knows", KNOWS_PATH, 0)):
        rows.append({"object_id": key, "object_type": "table", "location": path, "table_key": key})
        rows.append(version_row(key, 1, count))
    return pa.Table.from_pylist(rows, schema=schema)


def _create_commits(root: Path, first: int, second: int) -> None:
    times = [datetime(2024, 5, 1, 10), datetime(2024, 5, 2, 10)]
    rows = [
        dict(zip(COMMITS_SCHEMA.names, values, strict=True))
        for values in (
            (GENESIS, None, first, None, None, times[0]),
            (SECOND, None, second, GENESIS, None, times[1]),
        )
    ]
    _create(root / "_graph_commits.lance", pa.Table.from_pylist(rows, schema=COMMITS_SCHEMA))
    actors = [{"graph_commit_id": SECOND, "actor_id": "act-old", "created_at": times[1]}]
    _create(root / "_graph_commit_actors.lance", pa.Table.from_pylist(actors, schema=ACTORS_SCHEMA))
