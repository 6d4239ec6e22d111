"""Ways to damage a graph behind its back, each through raw files or raw Lance."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.fragment import write_fragments

import omnigraph as og
from omnigraph.storage.commit.preparation import Prepared, PreparedTable, Workspace
from omnigraph.storage.commit.protocol import Write, run
from omnigraph.storage.commit.sidecar import WriterKind
from omnigraph.storage.metadata import manifest
from omnigraph.storage.tables.datasets import as_dataset, version_file
from omnigraph.storage.tables.stage_rows import StagedTransaction

SCHEMA = """
node Person { handle: String @key  age: I32?  email: String? @unique  bio: String? @index  vec: Vector(2)? @index }
node Pair {
  a: I32  b: String  f: F64?  c: enum(red, blue)?
  @key(a, b)  @unique(b, f)  @range(f, 0.0..1.0)  @check(b, "^[a-z]$")
}
edge Knows: Person -> Person @card(1..2) { since: Date? }
edge Owns: Person -> Pair
"""


def sound_graph(root: Path) -> og.Graph:
    """Two branches, several commits, every kind of rule, indexes, and nothing wrong."""
    graph = og.init(root, SCHEMA, actor="act-one")
    lines: list[dict[str, Any]] = [
        *({"type": "Person", "data": _person(name, number)} for number, name in enumerate(("ann", "bob", "cat"))),
        {"type": "Pair", "data": {"a": 1, "b": "x", "f": 0.5}},
        {"type": "Pair", "data": {"a": 2, "b": "x", "f": None}},
        {"edge": "Knows", "from": "ann", "to": "bob"},
        {"edge": "Knows", "from": "ann", "to": "cat"},
        {"edge": "Owns", "from": "bob", "to": '["1","x"]'},
    ]
    graph.load(_file(root, lines), "append")
    graph.ensure_indices()
    graph.branches.create("dev")
    more: list[dict[str, Any]] = [
        {"type": "Person", "data": _person("dan", 3)},
        {"edge": "Knows", "from": "dan", "to": "ann"},
    ]
    graph.load(_file(root, more), "append", branch="dev")
    graph.load(_file(root, [{"type": "Person", "data": _person("eva", 4)}]), "append")
    graph.tags.create("first", at=graph.commits.list()[-1].id)
    graph._store.mirror.flush()
    return graph


def _file(root: Path, lines: list[dict[str, Any]]) -> Path:
    path = root.with_suffix(".jsonl")
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def _person(handle: str, number: int) -> dict[str, Any]:
    return {"handle": handle, "age": number, "email": f"{handle}@x", "bio": f"word{number} common", "vec": [number, 1]}


def folder(graph: og.Graph, key: str, branch: str = "main") -> Path:
    """Where the rows of a table lie that a branch wrote itself."""
    pin = graph.snapshot(branch).tables[key]
    whole = Path(graph.uri, pin.location)
    return whole / "tree" / pin.branch if pin.branch else whole


def only_file(directory: Path) -> Path:
    (found,) = [path for path in directory.iterdir() if path.is_file()]
    return found


def pinned_version_file(graph: og.Graph, key: str, branch: str = "main") -> Path:
    return folder(graph, key, branch) / version_file(graph.snapshot(branch).tables[key].version)


def append_raw(graph: og.Graph, key: str, *rows: dict[str, Any], branch: str = "main") -> None:
    """Commit rows through the real protocol without any of the rules."""

    def prepare(workspace: Workspace) -> Prepared[None]:
        pin, handle = workspace.writable(key)
        table = pa.Table.from_pylist(list(rows), schema=handle.schema)
        fragments = write_fragments(
            table, as_dataset(handle), schema=handle.schema, mode="append", data_storage_version="2.2"
        )
        staged = StagedTransaction(lance.LanceOperation.Append(fragments), handle.version, pin.row_count + len(rows))
        return Prepared(None, {key: PreparedTable(pin, handle, staged, reads_rows=False)})

    run(graph._store, Write(branch, WriterKind.LOAD, None, prepare))
    graph._store.mirror.flush()


def rewrite_manifest(graph: og.Graph, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change rows of the manifest as if the last publish had written them so, under the same version."""
    path = f"{graph.uri}/__manifest"
    stored = lance.dataset(path)
    rows = stored.to_table().to_pylist()
    change(rows)
    Path(path, version_file(stored.version)).unlink()
    again = lance.write_dataset(manifest.to_arrow(rows), path, mode="overwrite")
    assert again.version == stored.version


def change_head(graph: og.Graph, **details: Any) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        (head,) = [row for row in rows if row["object_type"] == manifest.GRAPH_HEAD]
        head["metadata"] = json.dumps({**json.loads(head["metadata"]), **details})

    rewrite_manifest(graph, change)


def change_pin(graph: og.Graph, key: str, **columns: Any) -> None:
    """Change what the graph says about the newest version of a table."""
    version = graph.snapshot().tables[key].version

    def change(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if (row["table_key"], row["table_version"]) == (key, version):
                row.update(columns)
                if row["object_type"] == manifest.TABLE_VERSION:
                    row["object_id"] = manifest.version_id(key, row["table_version"])

    rewrite_manifest(graph, change)


def drop_row(graph: og.Graph, object_id: str) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[:] = [row for row in rows if row["object_id"] != object_id]

    rewrite_manifest(graph, change)


def forget_table(graph: og.Graph, key: str) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        rows[:] = [row for row in rows if row["table_key"] != key]

    rewrite_manifest(graph, change)


def change_commit(graph: og.Graph, commit_id: str, **details: Any) -> None:
    def change(rows: list[dict[str, Any]]) -> None:
        (commit,) = [row for row in rows if row["object_id"] == commit_id]
        commit["metadata"] = json.dumps({**json.loads(commit["metadata"]), **details})

    rewrite_manifest(graph, change)


def repeat_row(graph: og.Graph, object_id: str) -> None:
    rewrite_manifest(graph, lambda rows: rows.extend([row for row in rows if row["object_id"] == object_id]))
