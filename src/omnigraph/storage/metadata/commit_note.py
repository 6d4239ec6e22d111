"""What a commit says of itself: the kind of write, the rows that it touched by type, and the words of its author.

The note is a JSON object in the metadata of the commit's row and in the recovery record, so that whoever finishes a
dead write keeps it. Readers that do not know it pass over it; what cannot be read of it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows of one type that a commit touched."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def __str__(self) -> str:
        """``+3 ~1``: what was inserted (+), updated (~) and deleted (-)."""
        signed = (("+", self.inserted), ("~", self.updated), ("-", self.deleted))
        return " ".join(f"{sign}{count}" for sign, count in signed if count)

    def to_dict(self) -> dict[str, int]:
        return {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}


def note_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The note among the fields of a record: ``kind``, ``message`` and ``rows``, as far as they are there."""
    kinds = {"kind": str, "message": str, "rows": dict}
    return {name: record[name] for name, kind in kinds.items() if isinstance(record.get(name), kind)}


def rows_of(note: Mapping[str, Any]) -> dict[str, RowCounts]:
    """Touched rows by table key."""
    return {str(key): _counts(each) for key, each in note.get("rows", {}).items()}


def note_line(note: Mapping[str, Any]) -> str:
    """One line: ``load: Person +3, Follows +1 "first import"``."""
    counts = ", ".join(f"{key.partition(':')[2]} {rows}" for key, rows in rows_of(note).items())
    kind, message = note.get("kind", ""), note.get("message", "")
    first, *more = message.splitlines() or [""]
    parts = [f"{kind}: {counts}" if kind and counts else kind or counts]
    parts += [f'"{first}{" …" if more else ""}"'] if first else []
    return " ".join(part for part in parts if part)


def _counts(record: Any) -> RowCounts:
    values = record if isinstance(record, dict) else {}
    numbers = (values.get(name) for name in ("inserted", "updated", "deleted"))
    return RowCounts(*(number if isinstance(number, int) else 0 for number in numbers))
