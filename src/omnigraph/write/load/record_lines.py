"""The lines on which the records of a CSV text begin. A header, empty lines and long texts set the two apart.

Looked up only for a record that is reported. A file that can be opened again is read again then, as far as that record;
an open file passes by once, so its lines are counted on the way. Which quotes count is said in `csv_text.py`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

from omnigraph import limits
from omnigraph.errors import InputError
from omnigraph.write.load.line_blocks import open_text
from omnigraph.write.load.load_source import Format, Part

_QUOTED = rb'"[^"]*+(?:""[^"]*+)*+(?:"|\Z)'
_FIELD = rb"(?:" + _QUOTED + rb")?+[^,\r\n]*+"
_RECORD = re.compile(_FIELD + rb"(?:," + _FIELD + rb")*+(?:\r\n|\r(?!\Z)|\n)")
_ENDS = frozenset((b"\n", b"\r", b"\r\n"))


class RecordLines:
    """Where the records of one CSV text begin.

    Args:
        pieces: gives the text again from its beginning; None for one that is told with `passed`.
    """

    def __init__(self, pieces: Callable[[], Iterator[bytes]] | None = None) -> None:
        self._pieces = None if pieces is None else pieces()
        self._rest = b""
        self._records = 0
        self._line = 1
        # the records whose line is not the one behind the record before, and how far each is from its number
        self._moved = [0]
        self._distance = [0]

    @classmethod
    def of(cls, part: Part) -> RecordLines | None:
        """Those of a part; None for one that has no lines."""
        if part.format is not Format.CSV:
            return None
        return cls() if part.stream is not None else cls(lambda: _pieces(part))

    def passed(self, piece: bytes) -> None:
        """Take note of the next piece of an open file."""
        if self._pieces is None:
            self._count(piece)

    def line(self, row: int) -> int:
        """The line on which a row begins; the header is row 0."""
        record = row + 1
        while self._records < record and self._pieces is not None:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._count(piece)
        return record + self._distance[bisect_right(self._moved, record) - 1]

    def _count(self, piece: bytes) -> None:
        text = self._rest + piece
        at = text.rfind(b"\n") + 1 if _is_plain(text) else 0
        if at:
            self._begin_record()
            more = text.count(b"\n") - 1
            self._records += more
            self._line += more + 1
        while found := _RECORD.match(text, at):
            record = found[0]
            if record not in _ENDS:
                self._begin_record()
            self._line += record.count(b"\n") + record.count(b"\r") - record.count(b"\r\n")
            at = found.end()
        self._rest = text[at:]

    def _begin_record(self) -> None:
        self._records += 1
        distance = self._line - self._records
        if distance != self._distance[-1]:
            self._moved.append(self._records)
            self._distance.append(distance)


def _is_plain(text: bytes) -> bool:
    """Whether each line is one record, as in most files; then they need not be looked at one by one."""
    return not (b'"' in text or b"\r" in text or b"\n\n" in text or text.startswith(b"\n"))


def _pieces(part: Part) -> Iterator[bytes]:
    """The text of a file. One that cannot be read any more ends early: a place is no reason to fail."""
    try:
        with open_text(part.name, part.options) as text:
            while piece := text.read(limits.LOAD_BLOCK_BYTES):
                yield piece
            yield b"\n"
    except InputError:
        return
