"""Tells how big a graph is, how it lies in its files, and what waits for upkeep. Writes nothing.

Row counts come from the manifest, fragments and indexes from the version file of each table, sizes from one listing of
the store: no data file is opened. `graph_stats.py` holds the values that come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from omnigraph import ids
from omnigraph.errors import StorageError
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.index_plan import IndexKind, IndexPlan, index_plan
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.storage.commit.sidecar import Sidecar
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log, manifest
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin, table_version_of
from omnigraph.storage.objects.file_sizes import file_sizes
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.storage.tables.table_indexes import is_tokenized_by
from omnigraph.storage.tables.table_layout import TableLayout, directory_of, table_layout
from omnigraph.storage.tagged_states import shown_tags
from omnigraph.upkeep.drift import DriftKind, drift_kind
from omnigraph.upkeep.indexes import PendingIndex
from omnigraph.upkeep.stats.file_tally import MANIFEST, FileTally, total_of
from omnigraph.upkeep.stats.graph_stats import GraphStats, ManifestStats, PendingWrite, TableDrift, TableStats
from omnigraph.upkeep.verify.control_checks import records

if TYPE_CHECKING:
    from omnigraph.embed.managed.embedding_status import EmbeddingStatus

#: Tables whose version files are read at once.
_TABLES_AT_ONCE = 8


def stats(store: GraphStore, schemas: SchemaRegistry, branch: str, *, embeddings: bool = False) -> GraphStats:
    """Look at a branch and at the files of the whole graph.

    Args:
        embeddings: also count the vectors that follow a text, which reads them.

    Raises:
        BranchNotFound: there is no such branch.
        CorruptGraph: a version that the branch shows is missing.
    """
    store.mirror.flush()
    snapshot = store.snapshot(branch)
    whole = snapshot.whole
    layouts = _layouts(store, whole)
    tally = FileTally({whole.pins[key].location: layout.files for key, layout in layouts.items()})
    tally.count(file_sizes(store.location))
    found = list(records(store))  # after the listing: a table that moved by then has its record, or is published below
    refs = [ref for ref in store.branch_refs() if ref.name != ids.SCHEMA_APPLY_LOCK]
    return GraphStats(
        uri=store.location.uri,
        branch=branch,
        commits=sum(1 for _ in commit_log.history(store.tables, snapshot)),
        tables=tuple(_tables(snapshot, schemas.of(snapshot).catalog, layouts, tally)),
        manifest=_manifest(snapshot, tally),
        branches=tuple(ref.name for ref in refs if store.sees(ref.name)),
        tags=tuple(entry.name for entry in shown_tags(store)),
        pending=tuple(_pending(store, snapshot, found)),
        drift=tuple(_drift(store, snapshot, tally, found)),
        stored=total_of(tally.parts.values()),
        parts=tally.parts,
        unreferenced=tally.outside({ref.lineage for ref in refs if ref.lineage is not None}),
        embeddings=_embeddings(store, schemas, snapshot) if embeddings else (),
    )


def _embeddings(store: GraphStore, schemas: SchemaRegistry, snapshot: ManifestSnapshot) -> tuple[EmbeddingStatus, ...]:
    from omnigraph.embed.managed.embedding_status import embedding_statuses

    return embedding_statuses(store, snapshot, schemas.of(snapshot).catalog)


def _layouts(store: GraphStore, snapshot: ManifestSnapshot) -> dict[str, TableLayout]:
    def layout(pin: Pin) -> TableLayout:
        return table_layout(table_version_of(pin), store.table(pin))

    with ThreadPoolExecutor(_TABLES_AT_ONCE) as threads:
        return dict(zip(snapshot.pins, threads.map(layout, snapshot.pins.values()), strict=True))


def _tables(
    snapshot: ManifestSnapshot, catalog: Catalog, layouts: Mapping[str, TableLayout], tally: FileTally
) -> Iterator[TableStats]:
    plans = {type_.table_key: index_plan(type_) for types in (catalog.nodes, catalog.edges) for type_ in types.values()}
    for key, pin in snapshot.pins.items():
        layout = layouts[key]
        yield TableStats(
            table_key=key,
            version=pin.version,
            rows=pin.row_count,
            fragments=layout.fragments,
            small_fragments=layout.small_fragments,
            deleted_rows=layout.deleted_rows,
            bytes=tally.shown_bytes[pin.location],
            history_bytes=tally.other_bytes[pin.location],
            indexes=layout.indexes,
            missing_indexes=tuple(_missing(pin, plans[key], layout)) if key in plans else (),
        )


def _missing(pin: Pin, plan: IndexPlan, layout: TableLayout) -> Iterator[PendingIndex]:
    """Declared indexes that a table does not have, each column once."""
    built = {(index.column, index.kind): index for index in layout.indexes}
    reason = "not built yet" if pin.row_count else "the table is empty"
    for wanted in dict.fromkeys(plan.wanted):
        found = built.get((wanted.column, wanted.kind.value))
        if found is None:
            yield PendingIndex(pin.table_key, wanted.column, reason)
        elif wanted.kind is IndexKind.INVERTED and not is_tokenized_by(found.details, wanted.tokenizer):
            yield PendingIndex(pin.table_key, wanted.column, "built for another @fulltext")
    for unbuilt in plan.unbuilt:
        yield PendingIndex(pin.table_key, ", ".join(unbuilt.columns), unbuilt.reason)


def _manifest(snapshot: ManifestSnapshot, tally: FileTally) -> ManifestStats:
    return ManifestStats(
        version=snapshot.version,
        versions=tally.versions[directory_of(manifest.PATH, snapshot.lineage)],
        rows=snapshot.handle.count_rows(),
        fragments=len(snapshot.handle.get_fragments()),
        bytes=tally.parts[MANIFEST].bytes,
    )


def _pending(
    store: GraphStore, snapshot: ManifestSnapshot, found: list[tuple[str, Sidecar | StorageError]]
) -> Iterator[PendingWrite]:
    """The records of branches that may be known of, with the tables that may."""
    for operation_id, record in found:
        if isinstance(record, StorageError):
            yield PendingWrite(operation_id, None, None, problem=record.message)
        elif store.sees(record.branch):
            age = (ids.now() - record.started_at).total_seconds()
            keys = (table.table_key for table in record.tables)
            tables = tuple(key for key in keys if not snapshot.withheld or key in snapshot.pins)
            yield PendingWrite(operation_id, record.branch, record.kind.value, tables, record.started_at, age)


def _drift(
    store: GraphStore, snapshot: ManifestSnapshot, tally: FileTally, found: list[tuple[str, Sidecar | StorageError]]
) -> Iterator[TableDrift]:
    """Tables of this branch that the listing had at a higher version than the branch shows, also when asked again."""
    ahead = [
        key for key, pin in snapshot.pins.items() if snapshot.owns(pin.branch) and _newest(pin, tally) > pin.version
    ]
    if not ahead:
        return
    recorded = {
        (record.branch, table.table_key)
        for _, record in found
        if not isinstance(record, StorageError)
        for table in record.tables
    }
    now = store.refresh(snapshot.branch)
    for pin in (now.pins[key] for key in ahead if key in now.pins):
        newest = _newest(pin, tally)
        if newest <= pin.version:
            continue  # published meanwhile
        if (snapshot.branch, pin.table_key) in recorded:
            kind = DriftKind.RECORDED
        else:
            kind = drift_kind(store.tables.at(TableVersion(pin.location, pin.branch, newest)), above=pin.version)
        yield TableDrift(pin.table_key, pin.version, newest, kind)


def _newest(pin: Pin, tally: FileTally) -> int:
    return tally.newest[directory_of(pin.location, pin.branch)]
