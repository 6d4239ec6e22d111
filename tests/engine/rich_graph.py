"""A schema with something of everything, random rows for it, and a real graph that is changed commit by commit.

Pools of values are small, so that values meet, and hold the awkward ones. Floats are dyadic, so that sums do not depend
on their order. Ids repeat between types, so that nobody can mistake a node for another type's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from random import Random
from typing import Any

import pyarrow as pa

import omnigraph as og
from omnigraph.schema import compile_schema
from omnigraph.schema.catalog import EdgeType, NodeType, PropertyType, Scalar
from omnigraph.write.change import Change, Mode
from tests.oracle.naive import GraphData, Row, narrow
from tests.support.example_graph import table_of

SCHEMA = """
node Item  { key: String @key  n: I32  yes: Bool?  i32: I32?  i64: I64?  u32: U32?  u64: U64?  f32: F32?  f64: F64?
             wide: F64?  name: String? @index  day: Date?  at: DateTime?  kind: enum(a, b, c)?
             words: [String]?  whole: [I64]?  real: [F64]?  thin: [F32]?  flags: [Bool]?  days: [Date]?
             moments: [DateTime]?  spot: Vector(2)? }
node Place { code: String @key  label: String @index  size: F64?  kind: enum(b, c, d)  spot: Vector(2) }
node Note  { text: String @index  stars: I32?  seen: DateTime? }
edge Knows: Item -> Item   { weight: I32?  since: Date?  label: String? }
edge Likes: Item -> Item
edge Stays: Item -> Place  { share: F64?  role: enum(guest, owner)?  moment: DateTime? }
edge Near:  Place -> Place { far: F32? }
edge About: Note -> Item   { tags: [String]? }
edge Next:  Note -> Note
"""
CATALOG = compile_schema(SCHEMA).catalog

WORDS = ["tree", "green tree", "Blue", "blue red", "red", "the running trees", "runs of the Foxes",
         "blue café tree tree", "the of", "fox run fox"]  # fmt: skip
POOLS: Mapping[Scalar, list[Any]] = {
    Scalar.STRING: ["", "a", "A", "ab", "b", "é", "_%", "z'\"\\", "\ufffd", "\U0001f600", "line\nfeed", *WORDS],
    Scalar.BOOL: [False, True],
    Scalar.I32: [0, 1, 2, 3, -1, -(2**31), 2**31 - 1],
    Scalar.I64: [0, 1, 2, -1, 2**53, 2**53 + 1, -(2**53) - 1, -(2**63), 2**63 - 1],
    Scalar.U32: [0, 1, 2, 3, 2**32 - 1],
    Scalar.U64: [0, 1, 2, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1],
    Scalar.F32: [0.0, 1.0, 2.0, 0.5, -0.5, narrow(0.1), 4096.0],
    Scalar.F64: [0.0, 1.0, 2.0, 0.25, -1.5, 3.75, 1000.0],
    Scalar.DATE: [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)],
    Scalar.DATETIME: [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
        datetime(2024, 2, 29, 12, 0, 0, 500_000, tzinfo=UTC),
        datetime(2024, 2, 29, 12, 0, 0, 501_000, tzinfo=UTC),
        datetime(9000, 1, 1, tzinfo=UTC),
    ],
}
# Too large or too fine to be added up in any order; never summed.
WIDE = [0.0, 1.0, 0.1, 2.7, 9007199254740992.0, 9.3e18, -1e300, 1e300]
COORDINATES = [0.0, 1.0, -1.0, 0.5, 2.0, 3.0]

_NODES = {"Item": 7, "Place": 4, "Note": 5}
_MOST_EDGES = 12


def random_value(random: Random, name: str, kind: PropertyType) -> Any:
    if kind.nullable and random.random() < 0.3:
        return None
    if kind.scalar is Scalar.VECTOR:
        return [random.choice(COORDINATES) for _ in range(kind.dimension or 0)]
    pool = list(kind.enum_values) if kind.enum_values else WIDE if name == "wide" else POOLS[kind.scalar]
    if name == "text":
        pool = WORDS
    if kind.list:
        return [random.choice([*pool[:4], None]) for _ in range(random.randrange(4))]
    return random.choice(pool if random.random() < 0.4 else pool[:4])


def _many(random: Random, most: int) -> int:
    """Usually more than half, now and then few or none."""
    return random.randint(most // 2 if random.random() < 0.8 else 0, most)


@dataclass(frozen=True)
class Step:
    """One commit: rows to put and ids to remove, by type. The rows of an overwritten type are all there are."""

    put: Mapping[str, list[Row]]
    remove: Mapping[str, list[str]]
    overwritten: frozenset[str] = frozenset()


class RichData:
    """The rows that should be there, by type and id. `random_step` proposes a change, `apply` makes it."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Row]] = {name: {} for name in [*CATALOG.nodes, *CATALOG.edges]}

    def graph_data(self) -> GraphData:
        return GraphData(
            CATALOG,
            {name: list(self.rows[name].values()) for name in CATALOG.nodes},
            {name: list(self.rows[name].values()) for name in CATALOG.edges},
        )

    def random_step(self, random: Random) -> Step:
        """New and changed rows of some types, some removals; a node takes its edges along."""
        remove: dict[str, list[str]] = {}
        for name in CATALOG.nodes:
            remove[name] = [each for each in self.rows[name] if random.random() < 0.15]
        put = {name: self._random_nodes(random, name, set(remove[name])) for name in CATALOG.nodes}
        there = {name: (self.rows[name].keys() - remove[name]) | {row["id"] for row in put[name]} for name in put}
        for name, edge in CATALOG.edges.items():
            ends = (there[edge.source], there[edge.target])
            remove[name] = [
                each["id"]
                for each in self.rows[name].values()
                if each["src"] not in ends[0] or each["dst"] not in ends[1] or random.random() < 0.15
            ]
            put[name] = self._random_edges(random, edge, sorted(ends[0]), sorted(ends[1]), set(remove[name]))
        quiet = frozenset(name for name in put if random.random() < 0.3 and not self._is_needed(name, put, remove))
        for name in quiet:
            put[name], remove[name] = [], []
        step = Step(put, remove)
        return self._overwriting(step, frozenset(name for name in put if random.random() < 0.1))

    def _is_needed(self, name: str, put: Mapping[str, list[Row]], remove: Mapping[str, list[str]]) -> bool:
        """Whether leaving a type alone would leave edges without an end."""
        if name in CATALOG.nodes:
            return True
        edge = CATALOG.edges[name]
        return bool(remove[edge.source] or remove[edge.target])

    def _overwriting(self, step: Step, names: frozenset[str]) -> Step:
        """The same outcome, with some types written anew instead of changed."""
        put, remove = dict(step.put), dict(step.remove)
        for name in names:
            kept = {key: row for key, row in self.rows[name].items() if key not in remove[name]}
            put[name] = list((kept | {row["id"]: row for row in put[name]}).values())
        filled = frozenset(name for name in names if put[name])
        return Step(put, {name: [] if name in filled else gone for name, gone in remove.items()}, filled)

    def _random_nodes(self, random: Random, name: str, removed: set[str]) -> list[Row]:
        wanted = random.sample(range(_NODES[name]), _many(random, _NODES[name]))
        return [_row(random, CATALOG.nodes[name], {"id": f"n{number}"}) for number in wanted
                if f"n{number}" not in removed]  # fmt: skip

    def _random_edges(
        self, random: Random, edge: EdgeType, sources: list[str], targets: list[str], removed: set[str]
    ) -> list[Row]:
        if not sources or not targets:
            return []
        wanted = random.sample(range(_MOST_EDGES), _many(random, _MOST_EDGES))
        return [
            _row(random, edge, {"id": f"e{number}", "src": random.choice(sources), "dst": random.choice(targets)})
            for number in wanted
            if f"e{number}" not in removed
        ]

    def apply(self, step: Step) -> None:
        for name in step.overwritten:
            self.rows[name].clear()
        for name, gone in step.remove.items():
            for each in gone:
                self.rows[name].pop(each, None)
        for name, rows in step.put.items():
            self.rows[name].update({row["id"]: row for row in rows})


def _row(random: Random, type_: NodeType | EdgeType, start: Row) -> Row:
    row = dict(start)
    for name, declared in type_.properties.items():
        row[name] = random_value(random, name, declared.type)
    for key in (type_.key or ()) if isinstance(type_, NodeType) else ():
        row[key] = row["id"]
    return row


def changes_of(step: Step) -> list[Change]:
    found = []
    for name in [*CATALOG.nodes, *CATALOG.edges]:
        type_: NodeType | EdgeType = CATALOG.nodes.get(name) or CATALOG.edges[name]
        rows, gone = step.put.get(name, []), step.remove.get(name, [])
        if rows or gone:
            put = table_of(type_, rows) if rows else None
            remove = pa.array(gone, pa.string()) if gone else None
            mode = Mode.OVERWRITE if name in step.overwritten else Mode.MERGE
            found.append(Change(type_.table_key, put, mode, remove))
    return found


def first_step(data: GraphData) -> Step:
    """Everything in one commit."""
    return Step({**data.nodes, **data.edges}, {})


def rich_graph(root: Any) -> og.Graph:
    """An empty graph of the schema."""
    return og.init(root, SCHEMA)
