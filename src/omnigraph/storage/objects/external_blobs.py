"""Blobs that lie outside of every graph, named by a URI: which of them may be read, and their bytes.

``OMNIGRAPH_EXTERNAL_BLOBS`` lists the bases; without it nothing is allowed. Addresses are compared segment by segment,
after decoding, so that ``s3://b/a`` is no base of ``s3://b/ab``. What could be read in two ways, such as ``..`` or an
encoded slash, is refused. A local file must lie below its base also when all symbolic links are followed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO
from urllib.parse import unquote

from omnigraph import limits
from omnigraph.errors import (
    ExternalBlobDenied,
    ExternalBlobSettingsError,
    ExternalBlobUnavailable,
    ResourceLimitExceeded,
)
from omnigraph.storage.objects.user_files import open_object

_LONGEST_SHOWN = 200
_BUCKET = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_CONTROL = r"[\x00-\x1f\x7f]"
_BAD_PERCENT = r"%(?![0-9A-Fa-f]{2})"


class _Unclear(Exception):
    """Why a text is no address that can be trusted to mean one place."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One file or object, or what lies below it.

    Attributes:
        bucket: of an object; None for a local file.
        segments: of the path or key, decoded.
    """

    bucket: str | None
    segments: tuple[str, ...]

    @property
    def path(self) -> str:
        return "/".join(("" if self.bucket is None else self.bucket, *self.segments)) or "/"

    def holds(self, other: _Place) -> bool:
        """Whether another place lies below this one."""
        own = len(self.segments)
        return self.bucket == other.bucket and len(other.segments) > own and other.segments[:own] == self.segments


def external_bytes(uri: str) -> bytes:
    """All bytes at an address.

    Raises:
        ExternalBlobDenied: the address is not below a base.
        ExternalBlobUnavailable: it is, and its bytes cannot be read.
        ResourceLimitExceeded: the address is too long to be one, or there are too many bytes.
    """
    most = limits.EXTERNAL_BLOB_BYTES
    with open_external(uri) as source, external_errors(uri):
        content = source.read(most + 1)
    if len(content) > most:
        hint = f"pass the bytes of '{_shown(uri)}' in a Parquet file, or in a smaller piece"
        raise ResourceLimitExceeded("bytes of an external blob", len(content), most, hint=hint)
    return content


def open_external(uri: str) -> BinaryIO:
    """The bytes at an address as a seekable stream, to be read inside `external_errors`; see `external_bytes`."""
    place = _allowed(uri)
    with external_errors(uri):
        return open_object(place.bucket, "/".join(place.segments)) if place.bucket else _open_local(uri, place)


@contextmanager
def external_errors(uri: str) -> Iterator[None]:
    """What the place of an allowed address may answer, as `ExternalBlobUnavailable`."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise ExternalBlobUnavailable(
            f"cannot read external blob '{_shown(uri)}': {why}", uri=_shown(uri), reason=why
        ) from error


def _allowed(uri: str) -> _Place:
    size = len(uri.encode("utf-8", "surrogatepass"))
    if size > limits.BLOB_URI_BYTES:
        raise ResourceLimitExceeded("blob URI bytes", size, limits.BLOB_URI_BYTES)
    bases = _bases(limits.external_blob_bases())
    if not bases:
        raise _denied(uri, "new external Blob URI ingress is denied for this graph")
    try:
        place = _parsed(uri)
    except _Unclear as unclear:
        raise _denied(uri, str(unclear)) from None
    if not any(base.holds(place) for base in bases):
        raise _denied(uri, "URI is outside every configured external Blob base")
    return place


@lru_cache(maxsize=4)
def _bases(setting: str) -> tuple[_Place, ...]:
    """The bases of the setting. One slash at the end of a base means nothing; ``file:///`` is everything local."""
    found: dict[str, _Place] = {}
    for text in setting.split():
        try:
            base = _parsed(text if text == "/" or text.endswith("//") else text.removesuffix("/"))
        except _Unclear as unclear:
            raise ExternalBlobSettingsError(
                f"OMNIGRAPH_EXTERNAL_BLOBS: '{_shown(text)}' is no base: {unclear}"
            ) from None
        for other, known in found.items():
            if base == known or base.holds(known) or known.holds(base):
                raise ExternalBlobSettingsError(
                    f"OMNIGRAPH_EXTERNAL_BLOBS: '{_shown(text)}' and '{_shown(other)}' overlap", hint="keep one of them"
                )
        found[text] = base
    return tuple(found.values())


def _parsed(text: str) -> _Place:
    """The one place that an address means: an absolute path as it is, a URI with its ``%`` decoded."""
    if re.search(_CONTROL, text):
        raise _Unclear("it has a control character")
    if text.startswith("/"):
        return _Place(None, _segments(text[1:]))
    scheme, separator, rest = text.partition("://")
    if not separator or scheme.lower() not in ("file", "s3"):
        raise _Unclear("it is no s3:// or file:// URI, no absolute path and no base64: data")
    if re.search(r"[?#\\]", rest):
        raise _Unclear("it has a '?', '#' or '\\', which has to be encoded")
    host, _, path = rest.partition("/")
    if scheme.lower() == "file":
        if host not in ("", "localhost"):
            raise _Unclear(f"it names the host '{host}'")
        return _Place(None, tuple(map(_decoded, _segments(path))))
    if not re.fullmatch(_BUCKET, host):
        raise _Unclear("it names no bucket")
    return _Place(host, tuple(map(_decoded, _segments(path))))


def _segments(path: str) -> tuple[str, ...]:
    segments = tuple(path.split("/")) if path else ()
    for segment in segments:
        _refuse(segment)
    return segments


def _decoded(segment: str) -> str:
    if re.search(_BAD_PERCENT, segment):
        raise _Unclear("it has a '%' that encodes nothing")
    try:
        text = unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise _Unclear("it encodes bytes that are no UTF-8") from None
    if "/" in text or "\\" in text or re.search(_CONTROL, text):
        raise _Unclear("it encodes a slash, a backslash or a control character")
    _refuse(text)
    return text


def _refuse(segment: str) -> None:
    if segment in ("", ".", ".."):
        raise _Unclear(f"it has a segment '{segment}'" if segment else "it has an empty segment")


def _open_local(uri: str, place: _Place) -> BinaryIO:
    """A file, wherever links lead, as long as that is below one of the bases, and a file it is."""
    real = os.path.realpath(place.path, strict=True)
    bases = [os.path.realpath(base.path) for base in _bases(limits.external_blob_bases()) if base.bucket is None]
    if not any(os.path.commonpath((real, base)) == base for base in bases):
        raise _denied(uri, "URI is outside every configured external Blob base")
    number = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe would block
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError("it is no file")
    return os.fdopen(number, "rb")


def _denied(uri: str, why: str) -> ExternalBlobDenied:
    return ExternalBlobDenied(
        f"external blob URI '{_shown(uri)}' is not allowed: {why}",
        hint="pass the bytes as base64:…, or allow a base above it with OMNIGRAPH_EXTERNAL_BLOBS",
        uri=_shown(uri),
    )


def _shown(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
