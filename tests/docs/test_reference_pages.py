"""The pages that are written from the code are up to date, and complete."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import pytest

import omnigraph
from tests.docs.reference_pages import (
    PAGES,
    SETTINGS,
    api_page,
    configuration_page,
    error_classes,
    errors_page,
    public_limits,
)
from tests.support.source_tree import ROOT, Source, python_sources

#: Handed to a child process and never read.
PASSED_ON = {"PYTHONPATH"}


def environment_variables(sources: Iterable[Source]) -> set[str]:
    """Names in upper case in every statement that uses the environment."""
    found = set()
    for source in sources:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.stmt) or isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            own = [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]
            parts = [part for each in own for part in ast.walk(each)]
            named = {getattr(part, "attr", getattr(part, "id", None)) for part in parts}
            if named & {"environ", "getenv"}:
                texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
                found |= {text for text in texts if re.fullmatch(r"[A-Z][A-Z0-9_]{3,}", text)}
    return found


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_what_the_code_says(name: str) -> None:
    said = (ROOT / name).read_text("utf-8")
    assert said == PAGES[name](), "run: python -m tests.docs.reference_pages"


def test_every_public_name_has_one_line() -> None:
    listed = re.findall(r"^\| `(\w+)` \| .{10,} \|$", api_page(), re.M)
    assert sorted(listed) == omnigraph.__all__


def test_every_error_has_one_line_and_its_code() -> None:
    listed = re.findall(r"^\| `([a-z_.]+)` \| `(\w+)` \| .{10,} \| .{10,} \|$", errors_page(), re.M)
    assert listed == [(kind.code, kind.__name__) for kind in error_classes()]
    assert len(listed) > 50


def test_every_environment_variable_is_on_the_page() -> None:
    used = environment_variables(python_sources("src")) - PASSED_ON
    assert {"OMNIGRAPH_FSYNC", "AWS_REGION", "SPARK_REMOTE", "MALLOC_ARENA_MAX"} <= used
    assert set(SETTINGS) == used
    assert [name for name in used if f"| `{name}` |" not in configuration_page()] == []


def test_every_limit_that_a_request_can_meet_is_on_the_page() -> None:
    limits = [name for _, _, values in public_limits() for name, _ in values]
    assert {"BRANCH_NAME_BYTES", "LOAD_MAX_REJECTS", "FEED_MAX_COMMITS"} <= set(limits)
    assert [name for name in limits if f"`{name}`" not in configuration_page()] == []


def test_planted_uses_of_the_environment_are_found() -> None:
    text = """
import os
from os import environ
one = float(os.environ.get("OMNIGRAPH_ONE", "60"))
def f(given):
    if "OMNIGRAPH_TWO" in environ:
        return os.getenv("OMNIGRAPH_THREE"), "NOT_READ" if given else None
    other = "NOT_READ_EITHER"
    return {name: environ[name] for name in ("OMNIGRAPH_FOUR",)}
"""
    found = environment_variables([Source("src/omnigraph/planted.py", text)])
    assert found - {"NOT_READ"} == {f"OMNIGRAPH_{number}" for number in ("ONE", "TWO", "THREE", "FOUR")}
