"""Compiled schema → catalog, for a graph whose source is not at hand.

The hash over the compiled schema is what makes it trustworthy (`contract.py`); this module only refuses what it
cannot understand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from omnigraph.errors import CorruptGraph, NewerFormat
from omnigraph.schema.catalog import (
    Annotation,
    Cardinality,
    Catalog,
    Check,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    Property,
    PropertyType,
    Range,
    Scalar,
)
from omnigraph.schema.ir import IR_VERSION


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
            {each["name"]: _interface(each) for each in ir["interfaces"]},
            {each["name"]: _node(each) for each in ir["nodes"]},
            {each["name"]: _edge(each) for each in ir["edges"]},
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise CorruptGraph(f"the compiled schema is not well-formed: {error!r}") from error


def _interface(ir: Mapping[str, Any]) -> InterfaceType:
    return InterfaceType(ir["name"], _properties(ir["properties"]))


def _node(ir: Mapping[str, Any]) -> NodeType:
    key = _columns(ir["constraints"], "Key")
    annotations = _annotations(ir["annotations"])
    return NodeType(
        name=ir["name"],
        properties=_properties(ir["properties"]),
        implements=tuple(ir["implements"]),
        key=key[0] if key else None,
        uniques=_columns(ir["constraints"], "Unique"),
        indexes=_columns(ir["constraints"], "Index"),
        ranges=tuple(Range(r["property"], r["min"], r["max"]) for r in _rules(ir["constraints"], "Range")),
        checks=tuple(Check(c["property"], c["pattern"]) for c in _rules(ir["constraints"], "Check")),
        annotations=annotations,
        description=_text(annotations, "description"),
        instruction=_text(annotations, "instruction"),
        inherited=tuple(ir["inherited"]),
    )


def _edge(ir: Mapping[str, Any]) -> EdgeType:
    annotations = _annotations(ir["annotations"])
    return EdgeType(
        name=ir["name"],
        source=ir["from_type"],
        target=ir["to_type"],
        properties=_properties(ir["properties"]),
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


def _properties(ir: Iterable[Mapping[str, Any]]) -> dict[str, Property]:
    return {each["name"]: _property(each) for each in ir}


def _property(ir: Mapping[str, Any]) -> Property:
    annotations = _annotations(ir["annotations"])
    embed = next((each for each in annotations if each.name == "embed"), None)
    return Property(
        name=ir["name"],
        type=_type(ir["type"]),
        annotations=annotations,
        embed=Embed(str(embed.value), _text_of(dict(embed.keywords).get("model"))) if embed else None,
        description=_text(annotations, "description"),
    )


def _type(ir: Mapping[str, Any]) -> PropertyType:
    scalar, values = ir["scalar"], ir["enum_values"]
    return PropertyType(
        scalar=Scalar(scalar) if isinstance(scalar, str) else Scalar.VECTOR,
        nullable=ir["nullable"],
        list=ir["list"],
        enum_values=None if values is None else tuple(values),
        dimension=None if isinstance(scalar, str) else scalar["Vector"],
    )


def _annotations(ir: Iterable[Mapping[str, Any]]) -> tuple[Annotation, ...]:
    return tuple(Annotation(each["name"], each["value"], tuple(each["keywords"].items())) for each in ir)


def _text(annotations: Iterable[Annotation], name: str) -> str | None:
    return next((_text_of(each.value) for each in annotations if each.name == name), None)


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None
