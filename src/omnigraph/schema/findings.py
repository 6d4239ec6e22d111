"""One remark on a schema text: the shape that compile warnings and lint results share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class SchemaFinding:
    """A remark with its place.

    Attributes:
        code: stable name that tools may match on.
        severity: an ``error`` keeps the schema from being used, a ``warning`` does not.
        message: one sentence for a person.
        entity: ``node:Person``, ``edge:Knows.since``, or None when the text could not be read that far.
        line: from 1, or None when the place is not known.
        column: from 1, or None.
    """

    code: str
    severity: Severity
    message: str
    entity: str | None = None
    line: int | None = None
    column: int | None = None
