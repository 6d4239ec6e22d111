"""The numbers of types and properties, derived from their names.

They label columns and entries of the compiled schema. A rename gives a new number.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.errors import CatalogError
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.fnv import fnv1a_32


def type_id(kind: str, name: str) -> int:
    """Number of a type; ``kind`` is ``interface``, ``node`` or ``edge``.

    >>> type_id("node", "Person")
    3227219152
    """
    return fnv1a_32(f"{kind}:{name}") or 1


def prop_id(kind: str, owner: str, name: str) -> int:
    """Number of a property of the type ``owner``.

    >>> prop_id("node", "Person", "name")
    1466009789
    """
    return fnv1a_32(f"{kind}:{owner}:{name}") or 1


def refuse_collisions(catalog: Catalog) -> None:
    """Refuse a schema in which two types, or two properties, have the same number.

    Raises:
        CatalogError: names both; renaming one of them helps.
    """
    types: dict[int, str] = {}
    properties: dict[int, str] = {}
    for kind, owner, names in _declarations(catalog):
        _claim(types, type_id(kind, owner), f"{kind} {owner}")
        for name in names:
            _claim(properties, prop_id(kind, owner, name), f"{kind} property {owner}.{name}")


def _declarations(catalog: Catalog) -> Iterator[tuple[str, str, list[str]]]:
    for interface in catalog.interfaces.values():
        yield "interface", interface.name, list(interface.properties)
    for node in catalog.nodes.values():
        yield "node", node.name, list(node.properties)
    for edge in catalog.edges.values():
        yield "edge", edge.name, list(edge.properties)


def _claim(taken: dict[int, str], number: int, label: str) -> None:
    first = taken.setdefault(number, label)
    if first != label:
        raise CatalogError(
            f"catalog error: {label} and {first} have the same stable id {number}", hint="rename one of them"
        )
