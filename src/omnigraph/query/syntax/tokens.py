"""Splits `.gq` text into tokens with one regular expression.

Symbols are their own kind, so the parser compares kinds with literal text. No word is a keyword here: words get a
meaning from where they stand. The parser reads tokens through `cursor.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from omnigraph.errors import QuerySyntaxError
from omnigraph.query.syntax.tree import Source

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
    | (?P<symbol> >= | <= | != | [{}()\[\]:,.<>=?@] )
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

    source: Source
    kinds: list[str]
    texts: list[str]
    offsets: list[int]


def tokenize(source: Source) -> Tokens:
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


def _refuse(source: Source, offset: int) -> NoReturn:
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
    "*": "there is no arithmetic and no `*`",
    "|": "write `or`",
    "&": "write `and`",
}
