"""The compiled schema (IR) as JSON: catalog → IR, its two spellings, its hash, and the way back.

The IR is canonical: everything sorted by name, comments and rename hints gone. Two texts that mean the same schema
therefore have one hash. That hash makes it trustworthy (`contract.py`); reading it back only refuses what cannot be
understood.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.errors import CorruptGraph, NewerFormat
from omnigraph.schema.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    CheckRule,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    Property,
    PropertyType,
    RangeRule,
    Scalar,
)
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


def catalog_from_ir(ir: Mapping[str, Any]) -> Catalog:
    """The catalog a compiled schema was made from, without its rename hints.

    Raises:
        NewerFormat: the compiled schema has a version this software does not know.
        CorruptGraph: it lacks a part or has one of the wrong kind.
    """
    version = ir.get("ir_version")
    if isinstance(version, int) and version > IR_VERSION:
        raise NewerFormat(
            f"the compiled schema has version {version}, this software reads {IR_VERSION}", hint="upgrade OmniGraph"
        )
    if version != IR_VERSION:
        raise CorruptGraph(f"the compiled schema has no known version: ir_version is {version!r}")
    try:
        return Catalog(
            {each["name"]: _read_interface(each) for each in ir["interfaces"]},
            {each["name"]: _read_node(each) for each in ir["nodes"]},
            {each["name"]: _read_edge(each) for each in ir["edges"]},
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CorruptGraph(f"the compiled schema is not well-formed: {error!r}") from error


def _read_interface(ir: Mapping[str, Any]) -> InterfaceType:
    return InterfaceType(ir["name"], _read_properties(ir["properties"]))


def _read_node(ir: Mapping[str, Any]) -> NodeType:
    key = _columns(ir["constraints"], "Key")
    annotations = _read_annotations(ir["annotations"])
    return NodeType(
        name=ir["name"],
        properties=_read_properties(ir["properties"]),
        implements=tuple(ir["implements"]),
        key=key[0] if key else None,
        uniques=_columns(ir["constraints"], "Unique"),
        indexes=_columns(ir["constraints"], "Index"),
        ranges=tuple(RangeRule(r["property"], r["min"], r["max"]) for r in _rules(ir["constraints"], "Range")),
        checks=tuple(CheckRule(c["property"], c["pattern"]) for c in _rules(ir["constraints"], "Check")),
        annotations=annotations,
        description=_text(annotations, "description"),
        instruction=_text(annotations, "instruction"),
        inherited=tuple(ir["inherited"]),
    )


def _read_edge(ir: Mapping[str, Any]) -> EdgeType:
    annotations = _read_annotations(ir["annotations"])
    return EdgeType(
        name=ir["name"],
        source=ir["from_type"],
        target=ir["to_type"],
        properties=_read_properties(ir["properties"]),
        cardinality=Cardinality(ir["cardinality"]["min"], ir["cardinality"]["max"]),
        uniques=_columns(ir["constraints"], "Unique"),
        indexes=_columns(ir["constraints"], "Index"),
        annotations=annotations,
        description=_text(annotations, "description"),
        instruction=_text(annotations, "instruction"),
    )


def _rules(constraints: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    return [each[name] for each in constraints if name in each]


def _columns(constraints: Iterable[Mapping[str, Any]], name: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(columns) for columns in _rules(constraints, name))


def _read_properties(ir: Iterable[Mapping[str, Any]]) -> dict[str, Property]:
    return {each["name"]: _read_property(each) for each in ir}


def _read_property(ir: Mapping[str, Any]) -> Property:
    annotations = _read_annotations(ir["annotations"])
    embed = next((each for each in annotations if each.name == "embed"), None)
    return Property(
        name=ir["name"],
        type=_read_type(ir["type"]),
        annotations=annotations,
        embed=Embed(str(embed.value), _text_of(dict(embed.keywords).get("model"))) if embed else None,
        description=_text(annotations, "description"),
    )


def _read_type(ir: Mapping[str, Any]) -> PropertyType:
    scalar, values = ir["scalar"], ir["enum_values"]
    return PropertyType(
        scalar=Scalar(scalar) if isinstance(scalar, str) else Scalar.VECTOR,
        nullable=ir["nullable"],
        list=ir["list"],
        enum_values=None if values is None else tuple(values),
        dimension=None if isinstance(scalar, str) else scalar["Vector"],
    )


def _read_annotations(ir: Iterable[Mapping[str, Any]]) -> tuple[Annotation, ...]:
    return tuple(Annotation(each["name"], each["value"], tuple(each["keywords"].items())) for each in ir)


def _text(annotations: Iterable[Annotation], name: str) -> str | None:
    return next((_text_of(each.value) for each in annotations if each.name == name), None)


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None
