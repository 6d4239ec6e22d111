"""The schemas of a graph: each state records the hash of its schema, and every accepted schema is kept by its hash.

A live handle learns of a schema change from the snapshot it reads anyway, so a read or a write always works with the
schema of its own state. Files are read only for a hash that was not seen before.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph import ids
from omnigraph.errors import BranchNotFound, CorruptGraph, InputError, LimitError, SchemaFilesDisagree
from omnigraph.lru import LruCache
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema, compile_accepted
from omnigraph.schema.contract import IR_FILE, SOURCE_FILE, STATE_FILE, check_contract, check_files, state_text
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import schema_files
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.object_store import ObjectStore

#: Schemas that an open handle keeps compiled: the newest, and those of states it travelled to.
_KNOWN_SCHEMAS = 16


@dataclass(frozen=True, slots=True)
class RowSchema:
    """The schema that new rows must have.

    Attributes:
        whole: its rules hold.
        named: the types that rows may have; not all of them when their writer may not know all.
    """

    whole: CompiledSchema
    named: Catalog


class SchemaRegistry:
    """The schemas of one graph, shared by the threads of one handle."""

    def __init__(self, store: GraphStore, opened: CompiledSchema) -> None:
        self._store = store
        self._known: LruCache[str, CompiledSchema] = LruCache(max_entries=_KNOWN_SCHEMAS)
        self._known.put(opened.hash, opened)
        self._parts: LruCache[tuple[str, frozenset[str]], CompiledSchema] = LruCache(max_entries=_KNOWN_SCHEMAS)

    def of(self, snapshot: ManifestSnapshot) -> CompiledSchema:
        """The schema of a state; only the part of it that its reader may know.

        Raises:
            CorruptGraph: nobody kept it.
        """
        name = snapshot.schema or f"{snapshot.branch}/{snapshot.identity}/{snapshot.version}"
        whole = self._known.get_or_make(name, lambda: read_schema(self._store.objects, snapshot))
        return whole if not snapshot.withheld else self._part(whole, frozenset(snapshot.withheld))

    def _part(self, whole: CompiledSchema, hidden: frozenset[str]) -> CompiledSchema:
        from omnigraph.schema.shown_part import shown_part

        return self._parts.get_or_make((whole.hash, hidden), lambda: shown_part(whole, hidden))

    def newest(self, branch: str = ids.MAIN) -> CompiledSchema:
        """The schema that a branch has now."""
        return self.of(self._store.snapshot(branch))

    def text(self, snapshot: ManifestSnapshot) -> str:
        """The schema of the newest state of main as it was written, comments and all; its hash would not tell two
        spellings apart."""
        if snapshot.withheld:
            return self.of(snapshot).source
        live = _live(self._store.objects)
        named = live.named(snapshot.schema) if live is not None else None
        return (named or self.of(snapshot)).source

    def for_rows(self, store: GraphStore, branch: str, from_: str | None = None) -> RowSchema:
        """The schema that rows for a branch must have now; that of ``from_`` when the branch is still to be made."""
        try:
            snapshot = store.snapshot(branch)
        except BranchNotFound:
            snapshot = store.snapshot(from_ or ids.MAIN)
        return RowSchema(self.of(snapshot), self.of(store.named(snapshot)).catalog)


def read_schema(objects: ObjectStore, snapshot: ManifestSnapshot) -> CompiledSchema:
    """The schema of a state from its files: as kept under the recorded hash, or else the live one.

    A state that records none is older than the first one that does, and has the schema that was kept for those; or
    software that records none wrote since, and keeps the live files up to date.
    """
    recorded = snapshot.schema
    ever_recorded = snapshot.head is not None and snapshot.head.schema is not None
    accepted = kept_schema(objects, recorded) if recorded or not ever_recorded else None
    accepted = accepted or check_files(_live_files(objects)).named(recorded)
    if accepted is not None:
        return accepted
    raise CorruptGraph(
        f"the state {snapshot.version} of branch '{snapshot.branch}' has the schema {recorded}, which is not kept",
        hint=f"restore {schema_files.HISTORY} from a copy",
    )


def kept_schema(objects: ObjectStore, recorded: str | None) -> CompiledSchema | None:
    """The accepted schema of this hash, or of the states without one; None when it is not kept or is another one.

    The hash is that of a compiled form which follows from the text, or is kept beside it.
    """
    text = schema_files.kept(objects, recorded)
    if text is None:
        return None
    try:
        compiled = compile_accepted(text, file=schema_files.HISTORY)
        if recorded is None:
            return next(
                (compiled.named(each) for each in compiled.hashes if schema_files.kept(objects, each)), compiled
            )
        ir = schema_files.kept_ir(objects, recorded) if recorded not in compiled.hashes else None
        return compiled.named(recorded) if ir is None else check_contract(text, ir, state_text(recorded))
    except (InputError, LimitError, SchemaFilesDisagree):
        return None


def _live(objects: ObjectStore) -> CompiledSchema | None:
    try:
        return check_files(_live_files(objects))
    except SchemaFilesDisagree:
        return None


def _live_files(objects: ObjectStore) -> dict[str, bytes | None]:
    return {name: objects.read(name) for name in (SOURCE_FILE, IR_FILE, STATE_FILE)}
