"""One meaning a name: no two modules of the package have the same name, and no two public classes.

Someone who reads ``rows.py`` or ``Change`` in a traceback knows which one is meant. Names with a leading underscore are
private to their file and may repeat, and so may ``__init__.py``.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable

from tests.support.source_tree import Source, python_sources


def doubled_modules(sources: Iterable[Source]) -> dict[str, list[str]]:
    """Name → the files that have it, for names of more than one file."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        found[source.path.rpartition("/")[2].removesuffix(".py")].append(source.path)
    return _several(found)


def doubled_classes(sources: Iterable[Source]) -> dict[str, list[str]]:
    """Name → the files that define a public class of it, for names of more than one class."""
    found: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(source.path)
    return _several(found)


def _several(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {name: paths for name, paths in sorted(found.items()) if len(paths) > 1 and not name.startswith("_")}


def _sentences(doubled: dict[str, list[str]]) -> str:
    return "\n".join(f"{name}: {', '.join(paths)}" for name, paths in doubled.items())


def test_no_two_modules_have_the_same_name() -> None:
    assert _sentences(doubled_modules(python_sources("src"))) == ""


def test_no_two_public_classes_have_the_same_name() -> None:
    assert _sentences(doubled_classes(python_sources("src"))) == ""


def test_planted_doubles_are_found_and_private_ones_are_not() -> None:
    sources = [
        Source("src/omnigraph/a/__init__.py", ""),
        Source("src/omnigraph/b/__init__.py", ""),
        Source("src/omnigraph/a/rows.py", "class Row: ...\nclass _Part: ...\n"),
        Source("src/omnigraph/b/rows.py", "class Row: ...\nclass _Part: ...\nclass Other: ...\n"),
    ]
    paths = ["src/omnigraph/a/rows.py", "src/omnigraph/b/rows.py"]
    assert doubled_modules(sources) == {"rows": paths}
    assert doubled_classes(sources) == {"Row": paths}
