"""Catalog → compiled schema as JSON, its two spellings and its hash.

The compiled schema (IR) is canonical: everything sorted by name, comments and rename hints gone. Two texts that mean
the same schema therefore have one hash. `ir_reader.py` is the way back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.schema.catalog import Annotation, Catalog, EdgeType, InterfaceType, NodeType, Property, PropertyType
from omnigraph.schema.stable_ids import prop_id, type_id

IR_VERSION = 1


def ir_of(catalog: Catalog) -> dict[str, Any]:
    """The compiled schema as plain JSON values."""
    return {
        "ir_version": IR_VERSION,
        "interfaces": [_interface(each) for each in catalog.interfaces.values()],
        "nodes": [_node(each) for each in catalog.nodes.values()],
        "edges": [_edge(each) for each in catalog.edges.values()],
    }


def ir_text(ir: Mapping[str, Any]) -> str:
    """The spelling for people and for ``_schema.ir.json``."""
    return json.dumps(ir, indent=2, ensure_ascii=False) + "\n"


def ir_hash(ir: Mapping[str, Any]) -> str:
    """``sha256:<hex>`` over the compact spelling."""
    compact = json.dumps(ir, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(compact.encode()).hexdigest()}"


def type_ir(type_: PropertyType) -> dict[str, Any]:
    """One property type, e.g. ``{"scalar": "String", "nullable": true, "list": false, "enum_values": null}``."""
    return {
        "scalar": str(type_.scalar) if type_.dimension is None else {"Vector": type_.dimension},
        "nullable": type_.nullable,
        "list": type_.list,
        "enum_values": None if type_.enum_values is None else list(type_.enum_values),
    }


def constraints_ir(type_: NodeType | EdgeType) -> list[dict[str, Any]]:
    """The constraints of a type, each as ``{"Index": ["age"]}`` and the like."""
    found: list[dict[str, Any]] = []
    if isinstance(type_, NodeType) and type_.key is not None:
        found.append({"Key": list(type_.key)})
    found += [{"Unique": list(columns)} for columns in type_.uniques]
    found += [{"Index": list(columns)} for columns in type_.indexes]
    if isinstance(type_, NodeType):
        found += [{"Range": {"property": r.property, "min": r.low, "max": r.high}} for r in type_.ranges]
        found += [{"Check": {"property": c.property, "pattern": c.pattern}} for c in type_.checks]
    return found


def _interface(interface: InterfaceType) -> dict[str, Any]:
    return {
        "name": interface.name,
        "type_id": type_id("interface", interface.name),
        "properties": _properties("interface", interface.name, interface.properties.values()),
    }


def _node(node: NodeType) -> dict[str, Any]:
    return {
        "name": node.name,
        "type_id": type_id("node", node.name),
        "implements": list(node.implements),
        "inherited": list(node.inherited),
        "properties": _properties("node", node.name, node.properties.values()),
        "constraints": constraints_ir(node),
        "annotations": annotations_ir(node.annotations),
    }


def _edge(edge: EdgeType) -> dict[str, Any]:
    return {
        "name": edge.name,
        "type_id": type_id("edge", edge.name),
        "from_type": edge.source,
        "to_type": edge.target,
        "cardinality": {"min": edge.cardinality.low, "max": edge.cardinality.high},
        "properties": _properties("edge", edge.name, edge.properties.values()),
        "constraints": constraints_ir(edge),
        "annotations": annotations_ir(edge.annotations),
    }


def _properties(kind: str, owner: str, properties: Iterable[Property]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "prop_id": prop_id(kind, owner, each.name),
            "type": type_ir(each.type),
            "annotations": annotations_ir(each.annotations),
        }
        for each in properties
    ]


def annotations_ir(annotations: Iterable[Annotation]) -> list[dict[str, Any]]:
    """Annotations without rename hints, each as ``{"name": …, "value": …, "keywords": {…}}``."""
    return [
        {"name": each.name, "value": each.value, "keywords": dict(each.keywords)}
        for each in annotations
        if each.name != "rename_from"
    ]
