"""What an engine of this package may use of an open graph: its storage, its schemas and its actor.

`Graph.internals` hands it out. Everything outside `graph/` that needs more than the public methods of `Graph` goes
through here, so that the private attributes of `Graph` stay private.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph import ids
from omnigraph.errors import ReadOnly
from omnigraph.history.state_at import At, snapshot_at
from omnigraph.ids import known_branch
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.compiled_schema import CompiledSchema
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest_snapshot import ManifestSnapshot
from omnigraph.storage.objects.process import use_storage


@dataclass(frozen=True, slots=True)
class GraphInternals:
    """An open graph as engines see it.

    Attributes:
        mode: ``rw`` or ``ro``.
        actor: author of the commits of this handle.
    """

    store: GraphStore
    schemas: SchemaRegistry
    mode: str
    actor: str | None

    def reader(self) -> GraphStore:
        """The storage, to read from it.

        Raises:
            ForkedProcess: this process was forked from one that had used the storage.
        """
        use_storage()
        return self.store

    def writer(self) -> GraphStore:
        """The storage, to write to it.

        Raises:
            ReadOnly: the graph is open read-only.
        """
        if self.mode != "rw":
            raise ReadOnly(f"{self.store.location.uri} is open read-only", hint="open it with mode='rw'")
        return self.reader()

    def snapshot(self, branch: str = ids.MAIN, at: At | None = None) -> ManifestSnapshot:
        """The state of a branch now, or at a commit id, a manifest version or a time."""
        return snapshot_at(self.reader(), known_branch(branch), at)

    def catalog_of(self, snapshot: ManifestSnapshot) -> Catalog:
        """The types of a state."""
        return self.schemas.of(snapshot).catalog

    def schema_for_rows(self, branch: str, from_: str | None = None) -> CompiledSchema:
        """The schema that new rows of a branch must have; of ``from_`` when the write will create the branch."""
        return self.schemas.for_rows(branch, from_)
