"""Catalog → Arrow schemas of the tables: columns, order, nullability and field metadata.

A blob column has the logical type ``large_binary`` here and a mark in its metadata; storage swaps in the physical one.
"""

from __future__ import annotations

import pyarrow as pa

from omnigraph.schema.catalog import ENDPOINT_COLUMNS, EdgeType, NodeType, Property, PropertyType, Scalar
from omnigraph.schema.stable_ids import prop_id

PRIMARY_KEY_METADATA = "lance-schema:unenforced-primary-key"
PROPERTY_ID_METADATA = "omnigraph.stable_property_id"
BLOB_METADATA = "omnigraph.blob"

_SCALARS = {
    Scalar.STRING: pa.string(),
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: pa.date64(),
    Scalar.BLOB: pa.large_binary(),
}


def arrow_type(type_: PropertyType) -> pa.DataType:
    """The Arrow type of a column with this property type."""
    if type_.scalar is Scalar.VECTOR:
        return pa.list_(pa.field("item", pa.float32()), type_.dimension)
    scalar = _SCALARS[type_.scalar]
    return pa.list_(pa.field("item", scalar)) if type_.list else scalar


def node_schema(node: NodeType) -> pa.Schema:
    """``id``, then the properties by name."""
    return pa.schema([_id_field(), *(_field("node", node.name, each) for each in node.properties.values())])


def edge_schema(edge: EdgeType) -> pa.Schema:
    """``id``, ``src``, ``dst``, then the properties by name."""
    endpoints = [pa.field(name, pa.string(), nullable=False) for name in ENDPOINT_COLUMNS]
    properties = (_field("edge", edge.name, each) for each in edge.properties.values())
    return pa.schema([_id_field(), *endpoints, *properties])


def table_schema(type_: NodeType | EdgeType) -> pa.Schema:
    """The columns of the table behind a node or edge type."""
    return node_schema(type_) if isinstance(type_, NodeType) else edge_schema(type_)


def _id_field() -> pa.Field:
    return pa.field("id", pa.string(), nullable=False, metadata={PRIMARY_KEY_METADATA: "true"})


def _field(kind: str, owner: str, column: Property) -> pa.Field:
    metadata = {PROPERTY_ID_METADATA: str(prop_id(kind, owner, column.name))}
    if column.type.scalar is Scalar.BLOB:
        metadata[BLOB_METADATA] = "true"
    return pa.field(column.name, arrow_type(column.type), nullable=column.type.nullable, metadata=metadata)
