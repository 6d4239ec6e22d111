"""What settles a broken rule of a merged state: which side of which entity to take instead.

Works on what the two sides did to the entities that a violation names: an edge and its missing node, two rows with one
value, the edges of a source. Reads rows only once a merge has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph import limits
from omnigraph.errors import Conflict
from omnigraph.history.merge.resolution import Image, three_images
from omnigraph.history.merge.three_way import MergeSide, split
from omnigraph.history.merge.validate import BrokenRule
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.write.change import Resolved, type_of
from omnigraph.write.set_rules import Lookup, SetRule


@dataclass(frozen=True, slots=True)
class _Fate:
    """What the two sides did to an entity: ``inserted``, ``updated``, ``deleted``, or None for nothing."""

    theirs: str | None
    ours: str | None

    @property
    def holder(self) -> str | None:
        """The side that has it while the other has not."""
        sides = {"theirs": _has(self.theirs, self.ours), "ours": _has(self.ours, self.theirs)}
        holders = [side for side, has in sides.items() if has]
        return holders[0] if len(holders) == 1 else None

    def undone_by(self, arises: str | None) -> str | None:
        """The side to take instead of the change that the merged state has of it."""
        if self.ours is None or self.theirs is None:
            return None if self.ours is self.theirs else "ours" if self.ours is None else "theirs"
        if self.holder is not None:
            return _OTHER[self.holder]
        return _OTHER[arises] if arises else None


_OTHER = {"ours": "theirs", "theirs": "ours"}


def _has(own: str | None, other: str | None) -> bool:
    """Whether a side has an entity, by what it and the other one did to it."""
    return own in ("inserted", "updated") or (own is None and other in ("updated", "deleted"))


#: An entity whose change may be undone, or that may be kept, to settle a violation: table key, id, and which of both.
_Candidate = tuple[str, str, Literal["undo", "keep"]]


@dataclass(frozen=True, slots=True)
class WaysOut:
    """Explains the broken rules of one merge.

    Attributes:
        sides: gives the source's side and the target's side of a table.
        changes: what the merge would do to the target, by table key.
        stored: the rows of the target.
    """

    catalog: Catalog
    sides: Callable[[str], tuple[MergeSide, MergeSide]]
    changes: Mapping[str, Resolved]
    stored: Lookup

    def explained(self, broken: Sequence[BrokenRule]) -> list[Conflict]:
        """The conflicts with the images of their rows and the decisions that settle them."""
        candidates = [list(self._candidates(each)) for each in broken]
        named = {(key, id_) for each in candidates for key, id_, _ in each}
        named |= {(each.conflict.table_key, each.conflict.row_id) for each in broken if each.conflict.row_id}
        fates: dict[tuple[str, str], _Fate] = {}
        images: dict[tuple[str, str], tuple[Image, Image, Image]] = {}
        for key in sorted({key for key, _ in named}):
            ids = pa.array(sorted(id_ for table, id_ in named if table == key), pa.string())
            fates |= {(key, id_): fate for id_, fate in _fates(*self.sides(key), ids).items()}
            images |= {(key, id_): found for id_, found in three_images(*self.sides(key), ids).items()}
        return [
            _explained(each.conflict, images, _decisions(each.conflict.arises, wanted, fates))
            for each, wanted in zip(broken, candidates, strict=True)
        ]

    def _candidates(self, broken: BrokenRule) -> Iterator[_Candidate]:
        conflict, violation = broken.conflict, broken.violation
        key = conflict.table_key
        if conflict.row_id is not None:
            yield key, conflict.row_id, "undo"
        if violation is None:
            return
        type_ = type_of(self.catalog, key)
        match SetRule(violation["rule"]):
            case SetRule.UNIQUE:
                yield key, violation["other"], "undo"
            case SetRule.ENDPOINT if isinstance(type_, EdgeType):
                yield f"node:{dict(type_.endpoints)[violation['columns'][0]]}", violation["value"], "keep"
            case SetRule.CARDINALITY if isinstance(type_, EdgeType):
                too_few = violation["count"] < type_.cardinality.low
                ids = self._lost_edges(key, violation["value"]) if too_few else self._edges(key, violation["value"])
                yield from ((key, id_, "undo") for id_ in ids)

    def _edges(self, key: str, source: str) -> list[str]:
        """Edges that a source would have."""
        change = self.changes.get(key)
        stored = self.stored.find(key, "src", pa.array([source], pa.string()), ("id",))
        return _ids_of([stored, *([change.rows] if change is not None else [])], source)

    def _lost_edges(self, key: str, source: str) -> list[str]:
        """Edges that a side took away from a source."""
        change, ours = self.changes.get(key), self.sides(key)[1]
        parts = [ours.base_rows(ours.deleted)] if len(ours.deleted) else []
        return _ids_of([*parts, *([change.removed, change.replaced] if change is not None else [])], source)


def _ids_of(tables: Sequence[pa.Table], source: str) -> list[str]:
    found = [
        id_ for rows in tables for id_ in rows.filter(pc.equal(rows.column("src"), source)).column("id").to_pylist()
    ]
    return sorted(set(found))[: limits.MERGE_SHOWN_ENTITIES]


def _fates(source: MergeSide, target: MergeSide, ids: pa.Array) -> dict[str, _Fate]:
    did = [
        {
            id_: name
            for name in ("inserted", "updated", "deleted")
            for id_ in split(ids, getattr(side, name))[0].to_pylist()
        }
        for side in (source, target)
    ]
    return {id_: _Fate(did[0].get(id_), did[1].get(id_)) for id_ in ids.to_pylist()}


def _decisions(
    arises: str | None, candidates: Sequence[_Candidate], fates: Mapping[tuple[str, str], _Fate]
) -> Iterator[str]:
    for key, id_, how in candidates:
        fate = fates[key, id_]
        side = fate.holder if how == "keep" else fate.undone_by(arises)
        if side is not None:
            yield f"{key}/{id_}={side}"


def _explained(
    conflict: Conflict, images: Mapping[tuple[str, str], tuple[Image, Image, Image]], decisions: Iterable[str]
) -> Conflict:
    base, ours, theirs = images.get((conflict.table_key, conflict.row_id or ""), (None, None, None))
    return replace(conflict, base=base, ours=ours, theirs=theirs, settled_by=tuple(dict.fromkeys(decisions)))
