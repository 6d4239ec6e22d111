"""Clones a graph: a copy in another place that shares nothing with its source and is a graph like any other."""

from __future__ import annotations

import os

from omnigraph import failpoints
from omnigraph.errors import ConflictError
from omnigraph.storage.metadata import copy_claim
from omnigraph.storage.metadata.copy_claim import CopyClaim
from omnigraph.storage.objects.locks import CONTROL
from omnigraph.storage.objects.object_store import Location
from omnigraph.upkeep.clone.copy_graph import CloneResult, GraphCopy
from omnigraph.upkeep.clone.copy_plan import PlannedFile, is_name
from omnigraph.upkeep.clone.places import require_place, two_graphs


def clone(source: str | os.PathLike[str] | Location, target: str | os.PathLike[str] | Location) -> CloneResult:
    """Copy a whole graph, with all branches and their history, to a place where nothing is.

    Works from and to local disks and object stores. The source may be written to meanwhile; the clone has one state of
    every branch, as of about the beginning. Every file is compared with its source. Until all of them are there, the
    clone cannot be opened, and a second call goes on where an interrupted one stopped.

    Args:
        source: the graph, or a backup of one.
        target: an empty or missing directory, or an empty ``s3://bucket/prefix``.

    Raises:
        GraphNotFound: the source is no graph.
        AlreadyInitialized: the target is a graph.
        InputError: the target is not empty, or one of the two lies in the other.

    Example:
        >>> og.clone("people.omni", "twin.omni").branches
        1
    """
    one, other = two_graphs(source, target)
    claim = CopyClaim("clone", one.location.uri)
    require_place(other, claim)
    with other.sections.hold(CONTROL) as fence, fence.kept():
        require_place(other, claim)
        copy_claim.make(other.objects, claim)
        failpoints.reach("clone.after_claim")
        result = GraphCopy(one, other, {}, _settle, {}).run()
        failpoints.reach("clone.before_claim_removed")
        copy_claim.remove(other.objects)
    return result


def _settle(copy: GraphCopy, plan: list[PlannedFile]) -> None:
    """What an interrupted run copied and the source removed since must not come back to life.

    On a disk it is removed, under the lock. On an object store a request may come late, when the clone is in use: there
    nothing is removed, and files that would be seen are a reason to stop.
    """
    left = copy.left_over(plan)
    if copy.target.location.is_local:
        copy.remove(left)
    elif any(map(is_name, left)):
        raise ConflictError(
            f"{copy.target.location.uri} holds an unfinished clone with branches that the source has no more",
            hint="remove it, or clone to another place",
            uri=copy.target.location.uri,
        )
