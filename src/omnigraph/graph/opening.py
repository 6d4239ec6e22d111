"""Makes and opens graphs. What an open graph can do is in `handle.py`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from omnigraph import ids
from omnigraph.errors import InputError
from omnigraph.graph.handle import Graph
from omnigraph.schema.arrow import table_schema
from omnigraph.schema.compile import CompiledSchema, compile_schema
from omnigraph.schema.contract import check_files, missing_files, state_text
from omnigraph.schema.paths import table_path
from omnigraph.storage import create
from omnigraph.storage.location import parse_location
from omnigraph.storage.mirror import catch_up, follows
from omnigraph.storage.recovery import sweep
from omnigraph.storage.store import GraphStore


def init(uri: str | os.PathLike[str], schema: str | Path, *, actor: str | None = None, force: bool = False) -> Graph:
    """Create a graph and open it.

    Args:
        uri: directory, ``file://`` or ``s3://bucket/prefix``; a missing directory is made.
        schema: the `.pg` text, or the path of a file that holds it.
        actor: who the first commit and later writes belong to.
        force: replace schema files that belong to no graph.

    Raises:
        AlreadyInitialized: there is a graph.
    """
    text, file = (schema.read_text(encoding="utf-8"), str(schema)) if isinstance(schema, Path) else (schema, None)
    compiled = compile_schema(text, file=file)
    catalog = compiled.catalog
    tables = [
        create.NewTable(type_.table_key, table_path(kind, type_.name), table_schema(type_))
        for kind, types in (("node", catalog.nodes), ("edge", catalog.edges))
        for type_ in types.values()
    ]
    new = create.NewGraph(compiled.source, compiled.ir_text, state_text(compiled.hash), tables, ids.actor_id(actor))
    create.create_graph(GraphStore(parse_location(uri)), new, force=force)
    return open_graph(uri, actor=actor)


def open_graph(uri: str | os.PathLike[str], *, mode: Literal["rw", "ro"] = "rw", actor: str | None = None) -> Graph:
    """Open a graph.

    Args:
        mode: ``"rw"`` finishes interrupted writes and migrates old layouts first; ``"ro"`` never writes anything.
        actor: who the writes of this handle belong to.

    Raises:
        GraphNotFound: nothing is there.
        NewerFormat: the graph was written by newer software.
    """
    if mode not in ("rw", "ro"):
        raise InputError(f"mode {mode!r} is not 'rw' or 'ro'")
    store = GraphStore(parse_location(uri))
    store.snapshot(ids.MAIN)
    if mode == "rw":
        store.refresh(ids.MAIN, migrate_layout=True)
        sweep.sweep(store, strict=False)
        snapshot = store.snapshot(ids.MAIN)
        if not follows(store.tables, snapshot):
            catch_up(store.tables, snapshot, store.sections)
    return Graph(store, _read_schema(store, mode), mode=mode, actor=ids.actor_id(actor))


def _read_schema(store: GraphStore, mode: str) -> CompiledSchema:
    files = {name: store.objects.read(name) for name in create.SCHEMA_FILES}
    if None in files.values() and len(store.branch_refs()) == 1:
        completed = missing_files(files)
        if mode == "rw":
            for name, content in completed.items():
                store.objects.create(name, content)
        files |= completed
    return check_files(files)
