"""The line on which a record of a CSV text begins, against a walk over its signs."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.write.load.record_lines import RecordLines


def walked(text: str) -> list[int]:
    """The line of each record, up to one whose quote is never closed."""
    lines: list[int] = []
    line, at = 1, 0
    while at < len(text):
        first, start, is_field = line, at, True
        while text[at] not in "\r\n":
            if is_field and text[at] == '"':
                end = _closing(text, at)
                if end < 0:
                    return lines
                line += _ends(text[at:end])
                at = end
            is_field = text[at] == ","
            at += 1
        lines += [first] if at > start else []
        at += 2 if text[at : at + 2] == "\r\n" else 1
        line += 1
    return lines


def _closing(text: str, at: int) -> int:
    at += 1
    while at < len(text):
        if text[at] == '"' and text[at : at + 2] != '""':
            return at
        at += 2 if text[at] == '"' else 1
    return -1


def _ends(text: str) -> int:
    return text.count("\n") + text.replace("\r\n", "").count("\r")


@given(st.lists(st.text(alphabet='ab",\r\n', max_size=12), max_size=4))
@example(['a,b\n"x\r', '\ny",', "1\n\n\nc,2\n"])
@example(["a\r", "\nb\n"])
def test_records_are_found_in_pieces_of_any_length(pieces: list[str]) -> None:
    lines = RecordLines()
    for piece in [*pieces, "\n"]:
        lines.passed(piece.encode())
    wanted = walked("".join([*pieces, "\n"]))
    assert [lines.line(row) for row in range(len(wanted))] == wanted
