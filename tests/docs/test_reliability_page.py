"""Every test that the page on reliability names exists."""

from __future__ import annotations

import re

from tests.support.source_tree import ROOT

NAMED = re.compile(r"`(tests/[\w/]+(?:\.py)?)(?:::(test_\w+))?`")


def missing(text: str) -> list[str]:
    """Names of files and tests in a text that are not there."""
    found = []
    for path, test in NAMED.findall(text):
        place = ROOT / path
        if not place.exists() or (test and f"def {test}(" not in place.read_text("utf-8")):
            found.append(f"{path}::{test}" if test else path)
    return found


def test_the_tests_that_show_a_promise_exist() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text("utf-8")
    assert len(NAMED.findall(text)) > 40
    assert missing(text) == []


def test_a_name_that_is_not_there_is_noticed() -> None:
    assert missing("`tests/nowhere.py` `tests/docs/test_reliability_page.py::test_nothing`") == [
        "tests/nowhere.py",
        "tests/docs/test_reliability_page.py::test_nothing",
    ]
