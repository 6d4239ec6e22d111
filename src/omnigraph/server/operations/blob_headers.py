"""What the headers of a request for a blob mean: entity tags that must or must not match, and one range of bytes.

The rules are those of HTTP. Tags of our own are strong: the same tag means the same bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
_BLANK = " \t"
_RANGE = re.compile(r"bytes[ \t]*=[ \t]*(?:([0-9]{1,30})-([0-9]{0,30})|-([0-9]{1,30}))", re.IGNORECASE)
_ANY = "*"


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Some bytes of a value.

    Attributes:
        length: None when there is no such byte.
    """

    start: int
    length: int | None


def fails_match(values: list[str], etag: str) -> bool:
    """Whether ``If-Match`` forbids to go on: it names other tags, or cannot be read."""
    if not values or _text(values) == _ANY:
        return False
    return etag not in _tags(_text(values))


def is_known(values: list[str], etag: str) -> bool:
    """Whether ``If-None-Match`` says that the client has this value. Weak tags count by what they name."""
    return _text(values) == _ANY or etag in (tag.removeprefix("W/") for tag in _tags(_text(values)))


def _text(values: list[str]) -> str:
    return ",".join(values).strip(_BLANK)


def _tags(text: str) -> list[str]:
    """The tags of a list; none when it is no list of tags. A place between two commas may be empty."""
    found, at, wants_comma = [], 0, False
    while at < len(text):
        if text[at] in _BLANK:
            at += 1
        elif text[at] == ",":
            at, wants_comma = at + 1, False
        else:
            tag = _TAG.match(text, at)
            if tag is None or wants_comma:
                return []
            found.append(tag.group())
            at, wants_comma = tag.end(), True
    return found


def asked_range(values: list[str], conditions: list[str], etag: str, size: int) -> ByteRange | None:
    """The one range that is asked for; None for the whole value.

    Args:
        values: of ``Range``. Several ranges, other units and what cannot be read are passed over.
        conditions: of ``If-Range``: only an equal strong tag lets the range through.
    """
    if len(values) != 1 or (conditions and [each.strip() for each in conditions] != [etag]):
        return None
    found = _RANGE.fullmatch(values[0].strip())
    if found is None:
        return None
    first, end, suffix = found.groups()
    if suffix is not None:
        count = min(int(suffix), size)
        return ByteRange(size - count, count or None)
    start = int(first)
    last = int(end) if end else size - 1
    if end and last < start:
        return None
    return ByteRange(start, min(last + 1, size) - start if start < size else None)
