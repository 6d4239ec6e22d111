"""Export by Spark: the executors write the files, the driver sees their names and sizes.

The text is that of the embedded export, byte for byte: tables by key, rows by id. A table whose groups of fragments do
not overlap is written group by group as it lies. Any other is cut into ranges of ids: each executor makes the lines
of its share, Spark brings the lines of a range together, and one task writes them in order.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from omnigraph import ids
from omnigraph.errors import InputError
from omnigraph.graph import Graph
from omnigraph.history.export import ExportResult, export_result, parquet_names, selected_pins
from omnigraph.history.resolve import At
from omnigraph.spark.export_task import Written, inspect_groups, write_groups, write_ranges
from omnigraph.spark.faults import job_errors
from omnigraph.spark.opened import Pinned, pinned
from omnigraph.spark.session import active_session
from omnigraph.storage.fragments import TableAt, fragment_groups
from omnigraph.storage.location import Location, parse_location
from omnigraph.storage.manifest import Pin
from omnigraph.storage.outputs import Folder, concatenate

_ONE_FILE = ".jsonl"


def export(
    graph: Graph,
    path: str | os.PathLike[str],
    format: Literal["jsonl", "parquet"] = "jsonl",
    types: Sequence[str] | None = None,
    *,
    branch: str = ids.MAIN,
    at: At | None = None,
) -> ExportResult:
    """Write one state of a graph with Spark.

    Args:
        path: local or ``s3://``. For JSONL a name that ends in ``.jsonl`` is one file, any other a new directory of
            parts that are the export when they are read in the order of their names. For Parquet a new directory
            with one directory per type.
        types: names of types; None for all.
        at: a commit id, a manifest version or a time; None writes the newest state.
    """
    if format not in ("jsonl", "parquet"):
        raise InputError(f"unknown format '{format}'", hint="known: jsonl, parquet")
    state = pinned(graph, branch, at)
    pins = selected_pins(state.snapshot, [types] if isinstance(types, str) else types)
    target = parse_location(path)
    with job_errors("export"):
        if format == "jsonl" and target.uri.endswith(_ONE_FILE):
            written = _one_file(state, pins, target)
        else:
            written = _folder(state, pins, Folder(target), format)
    files = tuple(each.address for each in written)
    return export_result(state.snapshot, pins, files, sum(each.bytes for each in written))


@dataclass(frozen=True, slots=True)
class _File:
    address: str
    bytes: int


def _folder(state: Pinned, pins: list[Pin], target: Folder, format_: str) -> list[_File]:
    """Parts in a new directory. A local one gets its name at the end; below a prefix they appear one by one."""
    if not target.is_empty():
        raise InputError(f"{target.location.uri} exists and is not empty", hint="choose another directory")
    drafts = _sibling(target.location) if target.location.is_local else target
    try:
        written = _lines(state, pins, drafts) if format_ == "jsonl" else _parquet(state, pins, drafts)
        if drafts is not target:
            drafts.take_name(target) if written else _make(target)
    except BaseException:
        drafts.remove()
        raise
    return [_File(target.address(each.name), each.bytes) for each in written]


def _one_file(state: Pinned, pins: list[Pin], target: Location) -> list[_File]:
    """Parts beside the file, poured together by the driver a piece at a time."""
    parts = _sibling(target)
    folder, _, name = target.uri.rpartition("/")
    try:
        written = _lines(state, pins, parts)
        concatenate(parts, [each.name for each in written], Folder(Location(folder, target.options)), name)
    finally:
        parts.remove()
    return [_File(target.uri, sum(each.bytes for each in written))]


def _sibling(target: Location) -> Folder:
    folder, _, name = target.uri.rpartition("/")
    return Folder(Location(f"{folder}/.{name}.{uuid.uuid4().hex}", target.options))


def _make(target: Folder) -> None:
    os.makedirs(target.location.uri, exist_ok=True)


def _lines(state: Pinned, pins: list[Pin], folder: Folder) -> list[Written]:
    session = active_session()
    tables = [TableAt(state.location, pin) for pin in pins if pin.row_count]
    shares = [fragment_groups(table) for table in tables]
    asked = [(number, group) for number, groups in enumerate(shares) if len(groups) > 1 for group in groups]
    found = inspect_groups(session, tables, asked)
    written: list[Written] = []
    direct = [(_part(number, 0), number, groups[0]) for number, groups in enumerate(shares) if len(groups) == 1]
    for number in sorted({number for number, _ in asked}):
        own = sorted((each for each in found if each.table == number and each.rows), key=lambda each: each.first)
        groups = [asked[each.group][1] for each in own]
        if all(a.last < b.first for a, b in pairwise(own)):
            direct += [(_part(number, place), number, group) for place, group in enumerate(groups)]
            continue
        cuts = _cuts([text for each in own for text in each.sample], len(own))
        names = [_part(number, place) for place in range(len(cuts) + 1)]
        written += write_ranges(session, tables[number], groups, cuts, folder, names)
    written += write_groups(session, tables, direct, folder, "jsonl")
    return sorted(written, key=lambda each: each.name)


def _part(table: int, place: int) -> str:
    """Names in the order of the export."""
    return f"part-{table:05d}-{place:05d}.jsonl"


def _cuts(sample: list[str], parts: int) -> list[str]:
    """Ids that cut a table into about equal ranges, from ids spread evenly over each group."""
    ordered = sorted(set(sample))  # by code points, which is the order of the bytes too
    return sorted({ordered[len(ordered) * number // parts] for number in range(1, parts)})


def _parquet(state: Pinned, pins: list[Pin], folder: Folder) -> list[Written]:
    tables = [TableAt(state.location, pin) for pin in pins]
    parts = list(_parquet_parts(tables, parquet_names(pins)))
    return sorted(write_groups(active_session(), tables, parts, folder, "parquet"), key=lambda each: each.name)


def _parquet_parts(tables: list[TableAt], names: list[str]) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """An empty type has one file too: it holds the schema."""
    for number, (table, name) in enumerate(zip(tables, names, strict=True)):
        for place, group in enumerate(fragment_groups(table) or [()]):
            yield f"{name}/part-{place:05d}.parquet", number, group
