"""How results look: the five formats of a read, and JSON for everything else.

Rows are written batch by batch; a big result is never one text in memory. Widths of a table need a first look at all
cells, so the rows of a table are read twice.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from omnigraph import Result

_LEAST_WIDTH = 8
_ELLIPSIS = "…"
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")
_BYTE_LIMITS = (1_000, *(999_950 * 1_000**power for power in range(3)))  # where one unit is rounded up to the next
_QUOTED = frozenset(',"\r\n')


@dataclass(frozen=True, slots=True)
class TableLook:
    """How wide a column of a table may be, and what happens to longer cells."""

    width: int = 80
    wraps: bool = False


def print_json(value: Any) -> None:
    """One value, indented by two, with a newline at the end. What JSON does not know is a text."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def local_time(moment: datetime) -> str:
    """A time as the clock on the wall shows it, with its distance from UTC."""
    return moment.astimezone().isoformat(timespec="seconds")


def counted(number: int, thing: str) -> str:
    """A number of things in words: ``1 row``, ``2 rows``."""
    return f"{number:,} {thing}{'s' if number != 1 else ''}"


def byte_text(size: int) -> str:
    """A size as a person reads it: ``17 B``, ``1.2 kB``, ``3.4 MB``."""
    power = next((power for power, limit in enumerate(_BYTE_LIMITS) if size < limit), len(_BYTE_LIMITS))
    return f"{size / 1_000**power:.1f} {_BYTE_UNITS[power]}" if power else f"{size} B"


def grid(names: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1) -> Iterator[str]:
    """Lines of a table that is small enough to be looked at as a whole; after some columns of texts come numbers."""
    shown = [[shown_text(text) for text in row] for row in (names, *rows)]
    widths = [max(shown_width(row[place]) for row in shown) for place in range(len(names))]
    for number, row in enumerate(shown):
        cells = zip(row, widths, strict=True)
        aligned = [
            _padded(text, width) if place < texts else " " * (width - shown_width(text)) + text
            for place, (text, width) in enumerate(cells)
        ]
        yield " | ".join(aligned).rstrip()
        if number == 0:
            yield "-+-".join("-" * width for width in widths)


def print_result(result: Result, format_: str, look: TableLook) -> None:
    """A read in one of the formats, on stdout."""
    if format_ == "table":
        _table(result, sys.stdout, look)
    else:
        _WRITERS[format_](result, sys.stdout)


def indented(value: Any, by: int) -> str:
    """JSON text of a value that stands inside a larger one."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).replace("\n", "\n" + " " * by)


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def cell(value: Any) -> str:
    """A value as the text formats show it."""
    return value if isinstance(value, str) else compact(value)


def _json_rows(result: Result) -> Iterator[dict[str, Any]]:
    return (dict(zip(result.columns, values, strict=True)) for values in result.values())


def _json(result: Result, out: TextIO) -> None:
    head = json.dumps(result.head(), indent=2, ensure_ascii=False).removesuffix("\n}")
    out.write(f'{head},\n  "rows": [')
    separator = "\n"
    for row in _json_rows(result):
        out.write(f"{separator}    {indented(row, 4)}")
        separator = ",\n"
    out.write("\n  ]" if len(result) else "]")
    if result.commit_id is not None:
        out.write(f',\n  "graph_commit_id": {json.dumps(result.commit_id)}')
    out.write("\n}\n")


def _jsonl(result: Result, out: TextIO) -> None:
    head = result.head()
    out.write(compact({"kind": "metadata"} | {name: head[name] for name in ("query_name", "target", "row_count")}))
    out.write("\n")
    for row in _json_rows(result):
        out.write(compact(row) + "\n")


def _csv(result: Result, out: TextIO) -> None:
    out.write(",".join(map(_quoted, result.columns)) + "\n")
    for values in result.values():
        out.write(",".join(map(_field, values)) + "\n")


def _field(value: Any) -> str:
    """As a load reads it: null is an empty field, empty text a quoted one."""
    return "" if value is None else '""' if value == "" else _quoted(cell(value))


def _quoted(text: str) -> str:
    """By hand: with lines that end in ``\\n`` the csv module leaves a lone ``\\r`` bare (before Python 3.13)."""
    return '"' + text.replace('"', '""') + '"' if _QUOTED & set(text) else text


def _kv(result: Result, out: TextIO) -> None:
    out.write(_headline(result))
    for number, values in enumerate(result.values(), start=1):
        out.write("\n" if number > 1 else "")
        out.write(f"row {number}\n")
        for name, value in zip(result.columns, values, strict=True):
            out.write(f"{name}: {cell(value)}\n")
    if not len(result):
        out.write("(no rows)\n")


def _headline(result: Result) -> str:
    target = result.head()["target"]
    where = f"branch {target['branch']}" if target["branch"] is not None else f"snapshot {target['snapshot']}"
    return f"{len(result)} rows from {where} via {result.query_name}\n"


def _table(result: Result, out: TextIO, look: TableLook) -> None:
    out.write(_headline(result))
    most = max(look.width, _LEAST_WIDTH)
    widths = [min(shown_width(name), most) for name in result.columns]
    for cells in _shown_rows(result):
        widths = [max(width, min(shown_width(text), most)) for width, text in zip(widths, cells, strict=True)]
    _line([shown_text(name) for name in result.columns], widths, look, out)
    out.write("-+-".join("-" * width for width in widths) + "\n")
    for cells in _shown_rows(result):
        _line(cells, widths, look, out)


def _shown_rows(result: Result) -> Iterator[list[str]]:
    return ([shown_text(cell(value)) for value in values] for values in result.values())


def _line(cells: list[str], widths: list[int], look: TableLook, out: TextIO) -> None:
    pieces = [
        _wrapped(text, width) if look.wraps else [_cut(text, width)] for text, width in zip(cells, widths, strict=True)
    ]
    for number in range(max(map(len, pieces), default=1)):
        shown = [piece[number] if number < len(piece) else "" for piece in pieces]
        out.write(" | ".join(_padded(text, width) for text, width in zip(shown, widths, strict=True)).rstrip() + "\n")


def shown_text(text: str) -> str:
    """Text that stays on its line and cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(_ESCAPES.get(char) or (char if char.isprintable() else _escaped(char)) for char in text)


_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\u200d": "\u200d"}  # the joiner holds emoji together


def _escaped(char: str) -> str:
    number = ord(char)
    if unicodedata.category(char) in ("Zs", "Co", "Cn"):
        return char
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def shown_width(text: str) -> int:
    """Columns of a terminal that a text takes."""
    return len(text) if text.isascii() else sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _cut(text: str, width: int) -> str:
    if shown_width(text) <= width:
        return text
    return _taken(text, width - 1) + _ELLIPSIS


def _wrapped(text: str, width: int) -> list[str]:
    pieces = []
    while shown_width(text) > width:
        piece = _taken(text, width)
        pieces.append(piece)
        text = text[len(piece) :]
    return [*pieces, text]


def _taken(text: str, width: int) -> str:
    """The longest beginning that fits; at least one character, so that a loop over a text ends."""
    used = 0
    for place, char in enumerate(text):
        used += _char_width(char)
        if used > width and place:
            return text[:place]
    return text


def _padded(text: str, width: int) -> str:
    return text + " " * (width - shown_width(text))


_WRITERS: dict[str, Callable[[Any, TextIO], None]] = {"json": _json, "jsonl": _jsonl, "csv": _csv, "kv": _kv}
