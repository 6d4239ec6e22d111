"""`.gq` text → tokens, and a stream over them with the few moves a recursive-descent parser needs.

One regular expression splits the text. Symbols are their own kind, so the parser compares kinds with literal text. No
word is a keyword here: words get a meaning from where they stand. All syntax errors are raised here, so they share one
form: what was expected, what was found, where. Text that nests deeper than `MAX_DEPTH` is refused before it can exhaust
the stack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from omnigraph.errors import QuerySyntaxError
from omnigraph.integers import INTEGER_BOUNDS, LITERAL_BOUNDS, IntegerBounds
from omnigraph.query.syntax.tree import QueryText
from omnigraph.schema.scanner import unescaped

VARIABLE = "variable"
WORD = "word"  # starts with a lower-case letter or an underscore
TYPE_NAME = "type name"
INTEGER = "integer"
FLOAT = "float"
STRING = "string"
END = "end"

_TOKEN = re.compile(
    r"""
      (?P<blank> [ \t\r\n]+ | //[^\n]* | /\*[\s\S]*?\*/ )
    | \$(?P<variable> [a-z_][A-Za-z0-9_]* )
    | (?P<word> [a-z_][A-Za-z0-9_]* )
    | (?P<type> [A-Z][A-Za-z0-9_]* )
    | (?P<float> -?[0-9]+ (?: \.[0-9]+ (?:[eE][+-]?[0-9]+)? | [eE][+-]?[0-9]+ ) )
    | (?P<integer> -?[0-9]+ )
    | "(?P<string> [^"\\]* (?: \\[\s\S] [^"\\]* )* )"
    | (?P<symbol> >= | <= | != | \.\* | [{}()\[\]:,.<>=?@] )
    | (?P<unknown> [\s\S] )
    """,
    re.VERBOSE,
)
_BLANK, _TYPE, _SYMBOL, _UNKNOWN = (_TOKEN.groupindex[name] for name in ("blank", "type", "symbol", "unknown"))
_KINDS = {_TOKEN.groupindex[kind]: kind for kind in (VARIABLE, WORD, FLOAT, INTEGER, STRING)} | {_TYPE: TYPE_NAME}

_BYTE_ORDER_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Three lists of equal length. The last token is of kind `END`.

    The text of a variable has no ``$``; the text of a string has no quotes and still holds its escapes.
    """

    source: QueryText
    kinds: list[str]
    texts: list[str]
    offsets: list[int]


def tokenize(source: QueryText) -> Tokens:
    """Split a whole text.

    Raises:
        QuerySyntaxError: a character cannot start a token, or a string or comment does not end.
    """
    kinds: list[str] = []
    texts: list[str] = []
    offsets: list[int] = []
    start = 1 if source.text.startswith(_BYTE_ORDER_MARK) else 0
    for found in _TOKEN.finditer(source.text, start):
        group = found.lastindex or 0
        if group == _BLANK:
            continue
        if group == _UNKNOWN:
            _refuse(source, found.start())
        text = found[group]
        kinds.append(text if group == _SYMBOL else _KINDS[group])
        texts.append(text)
        offsets.append(found.start())
    kinds.append(END)
    texts.append("")
    offsets.append(len(source.text))
    return Tokens(source, kinds, texts, offsets)


def _refuse(source: QueryText, offset: int) -> NoReturn:
    """Say why no token starts here, in the words of the likeliest mistake."""
    rest = source.text[offset : offset + 2]
    hint = None
    if rest[0] == '"':
        message = "this string has no closing quote"
    elif rest == "/*":
        message = "this comment has no closing `*/`"
    elif rest[0] == "$":
        message = "a variable is `$` followed at once by a lower-case letter or `_`"
    else:
        shown = rest[0] if rest[0].isprintable() else f"U+{ord(rest[0]):04X}"
        message = f"unexpected character `{shown}`"
        hint = _HINTS.get(rest[0])
    raise QuerySyntaxError(message, source=source.text, file=source.file, offset=offset, hint=hint)


_HINTS = {
    "#": "comments start with `//`",
    "'": "strings take double quotes",
    ";": "clauses and statements simply follow one another",
    "!": "not equal is written `!=`, negation `not { … }`",
    "+": "there is no arithmetic",
    "-": "a minus sign stands directly before a number; there is no arithmetic",
    "*": "there is no arithmetic; `$x.*` returns every property, `count($x)` counts",
    "|": "write `or`",
    "&": "write `and`",
}


MAX_DEPTH = 64

_LONGEST_SHOWN = 40
_MOST_DIGITS = len(str(LITERAL_BOUNDS.high))


class TokenStream:
    """Reads tokens from left to right. ``kind``, ``text`` and ``offset`` describe the token under the cursor."""

    __slots__ = ("_depth", "_index", "_tokens", "kind", "offset", "text")

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._depth = 0
        self._index = -1
        self.advance()

    def advance(self) -> None:
        self._index += 1
        self.kind = self._tokens.kinds[self._index]
        self.text = self._tokens.texts[self._index]
        self.offset = self._tokens.offsets[self._index]

    def kind_ahead(self, distance: int = 1) -> str:
        """The kind of a later token; `END` behind the last one."""
        index = self._index + distance
        kinds = self._tokens.kinds
        return kinds[index] if index < len(kinds) else END

    def text_ahead(self, distance: int) -> str:
        """The text of a later token whose kind the caller has looked at."""
        return self._tokens.texts[self._index + distance]

    def at_word(self, word: str) -> bool:
        return self.kind == WORD and self.text == word

    def accept(self, symbol: str) -> bool:
        """Step over a symbol if it is here."""
        if self.kind != symbol:
            return False
        self.advance()
        return True

    def accept_word(self, word: str) -> bool:
        """Step over a word if it is here."""
        if not self.at_word(word):
            return False
        self.advance()
        return True

    def expect(self, symbol: str, where: str) -> None:
        if self.kind != symbol:
            self.fail_expected(f"`{symbol}` {where}")
        self.advance()

    def expect_word(self, word: str, where: str) -> None:
        if not self.accept_word(word):
            self.fail_expected(f"`{word}` {where}")

    def take_name(self, what: str) -> str:
        """A word that names something: a query, a property, an alias."""
        if self.kind == TYPE_NAME:
            self.fail(f"{what} starts with a lower-case letter or `_`, found {self.shown()}")
        return self._take(WORD, what)

    def take_type_name(self, what: str) -> str:
        if self.kind == WORD:
            self.fail(f"{what} starts with an upper-case letter, found {self.shown()}")
        return self._take(TYPE_NAME, what)

    def take_variable(self, what: str) -> str:
        return self._take(VARIABLE, what)

    def take_string(self, what: str) -> str:
        """The value of a string, escapes resolved."""
        raw, offset = self.text, self.offset
        self._take(STRING, what)

        def refuse(sign: str, at: int) -> NoReturn:
            self.fail(f"unsupported escape sequence: \\{sign}", offset=offset + 1 + at)

        return unescaped(raw, refuse)

    def take_integer(self, what: str) -> int:
        """A whole number that fits in 64 bits, with or without a sign."""
        return self._integer(what, LITERAL_BOUNDS)

    def _integer(self, what: str, bounds: IntegerBounds) -> int:
        text, offset = self.text, self.offset
        self._take(INTEGER, what)
        digits = text.lstrip("-0")  # counted before int(), whose cost and limit depend on the length
        if len(digits) <= _MOST_DIGITS:
            value = int(digits or "0") * (-1 if text[0] == "-" else 1)
            if value in bounds:
                return value
        self.fail(f"integer {shorten(text)} does not fit in 64 bits", offset=offset)

    def take_count(self, what: str) -> int:
        """A whole number without a sign."""
        if self.kind == INTEGER and self.text.startswith("-"):
            self.fail(f"{what} must not be negative, found {self.shown()}")
        return self._integer(what, INTEGER_BOUNDS["I64"])

    def _take(self, kind: str, what: str) -> str:
        if self.kind != kind:
            self.fail_expected(what)
        text = self.text
        self.advance()
        return text

    def descend(self) -> None:
        """Enter a nested construct; pair with `ascend`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.fail(f"nested deeper than {MAX_DEPTH} levels")

    def ascend(self) -> None:
        self._depth -= 1

    def shown(self) -> str:
        """The token under the cursor, as a reader would name it."""
        if self.kind == END:
            return "the end of the text"
        if self.kind == VARIABLE:
            return f"`${shorten(self.text)}`"
        if self.kind == STRING:
            return f'`"{shorten(self.text)}"`'
        return f"`{shorten(self.text)}`"

    def fail_expected(self, what: str, *, hint: str | None = None) -> NoReturn:
        self.fail(f"expected {what}, found {self.shown()}", hint=hint)

    def fail(self, message: str, *, offset: int | None = None, hint: str | None = None) -> NoReturn:
        source = self._tokens.source
        place = self.offset if offset is None else offset
        raise QuerySyntaxError(message, source=source.text, file=source.file, offset=place, hint=hint)


def shorten(text: str) -> str:
    """Text that fits into a message."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
