"""The naive merge: dictionaries, one row after the other, every rule checked on the whole result.

Written from the specification and without any of the code that it judges. Values compare by their bits.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.storage.metadata.manifest import Commit

Row = Mapping[str, Any]
Rows = Mapping[str, Row]
State = Mapping[str, Rows]


def bits(value: Any) -> Any:
    """A value such that ``==`` means the same value of the same type."""
    if isinstance(value, float):
        return "float", struct.pack("<d", value)
    if isinstance(value, list):
        return "list", tuple(bits(each) for each in value)
    return type(value).__name__, value


def same(one: Row | None, other: Row | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(bits(one[name]) == bits(other[name]) for name in one)


def same_state(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(
        one[key].keys() == other[key].keys() and all(same(one[key][id_], other[key][id_]) for id_ in one[key])
        for key in one
    )


def merge_row(base: Row | None, source: Row | None, target: Row | None) -> tuple[Row | None, str | None]:
    """What becomes of one row: the row of the result, or the name of the conflict."""
    if same(source, target) or same(source, base):
        return target, None
    if same(target, base):
        return source, None
    if base is None:
        return None, "DivergentInsert"
    if source is None or target is None:
        return None, "DeleteVsUpdate"
    return None, "DivergentUpdate"


@dataclass(frozen=True, slots=True)
class Merged:
    """``state`` is what the target has afterwards; it means nothing when there are conflicts."""

    state: dict[str, dict[str, Row]]
    conflicts: set[tuple[str, str | None, str]]


def merge_rows(base: Rows, source: Rows, target: Rows) -> tuple[dict[str, Row], dict[str, str]]:
    """One table: the rows of the result, and conflicts by id."""
    merged: dict[str, Row] = {}
    conflicts: dict[str, str] = {}
    for id_ in {*base, *source, *target}:
        row, conflict = merge_row(base.get(id_), source.get(id_), target.get(id_))
        if conflict:
            conflicts[id_] = conflict
        elif row is not None:
            merged[id_] = row
    return merged, conflicts


def merge(base: State, source: State, target: State, rules: Rules) -> Merged:
    """Whole states: conflicts of rows, and what the result breaks with the target's and with the source's side of
    them all."""
    state: dict[str, dict[str, Row]] = {}
    conflicts: set[tuple[str, str | None, str]] = set()
    for key in target:
        state[key], found = merge_rows(base[key], source[key], target[key])
        conflicts |= {(key, id_, kind) for id_, kind in found.items()}
    broken = [rules.broken_by(_decided(state, side, conflicts)) for side in (source, target)]
    return Merged(state, conflicts.union(*broken))


def _decided(state: State, side: State, conflicts: set[tuple[str, str | None, str]]) -> dict[str, dict[str, Row]]:
    """The result with a side's rows of all conflicts."""
    chosen = {key: dict(rows) for key, rows in state.items()}
    for key, id_, _ in conflicts:
        if id_ is not None and id_ in side[key]:
            chosen[key][id_] = side[key][id_]
    return chosen


def ancestors(head: str, known: Mapping[str, Commit]) -> dict[str, int]:
    """Every ancestor with the length of the shortest way to it, by trying until nothing gets shorter."""
    found = {head: 0}
    for _ in known:
        before = dict(found)
        for id_, far in before.items():
            for parent in filter(None, (known[id_].parent, known[id_].merged_parent)):
                found[parent] = min(found.get(parent, far + 1), far + 1)
        if found == before:
            break
    return found


def last_common(one: str, other: str, known: Mapping[str, Commit]) -> list[str]:
    """Common ancestors that lead to no other one, the best first."""
    a, b = ancestors(one, known), ancestors(other, known)
    common = a.keys() & b.keys()
    newest = [id_ for id_ in common if not any(id_ in ancestors(x, known) for x in common if x != id_)]
    return sorted(newest, key=lambda id_: (-(a[id_] + b[id_]), known[id_].version, id_), reverse=True)


def shared_state(one: str, other: str, known: Mapping[str, Commit], states: Mapping[str, State]) -> State:
    """What two commits have in common: their last common ancestor, with what they share besides laid over it."""
    best, *rest = last_common(one, other, known)
    shared = {key: dict(rows) for key, rows in states[best].items()}
    said: dict[tuple[str, str], list[Row | None]] = defaultdict(list)
    for more in rest:
        fork = states[last_common(best, more, known)[0]]
        for key, rows in states[best].items():
            merged, conflicts = merge_rows(fork[key], states[more][key], rows)
            for id_ in {*rows, *merged, *conflicts}:
                if id_ in conflicts:
                    said[key, id_].append({"nobody knows": True})
                elif not same(merged.get(id_), rows.get(id_)):
                    said[key, id_].append(merged.get(id_))
    for (key, id_), values in said.items():
        agreed = values[0] if all(same(value, values[0]) for value in values) else {"nobody knows": True}
        shared[key].pop(id_, None)
        if agreed is not None:
            shared[key][id_] = agreed
    return shared


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a schema, in a form that needs no schema.

    Attributes:
        ends: for each edge table, the node tables of its two ends.
        uniques: unique columns by table.
        cards: least and most edges per source, by edge table.
    """

    ends: Mapping[str, tuple[str, str]]
    uniques: Mapping[str, tuple[str, ...]]
    cards: Mapping[str, tuple[int, int]]

    def broken_by(self, state: State) -> set[tuple[str, str | None, str]]:
        """Rules that a state breaks. Of rows that share a unique value only the table is named."""
        found: set[tuple[str, str | None, str]] = set()
        for edge, nodes in self.ends.items():
            for id_, row in state[edge].items():
                if any(row[end] not in state[node] for end, node in zip(("src", "dst"), nodes, strict=True)):
                    found.add((edge, id_, "OrphanEdge"))
        for table, columns in self.uniques.items():
            held: dict[tuple[Any, ...], int] = defaultdict(int)
            for row in state[table].values():
                values = tuple(row[column] for column in columns)
                if None not in values:
                    held[values] += 1
            if any(count > 1 for count in held.values()):
                found.add((table, None, "UniqueViolation"))
        for edge, (low, high) in self.cards.items():
            counts = Counter(row["src"] for row in state[edge].values() if row["src"] in state[self.ends[edge][0]])
            if any(not low <= count <= high for count in counts.values()):
                found.add((edge, None, "CardinalityViolation"))
        return found
