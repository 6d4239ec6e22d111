"""What a load is given → the parts it consists of: files in the graph's dialect, files of one type, rows in memory.

A path names a file, a directory or a glob; a mapping names types. Suffixes say what a file is, unless ``format`` does.
An open file is a file too: its own name says what it holds. What can be walked only once becomes a list first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from omnigraph import limits
from omnigraph.errors import InputError, TypeNotFound
from omnigraph.given import text
from omnigraph.ids import did_you_mean
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.storage.objects import user_files
from omnigraph.write.arrow_rows import Rows, is_rows
from omnigraph.write.load.line_blocks import missing_file, read_errors

PathLike: TypeAlias = str | os.PathLike[str]
#: Paths, open files, several of either, rows of one type, or a mapping from types to any of these.
Source: TypeAlias = PathLike | Iterable[Any] | Mapping[str, Any] | Rows


class Format(StrEnum):
    """What a file holds."""

    JSONL = "jsonl"  # records of the graph, each with its type
    JSON = "json"  # flat objects of one type, one a line
    PARQUET = "parquet"
    CSV = "csv"
    ARROW = "arrow"  # rows in memory


_SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".json": Format.JSON,
    ".parquet": Format.PARQUET,
    ".pq": Format.PARQUET,
    ".csv": Format.CSV,
}
_PACKED = ".gz"
_NO_NAME = "open file"


@dataclass(frozen=True, slots=True)
class Part:
    """One file or table.

    Attributes:
        name: how messages call it; the address of a file.
        type: type of its rows; None for records of the graph, which name theirs.
        table: rows in memory, or something that another engine can read; None for a file.
        options: of the object store that holds the file, for a process on another machine; None takes the environment.
        stream: an open file, read from where it stands and left open; None for a file that is known by its name.
    """

    name: str
    format: Format
    type: NodeType | EdgeType | None = None
    table: Any = None
    options: Mapping[str, str] | None = None
    stream: Any = None


def is_file(value: Any) -> bool:
    """Whether a value is an open file."""
    return callable(getattr(value, "read", None)) and not is_rows(value)


def settled(source: Source) -> Source:
    """The same source in a form that can be walked more than once: generators and other iterators as lists."""
    if isinstance(source, Mapping):
        return {name: _listed(value) for name, value in source.items()}
    found = _listed(source)
    if found is not source and not found:
        raise InputError("there is nothing to load: no item was given", hint="does the pattern match a file?")
    return found


def _listed(source: Any) -> Any:
    return list(source) if isinstance(source, Iterator) and not (is_rows(source) or is_file(source)) else source


def parts_of(
    catalog: Catalog,
    source: Source,
    format_: str | None,
    type_: str | None,
    is_table: Callable[[Any], bool] = is_rows,
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
            hint = "leave out type=; rows are a list of dicts, also a single one"
            raise InputError("a mapping names its types itself", hint=hint)
        return [part for name, value in source.items() for part in _typed(catalog, name, value, forced, is_table)]
    named = find_type(catalog, type_) if type_ is not None else None
    sources = several(source) if named is None else rows_or_files(source, named.name)
    return [part for each in sources for part in _files(catalog, each, forced, named)]


def several(source: Any) -> list[Any]:
    """What a caller gives as one path or file, or as several."""
    is_one = isinstance(source, str | bytes | os.PathLike | Mapping) or is_file(source)
    return [source] if is_one or not isinstance(source, Iterable) else list(source)


def rows_or_files(source: Any, name: str) -> list[Any]:
    """The same for a type. An empty list may mean no rows or no files, which an overwrite would have to tell apart."""
    if isinstance(source, Mapping):
        raise InputError(f"rows of '{name}' are one dict", hint="pass a list of dicts, one for each row")
    found = several(source)
    if not found:
        hint = "leave the type out, or pass a table without rows to clear it"
        raise InputError(f"an empty list is given for '{name}'", hint=hint)
    other = next((row for row, each in enumerate(found, 1) if not isinstance(each, Mapping)), None)
    if other is not None and isinstance(found[0], Mapping):
        raise InputError(f"row {other} of a list of rows is a {type(found[other - 1]).__name__}, not a dict")
    return found


def find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    """A node type by its exact name, an edge type ignoring case, either by its table key."""
    name = text(name, "a type")
    found = catalog.by_table_key(name) or catalog.nodes.get(name) or catalog.edge_by_word(name)
    if found is None:
        hint = did_you_mean(name, [*catalog.nodes, *catalog.edges])
        raise TypeNotFound(f"unknown type '{name}'", hint=hint, type=name)
    return found


def _type_named_by(catalog: Catalog, file: str) -> NodeType | EdgeType:
    if file == _NO_NAME:
        raise InputError("an open file without a name does not say which type its rows have", hint="pass type=")
    name = _stem(file)
    try:
        return find_type(catalog, name)
    except TypeNotFound:
        hint = f"{file} holds no types: name the file after one, or pass type="
        raise TypeNotFound(f"unknown type '{name}'", hint=hint, type=name) from None


def _required(type_: str | None) -> str:
    if type_ is None:
        raise InputError("a table does not say which type its rows have", hint="pass type= or a mapping")
    return type_


def _typed(
    catalog: Catalog, name: str, value: Any, forced: Format | None, is_table: Callable[[Any], bool]
) -> Iterator[Part]:
    type_ = find_type(catalog, name)
    if is_table(value):
        yield Part(f"<{type_.name}>", Format.ARROW, type_, value)
        return
    for each in rows_or_files(value, name):
        if not (isinstance(each, str | os.PathLike) or is_file(each)):
            hint = "pass an Arrow table, a frame, a list of dicts, an open file or a path"
            raise InputError(f"rows of '{name}' are of type {type(each).__name__}", hint=_bytes_hint(each) or hint)
        yield from _files(catalog, each, forced, type_)


def _files(catalog: Catalog, given: Any, forced: Format | None, type_: NodeType | EdgeType | None) -> Iterator[Part]:
    if is_file(given):
        yield replace(_file(catalog, name_of(given), forced, type_), stream=given)
        return
    for path in files_at(given):
        yield _file(catalog, path, forced, type_)


def name_of(stream: Any) -> str:
    name = getattr(stream, "name", None)
    return name if isinstance(name, str) else _NO_NAME


def files_at(given: Any) -> list[str]:
    """The files that a path means: itself, those of a directory, or those that match a pattern; sorted."""
    if not isinstance(given, str | os.PathLike):
        hint = _bytes_hint(given) or "pass paths, open files, or a mapping from types to rows"
        raise InputError(f"a source is a path, not of type {type(given).__name__}", hint=hint)
    address = os.fspath(given)
    with read_errors(address):
        found = user_files.files_of(address)
    if found is None:
        if not (user_files.is_remote(address) or os.path.exists(address)):
            raise (
                missing_file(address)
                if not _is_content(address)
                else InputError("a path is needed, not what its file would hold", hint="pass io.StringIO(text)")
            )
        return [address]
    return found if user_files.is_pattern(address) else _loadable(address, found)


def _bytes_hint(given: Any) -> str | None:
    return "pass io.BytesIO(content)" if isinstance(given, bytes | bytearray | memoryview) else None


def _is_content(text: str) -> bool:
    """Whether a text that names no file looks like records instead."""
    return "\n" in text or text.lstrip().startswith(("{", "[{"))


def _loadable(folder: str, found: list[str]) -> list[str]:
    """The files of a directory that can be loaded."""
    known = [each for each in found if _suffix(each) in _SUFFIXES]
    if not known:
        others = _unknown(folder, found)
        what = f"it holds {listed(others)}; " if others else ""
        hint = f"{what}known suffixes: {', '.join(_SUFFIXES)}"
        raise InputError(f"{folder} holds no file that can be loaded", hint=hint)
    return known


def left_out(source: Source) -> tuple[str, ...]:
    """The files in directories of a source that a load passes over because of their suffix; told after the load, so
    that a directory that cannot be read any more is no reason to fail."""
    if isinstance(source, Mapping):
        return tuple(file for value in source.values() for file in left_out(value))
    if is_rows(source) or is_file(source):
        return ()
    found: list[str] = []
    for each in several(source):
        if isinstance(each, str | os.PathLike):
            address = os.fspath(each)
            with contextlib.suppress(OSError, InputError):
                files = None if user_files.is_pattern(address) else user_files.files_of(address)
                found += [f"{address.rstrip('/')}/{name}" for name in _unknown(address, files or [])]
    return tuple(found)


def _unknown(folder: str, files: list[str]) -> list[str]:
    """Files whose suffix says nothing, but for those that belong to nobody: hidden ones, and marks of a job such as
    ``_SUCCESS`` and ``part-0.crc``."""
    names = [file.removeprefix(folder).lstrip("/") for file in files if _suffix(file) not in _SUFFIXES]
    return [
        name
        for name in names
        if not name.endswith(".crc") and not any(part.startswith((".", "_")) for part in PurePosixPath(name).parts)
    ]


def listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = len(names) - limits.NAMES_LISTED
    return ", ".join(names[: limits.NAMES_LISTED]) + (f" and {more} more" if more > 0 else "")


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
