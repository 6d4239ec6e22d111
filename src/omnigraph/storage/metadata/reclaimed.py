"""Which states of the past may be gone: one object, written by `cleanup` before it removes anything.

Per lineage of the manifest it says below which version everything may be gone, and which versions below stay. It only
ever grows. Whoever wants an old state to stay says so first, in an object of its own, and looks here then; cleanup
writes here first and looks for such objects then. So one of the two sees the other. A state that is in here may still
be readable; one that is not is never removed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph import ids
from omnigraph.errors import ConflictError, CorruptGraph, HistoricalVersionReclaimed
from omnigraph.storage.metadata.manifest import ManifestSnapshot
from omnigraph.storage.objects.object_store import ObjectStore

DIRECTORY = "__upkeep"
PATH = f"{DIRECTORY}/reclaimed.json"


@dataclass(frozen=True, slots=True)
class ReclaimedVersions:
    """What may be gone of one lineage.

    Attributes:
        identity: of the branch; another one may have the name of its lineage on a disk.
        below: versions from here on stay.
        keep: versions below that stay too.
    """

    identity: str
    below: int
    keep: frozenset[int] = frozenset()

    def covers(self, version: int) -> bool:
        return version < self.below and version not in self.keep

    def grown(self, below: int, wanted: frozenset[int]) -> ReclaimedVersions:
        """The same with more in it: what was given up once is never kept again."""
        keep = frozenset(version for version in wanted if version < below and not self.covers(version))
        if below < self.below:
            below, keep = self.below, self.keep & wanted | frozenset(v for v in self.keep if v >= below)
        return ReclaimedVersions(self.identity, below, keep)


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """What may be gone of a graph.

    Attributes:
        lineages: by the name of the lineage, see `name_of`.
        tag: of the object, for `put`; None when there is none yet.
    """

    lineages: Mapping[str, ReclaimedVersions] = field(default_factory=dict)
    tag: str | None = None

    def of(self, lineage: str | None, identity: str) -> ReclaimedVersions:
        """What may be gone of the lineage of a branch."""
        found = self.lineages.get(name_of(lineage))
        return found if found is not None and found.identity == identity else ReclaimedVersions(identity, 0)

    def covers(self, state: ManifestSnapshot) -> bool:
        """Whether a state may be gone."""
        return self.of(state.lineage, state.identity).covers(state.version)


def name_of(lineage: str | None) -> str:
    """How the object calls a lineage of the manifest; None is the main one."""
    return ids.MAIN if lineage is None else lineage


def read(objects: ObjectStore) -> Reclaimed:
    """What may be gone by now; nothing when no cleanup ever ran."""
    found = objects.read_versioned(PATH)
    if found is None:
        return Reclaimed()
    try:
        lineages = {
            str(name): ReclaimedVersions(
                str(each["identity"]), int(each["below"]), frozenset(int(version) for version in each["keep"])
            )
            for name, each in json.loads(found[0])["lineages"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CorruptGraph(f"{PATH} is unreadable", hint="restore it from a copy", file=PATH) from None
    return Reclaimed(lineages, found[1])


def put(objects: ObjectStore, lineages: Mapping[str, ReclaimedVersions], tag: str | None) -> None:
    """Replace what was read.

    Raises:
        ConflictError: another cleanup was faster.
    """
    values = {
        name: {"identity": each.identity, "below": each.below, "keep": sorted(each.keep)}
        for name, each in sorted(lineages.items())
    }
    content = json.dumps({"lineages": values}).encode()
    new = objects.create(PATH, content) if tag is None else objects.replace(PATH, content, tag)
    if new is None and objects.read(PATH) != content:  # an answer that was lost and asked for again looks like a loss
        raise ConflictError("another cleanup of this graph is running", hint="try again later")


def is_reclaimed(objects: ObjectStore, lineage: str | None, version: int, identity: str | None = None) -> bool:
    """Whether a version of the manifest may be gone.

    Args:
        lineage: of the manifest; None is the main one.
        identity: of the branch, if it is known: on a disk the lineage may have belonged to another one.
    """
    found = read(objects).lineages.get(name_of(lineage))
    return found is not None and identity in (None, found.identity) and found.covers(version)


def require_kept(objects: ObjectStore, state: ManifestSnapshot) -> None:
    """Refuse to go on with a state that may be gone. Call it when whatever shall keep the state is in the store.

    Raises:
        HistoricalVersionReclaimed: a cleanup gave the state up.
    """
    if read(objects).covers(state):
        raise given_up(state.branch, state.version)


def given_up(branch: str, version: int) -> HistoricalVersionReclaimed:
    """The error for a state that a cleanup gave up."""
    return HistoricalVersionReclaimed(
        f"version {version} of branch '{branch}' was given up by a cleanup",
        hint="choose a newer commit",
        branch=branch,
        version=version,
    )
