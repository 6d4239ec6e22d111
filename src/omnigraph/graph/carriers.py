"""Who carries a load: this process, or another room that offers itself under the entry point ``omnigraph.carriers``.

The facade knows no other carrier than its own. Bulk data goes to one that is installed and works here; a few MiB do
not, because starting one takes seconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from typing import Any

from omnigraph import limits
from omnigraph.errors import InputError, MissingExtra
from omnigraph.storage import inputs
from omnigraph.write.load.result import LoadResult
from omnigraph.write.load.source import Format, format_of, is_arrow

GROUP = "omnigraph.carriers"
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
        return bulk(_named(engine))
    if not is_bulk(source, format_):
        return embedded()
    for each in entry_points(group=GROUP):
        try:
            carrier = each.load()
        except ImportError:
            continue
        try:
            return bulk(carrier)
        except MissingExtra:
            continue  # a carrier says so before it begins
    return embedded()


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


def _named(engine: str) -> Carrier:
    known = {each.name: each for each in entry_points(group=GROUP)}
    if engine not in known:
        names = ", ".join(map(repr, (AUTO, EMBEDDED, *sorted(known))))
        raise InputError(f"engine {engine!r} is not one of {names}")
    carrier: Carrier = known[engine].load()
    return carrier
