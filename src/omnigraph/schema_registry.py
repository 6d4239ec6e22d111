"""The schemas of a graph: each state records the hash of its schema, and every accepted schema is kept by its hash.

A live handle learns of a schema change from the snapshot it reads anyway, so a read or a write always works with the
schema of its own state. Files are read only for a hash that was not seen before.
"""

from __future__ import annotations

from omnigraph import ids
from omnigraph.errors import (
    BranchNotFound,
    CorruptGraph,
    InputError,
    LimitError,
    SchemaFilesDisagree,
)
from omnigraph.lru import LruCache
from omnigraph.schema.compiled_schema import CompiledSchema, compile_schema
from omnigraph.schema.contract import IR_FILE, SOURCE_FILE, STATE_FILE, check_files
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import schema_files
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.object_store import ObjectStore

#: Schemas that an open handle keeps compiled: the newest, and those of states it travelled to.
_KNOWN_SCHEMAS = 16


class SchemaRegistry:
    """The schemas of one graph, shared by the threads of one handle."""

    def __init__(self, store: GraphStore, opened: CompiledSchema) -> None:
        self._store = store
        self._known: LruCache[str, CompiledSchema] = LruCache(max_entries=_KNOWN_SCHEMAS)
        self._known.put(opened.hash, opened)

    def of(self, snapshot: ManifestSnapshot) -> CompiledSchema:
        """The schema of a state.

        Raises:
            CorruptGraph: nobody kept it.
        """
        name = snapshot.schema or f"{snapshot.branch}/{snapshot.identity}/{snapshot.version}"
        return self._known.get_or_make(name, lambda: read_schema(self._store.objects, snapshot))

    def newest(self, branch: str = ids.MAIN) -> CompiledSchema:
        """The schema that a branch has now."""
        return self.of(self._store.snapshot(branch))

    def text(self) -> str:
        """The schema of main as it was written, comments and all; its hash would not tell two spellings apart."""
        snapshot = self._store.snapshot(ids.MAIN)
        live = _live(self._store.objects)
        return live.source if live is not None and snapshot.schema in (None, live.hash) else self.of(snapshot).source

    def for_rows(self, branch: str, from_: str | None = None) -> CompiledSchema:
        """The schema that rows for a branch must have now; that of ``from_`` when the branch is still to be made."""
        try:
            return self.newest(branch)
        except BranchNotFound:
            return self.newest(from_ or ids.MAIN)


def read_schema(objects: ObjectStore, snapshot: ManifestSnapshot) -> CompiledSchema:
    """The schema of a state from its files: as kept under the recorded hash, or else the live one.

    A state that records none is older than the first one that does, and has the schema that was kept for those; or
    software that records none wrote since, and keeps the live files up to date.
    """
    recorded = snapshot.schema
    ever_recorded = snapshot.head is not None and snapshot.head.schema is not None
    kept = schema_files.kept(objects, recorded) if recorded or not ever_recorded else None
    compiled = _compiled(kept) if kept is not None else None
    if compiled is not None and recorded in (None, compiled.hash):
        return compiled
    live = check_files(_live_files(objects))
    if recorded in (None, live.hash):
        return live
    raise CorruptGraph(
        f"the state {snapshot.version} of branch '{snapshot.branch}' has the schema {recorded}, which is not kept",
        hint=f"restore {schema_files.HISTORY} from a copy",
    )


def _compiled(text: str) -> CompiledSchema | None:
    try:
        return compile_schema(text, file=schema_files.HISTORY)
    except (InputError, LimitError):
        return None


def _live(objects: ObjectStore) -> CompiledSchema | None:
    try:
        return check_files(_live_files(objects))
    except SchemaFilesDisagree:
        return None


def _live_files(objects: ObjectStore) -> dict[str, bytes | None]:
    return {name: objects.read(name) for name in (SOURCE_FILE, IR_FILE, STATE_FILE)}
