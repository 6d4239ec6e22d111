"""Who carries a load or a merge: this process, or another room that offers itself under an entry point.

The facade knows no other carrier than its own. Bulk data goes to one that is installed and works here; a few MiB do
not, because starting one takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from omnigraph import limits
from omnigraph.errors import InputError, MissingExtra
from omnigraph.history.merge import carrier as merging
from omnigraph.history.merge.source import MergeSource
from omnigraph.storage import inputs
from omnigraph.storage.commit.protocol import Workspace
from omnigraph.write.load.result import LoadResult
from omnigraph.write.load.source import Format, format_of, is_arrow

#: Entry points: what carries a load (a function like `omnigraph.spark.load`), and what makes carriers of a merge.
LOADS, MERGES = "omnigraph.carriers", "omnigraph.merge_carriers"
EMBEDDED, AUTO = "embedded", "auto"

Carrier = Callable[..., LoadResult]


def carried(
    engine: str,
    source: Any,
    format_: str | None,
    embedded: Callable[[], LoadResult],
    bulk: Callable[[Carrier], LoadResult],
) -> LoadResult:
    """Load with the carrier that was asked for, or with the one that suits the source."""
    if engine == EMBEDDED:
        return embedded()
    if engine != AUTO:
        return bulk(_named(engine, LOADS))
    if not is_bulk(source, format_):
        return embedded()
    done = _first(LOADS, bulk)
    return done if done is not None else embedded()


def merge_carriers(engine: str) -> merging.Carriers:
    """What makes the carriers of a merge: the one that was asked for, or the one that suits its size."""
    if engine == EMBEDDED:
        return merging.in_process
    if engine != AUTO:
        named: merging.Carriers = _named(engine, MERGES)
        return named

    def begin(workspace: Workspace, source: MergeSource) -> merging.Carrier:
        return merging.AsItGrows(lambda: _first(MERGES, lambda make: make(workspace, source)))

    return begin


def is_bulk(source: Any, format_: str | None) -> bool:
    """Whether a source is of the kind that bulk carriers are for."""
    if is_arrow(source):
        return False
    if isinstance(source, Mapping):
        return bool(source) and not any(is_arrow(value) for value in source.values())
    if isinstance(source, str | os.PathLike):
        return _is_bulk_path(os.fspath(source), format_)
    if not isinstance(source, Iterable):
        return True  # a frame of another library
    paths = [os.fspath(each) for each in source if isinstance(each, str | os.PathLike)]
    return any(_is_bulk_path(path, format_) for path in paths) or sum(map(_size, paths)) > limits.SPARK_LOAD_BYTES


def _is_bulk_path(path: str, format_: str | None) -> bool:
    if os.path.isdir(path) or inputs.is_pattern(path):
        return True
    if (format_ or format_of(path)) in (Format.PARQUET, Format.CSV):
        return True
    return _size(path) > limits.SPARK_LOAD_BYTES


def _size(path: str) -> int:
    """Bytes of a file; none for one that cannot be read, which the load itself will say."""
    try:
        return inputs.size_of(path)
    except (OSError, InputError):
        return 0


def _first(group: str, use: Callable[[Any], Any]) -> Any:
    """What the first carrier that works here makes of it; None where there is none."""
    for each in entry_points(group=group):
        try:
            carrier = each.load()
        except ImportError:
            continue
        try:
            return use(carrier)
        except MissingExtra:
            continue  # a carrier says so before it begins
    return None


def _named(engine: str, group: str) -> Any:
    known: dict[str, EntryPoint] = {each.name: each for each in entry_points(group=group)}
    if engine not in known:
        names = ", ".join(map(repr, (AUTO, EMBEDDED, *sorted(known))))
        raise InputError(f"engine {engine!r} is not one of {names}")
    return known[engine].load()
