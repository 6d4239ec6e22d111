"""Takes tables and names out of `docs/format.md`, so that the tests follow the page and not a copy of it."""

from __future__ import annotations

import re
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "format.md").read_text("utf-8")

_CODE = re.compile(r"`([^`]+)`")


def code_in(text: str) -> list[str]:
    """The words in back quotes."""
    return _CODE.findall(text)


def rows_after(lead: str) -> list[list[str]]:
    """The cells of the first table behind a phrase, or of the table whose head has the phrase; without the head."""
    at = TEXT.find(lead)
    assert at >= 0, f"the page no longer says {lead!r}"
    line = TEXT.rfind("\n", 0, at) + 1
    start = line if TEXT[line] == "|" else TEXT.index("\n|", at) + 1
    lines = TEXT[start:].split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in lines[2:]]


def names_after(lead: str) -> list[str]:
    """The code words in the first column of that table."""
    return [name for row in rows_after(lead) for name in code_in(row[0])]


def words_between(lead: str, end: str) -> list[str]:
    """The code words between two phrases."""
    _, found, rest = TEXT.partition(lead)
    assert found, f"the page no longer says {lead!r}"
    assert end in rest, f"the page no longer says {end!r}"
    return code_in(rest.partition(end)[0])


def columns_after(lead: str) -> list[tuple[str, str, bool]]:
    """Name, Arrow type and nullability of the columns of a dataset."""
    return [(code_in(row[0])[0], code_in(row[1])[0], row[2] == "yes") for row in rows_after(lead)]
