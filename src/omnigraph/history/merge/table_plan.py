"""What happens to each table of a merge, decided from what the three states show of it.

A table is adopted (the target did not touch it), merged row by row, or left alone. Adopting costs nothing where the
target may simply show main's version; everything else is applied as rows on the target's own lineage, so that no
branch ever depends on another one that may be deleted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from omnigraph.errors import MergeSchemaMismatch
from omnigraph.storage.metadata.manifest import ManifestSnapshot, Pin


class Disposition(Enum):
    SKIP = auto()  # the target keeps what it has
    ADOPT = auto()  # every change of the source, no conflict possible
    THREE_WAY = auto()


@dataclass(frozen=True, slots=True)
class TablePlan:
    """One table.

    Attributes:
        base: None when the base did not have the table.
        pointer: the target may show the source's version as it is.
    """

    table_key: str
    disposition: Disposition
    base: Pin | None
    source: Pin
    target: Pin
    pointer: bool = False


def plan_tables(
    base: ManifestSnapshot, source: ManifestSnapshot, target: ManifestSnapshot, blurred: Collection[str] = ()
) -> list[TablePlan]:
    """A plan for every table of the graph, in key order.

    Args:
        blurred: tables of which the base's version is not the whole truth (see `shared.py`); they are merged by rows.

    Raises:
        MergeSchemaMismatch: the two sides do not have the same tables.
    """
    _require_same_tables(source, target)
    return [
        _plan_blurred(base.pins.get(key), source.pins[key], target.pins[key])
        if key in blurred
        else _plan(base.pins.get(key), source.pins[key], target.pins[key], owned=target.owns(target.pins[key].branch))
        for key in sorted(target.pins)
    ]


def _plan_blurred(base: Pin | None, source: Pin, target: Pin) -> TablePlan:
    same = state(source) == state(target)
    return TablePlan(target.table_key, Disposition.SKIP if same else Disposition.THREE_WAY, base, source, target)


def _plan(base: Pin | None, source: Pin, target: Pin, *, owned: bool) -> TablePlan:
    key = target.table_key
    if state(source) == state(target) or state(source) == state(base):
        return TablePlan(key, Disposition.SKIP, base, source, target)
    if state(target) == state(base):
        return TablePlan(key, Disposition.ADOPT, base, source, target, not owned and _may_point(source, target))
    return TablePlan(key, Disposition.THREE_WAY, base, source, target)


def state(pin: Pin | None) -> tuple[str, str | None, int, str | None] | None:
    """What makes two pins the same rows. Numbers alone do not: a branch that was made again repeats them."""
    return (pin.location, pin.branch, pin.version, pin.origin) if pin else None


def _may_point(source: Pin, target: Pin) -> bool:
    """Whether a target may show a version of the source. Only at main's lineage, which nobody deletes; only upwards,
    because readers take the greatest number. And never away from a lineage that the target writes itself."""
    return source.branch is None and source.version > target.version


def _require_same_tables(source: ManifestSnapshot, target: ManifestSnapshot) -> None:
    if schemas_differ(source, target):
        raise _mismatch(source, target, "their schemas differ")
    for key in sorted({*source.pins, *target.pins}):
        ours, theirs = target.pins.get(key), source.pins.get(key)
        if ours is None or theirs is None:
            missing = target.branch if ours is None else source.branch
            raise _mismatch(source, target, f"'{key}' does not exist on '{missing}'")
        if ours.location != theirs.location:
            raise _mismatch(source, target, f"'{key}' is not the same table on both")


def schemas_differ(one: ManifestSnapshot, other: ManifestSnapshot) -> bool:
    """Whether two states are known to have different schemas; old states do not say which they have."""
    known = [state.head.schema for state in (one, other) if state.head and state.head.schema]
    return len(set(known)) > 1


def _mismatch(source: ManifestSnapshot, target: ManifestSnapshot, why: str) -> MergeSchemaMismatch:
    return MergeSchemaMismatch(
        f"branch '{source.branch}' cannot be merged into '{target.branch}': {why}",
        hint="make a new branch from the target and repeat the changes there",
        source=source.branch,
        target=target.branch,
    )
