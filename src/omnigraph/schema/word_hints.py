"""What somebody may have meant by a word that the schema language does not know: a slip of the pen, or another system's
word for a type."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph import limits

_INTEGERS = "'I32' or 'I64'"
_WORDS_OF_OTHERS = {
    **dict.fromkeys(("string", "str", "text", "varchar", "char", "utf8", "uuid", "json"), "'String'"),
    **dict.fromkeys(("int", "integer"), _INTEGERS),
    **dict.fromkeys(("byte", "short", "smallint", "tinyint", "int8", "int16", "int32", "i8", "i16"), "'I32'"),
    **dict.fromkeys(("long", "bigint", "int64", "serial"), "'I64'"),
    **dict.fromkeys(("uint", "unsigned"), "'U32' or 'U64'"),
    **dict.fromkeys(("uint8", "uint16", "uint32", "u8", "u16"), "'U32'"),
    **dict.fromkeys(("uint64", "ulong"), "'U64'"),
    **dict.fromkeys(("float", "real"), "'F64' or 'F32'"),
    **dict.fromkeys(("double", "decimal", "numeric", "number", "float64"), "'F64'"),
    **dict.fromkeys(("float32", "float16", "half", "f16"), "'F32'"),
    "boolean": "'Bool'",
    **dict.fromkeys(("timestamp", "timestamptz", "instant", "time"), "'DateTime'"),
    **dict.fromkeys(("bytes", "binary", "bytea"), "'Blob'"),
    **dict.fromkeys(("embedding", "vector"), "'Vector(n)' with its dimension"),
    **dict.fromkeys(("list", "array"), "'[T]' with a base type T"),
    "enum": "'enum(a, b)' with its values",
}


def type_hint(word: str, types: Iterable[str]) -> str | None:
    """The type that a word looks like; None when it looks like none.

    >>> type_hint("Strng", ["String", "I32"]), type_hint("Int", ["String", "I32"])
    ("did you mean 'String'?", "did you mean 'I32' or 'I64'?")
    """
    meant = _WORDS_OF_OTHERS.get(word.casefold())
    if meant is None and (near := nearest(word, types, most=max(1, len(word) // 3))) is not None:
        meant = f"'{near}'"
    return None if meant is None else f"did you mean {meant}?"


def nearest(word: str, known: Iterable[str], *, most: int) -> str | None:
    """The known word that takes the fewest slips to become ``word``, at most so many and fewer than it has letters.

    >>> nearest("kee", ["key", "index"], most=2), nearest("note", ["key", "index"], most=2)
    ('key', None)
    """
    folded = word[: limits.NAME_COMPARED_CHARACTERS].casefold()
    near = (each for each in known if abs(len(each) - len(folded)) <= most)
    slips, found = min(((_slips(folded, each.casefold()), each) for each in near), default=(most + 1, ""))
    return found if slips <= most and slips < len(word) else None


def _slips(one: str, other: str) -> int:
    """How many letters were left out, put in, replaced, or swapped with their neighbour."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        line = [row]
        for column, wanted in enumerate(other, 1):
            line.append(min(last[column] + 1, line[-1] + 1, last[column - 1] + (letter != wanted)))
            if row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == wanted:
                line[-1] = min(line[-1], before[column - 2] + 1)
        before, last = last, line
    return last[-1]
