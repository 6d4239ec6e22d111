"""Narrows the keys of a load to those that may break a set rule, by counting hashes instead of comparing texts.

Every key of a rule lies in a space: the ids of a type, the tuples of one ``@unique``, the sources of one ``@card``.
Tasks count how a key is used (`KeyUse`); all counts of a key come together here. The answer is a pure function of
arrays. The rules themselves are in `write/set_rules.py`; `suspect_rows.py` asks them about the few keys that are left.
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


class KeyUse(IntEnum):
    """How a row uses a key."""

    NEW = 1  # a row of the load has it
    STORED = 2  # a stored row that stays has it
    NEEDED = 3  # an edge of the load points at it
    NEEDED_BY_STORED = 4  # a stored edge that stays points at it
    TOUCHED = 5  # a stored row that goes had it
    PRESENT = 6  # the node of this id is there afterwards


class Suspicion(IntEnum):
    """Why a key may break a rule."""

    REPEATED = 1  # one id on several rows
    COLLAPSES = 2  # the same, but the last row wins
    EXISTS = 3  # an appended id that is stored
    CLASHES = 4  # a unique tuple that several rows have
    MISSING = 5  # an endpoint that is nowhere
    STRANDED = 6  # the same, of an edge that stays
    COUNTED = 7  # too few or too many edges at a source


@dataclass(frozen=True, slots=True)
class KeySpace:
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
class KeySpaces:
    """Every space that a load touches."""

    all: tuple[KeySpace, ...]

    def ids_of(self, key: str) -> KeySpace | None:
        return next((space for space in self.all if space.kind == "id" and space.key == key), None)

    def others_of(self, key: str, kind: str) -> list[KeySpace]:
        return [space for space in self.all if space.kind == kind and space.key == key]


def spaces_of(catalog: Catalog, loaded: Mapping[str, bool], mode: Mode) -> KeySpaces:
    """The spaces of a load.

    Args:
        loaded: table keys with rows, and whether all their ids are fresh.
    """
    found: list[KeySpace] = []
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
        found.append(KeySpace(len(found), "id", key, ("id",), once=once, strict=mode is Mode.APPEND))
    for key in sorted(loaded):
        type_ = catalog.by_table_key(key)
        for columns in type_.uniques if type_ else ():
            found.append(KeySpace(len(found), "unique", key, tuple(columns)))
        if isinstance(type_, EdgeType) and not type_.cardinality.is_default:
            rule = type_.cardinality
            presence = mode is Mode.OVERWRITE and f"node:{type_.source}" in loaded
            found.append(KeySpace(len(found), "card", key, ("src",), low=rule.low, high=rule.high, presence=presence))
    return KeySpaces(tuple(found))


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """Counts as columns: space, hash of the key, its use, how often, and the first place in the load."""

    space: _Numbers
    hash: _Numbers
    what: _Numbers
    count: _Numbers
    place: _Numbers


def suspicious_keys(spaces: KeySpaces, counted: KeyCounts) -> dict[str, _Numbers]:
    """The keys that must be looked at: ``space``, ``hash``, ``suspicion`` and ``place``, the first of each kind.

    Every count of a key must be in ``counted``.
    """
    order = np.lexsort((counted.hash, counted.space))
    space, hash_ = counted.space[order], counted.hash[order]
    first = np.flatnonzero(np.concatenate([[True], (space[1:] != space[:-1]) | (hash_[1:] != hash_[:-1])]))
    if len(space) == 0:
        first = np.zeros(0, np.int64)
    counts = {what: _sums(np.where(counted.what[order] == what, counted.count[order], 0), first) for what in KeyUse}
    places = np.minimum.reduceat(counted.place[order], first) if len(first) else first
    space, hash_ = space[first], hash_[first]
    found: list[tuple[_Mask, Suspicion]] = []
    for each in spaces.all:
        found += [(mask & (space == each.number), suspicion) for mask, suspicion in _broken(each, counts)]
    parts = [_chosen(space, hash_, places, mask, suspicion) for mask, suspicion in found]
    names = ("space", "hash", "suspicion", "place")
    return {name: np.concatenate([part[at] for part in parts] or [first]) for at, name in enumerate(names)}


def _sums(values: _Numbers, first: _Numbers) -> _Numbers:
    return np.add.reduceat(values, first) if len(first) else values[:0]


def _broken(space: KeySpace, counts: Mapping[KeyUse, _Numbers]) -> list[tuple[_Mask, Suspicion]]:
    new, stored = counts[KeyUse.NEW], counts[KeyUse.STORED]
    if space.kind == "unique":
        return [((new > 1) | ((new > 0) & (stored > 0)), Suspicion.CLASHES)]
    if space.kind == "card":
        touched = (new > 0) | (counts[KeyUse.TOUCHED] > 0)
        if space.presence:
            touched &= counts[KeyUse.PRESENT] > 0
        total = new + stored
        wrong = total < space.low
        if space.high is not None:
            wrong |= total > space.high
        return [(touched & wrong, Suspicion.COUNTED)]
    absent = (new == 0) & (stored == 0)
    return [
        (new > 1, Suspicion.REPEATED if space.once else Suspicion.COLLAPSES),
        ((new > 0) & (stored > 0) & space.strict, Suspicion.EXISTS),
        ((counts[KeyUse.NEEDED] > 0) & absent, Suspicion.MISSING),
        ((counts[KeyUse.NEEDED_BY_STORED] > 0) & absent, Suspicion.STRANDED),
    ]


def _chosen(
    space: _Numbers, hash_: _Numbers, places: _Numbers, mask: _Mask, suspicion: Suspicion
) -> tuple[_Numbers, ...]:
    """The marked keys that come first in the load, as many as are looked at."""
    rows = np.flatnonzero(mask)
    most = limits.SETTLED_ROWS if suspicion is Suspicion.COLLAPSES else limits.SUSPECTS
    if len(rows) > most:
        rows = rows[np.argsort(places[rows], kind="stable")[:most]]
    return space[rows], hash_[rows], np.full(len(rows), int(suspicion), np.int64), places[rows]
