"""The examples in the docstrings of the room run as written."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import omnigraph.schema


def test_docstring_examples() -> None:
    names = [f"omnigraph.schema.{each.name}" for each in pkgutil.iter_modules(omnigraph.schema.__path__)]
    results = [doctest.testmod(importlib.import_module(name)) for name in names]
    assert sum(each.failed for each in results) == 0
    assert sum(each.attempted for each in results) >= 10
