"""Where the table of a type is created, relative to the graph.

Only for creating a table: once a manifest row names a location, that location is the truth.
"""

from __future__ import annotations

from omnigraph.schema.fnv import fnv1a_64

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
