"""How `stats` and `optimize` look in a terminal: tables, and a line for everything else that there is to say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.cli.printing import byte_text, counted, grid

if TYPE_CHECKING:
    from omnigraph import GraphStats, OptimizedTable, OptimizeReport, PendingWrite

_FIGURES = ("rows", "fragments", "small", "deleted", "bytes", "history")


def stats_lines(found: GraphStats) -> Iterator[str]:
    """The report for people, line by line."""
    manifest = found.manifest
    yield f"branch {found.branch} at version {manifest.version}: {counted(found.commits, 'commit')}"
    yield ""
    rows = [(table.table_key, *_figures(table.to_dict())) for table in found.tables]
    yield from grid(("table", *_FIGURES), [*rows, ("total", *_figures(found.totals))])
    yield ""
    yield from _indexes(found)
    yield from _embeddings(found)
    yield (
        f"manifest: {counted(manifest.versions, 'version')}, {counted(manifest.rows, 'row')} in "
        f"{counted(manifest.fragments, 'fragment')}, {byte_text(manifest.bytes)}"
    )
    parts = ", ".join(f"{name} {byte_text(part.bytes)}" for name, part in found.parts.items() if part.files)
    yield f"stored: {counted(found.stored.files, 'file')}, {byte_text(found.stored.bytes)} ({parts})"
    if found.unreferenced.files:
        left = f"{counted(found.unreferenced.files, 'file')}, {byte_text(found.unreferenced.bytes)}"
        yield f"of deleted branches: {left}"
    yield f"branches: {', '.join(found.branches)}"
    if found.tags:
        yield f"tags: {', '.join(found.tags)}"
    yield from (f"interrupted or running: {_pending(each)}" for each in found.pending)
    for drift in found.drift:
        yield f"drift: {drift.table_key} is at version {drift.newest_version}, shown is {drift.version}: {drift.kind}"


def _figures(values: dict[str, int]) -> list[str]:
    numbers = [f"{values[name]:,}" for name in ("rows", "fragments", "small_fragments", "deleted_rows")]
    return [*numbers, *(byte_text(values[name]) for name in ("bytes", "history_bytes"))]


def _indexes(found: GraphStats) -> Iterator[str]:
    rows = [
        (table.table_key, index.column, index.kind, f"{index.indexed_rows:,}", f"{index.unindexed_rows:,}")
        for table in found.tables
        for index in table.indexes
    ]
    if rows:
        yield from grid(("index of", "column", "kind", "indexed", "unindexed"), rows, texts=3)
        yield ""
    missing = [each for table in found.tables if table.rows for each in table.missing_indexes]
    yield from (f"no index: {each.table_key} on {each.column}: {each.reason}" for each in missing)


def _embeddings(found: GraphStats) -> Iterator[str]:
    figures = ("pending", "ready", "stale", "failed", "given")
    rows = [
        (f"{each.type}.{each.property}", each.source, *(f"{getattr(each, name):,}" for name in figures))
        for each in found.embeddings
    ]
    if rows:
        yield from grid(("vectors of", "from", *figures), rows, texts=2)
        yield ""
    for each in found.embeddings:
        yield from (
            f"failed: {counted(number, 'text')} of {each.type}.{each.property}: {reason}"
            for reason, number in each.reasons.items()
        )


def _pending(write: PendingWrite) -> str:
    if write.kind is None or write.age_seconds is None:
        return f"{write.operation_id}: {write.problem}"
    tables = ", ".join(write.tables) or "no table"
    return f"{write.operation_id}, {write.kind} on {write.branch} of {tables}, {write.age_seconds:.0f} s old"


_SKIPPED = {
    "drift_needs_repair": "other software wrote rows to it",
    "written_meanwhile": "others wrote to it each time; run it again",
}


def optimize_lines(report: OptimizeReport) -> Iterator[str]:
    """What was done, line by line; tables with which nothing was done are counted."""
    rows = []
    for table in report.tables:
        if table.committed:
            numbers = (table.fragments_removed, table.fragments_added, table.deleted_rows_dropped)
            built = ", ".join(table.indexes_built) or "-"
            rows.append((table.branch, table.table_key, built, *(f"{number:,}" for number in numbers)))
    if rows:
        names = ("branch", "table", "indexes built", "fragments removed", "added", "deleted rows dropped")
        yield from grid(names, rows, texts=3)
        yield ""
    for table in report.skipped:
        yield f"skipped: {table.table_key} on {table.branch}: {_reason(table)}"
    for table in report.tables:
        yield from (f"no index: {each.table_key} on {each.column}: {each.reason}" for each in table.pending_indexes)
    for part in report.datasets:
        if part.fragments_removed:
            yield f"{part.name} of {part.branch}: {part.fragments_removed:,} fragments became {part.fragments_added:,}"
        if part.error is not None:
            yield f"{part.name} of {part.branch} was left as it is: {part.error}"
    idle = sum(not table.committed and table.skipped is None for table in report.tables)
    made = f" ({', '.join(commit.id for commit in report.commits)})" if report.commits else ""
    yield f"{counted(len(report.commits), 'commit')}{made}; nothing to do for {counted(idle, 'table')}"


def _reason(table: OptimizedTable) -> str:
    reason = _SKIPPED.get(table.skipped or "", table.skipped or "")
    if table.newest_version is None:
        return reason
    return f"{reason}; it is at version {table.newest_version}, shown is {table.version}"
