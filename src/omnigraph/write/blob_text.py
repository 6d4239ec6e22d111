"""Blob values as text: ``base64:…`` holds the bytes, anything else is the address of bytes elsewhere.

The bytes at an address are copied into the graph, which depends on nothing outside of it afterwards.
"""

from __future__ import annotations

import base64

from omnigraph.errors import InvalidRow, OmniGraphError

_INLINE = "base64:"


def blob_bytes(text: str, property_: str) -> bytes:
    """The bytes that a text means. ``base64:`` alone is an empty blob, which is not null.

    Raises:
        InvalidRow: the data is not base64.
        ExternalBlobDenied: the text is an address, and not an allowed one.
        ExternalBlobUnavailable: the bytes at an allowed address cannot be read.
        ResourceLimitExceeded: the address is too long to be one, or there are too many bytes.

    Example:
        >>> blob_bytes("base64:aGk=", "body")
        b'hi'
    """
    if not text.startswith(_INLINE):
        return _outside(text, property_)
    try:
        return base64.b64decode(text[len(_INLINE) :], validate=True)
    except ValueError as error:
        raise InvalidRow(f"invalid base64 blob data: {error}", property=property_) from None


def _outside(uri: str, property_: str) -> bytes:
    from omnigraph.storage.objects.external_blobs import external_bytes

    try:
        return external_bytes(uri)
    except OmniGraphError as error:
        error.details.setdefault("property", property_)
        raise
