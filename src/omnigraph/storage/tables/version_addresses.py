"""Addresses in the version files of Lance branches: where the files of the lineages lie that a branch was made from.

Also the name of the transaction file, which Lance does not tell. Addresses are absolute, so a table with branches that
comes to lie elsewhere needs other ones. A version file ends with its manifest, a protobuf message that holds them as
`base_paths`; nothing lies behind the message but a footer that says where it begins. So a message of another length
moves nothing, and everything before it stays as it is, byte by byte.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from omnigraph.errors import CorruptGraph

_LENGTH = struct.Struct("<I")
_FOOTER = struct.Struct("<QHH4s")
_MAGIC = b"LANC"

#: Numbers of fields: `Manifest.base_paths` and `BasePath.path`; `Manifest.transaction_file`.
_BASE_PATHS = 18
_PATH = 4
_TRANSACTION_FILE = 12

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5

_SCHEME = re.compile(r"(?:file-object-store|file)://")


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message: where it begins, where its value begins, and where both end."""

    number: int
    kind: int
    start: int
    value: int
    end: int


def addresses(content: bytes) -> list[str]:
    """The addresses that a version file names; none in the main lineage of a table."""
    return [content[path.value : path.end].decode() for _, path in _paths(content, _message(content))]


def transaction_file(content: bytes) -> str | None:
    """Name of the file with the transaction that made a version; None when there is none."""
    message = _message(content)
    for found in _fields(content, message.value, message.end):
        if (found.number, found.kind) == (_TRANSACTION_FILE, _BYTES):
            return content[found.value : found.end].decode()
    return None


def with_table_at(content: bytes, address: str) -> bytes:
    """The same version file for a table whose main lineage lies at another address.

    Every branch comes from the main lineage in the end, so the shortest address is that of the table, and all others
    are below it. Content that fits already is returned as it is.

    Raises:
        CorruptGraph: the content is no version file, or it names files outside of its table.
    """
    message = _message(content)
    found = list(_paths(content, message))
    if not found:
        return content
    before = min(addresses(content), key=len)
    parts, copied = [], message.value
    for base, path in found:
        old = content[path.value : path.end].decode()
        if old != before and not old.startswith(f"{before}/tree/"):
            raise CorruptGraph(f"a version file names files outside of its table, at {old}")
        new = f"{address}{old[len(before) :]}".encode()
        inner = b"".join(
            [content[base.value : path.start], _tag(_PATH), _varint(len(new)), new, content[path.end : base.end]]
        )
        parts += [content[copied : base.start], _tag(_BASE_PATHS), _varint(len(inner)), inner]
        copied = base.end
    body = b"".join([*parts, content[copied : message.end]])
    return b"".join([content[: message.start], _LENGTH.pack(len(body)), body, content[message.end :]])


def is_at(name: str, address: str) -> bool:
    """Whether an address that a version file names is that of a table, or of a branch of it.

    Other software may spell the same place with another scheme, or without the first slash.
    """
    known, place = _plain(address), _plain(name)
    return place == known or place.startswith(f"{known}/tree/")


def _plain(address: str) -> str:
    path = _SCHEME.sub("", address, count=1)
    return (unquote(path) if path != address else path).lstrip("/")


def _message(content: bytes) -> _Field:
    """The manifest in a version file: its length, its content, its end."""
    end = len(content) - _FOOTER.size
    if end > 0:
        position, _, _, magic = _FOOTER.unpack_from(content, end)
        if magic == _MAGIC and position + _LENGTH.size <= end:
            (length,) = _LENGTH.unpack_from(content, position)
            if position + _LENGTH.size + length == end:
                return _Field(0, _BYTES, position, position + _LENGTH.size, end)
    raise CorruptGraph("a version file of a table does not end as version files do")


def _paths(content: bytes, message: _Field) -> Iterator[tuple[_Field, _Field]]:
    """Each base path of a message, and its address in it."""
    for base in _fields(content, message.value, message.end):
        if (base.number, base.kind) == (_BASE_PATHS, _BYTES):
            for path in _fields(content, base.value, base.end):
                if (path.number, path.kind) == (_PATH, _BYTES):
                    yield base, path


def _fields(content: bytes, at: int, end: int) -> Iterator[_Field]:
    """The fields of a message, in the order in which they lie there."""
    while at < end:
        start = at
        tag, at = _number(content, at, end)
        kind = tag & 7
        if kind == _VARINT:
            value, (_, at) = at, _number(content, at, end)
        elif kind == _BYTES:
            length, value = _number(content, at, end)
            at = value + length
        elif kind in (_FIXED_64, _FIXED_32):
            value, at = at, at + (8 if kind == _FIXED_64 else 4)
        else:
            raise CorruptGraph("the manifest in a version file cannot be decoded")
        if at > end:
            raise CorruptGraph("the manifest in a version file is cut")
        yield _Field(tag >> 3, kind, start, value, at)


def _number(content: bytes, at: int, end: int) -> tuple[int, int]:
    """A variable-length integer, and where it ends."""
    found = shift = 0
    while at < end and shift < 70:
        byte = content[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return found, at
    raise CorruptGraph("the manifest in a version file is cut")


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _tag(number: int) -> bytes:
    return _varint(number << 3 | _BYTES)
