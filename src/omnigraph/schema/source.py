"""A schema text that knows how to point at itself.

Every later step carries a `Source` instead of a bare string, so that each error and each finding names its place.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from omnigraph.errors import CatalogError, ResourceLimitExceeded, SchemaError, SchemaSyntaxError

MAX_SOURCE_BYTES = 512 << 10  # some ten thousand properties, about a second to compile; schemas are written by people

_BOM = "\ufeff"


@dataclass(frozen=True)
class Source:
    """Text of one schema file. Offsets count characters of ``text``."""

    text: str
    file: str | None = None

    @classmethod
    def of(cls, text: str, file: str | None = None) -> Source:
        """Take a text as it was read: drop a leading byte order mark, refuse what is not Unicode or far too long."""
        source = cls(text.removeprefix(_BOM), file)
        try:
            size = len(source.text.encode())
        except UnicodeEncodeError as error:
            raise source.syntax("the text holds half of a surrogate pair and is not valid UTF-8", error.start) from None
        if size > MAX_SOURCE_BYTES:
            raise ResourceLimitExceeded("schema source bytes", size, MAX_SOURCE_BYTES)
        return source

    def syntax(self, message: str, at: int, *, hint: str | None = None) -> SchemaSyntaxError:
        """The text does not follow the grammar at offset ``at``."""
        return SchemaSyntaxError(f"parse error: {message}", source=self.text, file=self.file, offset=at, hint=hint)

    def rule(self, message: str, at: int, *, hint: str | None = None) -> SchemaError:
        """A declaration breaks a rule of the language."""
        return SchemaError(f"parse error: {message}", source=self.text, file=self.file, offset=at, hint=hint)

    def misfit(self, message: str, at: int, *, hint: str | None = None) -> CatalogError:
        """Declarations that are fine alone do not fit together."""
        return CatalogError(f"catalog error: {message}", source=self.text, file=self.file, offset=at, hint=hint)

    def place(self, at: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._line_starts, at)
        return line, at - self._line_starts[line - 1] + 1

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        while (newline := self.text.find("\n", starts[-1])) >= 0:
            starts.append(newline + 1)
        return starts
