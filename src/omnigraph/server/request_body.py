"""Reads the body of a request within its limit, and makes the operation's class of it.

Whatever a client sends, the answer is an error of the client: too long, too slow, too deep, not UTF-8, not JSON,
another shape. Compressed bodies are counted after they are unpacked.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import msgspec
import zstandard

from omnigraph import limits
from omnigraph.errors import InvalidRequest, ResourceLimitExceeded
from omnigraph.server.asgi import ClientGone, Receive

_PIECE = 64 * 1024
_MOST_WINDOW = 8 * 1024**2
_GZIP = 31
_ZSTD_INPUT = 512


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How long a body may be.

    Attributes:
        resource: what the error about it names.
        spool_bytes: more of them go to the disk.
    """

    bytes: int
    resource: str
    spool_bytes: int

    def check(self, size: int) -> None:
        """Refuse a size that is too large.

        Raises:
            ResourceLimitExceeded: it is.
        """
        if size > self.bytes:
            raise ResourceLimitExceeded(self.resource, size, self.bytes, hint="split the request")


async def read_body(
    receive: Receive, allowed: BodyLimit, seconds: float, *, has_arrived: bool = False
) -> BinaryIO | bytes:
    """The body as it was sent: bytes when it came in one piece, else a file at its begin.

    Args:
        seconds: for all of it to arrive; a long one gets more by its size, see `limits.BODY_BYTES_PER_SECOND`.
        has_arrived: it has, and nothing is waited for.

    Raises:
        ResourceLimitExceeded: it is longer.
        InvalidRequest: it did not arrive in time.
        ClientGone: the connection is closed.
    """
    if has_arrived:
        body: bytes = (await _next(receive)).get("body", b"")
        allowed.check(len(body))
        return body
    try:
        async with asyncio.timeout(seconds) as bound:
            message = await _next(receive)
            first: bytes = message.get("body", b"")
            if not message.get("more_body", False):
                allowed.check(len(first))
                return first
            return await _spooled(receive, first, allowed, bound)
    except TimeoutError:
        raise InvalidRequest(f"the body did not arrive within {seconds:g} s", status=408) from None


async def _spooled(receive: Receive, piece: bytes, allowed: BodyLimit, bound: asyncio.Timeout) -> BinaryIO:
    file = _temporary(allowed)
    ends = bound.when() or 0.0
    try:
        size, more = 0, True
        while True:
            size += len(piece)
            allowed.check(size)
            bound.reschedule(ends + size / limits.BODY_BYTES_PER_SECOND)
            file.write(piece)
            if not more:
                file.seek(0)
                return file
            message = await _next(receive)
            piece, more = message.get("body", b""), message.get("more_body", False)
    except BaseException:
        file.close()
        raise


async def _next(receive: Receive) -> Any:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


def _temporary(allowed: BodyLimit) -> BinaryIO:
    return cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=allowed.spool_bytes))


def check_length(headers: dict[str, list[str]], allowed: BodyLimit) -> None:
    """Refuse a body that says itself that it is too long, before it is read."""
    said = headers.get("content-length")
    if said and said[0].isdigit():
        allowed.check(int(said[0][:20]))


def encoding_of(headers: dict[str, list[str]]) -> str | None:
    """How the body is compressed.

    Raises:
        InvalidRequest: in a way that nobody knows.
    """
    given = [each.strip().lower() for value in headers.get("content-encoding", ()) for each in value.split(",")]
    given = [each for each in given if each not in ("", "identity")]
    if not given:
        return None
    if len(given) > 1 or given[0] not in ("gzip", "zstd"):
        raise InvalidRequest(
            f"the content encoding '{', '.join(given)[:80]}' is not known", hint="send gzip, zstd or none", status=415
        )
    return given[0]


def unpacked(body: BinaryIO | bytes, encoding: str | None, allowed: BodyLimit) -> BinaryIO | bytes:
    """The body without its compression; it never takes more room than the limit, however well it was packed.

    Raises:
        ResourceLimitExceeded: it is longer than it may be.
        InvalidRequest: it is damaged.
    """
    if encoding is None:
        return body
    pieces = _gunzipped(body) if encoding == "gzip" else _unzstd(body)
    file = _temporary(allowed)
    try:
        size = 0
        for piece in pieces:
            size += len(piece)
            allowed.check(size)
            file.write(piece)
    except (zlib.error, zstandard.ZstdError, EOFError):
        file.close()
        raise InvalidRequest(f"the body is not a whole {encoding} stream") from None
    except BaseException:
        file.close()
        raise
    finally:
        close_body(body)
    file.seek(0)
    return file


def _pieces(body: BinaryIO | bytes) -> Iterator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    while piece := body.read(_PIECE):
        yield piece


def _gunzipped(body: BinaryIO | bytes) -> Iterator[bytes]:
    """What is packed, at most a piece at a time. Several members behind each other are one stream, as gzip has it."""
    unpacker = zlib.decompressobj(wbits=_GZIP)
    for piece in _pieces(body):
        rest = piece
        while rest:
            if unpacker.eof:
                unpacker = zlib.decompressobj(wbits=_GZIP)
            yield unpacker.decompress(rest, _PIECE)
            rest = unpacker.unused_data or unpacker.unconsumed_tail
    if not unpacker.eof:
        yield unpacker.flush(_PIECE)
    if not unpacker.eof:
        raise EOFError


def _unzstd(body: BinaryIO | bytes) -> Iterator[bytes]:
    """The same. A few bytes are unpacked at a time, because a block of four can stand for 128 KiB."""
    tool = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW)
    unpacker = tool.decompressobj()
    for piece in _pieces(body):
        for start in range(0, len(piece), _ZSTD_INPUT):
            rest = piece[start : start + _ZSTD_INPUT]
            while rest:
                if unpacker.eof:
                    unpacker = tool.decompressobj()
                yield unpacker.decompress(rest)
                rest = unpacker.unused_data
    if not unpacker.eof:
        raise EOFError


def close_body(body: BinaryIO | bytes | None) -> None:
    if body is not None and not isinstance(body, bytes):
        body.close()


def whole(body: BinaryIO | bytes) -> bytes:
    """All bytes of a body that is small enough for memory."""
    if isinstance(body, bytes):
        return body
    with body:
        return body.read()


def as_file(body: BinaryIO | bytes) -> BinaryIO:
    return io.BytesIO(body) if isinstance(body, bytes) else body


def size_of(file: BinaryIO) -> int:
    """Bytes of a file that is at its begin, and stays there."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return size


def decoded_json(body: bytes, kind: type[msgspec.Struct]) -> Any:
    """A body as the operation's class.

    Raises:
        InvalidRequest: it is empty, not JSON, or has another shape; the message names the place.
    """
    if not body.strip(b" \t\r\n"):
        raise InvalidRequest("the body is empty", hint="send a JSON object")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        where = place.strip("`")
        raise InvalidRequest(
            f"the body has another shape: {_lower(message)}" + (f" at `{where}`" if where else ""),
            **({"at": where} if where else {}),
        ) from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None
    except (msgspec.DecodeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"the body is not JSON: {_lower(str(error))}"[:300]) from None


def _lower(text: str) -> str:
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def require_type(headers: dict[str, list[str]], wanted: str) -> None:
    """Refuse a body that says that it is something else.

    Raises:
        InvalidRequest: it does, or says nothing.
    """
    given = headers.get("content-type", [""])[0].partition(";")[0].strip().lower()
    if given != wanted:
        said = f"is {given[:80]}" if given else "does not say what it is"
        raise InvalidRequest(f"the body {said}", hint=f"send Content-Type: {wanted}", status=415)
