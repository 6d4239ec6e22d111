"""A schema text that knows how to point at itself, and the scanner that reads tokens from it.

Every later step carries a `SchemaText` instead of a bare string, so that each error and each finding names its place.
The words of the language are contextual (`node` is also a legal property name, `1..3` holds no float, an enum value
may contain hyphens), so there is no token stream: the parser says which token it can use next. The scanner always
stands on the first character after whitespace and comments, and every pattern takes time linear in what it reads.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NoReturn

from omnigraph.errors import CatalogError, ResourceLimitExceeded, SchemaError, SchemaSyntaxError

MAX_SOURCE_BYTES = 512 << 10  # some ten thousand properties, about a second to compile; schemas are written by people

_BOM = "\ufeff"


@dataclass(frozen=True)
class SchemaText:
    """Text of one schema file. Offsets count characters of ``text``."""

    text: str
    file: str | None = None

    @classmethod
    def of(cls, text: str, file: str | None = None) -> SchemaText:
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


SPACE: Final = r"(?:[ \t\r\n]++|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)*+"  # whitespace and comments

TYPE_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9_]*+")
IDENTIFIER: Final = re.compile(r"[a-z_][A-Za-z0-9_]*+")
WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+")
ENUM_VALUE: Final = re.compile(r"[A-Za-z0-9_-]++")
INTEGER: Final = re.compile(r"[0-9]++")
NUMBER: Final = re.compile(r"[0-9]++(?:\.[0-9]++)?+")
SIGNED_NUMBER: Final = re.compile(r"-?[0-9]++(?:\.[0-9]++)?+")
STRING: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)

_SPACE = re.compile(SPACE)
_SHOWN = re.compile(r"[\w-]{1,40}|->|\.\.|.", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def unescaped(raw: str, refuse: Callable[[str, int], NoReturn]) -> str:
    """The value of a string literal, given without its quotes. Both languages of the package spell strings alike.

    Args:
        refuse: raises for an unknown escape, given its sign and its place in ``raw``.
    """
    if "\\" not in raw:
        return raw

    def value_of(escape: re.Match[str]) -> str:
        if escape[1] not in _ESCAPED:
            refuse(escape[1], escape.start())
        return _ESCAPED[escape[1]]

    return _ESCAPE.sub(value_of, raw)


class Scanner:
    """A place in a text. ``at`` is the offset of the next token."""

    __slots__ = ("_text", "at", "source")

    def __init__(self, source: SchemaText) -> None:
        self.source = source
        self._text = source.text
        self.at = 0
        self._skip_space(0)

    @property
    def at_end(self) -> bool:
        return self.at == len(self._text)

    def sees(self, sign: str) -> bool:
        """Whether the next token starts with ``sign``."""
        return self._text.startswith(sign, self.at)

    def peek(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self._text, self.at)

    def accept(self, sign: str) -> bool:
        """Step over ``sign`` if it comes next."""
        if not self._text.startswith(sign, self.at):
            return False
        self._skip_space(self.at + len(sign))
        return True

    def expect(self, sign: str, where: str) -> None:
        """Step over ``sign`` or fail, saying ``where`` it was needed."""
        if not self.accept(sign):
            raise self.failure(f"'{sign}' {where}")

    def take(self, pattern: re.Pattern[str], expected: str) -> str:
        """Step over a token of the given pattern or fail with what was ``expected``."""
        match = pattern.match(self._text, self.at)
        if match is None:
            raise self.failure(expected)
        self._skip_space(match.end())
        return match.group()

    def take_word(self, word: str) -> bool:
        """Step over a keyword if it comes next as a whole word."""
        match = WORD.match(self._text, self.at)
        if match is None or match.group() != word:
            return False
        self._skip_space(match.end())
        return True

    def take_string(self, expected: str) -> str:
        """Step over a string literal and return its value."""
        start = self.at
        raw = self.take(STRING, expected)

        def refuse(sign: str, at: int) -> NoReturn:
            raise self.source.rule(f"unsupported escape sequence: \\{sign}", start + 1 + at)

        return unescaped(raw[1:-1], refuse)

    def failure(self, expected: str, *, hint: str | None = None) -> SchemaSyntaxError:
        """The error for a next token that cannot stand here."""
        return self.source.syntax(f"expected {expected}, found {self._next_token()}", self.at, hint=hint)

    def _next_token(self) -> str:
        if self.at_end:
            return "the end of the text"
        if self.sees("/*"):
            return "a comment that is never closed"
        if self.sees('"'):
            return "a string" if self.peek(STRING) else "a string that is never closed"
        if self.sees("#"):
            return "'#' (comments start with // or stand between /* and */)"
        match = _SHOWN.match(self._text, self.at)
        assert match is not None
        shown = match.group()
        return f"'{shown}'" if shown.isprintable() else f"character U+{ord(shown[0]):04X}"

    def _skip_space(self, start: int) -> None:
        match = _SPACE.match(self._text, start)
        self.at = match.end() if match else start
