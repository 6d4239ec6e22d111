"""The root of all errors, and the values that errors carry. Read `errors.py` for the tree."""

from __future__ import annotations

from dataclasses import dataclass
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
    """

    table_key: str
    row_id: str | None
    kind: str
    message: str

    @property
    def entity(self) -> str:
        """``node:Person/Eve``, the name under which a resolution is given."""
        return f"{self.table_key}/{self.row_id}"

    def to_dict(self) -> dict[str, Any]:
        return {"table_key": self.table_key, "row_id": self.row_id, "kind": self.kind, "message": self.message}


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
