"""One state of a graph → files: lines of the graph's dialect, or one Parquet or CSV file per type.

The same state gives the same bytes: tables by key, rows by id, properties by name. A file appears under its name only
when it is complete. `write/json_lines.py` makes the text, `storage/tables/table_scan.py` the order.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph import given
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.ids import did_you_mean
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin
from omnigraph.storage.tables.table_scan import rows_by_id
from omnigraph.write.csv_lines import write_csv
from omnigraph.write.json_lines import json_lines

#: Where an export goes: a path, an open file, or nowhere (then the result holds the text).
Target: TypeAlias = str | os.PathLike[str] | Any | None

_INSTANT = pa.timestamp("ms", "UTC")
_PACKED = ".gz"
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote.

    Attributes:
        version: manifest version of the state.
        commit_id: head commit of the state, if it is recorded.
        nodes, edges: rows by type name.
        files: paths of the files, if any.
        bytes: size of what was written, before compression.
        text: the lines, when no target was given.
    """

    branch: str
    version: int
    commit_id: str | None
    nodes: dict[str, int]
    edges: dict[str, int]
    files: tuple[str, ...] = ()
    bytes: int = 0
    text: str | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "graph_manifest_version": self.version,
            "graph_commit_id": self.commit_id,
            "nodes": [{"name": name, "entities": count} for name, count in sorted(self.nodes.items())],
            "edges": [{"name": name, "entities": count} for name, count in sorted(self.edges.items())],
            "total_entities": sum(self.nodes.values()) + sum(self.edges.values()),
            "files": list(self.files),
            "bytes": self.bytes,
        }


def export(
    store: GraphStore, snapshot: ManifestSnapshot, target: Target, types: Sequence[str] | None, format_: str | None
) -> ExportResult:
    """Write a state of the graph, or some types of it."""
    pins = selected_pins(snapshot, types)
    known = export_format(target, format_)
    if known == "jsonl":
        files, size, text = _export_lines(store, pins, target)
    elif _is_one_file(target, pins, known, format_):
        files, size, text = _export_type(store, pins[0], target, known)
    else:
        files, size, text = _export_types(store, pins, target, known)
    return export_result(snapshot, pins, files, size, text)


#: What the suffix of a file says about an export; any other file holds lines.
_SUFFIXES = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}
_FORMATS = ("jsonl", "parquet", "csv")


def export_format(target: Target, format_: str | None) -> str:
    """What to write: what was asked for, otherwise what the suffix of the target says."""
    if format_ is not None and format_ not in _FORMATS:
        raise InputError(f"unknown format '{format_}'", hint=f"known: {', '.join(_FORMATS)}")
    return format_ or _suffix_format(target) or "jsonl"


def _name_of(target: Target) -> str | None:
    """The path of a target, or the name of an open file that has one."""
    if isinstance(target, str | os.PathLike):
        return os.fspath(target)
    name = getattr(target, "name", None)
    return name if isinstance(name, str) else None


def _suffix_format(target: Target) -> str | None:
    name = _name_of(target)
    if name is None:
        return None
    path = Path(name)
    if path.suffix.lower() == _PACKED and Path(path.stem).suffix.lower() == ".csv":
        return "csv"
    return None if path.is_dir() else _SUFFIXES.get(path.suffix.lower())


def _is_one_file(target: Target, pins: list[Pin], known: str, asked: str | None) -> bool:
    """Whether the rows of one type go into one file, and not those of each type into a file of a directory."""
    named = isinstance(target, str | os.PathLike)
    if named and _suffix_format(target) != known:
        return False
    if len(pins) == 1:
        return True
    if named and asked is not None:
        return False
    what = _name_of(target) or "an open file"
    raise InputError(
        f"{what} holds rows of one type in format {known}, and there are {len(pins)} to export",
        hint="choose one type, or name a directory and pass format=",
    )


def export_result(
    snapshot: ManifestSnapshot, pins: list[Pin], files: tuple[str, ...], size: int, text: str | None = None
) -> ExportResult:
    """What was written of a state, for whoever wrote it."""
    counts = [(*pin.table_key.partition(":")[::2], pin.row_count) for pin in pins]
    return ExportResult(
        branch=snapshot.branch,
        version=snapshot.version,
        commit_id=snapshot.head.commit_id if snapshot.head else None,
        nodes={name: count for kind, name, count in counts if kind == "node"},
        edges={name: count for kind, name, count in counts if kind == "edge"},
        files=files,
        bytes=size,
        text=text,
    )


def selected_pins(snapshot: ManifestSnapshot, types: Sequence[str] | None) -> list[Pin]:
    """The tables of the chosen types, ascending by table key; a name may mean a node type and an edge type."""
    pins = [pin for _, pin in sorted(snapshot.pins.items())]
    if types is None:
        return pins
    known = {pin.table_key.partition(":")[2] for pin in pins}
    types = given.texts(types, "types")
    unknown = next((name for name in types if name not in known), None)
    if unknown is not None:
        raise TypeNotFound(f"unknown export type '{unknown}'", hint=did_you_mean(unknown, known), type=unknown)
    return [pin for pin in pins if pin.table_key.partition(":")[2] in types]


def _rows(store: GraphStore, pin: Pin) -> Iterator[pa.RecordBatch]:
    handle = store.table(pin)
    yield from rows_by_id(handle, list(handle.schema.names))


def lines_of(store: GraphStore, pin: Pin) -> Iterator[memoryview]:
    """The lines of one table in pieces of some thousand rows."""
    for batch in _rows(store, pin):
        lines = json_lines(pin.table_key, batch)
        data = lines.buffers()[2]
        if data is not None:
            yield memoryview(data)


