"""The parts of a Lance schema: what a recovery record keeps of it, and how one with given field ids is made."""

from __future__ import annotations

from typing import Any

from lance.schema import LanceSchema


def schema_to_parts(schema: LanceSchema) -> tuple[str, list[bytes]]:
    """A Lance schema with its field ids as its metadata and one entry per field, for a recovery record."""
    parts: Any = schema.__reduce__()[1]
    return parts[0], list(parts[1:])


def schema_from_parts(metadata: str, entries: list[bytes]) -> LanceSchema:
    return LanceSchema._from_protos(metadata, *entries)
