"""The spelling of the compiled schema that this software had first: states of that time name schemas by its hash.

It is never written again. It says nothing that two texts of the same meaning may differ in (rename hints, the kind of
number of a bound, a rule that repeats the key), so it also is the form in which meanings are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omnigraph.schema.catalog import Annotation, Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.schema.ir import IR_VERSION, type_ir
from omnigraph.schema.stable_ids import prop_id, type_id


def earlier_ir(catalog: Catalog) -> dict[str, Any]:
    """The compiled schema in the earlier spelling."""
    return {
        "ir_version": IR_VERSION,
        "interfaces": [
            _head("interface", each) | _properties("interface", each) for each in catalog.interfaces.values()
        ],
        "nodes": [_node(each) for each in catalog.nodes.values()],
        "edges": [_edge(each) for each in catalog.edges.values()],
    }


def _head(kind: str, type_: InterfaceType | NodeType | EdgeType) -> dict[str, Any]:
    return {"name": type_.name, "type_id": type_id(kind, type_.name)}


def _interface(interface: InterfaceType) -> dict[str, Any]:
    return _head("interface", interface) | _properties("interface", interface)


def _node(node: NodeType) -> dict[str, Any]:
    return (
        _head("node", node)
        | {"implements": list(node.implements), "inherited": list(node.inherited)}
        | _properties("node", node)
        | {"constraints": _constraints(node), "annotations": _annotations(node.annotations)}
    )


def _edge(edge: EdgeType) -> dict[str, Any]:
    return (
        _head("edge", edge)
        | {"from_type": edge.source, "to_type": edge.target}
        | {"cardinality": {"min": edge.cardinality.low, "max": edge.cardinality.high}}
        | _properties("edge", edge)
        | {"constraints": _constraints(edge), "annotations": _annotations(edge.annotations)}
    )


def _properties(kind: str, type_: InterfaceType | NodeType | EdgeType) -> dict[str, Any]:
    return {"properties": [_property(kind, type_.name, each) for each in type_.properties.values()]}


def _property(kind: str, owner: str, each: Property) -> dict[str, Any]:
    return {
        "name": each.name,
        "prop_id": prop_id(kind, owner, each.name),
        "type": type_ir(each.type),
        "annotations": _annotations(each.annotations),
    }


def _constraints(type_: NodeType | EdgeType) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if isinstance(type_, NodeType) and type_.key is not None:
        found.append({"Key": list(type_.key)})
    found += [{"Unique": list(columns)} for columns in type_.uniques]
    found += [{"Index": list(columns)} for columns in type_.indexes]
    if isinstance(type_, NodeType):
        found += [{"Range": {"property": r.property, "min": r.low, "max": r.high}} for r in type_.ranges]
        found += [{"Check": {"property": c.property, "pattern": c.pattern}} for c in type_.checks]
    return found


def _annotations(annotations: Iterable[Annotation]) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "value": each.value, "keywords": dict(each.keywords)}
        for each in annotations
        if each.name != "rename_from"
    ]
