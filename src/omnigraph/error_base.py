"""The root of all errors, and the values that errors carry. Read `errors.py` for the tree."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ClassVar

_EXCERPT_WIDTH = 120


class OmniGraphError(Exception):
    """Root of all errors.

    Attributes:
        code: stable name, the same in every interface.
        message: one sentence for a person.
        hint: what to do next, or None when the message says it already.
        details: the fields of this error by name, safe to show and to serialise.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.details)


class Located(Exception):
    """Mixed into an error about a text: knows the place.

    ``str(error)`` shows the sentence, the place and, when the place is known, the line with a caret under it.
    """

    details: dict[str, Any]

    def __init__(
        self,
        message: str,
        *,
        source: str | None = None,
        file: str | None = None,
        offset: int | None = None,
        hint: str | None = None,
        **details: Any,
    ) -> None:
        line, column, excerpt = _locate(source, offset)
        place = {"file": file, "line": line, "column": column, "excerpt": excerpt}
        super().__init__(message, hint=hint, **place, **details)  # type: ignore[call-arg]

    @property
    def line(self) -> int | None:
        return self.details["line"]  # type: ignore[no-any-return]

    @property
    def column(self) -> int | None:
        return self.details["column"]  # type: ignore[no-any-return]

    def __str__(self) -> str:
        text = super().__str__()
        if self.line is None:
            return text
        place = f"{self.details['file'] or '<text>'}:{self.line}:{self.column}"
        return f"{place}: {text}\n{self.details['excerpt']}"


@dataclass(frozen=True, slots=True)
class Conflict:
    """One thing that stands in the way of a merge.

    Attributes:
        table_key: ``node:<Type>`` or ``edge:<Type>``.
        row_id: the entity; None when a rule about many is broken.
        kind: ``DivergentInsert``, ``DivergentUpdate``, ``DeleteVsUpdate``, ``OrphanEdge``, ``UniqueViolation``,
            ``CardinalityViolation`` or ``ValueConstraintViolation``.
        base, ours, theirs: the row in the last common state, on the target and on the source; None where there is none.
        arises: ``ours`` or ``theirs`` for a broken rule that comes only if the other conflicts are decided so; None
            for what stands in the way whatever is decided about them.
        settled_by: decisions like ``node:Person/Eve=ours``, each of which settles it. For a wrong number of edges each
            settles it by one. What a decision leaves behind is checked again.
    """

    table_key: str
    row_id: str | None
    kind: str
    message: str
    base: Mapping[str, Any] | None = field(default=None, repr=False)
    ours: Mapping[str, Any] | None = field(default=None, repr=False)
    theirs: Mapping[str, Any] | None = field(default=None, repr=False)
    arises: str | None = None
    settled_by: tuple[str, ...] = ()

    @property
    def entity(self) -> str:
        """``node:Person/Eve``, the name under which a resolution is given."""
        return f"{self.table_key}/{self.row_id}"

    def to_dict(self) -> dict[str, Any]:
        """Its JSON form; dates, times and bytes of rows are texts in it."""
        return {
            "table_key": self.table_key,
            "row_id": self.row_id,
            "kind": self.kind,
            "message": self.message,
            **{name: _image(getattr(self, name)) for name in ("base", "ours", "theirs")},
            "arises": self.arises,
            "settled_by": list(self.settled_by),
        }

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Conflict:
        """A conflict from its JSON form."""
        return cls(**{**record, "settled_by": tuple(record.get("settled_by", ()))})


def _image(row: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if row is None else {name: _json_value(value) for name, value in row.items()}


def _json_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, bytes):
        return f"base64:{base64.b64encode(value).decode()}"
    if isinstance(value, float) and not math.isfinite(value):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")
    if isinstance(value, date):
        return value.isoformat().replace("+00:00", "Z")
    return value


def _rebuild(kind: type[OmniGraphError], message: str, hint: str | None, details: dict[str, Any]) -> OmniGraphError:
    """Make an error again in another process, whatever the signature of its constructor."""
    error = kind.__new__(kind)
    OmniGraphError.__init__(error, message, hint=hint, **details)
    return error


def _locate(source: str | None, offset: int | None) -> tuple[int | None, int | None, str | None]:
    """Line, column (both from 1) and a two-line excerpt with a caret for a character offset."""
    if source is None or offset is None:
        return None, None, None
    offset = min(max(offset, 0), len(source))
    start = source.rfind("\n", 0, offset) + 1
    end = source.find("\n", offset)
    text = source[start : end if end >= 0 else len(source)].rstrip("\r")
    column = offset - start
    cut = max(0, column - _EXCERPT_WIDTH // 2)
    shown = text[cut : cut + _EXCERPT_WIDTH].replace("\t", " ")
    return source.count("\n", 0, offset) + 1, column + 1, f"  {shown}\n  {' ' * (column - cut)}^"
