"""Why a table has versions above the one that its graph shows. `verify`, `stats` and `repair` tell it alike."""

from __future__ import annotations

from enum import StrEnum

from omnigraph.storage.tables.lance_types import LanceTable
from omnigraph.storage.tables.version_steps import (
    RowStep,
    are_explained,
    are_ours,
    has_same_options,
    operation_name,
    row_step,
    stands_as,
)


class DriftKind(StrEnum):
    """What the versions are that the graph does not show.

    Attributes:
        RECORDED: of a write whose recovery record is there; it runs, or the next writer finishes it.
        UNPUBLISHED: of writes of this software that never became visible; the next write passes over them.
        MAINTENANCE: of other software that changed no row, also passed over.
        UNEXPLAINED: anything else; the next write of the table refuses.
    """

    RECORDED = "recorded"
    UNPUBLISHED = "unpublished"
    MAINTENANCE = "maintenance"
    UNEXPLAINED = "unexplained"


class DriftClass(StrEnum):
    """What may be done about the versions that the graph does not show.

    Attributes:
        NO_DRIFT: there are none, or only writes of this software that never became visible.
        VERIFIED_MAINTENANCE: the newest version has the very rows and options of the one that is shown.
        SUSPICIOUS: somebody wrote rows, changed columns or set options.
        UNVERIFIABLE: a version or its transaction cannot be read, so nobody can tell.
    """

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    SUSPICIOUS = "suspicious"
    UNVERIFIABLE = "unverifiable"


def drift_class(newest: LanceTable, shown: LanceTable) -> DriftClass:
    """What the versions of a table above the one that is shown are to whoever would show the newest.

    Versions below one that has the very content of the shown one do not matter: somebody took them back. Reads rows
    only of versions that were rewritten.
    """
    if newest.version == shown.version or are_ours(newest, above=shown.version):
        return DriftClass.NO_DRIFT
    found = DriftClass.VERIFIED_MAINTENANCE if has_same_options(newest, shown) else DriftClass.SUSPICIOUS
    for version in range(newest.version, shown.version, -1):
        step = row_step(newest, version)
        if step is RowStep.UNKNOWN:
            return DriftClass.UNVERIFIABLE
        if step is RowStep.CHANGED:
            if stands_as(newest.checkout_version(version), shown):
                break
            found = DriftClass.SUSPICIOUS
    return found


def operations(newest: LanceTable, above: int) -> tuple[str, ...]:
    """What Lance calls the operations that made the versions of a table above one, oldest first."""
    return tuple(operation_name(newest, version) for version in range(above + 1, newest.version + 1))


def drift_kind(newest: LanceTable, above: int) -> DriftKind:
    """What the versions of a table above one are; no recovery record names the table.

    Reads rows only of versions that other software rewrote.
    """
    if are_ours(newest, above=above):
        return DriftKind.UNPUBLISHED
    return DriftKind.MAINTENANCE if are_explained(newest, above=above) else DriftKind.UNEXPLAINED
