"""Cuts answers to what an agent can take: the first rows, and no more bytes than fit. Says how to get the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from omnigraph import Result

_encode = msgspec.json.Encoder(decimal_format="number").encode


@dataclass(slots=True)
class Shortened:
    """The first items of a listing, as many as fit.

    Attributes:
        by: what they were cut by: ``rows``, ``bytes``, or None when all are there.
    """

    items: list[Any] = field(default_factory=list)
    by: str | None = None


def cut(items: Iterable[Any], most_rows: int, most_bytes: int) -> Shortened:
    """As many items from the front as fit; those behind are not made.

    >>> cut(range(10), 3, 1_000)
    Shortened(items=[0, 1, 2], by='rows')
    """
    found = Shortened()
    room = most_bytes
    rest: Iterator[Any] = iter(items)
    for item in islice(rest, most_rows):
        room -= len(_encode(item)) + 1
        if room < 0:
            found.by = "bytes"
            return found
        found.items.append(item)
    if next(rest, rest) is not rest:
        found.by = "rows"
    return found


def read_answer(result: Result, most_rows: int, most_bytes: int) -> dict[str, Any]:
    """The envelope of a read with its first rows. ``row_count`` counts all of them."""
    rows = (dict(zip(result.columns, row, strict=True)) for row in result.values())
    part = cut(rows, most_rows, most_bytes)
    answer = {**result.head(), "rows": part.items}
    if result.commit_id is not None:
        answer["graph_commit_id"] = result.commit_id
    if part.by is not None:
        answer["truncated"] = _note(
            part,
            len(result),
            "rows",
            "use order with limit and offset in the query, return "
            "fewer or shorter columns, aggregate, or raise maxRows",
        )
    return answer


def listed(name: str, part: Shortened, total: int | None, more: str) -> dict[str, Any]:
    """A listing under its name, with a note when it was cut."""
    answer: dict[str, Any] = {name: part.items}
    if part.by is not None:
        answer["truncated"] = _note(part, total, name, more)
    return answer


def _note(part: Shortened, total: int | None, name: str, more: str) -> Mapping[str, Any]:
    shown = len(part.items)
    of = f" of {total:,}" if total is not None else ""
    limit = "the limit of bytes of one answer" if part.by == "bytes" else "the row limit of this call"
    note = f"only the first {shown:,}{of} {name} are shown, because of {limit}; to see more, {more}"
    return {"shown": shown, "by": part.by, "note": note}
