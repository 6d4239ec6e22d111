"""The source of a load as one stream of bytes: its files as they are, its rows in memory as Arrow, one after the other.

So the server reads what the caller has, by the names that the caller knows, and a load of many parts stays one commit.
The stream is a line that names the form, then frames: a letter, a length of four bytes, and so many bytes. ``P`` begins
a part with its head as JSON, ``D`` is a piece of it, ``E`` ends the stream; one without an end is no load.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from omnigraph import limits
from omnigraph.errors import InputError, ResourceLimitExceeded

MEDIA_TYPE = "application/vnd.omnigraph.load"

_FORM = b"omnigraph-load 1\n"
_PART, _DATA, _END = b"P", b"D", b"E"
_HEAD = struct.Struct(">cI")

#: Most bytes of one frame; whoever writes keeps below it.
_FRAME_BYTES = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class PartHead:
    """What a part is.

    Attributes:
        name: how messages call it: the path of a file on the side of the caller.
        type: the type that the caller names for its rows; None where the file says it.
        kind: the bytes of a file, or the rows of one type as an Arrow stream.
    """

    name: str
    type: str | None
    kind: Literal["file", "rows"]


@dataclass(frozen=True, slots=True)
class ReceivedPart:
    """A part that was received whole, in a file of this process."""

    head: PartHead
    path: Path


def written(parts: Iterable[tuple[PartHead, Iterator[bytes]]]) -> Iterator[bytes]:
    """The stream of some parts."""
    yield _FORM
    for head, pieces in parts:
        yield from _frame(_PART, json.dumps({"name": head.name, "type": head.type, "kind": head.kind}).encode())
        for piece in pieces:
            view = memoryview(piece)
            for start in range(0, len(view), _FRAME_BYTES):
                yield from _frame(_DATA, bytes(view[start : start + _FRAME_BYTES]))
    yield from _frame(_END, b"")


def _frame(letter: bytes, content: bytes) -> Iterator[bytes]:
    yield _HEAD.pack(letter, len(content))
    if content:
        yield content


def received(stream: BinaryIO, folder: Path) -> list[ReceivedPart]:
    """The parts of a stream, each in a file of its own in a folder.

    Raises:
        InputError: the stream is no load, or ends before its end.
        ResourceLimitExceeded: it has too many parts.
    """
    if _exactly(stream, len(_FORM)) != _FORM:
        raise InputError("the body is not the source of a load in the form of this version")
    parts: list[ReceivedPart] = []
    file: BinaryIO | None = None
    try:
        while True:
            letter, length = _HEAD.unpack(_exactly(stream, _HEAD.size))
            if length > _FRAME_BYTES:
                raise InputError(f"a frame of the body has {length} bytes, more than {_FRAME_BYTES}")
            content = _exactly(stream, length)
            if letter == _END:
                return parts
            if letter == _PART:
                if len(parts) == limits.LOAD_PARTS:
                    raise ResourceLimitExceeded("load_parts", len(parts) + 1, limits.LOAD_PARTS, hint="split the load")
                parts.append(ReceivedPart(_head(content), folder / f"{len(parts)}"))
                if file is not None:
                    file.close()
                file = parts[-1].path.open("wb")
            elif letter == _DATA and file is not None:
                file.write(content)
            else:
                raise InputError(f"the body holds a frame {letter!r} where none can be")
    finally:
        if file is not None:
            file.close()


def _exactly(stream: BinaryIO, count: int) -> bytes:
    pieces: list[bytes] = []
    while count > 0:
        piece = stream.read(count)
        if not piece:
            raise InputError("the body ends before the end of the load", hint="send it again")
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _head(content: bytes) -> PartHead:
    try:
        return msgspec.json.decode(content, type=PartHead)
    except (msgspec.DecodeError, RecursionError):
        raise InputError("the head of a part of the body cannot be read") from None
