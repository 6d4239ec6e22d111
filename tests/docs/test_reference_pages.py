"""The pages that are written from the code are up to date, and complete."""

from __future__ import annotations

import re

import pytest

import omnigraph
from tests.docs.reference_pages import PAGES, api_page
from tests.support.source_tree import ROOT


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    said = (ROOT / name).read_text("utf-8")
    assert said == PAGES[name](), "run: python -m tests.docs.reference_pages"


def test_every_public_name_has_one_line() -> None:
    listed = re.findall(r"^\| `(\w+)` \| .{10,} \|$", api_page(), re.M)
    assert sorted(listed) == omnigraph.__all__
