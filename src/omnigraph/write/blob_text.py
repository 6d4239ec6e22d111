"""Blob values as text: ``base64:…`` holds the bytes, anything else is the address of bytes elsewhere."""

from __future__ import annotations

import base64

from omnigraph import limits
from omnigraph.errors import DeniedError, InvalidRow, ResourceLimitExceeded

_INLINE = "base64:"
_LONGEST_SHOWN = 200


def blob_bytes(text: str, property_: str) -> bytes:
    """The bytes of an inline blob. ``base64:`` alone is an empty blob, which is not null.

    Raises:
        InvalidRow: the data is not base64.
        DeniedError: the text is an address; graphs take none.
        ResourceLimitExceeded: the address is too long to be one.

    Example:
        >>> blob_bytes("base64:aGk=", "body")
        b'hi'
    """
    if not text.startswith(_INLINE):
        _refuse_address(text, property_)
    try:
        return base64.b64decode(text[len(_INLINE) :], validate=True)
    except ValueError as error:
        raise InvalidRow(f"invalid base64 blob data: {error}", property=property_) from None


def _refuse_address(text: str, property_: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.BLOB_URI_BYTES:
        raise ResourceLimitExceeded("blob URI bytes", size, limits.BLOB_URI_BYTES)
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
    raise DeniedError(
        f"external blob URI '{shown}' is not allowed: new external Blob URI ingress is denied for this graph",
        hint="pass the bytes as base64:…",
        property=property_,
    )
