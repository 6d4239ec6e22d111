"""How a refused change is worded."""

from __future__ import annotations

from omnigraph.schema.evolve.steps import UnsupportedChange

NEW_REQUIRED = "OG-MF-103"
TYPE_CHANGE = "OG-MF-106"

_SUFFIX = "is not supported in schema migration v1"


def refused(entity: str, change: str, *, code: str | None = None, remedy: str | None = None) -> UnsupportedChange:
    """``<change> is not supported in schema migration v1``, then the remedy when there is one."""
    reason = f"{change} {_SUFFIX}"
    return UnsupportedChange(entity, reason if remedy is None else f"{reason}; {remedy}", code)
