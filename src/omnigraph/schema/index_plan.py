"""Which physical indexes a type wants, and which declared ones are not built and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.schema.catalog import ENDPOINT_COLUMNS, EdgeType, NodeType, PropertyType, Scalar
from omnigraph.tokenizer import ENGLISH, Tokenizer


class IndexKind(StrEnum):
    BTREE = "BTREE"
    INVERTED = "INVERTED"
    VECTOR = "VECTOR"


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """``tokenizer`` says how a full-text index takes texts apart; the other kinds have no use for it."""

    column: str
    kind: IndexKind
    tokenizer: Tokenizer = ENGLISH


class NotBuilt(StrEnum):
    PENDING = "pending"  # accepted; a later version may build it
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class UnbuiltIndex:
    """A declared index without a physical one."""

    columns: tuple[str, ...]
    status: NotBuilt
    reason: str


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """``wanted`` starts with the indexes every table has; a column appears once."""

    wanted: tuple[WantedIndex, ...]
    unbuilt: tuple[UnbuiltIndex, ...]


def index_plan(type_: NodeType | EdgeType) -> IndexPlan:
    """The indexes of the table behind a type."""
    if isinstance(type_, NodeType):
        return _node_plan(type_)
    return _edge_plan(type_)


def index_kind(type_: PropertyType) -> IndexKind | None:
    """The index for one column of this type; None when there is none."""
    if type_.list or type_.scalar is Scalar.BLOB:
        return None
    if type_.scalar is Scalar.VECTOR:
        return IndexKind.VECTOR
    if type_.scalar is Scalar.STRING and type_.enum_values is None:
        return IndexKind.INVERTED
    return IndexKind.BTREE


def _node_plan(node: NodeType) -> IndexPlan:
    wanted = [WantedIndex("id", IndexKind.BTREE)]
    unbuilt = []
    if node.key is not None and len(node.key) == 1:  # the index on id covers a composite key
        wanted += _wanted(node, node.key[0])
    for columns in node.indexes:
        if len(columns) > 1:
            unbuilt.append(_composite(columns))
        elif found := _wanted(node, columns[0]):
            wanted += found
        else:
            unbuilt.append(UnbuiltIndex(columns, NotBuilt.UNSUPPORTED, "lists have no index"))
    return IndexPlan(tuple(wanted), tuple(unbuilt))


def _wanted(node: NodeType, column: str) -> list[WantedIndex]:
    prop = node.properties[column]
    kind = index_kind(prop.type)
    return [] if kind is None else [WantedIndex(column, kind, prop.tokenizer)]


def _edge_plan(edge: EdgeType) -> IndexPlan:
    always = ("id", *ENDPOINT_COLUMNS)
    unbuilt = [
        _composite(columns)
        if len(columns) > 1
        else UnbuiltIndex(columns, NotBuilt.PENDING, "edge properties are not indexed yet")
        for columns in edge.indexes
        if len(columns) > 1 or columns[0] not in always
    ]
    return IndexPlan(tuple(WantedIndex(column, IndexKind.BTREE) for column in always), tuple(unbuilt))


def _composite(columns: tuple[str, ...]) -> UnbuiltIndex:
    return UnbuiltIndex(columns, NotBuilt.UNSUPPORTED, "only single columns are indexed")
