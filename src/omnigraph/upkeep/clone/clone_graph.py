"""Clones a graph: a copy in another place that shares nothing with its source and is a graph like any other."""

from __future__ import annotations

import os

from omnigraph import failpoints
from omnigraph.errors import ConflictError
from omnigraph.storage.metadata import copy_claim
from omnigraph.storage.metadata.copy_claim import CopyClaim
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.objects.object_store import Location
from omnigraph.upkeep.clone.carry_files import FileCarriers, carried_here
from omnigraph.upkeep.clone.copy_graph import CloneResult, GraphCopy
from omnigraph.upkeep.clone.copy_plan import PlannedFile, is_name, is_older, newest_versions
from omnigraph.upkeep.clone.cut import Cut
from omnigraph.upkeep.clone.places import require_place, two_graphs


def clone_graph(
    source: str | os.PathLike[str] | Location,
    target: str | os.PathLike[str] | Location,
    carriers: FileCarriers = carried_here,
) -> CloneResult:
    """Copy a whole graph to a place where nothing is; see `omnigraph.clone`."""
    one, other = two_graphs(source, target)
    claim = CopyClaim("clone", one.location.uri)
    require_place(other, claim)
    with other.sections.hold(CONTROL) as fence, fence.kept():
        require_place(other, claim)
        copy_claim.make(other.objects, claim)
        failpoints.reach("clone.after_claim")
        result = GraphCopy(one, other, {}, _settle, {}, carriers=carriers).run()
        failpoints.reach("clone.before_claim_removed")
        copy_claim.remove(other.objects)
    return result


def _settle(copy: GraphCopy, cut: Cut, plan: list[PlannedFile]) -> None:
    """What an interrupted run copied and the source removed since must not come back to life.

    On a disk it is removed, under the lock. On an object store a request may come late, when the clone is in use: there
    nothing is removed, and files that would be seen are a reason to stop. Versions that a cleanup of the source removed
    are not seen: the clone knows with the source that they were given up, and its own cleanup removes them.
    """
    left, newest = copy.left_over(plan), newest_versions(each.path for each in plan)
    if copy.target.location.is_local:
        copy.remove(left)
    elif any(is_name(path) and not is_older(path, newest) for path in left):
        raise ConflictError(
            f"{copy.target.location.uri} holds an unfinished clone with branches that the source has no more",
            hint="remove it, or clone to another place",
            uri=copy.target.location.uri,
        )
