"""The set rules over numbers instead of keys: which keys of a load may break a rule, and must be looked at.

Every key that a rule talks about lies in a space: the ids of a type, the tuples of one ``@unique``, the sources of one
``@card``. Tasks say what they saw of a key (`Saw`); all that was seen of it comes together here and is judged. The
judgement is a pure function of arrays; `suspects.py` looks at the few keys it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from omnigraph import limits
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.write.change import Mode

_Numbers = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]


class Saw(IntEnum):
    """What a task saw of a key, and how often."""

    NEW = 1  # a row of the load has it
    STORED = 2  # a stored row that stays has it
    NEEDED = 3  # an edge of the load points at it
    NEEDED_BY_STORED = 4  # a stored edge that stays points at it
    TOUCHED = 5  # a stored row that goes had it
    PRESENT = 6  # the node of this id is there afterwards


class Verdict(IntEnum):
    """Why a key must be looked at."""

    REPEATED = 1  # one id on several rows
    COLLAPSES = 2  # the same, but the last row wins
    EXISTS = 3  # an appended id that is stored
    CLASHES = 4  # a unique tuple that several rows have
    MISSING = 5  # an endpoint that is nowhere
    STRANDED = 6  # the same, of an edge that stays
    COUNTED = 7  # too few or too many edges at a source


@dataclass(frozen=True, slots=True)
class Space:
    """Keys that are compared with each other.

    Attributes:
        columns: whose values are the keys: ``("id",)``, the tuple of a unique, or ``("src",)`` of a cardinality.
        kind: ``id``, ``unique`` or ``card``.
    """

    number: int
    kind: str
    key: str
    columns: tuple[str, ...]
    once: bool = False  # an id may not be repeated
    strict: bool = False  # an id may not exist
    low: int = 0
    high: int | None = None
    presence: bool = False  # only sources that are there afterwards count


@dataclass(frozen=True, slots=True)
class Spaces:
    """Every space that a load touches."""

    all: tuple[Space, ...]

    def ids_of(self, key: str) -> Space | None:
        return next((space for space in self.all if space.kind == "id" and space.key == key), None)

    def others_of(self, key: str, kind: str) -> list[Space]:
        return [space for space in self.all if space.kind == kind and space.key == key]


def spaces_of(catalog: Catalog, loaded: Mapping[str, bool], mode: Mode) -> Spaces:
    """The spaces of a load.

    Args:
        loaded: table keys with rows, and whether all their ids are fresh.
    """
    found: list[Space] = []
    edges = [catalog.edges[key.partition(":")[2]] for key in sorted(loaded) if key.startswith("edge:")]
    pointed = {f"node:{name}" for edge in edges for name in (edge.source, edge.target)}
    if mode is Mode.OVERWRITE:
        kept = [edge for edge in catalog.edges.values() if edge.table_key not in loaded]
        ends = {f"node:{name}" for edge in kept for name in (edge.source, edge.target)}
        pointed |= ends & set(loaded)
    for key in sorted({*(each for each, fresh in loaded.items() if not fresh), *pointed}):
        type_ = catalog.by_table_key(key)
        keyed = isinstance(type_, NodeType) and type_.key is not None
        once = keyed or mode is not Mode.MERGE
        found.append(Space(len(found), "id", key, ("id",), once=once, strict=mode is Mode.APPEND))
    for key in sorted(loaded):
        type_ = catalog.by_table_key(key)
        for columns in type_.uniques if type_ else ():
            found.append(Space(len(found), "unique", key, tuple(columns)))
        if isinstance(type_, EdgeType) and not type_.cardinality.is_default:
            rule = type_.cardinality
            presence = mode is Mode.OVERWRITE and f"node:{type_.source}" in loaded
            found.append(Space(len(found), "card", key, ("src",), low=rule.low, high=rule.high, presence=presence))
    return Spaces(tuple(found))


@dataclass(frozen=True, slots=True)
class Seen:
    """Sightings, one row each: space, number of the key, what, how often, and the first place in the load."""

    space: _Numbers
    hash: _Numbers
    what: _Numbers
    count: _Numbers
    place: _Numbers


def judge(spaces: Spaces, seen: Seen) -> dict[str, _Numbers]:
    """The keys that must be looked at: ``space``, ``hash``, ``verdict`` and ``place``, the first of each kind.

    Every sighting of a key must be in ``seen``.
    """
    order = np.lexsort((seen.hash, seen.space))
    space, hash_ = seen.space[order], seen.hash[order]
    first = np.flatnonzero(np.concatenate([[True], (space[1:] != space[:-1]) | (hash_[1:] != hash_[:-1])]))
    if len(space) == 0:
        first = np.zeros(0, np.int64)
    counts = {what: _sums(np.where(seen.what[order] == what, seen.count[order], 0), first) for what in Saw}
    places = np.minimum.reduceat(seen.place[order], first) if len(first) else first
    space, hash_ = space[first], hash_[first]
    found: list[tuple[_Mask, Verdict]] = []
    for each in spaces.all:
        found += [(mask & (space == each.number), verdict) for mask, verdict in _broken(each, counts)]
    parts = [_chosen(space, hash_, places, mask, verdict) for mask, verdict in found]
    names = ("space", "hash", "verdict", "place")
    return {name: np.concatenate([part[at] for part in parts] or [first]) for at, name in enumerate(names)}


def _sums(values: _Numbers, first: _Numbers) -> _Numbers:
    return np.add.reduceat(values, first) if len(first) else values[:0]


def _broken(space: Space, counts: Mapping[Saw, _Numbers]) -> list[tuple[_Mask, Verdict]]:
    new, stored = counts[Saw.NEW], counts[Saw.STORED]
    if space.kind == "unique":
        return [((new > 1) | ((new > 0) & (stored > 0)), Verdict.CLASHES)]
    if space.kind == "card":
        touched = (new > 0) | (counts[Saw.TOUCHED] > 0)
        if space.presence:
            touched &= counts[Saw.PRESENT] > 0
        total = new + stored
        wrong = total < space.low
        if space.high is not None:
            wrong |= total > space.high
        return [(touched & wrong, Verdict.COUNTED)]
    absent = (new == 0) & (stored == 0)
    return [
        (new > 1, Verdict.REPEATED if space.once else Verdict.COLLAPSES),
        ((new > 0) & (stored > 0) & space.strict, Verdict.EXISTS),
        ((counts[Saw.NEEDED] > 0) & absent, Verdict.MISSING),
        ((counts[Saw.NEEDED_BY_STORED] > 0) & absent, Verdict.STRANDED),
    ]


def _chosen(space: _Numbers, hash_: _Numbers, places: _Numbers, mask: _Mask, verdict: Verdict) -> tuple[_Numbers, ...]:
    """The marked keys that come first in the load, as many as anybody will look at."""
    rows = np.flatnonzero(mask)
    most = limits.SETTLED_ROWS if verdict is Verdict.COLLAPSES else limits.SUSPECTS
    if len(rows) > most:
        rows = rows[np.argsort(places[rows], kind="stable")[:most]]
    return space[rows], hash_[rows], np.full(len(rows), int(verdict), np.int64), places[rows]
