"""Settles the files of a schema change that was interrupted by other software, or that no recovery record explains.

Every read-write open looks for such files; what applies a schema change is `schema_apply.py`.
"""

from __future__ import annotations

from omnigraph import ids
from omnigraph.errors import LimitError, SchemaFilesDisagree, SourceError
from omnigraph.schema.compiled_schema import CompiledSchema, compile_accepted
from omnigraph.schema.contract import check_files
from omnigraph.storage.commit import sidecar
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import schema_files
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.locks import CONTROL


def resolve_staging(store: GraphStore) -> None:
    """Settle staging files that no recovery record explains.

    Raises:
        SchemaFilesDisagree: the graph does not tell whether the change happened.
    """
    if not _is_left(store):
        return
    with store.sections.hold(CONTROL), store.sections.hold(ids.MAIN):
        staged = schema_files.staged(store.objects)
        if not staged or sidecar.pending(store.objects):
            return  # settled meanwhile, or it belongs to a record that is still there
        if _happened(store, staged, store.refresh(ids.MAIN)):
            schema_files.promote(store.objects)
        else:
            schema_files.discard(store.objects)


def _is_left(store: GraphStore) -> bool:
    names = set(store.objects.names(""))
    return any(schema_files.staging(name) in names for name in schema_files.FILES)


def _happened(store: GraphStore, staged: dict[str, bytes], snapshot: ManifestSnapshot) -> bool:
    """Whether the change that these files belong to is visible."""
    if schema_files.STATE not in staged:
        return False  # the state is written last and renamed last: the change never came to its publish
    if snapshot.schema is not None:
        return snapshot.schema == schema_files.staged_hash(staged)
    live = _compiled(store.objects.read(schema_files.SOURCE))
    is_live = _is_staged_schema(store, staged)
    if schema_files.SOURCE not in staged:
        if is_live:
            return True  # the renames were interrupted
        raise _undecided("its source is neither staged nor live")
    if is_live:
        return False
    wanted = _compiled(staged[schema_files.SOURCE])
    shown = set(snapshot.pins)
    if live is None or wanted is None or _keys(live) == _keys(wanted):
        raise _undecided("the tables are the same before and after it")
    if shown == _keys(live):
        return False
    if shown == _keys(wanted):
        return True
    raise _undecided("the tables of the graph are neither those before nor those after it")


def _is_staged_schema(store: GraphStore, staged: dict[str, bytes]) -> bool:
    """Whether the live source is that of the staged schema, whose compiled form is staged still or live already."""
    ir = staged.get(schema_files.IR) or store.objects.read(schema_files.IR)
    files = {schema_files.IR: ir, schema_files.STATE: staged[schema_files.STATE]}
    try:
        check_files({schema_files.SOURCE: store.objects.read(schema_files.SOURCE), **files})
    except SchemaFilesDisagree:
        return False
    return True


def _compiled(content: bytes | None) -> CompiledSchema | None:
    try:
        return compile_accepted((content or b"").decode("utf-8"))
    except (SourceError, LimitError, UnicodeDecodeError):
        return None


def _keys(schema: CompiledSchema) -> set[str]:
    nodes, edges = schema.catalog.nodes.values(), schema.catalog.edges.values()
    return {node.table_key for node in nodes} | {edge.table_key for edge in edges}


def _undecided(why: str) -> SchemaFilesDisagree:
    return SchemaFilesDisagree(
        f"a schema change was interrupted and nothing tells whether it happened: {why}",
        hint="compare the .staging files with the live ones, then rename or remove them by hand",
        file=schema_files.staging(schema_files.STATE),
    )