def _export_lines(store: GraphStore, pins: list[Pin], target: Target) -> tuple[tuple[str, ...], int, str | None]:
    if target is None:
        held = io.BytesIO()
        size = _pour(store, pins, held.write)
        return (), size, held.getvalue().decode("utf-8")
    if not isinstance(target, str | os.PathLike):
        return (), _pour(store, pins, writer_of(target)), None
    path = Path(target)
    with complete_file(path) as draft, draft.open("wb") as raw:
        if path.suffix == _PACKED:
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                size = _pour(store, pins, packed.write)
        else:
            size = _pour(store, pins, raw.write)
    return (str(path),), size, None


def _pour(store: GraphStore, pins: list[Pin], write: Callable[[Any], Any]) -> int:
    size = 0
    for pin in pins:
        for piece in lines_of(store, pin):
            write(piece)
            size += len(piece)
    return size


def writer_of(target: Any) -> Callable[[Any], Any]:
    """How pieces of bytes go into an open file, binary or text."""
    if not hasattr(target, "write"):
        raise InputError(f"cannot export into a {type(target).__name__}", hint="pass a path or an open file")
    if isinstance(target, io.TextIOBase):
        return lambda piece: target.write(bytes(piece).decode("utf-8"))
    write: Callable[[Any], Any] = target.write
    return write


def _export_types(
    store: GraphStore, pins: list[Pin], target: Target, format_: str
) -> tuple[tuple[str, ...], int, str | None]:
    folder = Path(target) if isinstance(target, str | os.PathLike) else Path()
    with _write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    files = []
    for pin, name in zip(pins, type_files(pins, format_), strict=True):
        with complete_file(folder / name) as draft:
            _write_type(store, pin, draft, format_)
        files.append(str(folder / name))
    return tuple(files), sum(os.path.getsize(file) for file in files), None


def _export_type(store: GraphStore, pin: Pin, target: Target, format_: str) -> tuple[tuple[str, ...], int, str | None]:
    """The rows of one type as a file, an open file, or the text of the result."""
    if isinstance(target, str | os.PathLike):
        path = Path(target)
        with complete_file(path) as draft:
            if path.suffix.lower() == _PACKED:
                with draft.open("wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                    _write_type(store, pin, packed, format_)
                    size = packed.tell()
            else:
                _write_type(store, pin, draft, format_)
                size = draft.stat().st_size
        return (str(path),), size, None
    if target is None and format_ != "csv":
        raise InputError(f"an export in format {format_} is no text", hint="pass a path or an open file")
    if isinstance(target, io.TextIOBase) and format_ != "csv":
        hint = "open it in binary mode: open(path, 'wb')"
        raise InputError(f"an export in format {format_} is no text, and the file is open for text", hint=hint)
    with tempfile.TemporaryFile() as held:
        _write_type(store, pin, held, format_)
        size = held.seek(0, os.SEEK_END)
        held.seek(0)
        if target is None:
            return (), size, held.read().decode("utf-8")
        write = writer_of(target)
        while piece := held.read(_PIECE_BYTES):
            write(piece)
    return (), size, None


def type_files(pins: list[Pin], format_: str) -> list[str]:
    """``<Type>.<format>``; the kind stands before it where a node type and an edge type have one name."""
    names = [pin.table_key.partition(":")[2] for pin in pins]
    return [
        f"{name if names.count(name) == 1 else pin.table_key.replace(':', '-')}.{format_}"
        for pin, name in zip(pins, names, strict=True)
    ]


def _write_type(store: GraphStore, pin: Pin, target: Any, format_: str) -> None:
    """The rows of a type by id, into a path or an open file."""
    stored = store.table(pin).schema
    if format_ == "csv":
        write_csv(target, stored, _rows(store, pin))
        return
    schema = parquet_schema(stored)
    with pq.ParquetWriter(target, schema) as writer:
        for batch in _rows(store, pin):
            writer.write_batch(parquet_batch(batch, schema))


def parquet_schema(stored: pa.Schema) -> pa.Schema:
    """The columns of a table as a Parquet file has them."""
    return pa.schema([_plain_field(field) for field in stored])


def parquet_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Stored rows in the columns of their Parquet file."""
    columns = [_plain(column, field) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_field(stored: pa.Field) -> pa.Field:
    """A column as other tools know it: instants as timestamps, blobs as bytes."""
    type_ = stored.type
    if isinstance(type_, pa.BaseExtensionType):
        type_ = pa.large_binary()
    elif pa.types.is_date64(type_):
        type_ = _INSTANT
    elif pa.types.is_list(type_) and pa.types.is_date64(type_.value_type):
        type_ = pa.list_(pa.field("item", _INSTANT))
    return pa.field(stored.name, type_, nullable=stored.nullable)


def _plain(column: pa.Array, field: pa.Field) -> pa.Array:
    if pa.types.is_date64(column.type):
        return column.view(pa.int64()).view(_INSTANT)  # a cast would drop the time of day
    if pa.types.is_list(column.type) and pa.types.is_date64(column.type.value_type):
        items = column.values.view(pa.int64()).view(_INSTANT)
        return pa.Array.from_buffers(
            field.type, len(column), column.buffers()[:2], column.null_count, column.offset, [items]
        )
    return column.cast(field.type)


@contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """A file to write that takes its name when the block ends well; a pipe or a device is written to as it is."""
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no directory {path.parent}", file=str(path))
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with _write_errors(path):
        if path.exists() and not path.is_file():
            yield path
            return
        try:
            yield draft
            os.replace(draft, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                draft.unlink()


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}", file=str(path)) from None
