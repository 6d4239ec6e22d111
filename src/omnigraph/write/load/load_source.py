"""What a load is given → the parts it consists of: files in the graph's dialect, files of one type, Arrow tables.

A path names a file, a directory or a glob; a mapping names types. Suffixes say what a file is, unless ``format`` does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, TypeAlias

import pyarrow as pa

from omnigraph.errors import InputError, TypeNotFound
from omnigraph.ids import did_you_mean
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.objects import user_files
from omnigraph.write.load.line_blocks import read_errors

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
        name: how messages call it; the address of a file.
        type: type of its rows; None for records of the graph, which name theirs.
        table: rows in memory, or something that another engine can read; None for a file.
        options: of the object store that holds the file, for a process on another machine; None takes the environment.
    """

    name: str
    format: Format
    type: NodeType | EdgeType | None = None
    table: Any = None
    options: Mapping[str, str] | None = None

    @property
    def is_packed(self) -> bool:
        """Whether the name says that the file is compressed."""
        return self.name.lower().endswith(_PACKED)


def is_arrow(value: Any) -> bool:
    return isinstance(value, pa.Table | pa.RecordBatch)


def parts_of(
    catalog: Catalog,
    source: Source,
    format_: str | None,
    type_: str | None,
    is_table: Callable[[Any], bool] = is_arrow,
) -> list[Part]:
    """The parts of a source, in the order they are loaded.

    Args:
        is_table: what the engine can read as the rows of one type, besides files.
    """
    forced = _format(format_) if format_ is not None else None
    if is_table(source):
        source = {_required(type_): source}
        type_ = None
    if isinstance(source, Mapping):
        if type_ is not None:
            raise InputError("a mapping names its types itself", hint="leave out type=")
        return [part for name, value in source.items() for part in _typed(catalog, name, value, forced, is_table)]
    named = find_type(catalog, type_) if type_ is not None else None
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    return [_file(catalog, name, forced, named) for given in paths for name in _expanded(given)]


def find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """A node type by its exact name, an edge type ignoring case, either by its table key."""
    found = catalog.by_table_key(name) or catalog.nodes.get(name) or catalog.edge_by_word(name)
    if found is None:
        hint = did_you_mean(name, [*catalog.nodes, *catalog.edges])
        raise TypeNotFound(f"unknown type '{name}'", hint=hint, type=name)
    return found


def _type_named_by(catalog: Catalog, file: str) -> NodeType | EdgeType:
    name = _stem(file)
    try:
        return find_type(catalog, name)
    except TypeNotFound:
        hint = f"{file} holds no types: name the file after one, or say which type it is"
        raise TypeNotFound(f"unknown type '{name}'", hint=hint, type=name) from None


def _required(type_: str | None) -> str:
    if type_ is None:
        raise InputError("a table does not say which type its rows have", hint="pass type= or a mapping")
    return type_


def _typed(
    catalog: Catalog, name: str, value: Any, forced: Format | None, is_table: Callable[[Any], bool]
) -> Iterator[Part]:
    type_ = find_type(catalog, name)
    if isinstance(value, pa.RecordBatch):
        value = pa.Table.from_batches([value])
    if is_table(value):
        yield Part(f"<{type_.name}>", Format.ARROW, type_, value)
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


def _expanded(given: Any) -> list[str]:
    """The files that a path means: itself, those of a directory, or those that match a pattern; sorted."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"a source is a path, not a {type(given).__name__}", hint="pass paths, or a mapping of types")
    text = os.fspath(given)
    with read_errors(text):
        found = user_files.files_of(text)
    if found is None:
        return [text]
    if user_files.is_pattern(text):
        return found
    known = [each for each in found if _suffix(each) in _SUFFIXES]
    if not known:
        raise InputError(f"{text} holds no file that can be loaded", hint=f"known suffixes: {', '.join(_SUFFIXES)}")
    return known


def _file(catalog: Catalog, name: str, forced: Format | None, type_: NodeType | EdgeType | None) -> Part:
    known = forced or format_of(name)
    if type_ is None and (known in (None, Format.JSONL) or (known is Format.JSON and not _names_type(catalog, name))):
        return Part(name, Format.JSONL)
    if type_ is None:
        type_ = _type_named_by(catalog, name)
    if known is None:
        raise InputError(f"cannot tell what {name} holds", hint="pass format=")
    return Part(name, Format.JSON if known is Format.JSONL else known, type_)


def format_of(name: str) -> Format | None:
    """What the suffix of a file says about its content."""
    return _SUFFIXES.get(_suffix(name))


def _names_type(catalog: Catalog, name: str) -> bool:
    stem = _stem(name)
    return stem in catalog.nodes or catalog.edge_by_word(stem) is not None


def _suffix(name: str) -> str:
    path = PurePosixPath(name)
    return PurePosixPath(path.stem).suffix.lower() if path.suffix.lower() == _PACKED else path.suffix.lower()


def _stem(name: str) -> str:
    return PurePosixPath(name).name.split(".")[0]


def _format(text: str) -> Format:
    try:
        return Format(text)
    except ValueError:
        known = ", ".join(each for each in Format if each is not Format.ARROW)
        raise InputError(f"unknown format '{text}'", hint=f"known: {known}") from None
