"""The compiled schema (IR) as JSON: catalog → IR, its two spellings, its hash, and the way back.

The IR is canonical: everything sorted by name, comments gone. Its spelling is shared with other software, so what only
this language has is in keys that are written when they are used. The hash makes it trustworthy (`contract.py`);
reading it back takes every known spelling (`earlier_spelling.py`) and only refuses what cannot be understood.
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
    Scalar,
)
from omnigraph.schema.literals import plain_text
from omnigraph.schema.schema_rules import range_rule
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
    return json.dumps(ir, indent=2, ensure_ascii=False)


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


def _constraints(type_: NodeType | EdgeType) -> list[dict[str, Any]]:
    """The constraints of a type, each as ``{"Index": ["age"]}`` and the like, in the order of their texts."""
    found = {f"unique:{','.join(columns)}": {"Unique": list(columns)} for columns in type_.uniques}
    found |= {f"index:{','.join(columns)}": {"Index": list(columns)} for columns in type_.indexes}
    if isinstance(type_, NodeType):
        found |= _node_constraints(type_)
    return [found[text] for text in sorted(found)]


def _node_constraints(node: NodeType) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    if node.key is not None:
        rules = ("key", *node.restated)
        found |= {f"{rule}:{','.join(node.key)}": {rule.capitalize(): list(node.key)} for rule in rules}
    for each in node.ranges:
        low, high = (_bound(bound) for bound in each.written or (each.low, each.high))
        found[f"range:{each.property}:{low}:{high}"] = {"Range": {"property": each.property, "min": low, "max": high}}
    for check in node.checks:
        value = {"property": check.property, "pattern": check.pattern}
        found[f"check:{check.property}:{check.pattern}"] = {"Check": value}
    return found


def _bound(bound: int | float | None) -> dict[str, int | float] | None:
    return None if bound is None else {"Float" if isinstance(bound, float) else "Integer": bound}


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
        "annotations": _annotations(node.annotations),
        "implements": list(node.implements),
        "properties": _properties("node", node.name, node.properties.values()),
        "constraints": _constraints(node),
    }


def _edge(edge: EdgeType) -> dict[str, Any]:
    return {
        "name": edge.name,
        "type_id": type_id("edge", edge.name),
        "from_type": edge.source,
        "to_type": edge.target,
        "cardinality": {"min": edge.cardinality.low, "max": edge.cardinality.high},
        "annotations": _annotations(edge.annotations),
        "properties": _properties("edge", edge.name, edge.properties.values()),
        "constraints": _constraints(edge),
    }


def _properties(kind: str, owner: str, properties: Iterable[Property]) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "prop_id": prop_id(kind, owner, each.name),
            "prop_type": type_ir(each.type),
            "annotations": _annotations(each.annotations),
        }
        for each in properties
    ]


def _annotations(annotations: Iterable[Annotation]) -> list[dict[str, Any]]:
    """Annotations in their order, each as ``{"name": …, "value": …}``; ``keywords`` follow where there are some."""
    found = [
        {"name": each.name, "value": None if each.value is None else plain_text(each.value)}
        | ({"keywords": dict(each.keywords)} if each.keywords else {})
        for each in annotations
    ]
    return sorted(found, key=lambda each: (each["name"], each["value"] is not None, each["value"], str(each)))


def catalog_from_ir(ir: Mapping[str, Any]) -> Catalog:
    """The catalog a compiled schema was made from, in any spelling; values of annotations are texts.

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
    properties = _read_properties(ir["properties"])
    return NodeType(
        name=ir["name"],
        properties=properties,
        implements=tuple(ir["implements"]),
        key=key[0] if key else None,
        uniques=_columns(ir["constraints"], "Unique", but=key),
        indexes=_columns(ir["constraints"], "Index", but=key),
        ranges=tuple(
            range_rule(properties[each["property"]], _read_bound(each["min"]), _read_bound(each["max"]))
            for each in _rules(ir["constraints"], "Range")
        ),
        checks=tuple(CheckRule(c["property"], c["pattern"]) for c in _rules(ir["constraints"], "Check")),
        annotations=annotations,
        description=_text(annotations, "description"),
        instruction=_text(annotations, "instruction"),
        restated=tuple(rule for rule in ("index", "unique") if {*key} & {*_columns(ir["constraints"], rule.title())}),
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


def _columns(
    constraints: Iterable[Mapping[str, Any]], name: str, but: tuple[tuple[str, ...], ...] = ()
) -> tuple[tuple[str, ...], ...]:
    found = (tuple(columns) for columns in _rules(constraints, name))
    return tuple(columns for columns in found if columns not in but)


def _read_bound(ir: Mapping[str, int | float] | int | float | None) -> int | float | None:
    return next(iter(ir.values())) if isinstance(ir, Mapping) else ir


def _read_properties(ir: Iterable[Mapping[str, Any]]) -> dict[str, Property]:
    return {each["name"]: _read_property(each) for each in ir}


def _read_property(ir: Mapping[str, Any]) -> Property:
    annotations = _read_annotations(ir["annotations"])
    embed = next((each for each in annotations if each.name == "embed"), None)
    return Property(
        name=ir["name"],
        type=read_type(ir["prop_type"] if "prop_type" in ir else ir["type"]),
        annotations=annotations,
        embed=Embed(str(embed.value), _text_of(dict(embed.keywords).get("model"))) if embed else None,
        description=_text(annotations, "description"),
    )


def read_type(ir: Mapping[str, Any]) -> PropertyType:
    """The property type that `type_ir` wrote."""
    scalar, values = ir["scalar"], ir["enum_values"]
    return PropertyType(
        scalar=Scalar(scalar) if isinstance(scalar, str) else Scalar.VECTOR,
        nullable=ir["nullable"],
        list=ir["list"],
        enum_values=None if values is None else tuple(values),
        dimension=None if isinstance(scalar, str) else scalar["Vector"],
    )


def _read_annotations(ir: Iterable[Mapping[str, Any]]) -> tuple[Annotation, ...]:
    return tuple(Annotation(each["name"], each["value"], tuple(each.get("keywords", {}).items())) for each in ir)


def _text(annotations: Iterable[Annotation], name: str) -> str | None:
    return next((_text_of(each.value) for each in annotations if each.name == name), None)


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None
