"""What the names of types and properties become in the format: numbers, and paths of tables, by FNV-1a.

The numbers label columns and entries of the compiled schema; a rename gives a new number. A path is used only to create
a table: once a manifest row names a location, that location is the truth.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.errors import CatalogError
from omnigraph.schema.catalog import Catalog


def fnv1a_64(text: str) -> int:
    """FNV-1a in 64 bits over the UTF-8 bytes of ``text``.

    >>> f"{fnv1a_64('foobar'):016x}"
    '85944171f73967e8'
    """
    return _fnv1a(text, 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1)


def fnv1a_32(text: str) -> int:
    """FNV-1a in 32 bits over the UTF-8 bytes of ``text``.

    >>> f"{fnv1a_32('foobar'):08x}"
    'bf9cf968'
    """
    return _fnv1a(text, 2166136261, 16777619, 2**32 - 1)


def _fnv1a(text: str, offset: int, prime: int, mask: int) -> int:
    value = offset
    for byte in text.encode():
        value = ((value ^ byte) * prime) & mask
    return value


_FOLDERS = {"node": "nodes", "edge": "edges"}


def table_path(kind: str, name: str) -> str:
    """Path of a new table.

    Args:
        kind: ``"node"`` or ``"edge"``.
        name: type name without its kind.

    >>> table_path("node", "Person")
    'nodes/40d76f1f51639ec0'
    """
    return f"{_FOLDERS[kind]}/{fnv1a_64(name):016x}"


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
