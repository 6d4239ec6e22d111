"""Code outside `graph/` works with the public methods of a graph and with `Graph.internals`, never with private names.

The rooms below are built on top of the facade. An attribute that begins with one underscore may be used there only on
``self`` or ``cls``, that is by the class that owns it.
"""

from __future__ import annotations

import ast

import pytest

from tests.support.source_tree import Source, python_sources

OUTER_ROOMS = ("spark", "cli", "client", "cluster", "notebook", "server")

#: Private names of other packages that have no public one.
ALLOWED = {("src/omnigraph/cli/startup.py", "_runtime_param")}


def foreign_private_names(source: Source) -> list[str]:
    """One line for each private attribute of another object."""
    return [
        f"{source.path}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
        and (source.path, node.attr) not in ALLOWED
    ]


def outer_sources() -> list[Source]:
    rooms = [f"src/omnigraph/{room}" for room in OUTER_ROOMS]
    return [source for room in [*rooms, "src/pyspark_omnigraph"] for source in python_sources(room)]


def test_outer_rooms_use_no_private_attribute_of_another_object() -> None:
    sources = outer_sources()
    assert any(source.path.startswith("src/omnigraph/spark/") for source in sources)
    found = [line for source in sources for line in foreign_private_names(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("graph._writer()", True),
        ("self._graph._store", True),
        ("opened()._schemas.of(x)", True),
        ("graph._actor = 'act-x'", True),
        ("self._store", False),
        ("graph.internals.writer()", False),
        ("type(self).__name__", False),
    ],
)
def test_a_planted_private_attribute_is_found(text: str, found: bool) -> None:
    assert bool(foreign_private_names(Source("src/omnigraph/spark/x.py", text))) is found
