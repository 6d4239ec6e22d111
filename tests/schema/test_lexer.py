"""Small rules of reading that fixtures cannot show."""

from __future__ import annotations

import pytest

from omnigraph.errors import SchemaSyntaxError
from omnigraph.schema.scanner import ENUM_VALUE, NUMBER, TYPE_NAME, Scanner, SchemaText


def test_cursor_stands_after_spaces_and_comments() -> None:
    cursor = Scanner(SchemaText(" \t\r\n// a\n/* b */ /***/x"))
    assert cursor.sees("x")
    assert cursor.accept("x")
    assert cursor.at_end


def test_number_leaves_the_dots_of_a_range() -> None:
    cursor = Scanner(SchemaText("1..2.5"))
    assert cursor.take(NUMBER, "a number") == "1"
    assert cursor.accept("..")
    assert cursor.take(NUMBER, "a number") == "2.5"


def test_same_place_reads_differently_as_the_parser_wants() -> None:
    assert Scanner(SchemaText("In-review")).take(TYPE_NAME, "a name") == "In"
    assert Scanner(SchemaText("In-review")).take(ENUM_VALUE, "a value") == "In-review"


def test_keyword_needs_a_word_boundary() -> None:
    assert not Scanner(SchemaText("nodes")).take_word("node")
    assert Scanner(SchemaText("node/**/s")).take_word("node")


def test_long_word_is_cut_in_the_message() -> None:
    with pytest.raises(SchemaSyntaxError) as caught:
        Scanner(SchemaText("9" * 1000)).take(TYPE_NAME, "a name")
    assert len(caught.value.message) < 100


def test_place_of_an_offset() -> None:
    source = SchemaText("ab\n\ncd")
    assert [source.place(at) for at in range(7)] == [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2), (3, 3)]
