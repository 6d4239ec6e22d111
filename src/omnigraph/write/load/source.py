"""What a load is given → the parts it consists of: files in the graph's dialect, files of one type, Arrow tables.

A path names a file, a directory or a glob; a mapping names types. Suffixes say what a file is, unless ``format`` does.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from omnigraph.errors import InputError, TypeNotFound
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType

PathLike: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = PathLike | Iterable[PathLike] | Mapping[str, Any]


class Format(StrEnum):
    """What a file holds."""

    JSONL = "jsonl"  # records of the graph, each with its type
    JSON = "json"  # flat objects of one type, one a line
    PARQUET = "parquet"
    CSV = "csv"
    ARROW = "arrow"  # a table in memory


_SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSON,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".csv": Format.CSV,
}
_PACKED = ".gz"


@dataclass(frozen=True, slots=True)
class Part:
    """One file or table.

    Attributes:
        name: how messages call it.
        type: type of its rows; None for records of the graph, which name theirs.
    """

    name: str
    format: Format
    type: NodeType | EdgeType | None = None
    path: Path | None = None
    table: pa.Table | None = None


def parts_of(catalog: Catalog, source: Source, format_: str | None, type_: str | None) -> list[Part]:
    """The parts of a source, in the order they are loaded."""
    forced = _format(format_) if format_ is not None else None
    if isinstance(source, pa.Table | pa.RecordBatch):
        source = {_required(type_): source}
        type_ = None
    if isinstance(source, Mapping):
        if type_ is not None:
            raise InputError("a mapping names its types itself", hint="leave out type=")
        return [part for name, value in source.items() for part in _typed(catalog, name, value, forced)]
    named = find_type(catalog, type_) if type_ is not None else None
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    return [_file(catalog, path, forced, named) for given in paths for path in _expanded(given)]


def find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """A node type by its exact name, an edge type ignoring case, either by its table key."""
    found = catalog.by_table_key(name) or catalog.nodes.get(name) or catalog.edge_by_word(name)
    if found is None:
        raise TypeNotFound(f"unknown type '{name}'", type=name)
    return found


def _required(type_: str | None) -> str:
    if type_ is None:
        raise InputError("a table does not say which type its rows have", hint="pass type= or a mapping")
    return type_


def _typed(catalog: Catalog, name: str, value: Any, forced: Format | None) -> Iterator[Part]:
    type_ = find_type(catalog, name)
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    if isinstance(value, pa.Table):
        yield Part(f"<{type_.name}>", Format.ARROW, type_, table=value)
        return
    if isinstance(value, str | os.PathLike):
        value = [value]
    if not isinstance(value, Iterable):
        raise InputError(f"rows of '{name}' are a {type(value).__name__}", hint="pass an Arrow table or a path")
    for given in value:
        if not isinstance(given, str | os.PathLike):
            raise InputError(f"rows of '{name}' are a {type(given).__name__}", hint="pass an Arrow table or a path")
        for path in _expanded(given):
            yield _file(catalog, path, forced, type_)


def _expanded(given: Any) -> list[Path]:
    """The files that a path means: itself, those of a directory, or those that match a pattern; sorted."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"a source is a path, not a {type(given).__name__}", hint="pass paths, or a mapping of types")
    text = os.fspath(given)
    if "://" in text:
        raise InputError(f"cannot read {text}", hint="this load reads local files")
    path = Path(text)
    if path.is_dir():
        found = sorted(each for each in path.rglob("*") if each.is_file() and _suffix(each) in _SUFFIXES)
        if not found:
            raise InputError(f"{text} holds no file that can be loaded", hint=f"known suffixes: {', '.join(_SUFFIXES)}")
        return found
    if path.exists() or not glob.has_magic(text):
        return [path]
    matching = sorted(Path(each) for each in glob.glob(text, recursive=True) if os.path.isfile(each))
    if not matching:
        raise InputError(f"no file matches {text}")
    return matching


def _file(catalog: Catalog, path: Path, forced: Format | None, type_: NodeType | EdgeType | None) -> Part:
    suffix = _suffix(path)
    known = forced or _SUFFIXES.get(suffix)
    if type_ is None and (known in (None, Format.JSONL) or (known is Format.JSON and not _names_type(catalog, path))):
        return Part(str(path), Format.JSONL, None, path)
    if type_ is None:
        type_ = find_type(catalog, _stem(path))
    if known is None:
        raise InputError(f"cannot tell what {path} holds", hint="pass format=")
    return Part(str(path), Format.JSON if known is Format.JSONL else known, type_, path)


def _names_type(catalog: Catalog, path: Path) -> bool:
    name = _stem(path)
    return name in catalog.nodes or catalog.edge_by_word(name) is not None


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() == _PACKED else path.suffix.lower()


def _stem(path: Path) -> str:
    return path.name.split(".")[0]


def _format(text: str) -> Format:
    try:
        return Format(text)
    except ValueError:
        known = ", ".join(each for each in Format if each is not Format.ARROW)
        raise InputError(f"unknown format '{text}'", hint=f"known: {known}") from None
