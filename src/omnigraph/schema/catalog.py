"""The compiled schema: what types exist, their properties, and the rules on their rows.

Plain values, no behaviour beyond look-up. The parser and its checks (`compile.py`) make them; every other room only
reads them. A catalog is valid by construction: nobody downstream checks a schema rule again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from omnigraph.tokenizer import ENGLISH, Tokenizer


class Scalar(StrEnum):
    """The base types of the language. A vector and an enum are a scalar with an extra (see `PropertyType`)."""

    STRING = "String"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE = "Date"
    DATETIME = "DateTime"
    BLOB = "Blob"
    VECTOR = "Vector"

    @property
    def is_integer(self) -> bool:
        return self in _INTEGERS

    @property
    def is_numeric(self) -> bool:
        return self in _INTEGERS or self in _FLOATS


#: The columns of an edge table that hold the ids of its two nodes.
SOURCE_COLUMN = "src"
TARGET_COLUMN = "dst"
ENDPOINT_COLUMNS = (SOURCE_COLUMN, TARGET_COLUMN)

_INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
_FLOATS = frozenset({Scalar.F32, Scalar.F64})


@dataclass(frozen=True, slots=True)
class PropertyType:
    """A property's type. ``str()`` gives the spelling of the language: ``[String]?``, ``enum(a, b)``, ``Vector(3)``.

    >>> str(PropertyType(Scalar.STRING, nullable=True, list=True))
    '[String]?'
    """

    scalar: Scalar
    nullable: bool = False
    list: bool = False
    enum_values: tuple[str, ...] | None = None  # sorted; the scalar is STRING then
    dimension: int | None = None  # set when the scalar is VECTOR

    def __str__(self) -> str:
        if self.enum_values is not None:
            core = f"enum({', '.join(self.enum_values)})"
        elif self.scalar is Scalar.VECTOR:
            core = f"Vector({self.dimension})"
        else:
            core = f"[{self.scalar}]" if self.list else str(self.scalar)
        return f"{core}?" if self.nullable else core


Literal: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Annotation:
    """``@name``, ``@name(value)`` or ``@name(value, key=value)``."""

    name: str
    value: Literal | None = None
    keywords: tuple[tuple[str, Literal], ...] = ()


@dataclass(frozen=True, slots=True)
class Embed:
    """``@embed("source", model="m")`` on a vector property."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Property:
    """One property of a type."""

    name: str
    type: PropertyType
    annotations: tuple[Annotation, ...] = ()
    embed: Embed | None = None
    description: str | None = None
    default: Literal | None = field(default=None, compare=False)  # as it is stored; follows from the annotation
    tokenizer: Tokenizer = field(default=ENGLISH, compare=False)  # how a text is searched; follows from the annotation


@dataclass(frozen=True, slots=True)
class RangeRule:
    """``@range(property, low..high)``, both bounds inclusive; None means open.

    The bounds are numbers of the property's kind where that loses nothing; ``written`` holds those of the text when
    they are of another kind, as ``0..1`` for an ``F64``.
    """

    property: str
    low: int | float | None
    high: int | float | None
    written: tuple[int | float | None, int | float | None] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CheckRule:
    """``@check(property, "regex")``: the value must contain a match."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Cardinality:
    """``@card(low..high)``: edges of this type per source node; ``high`` None means unbounded."""

    low: int = 0
    high: int | None = None

    @property
    def is_default(self) -> bool:
        return self.low == 0 and self.high is None


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """Properties that several node types share."""

    name: str
    properties: Mapping[str, Property]


@dataclass(frozen=True, slots=True)
class NodeType:
    """One table of nodes. ``properties`` holds declared and inherited ones in ascending name order."""

    name: str
    properties: Mapping[str, Property]
    implements: tuple[str, ...] = ()
    key: tuple[str, ...] | None = None  # in the order that forms the id
    uniques: tuple[tuple[str, ...], ...] = ()  # each sorted; does not repeat the key
    indexes: tuple[tuple[str, ...], ...] = ()  # each sorted; does not repeat the key
    ranges: tuple[RangeRule, ...] = ()
    checks: tuple[CheckRule, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    description: str | None = None
    instruction: str | None = None
    inherited: tuple[str, ...] = field(default=(), compare=False)  # properties that only an interface declares
    restated: tuple[str, ...] = field(default=(), compare=False)  # of "index", "unique": declared over the key again

    @property
    def table_key(self) -> str:
        return f"node:{self.name}"


@dataclass(frozen=True, slots=True)
class EdgeType:
    """One table of directed edges. ``uniques`` and ``indexes`` may name ``src`` and ``dst``.

    ``integer_ends`` are the ends with nodes whose key is one integer.
    """

    name: str
    source: str  # name of the node type an edge leaves
    target: str  # name of the node type an edge reaches
    properties: Mapping[str, Property]
    cardinality: Cardinality = Cardinality()
    uniques: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    annotations: tuple[Annotation, ...] = ()
    description: str | None = None
    instruction: str | None = None
    integer_ends: Mapping[str, Scalar] = field(default_factory=dict, compare=False)  # set by the catalog

    @property
    def table_key(self) -> str:
        return f"edge:{self.name}"

    @property
    def endpoints(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The endpoint columns, each with the node type that its ids belong to.

        >>> EdgeType("Wrote", "Author", "Paper", {}).endpoints
        (('src', 'Author'), ('dst', 'Paper'))
        """
        return (SOURCE_COLUMN, self.source), (TARGET_COLUMN, self.target)


@dataclass(frozen=True, slots=True)
class Catalog:
    """A whole schema. Mappings are ordered by name; keys are exact names.

    ``hash`` names the schema, as every state of a graph records it; empty in a catalog that was not compiled whole.
    """

    interfaces: Mapping[str, InterfaceType]
    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    hash: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        edges = {name: replace(edge, integer_ends=self._integer_ends(edge)) for name, edge in self.edges.items()}
        object.__setattr__(self, "edges", edges)

    def _integer_ends(self, edge: EdgeType) -> dict[str, Scalar]:
        """The ends of an edge whose nodes are known by one integer, which data may then name by that number."""
        found = {}
        for column, name in edge.endpoints:
            node = self.nodes.get(name)
            if node is not None and node.key is not None and len(node.key) == 1:
                scalar = node.properties[node.key[0]].type.scalar
                if scalar.is_integer:
                    found[column] = scalar
        return found

    def __repr__(self) -> str:
        return f"Catalog(nodes: {', '.join(self.nodes)}; edges: {', '.join(self.edges)})"

    def edge_by_word(self, word: str) -> EdgeType | None:
        """The edge type a query or a data file means by ``word``: case does not matter."""
        folded = word.lower()
        return next((edge for name, edge in self.edges.items() if name.lower() == folded), None)

    def edges_at(self, node: str) -> list[EdgeType]:
        """The edge types that a node of this type can be an end of."""
        return [edge for edge in self.edges.values() if node in (edge.source, edge.target)]

    def by_table_key(self, table_key: str) -> NodeType | EdgeType | None:
        kind, _, name = table_key.partition(":")
        return self.nodes.get(name) if kind == "node" else self.edges.get(name)
