"""The numbers that a new graph hands to its types, properties and tables.

One counter from 1, never reused: types first (interfaces, nodes, edges; by name), then properties (by owner, then
name), then tables (by owner). Later schema changes keep the numbers of what was renamed and mint new ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from omnigraph.schema.catalog import Catalog, EdgeType, InterfaceType, NodeType


@dataclass(frozen=True, slots=True)
class SchemaIdentity:
    """Numbers by entity: ``node:Person``, ``node:Person.name``, and the table keys of nodes and edges."""

    types: dict[str, int]
    properties: dict[str, int]
    tables: dict[str, int]
    next: int


def initial_identity(catalog: Catalog) -> SchemaIdentity:
    """The numbers of a schema at the creation of its graph."""
    numbers = count(1)
    owners: dict[str, InterfaceType | NodeType | EdgeType] = {
        **{f"interface:{name}": each for name, each in catalog.interfaces.items()},
        **{node.table_key: node for node in catalog.nodes.values()},
        **{edge.table_key: edge for edge in catalog.edges.values()},
    }
    types = {entity: next(numbers) for entity in owners}
    properties = {f"{entity}.{name}": next(numbers) for entity, owner in owners.items() for name in owner.properties}
    tables = {entity: next(numbers) for entity in owners if not entity.startswith("interface:")}
    return SchemaIdentity(types, properties, tables, next(numbers))
