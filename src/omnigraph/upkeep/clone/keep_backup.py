"""Keeps a backup of a graph: a copy that a second run brings up to date with what is new, and that only reads."""

from __future__ import annotations

import json
import os

from omnigraph import failpoints
from omnigraph.errors import ConflictError
from omnigraph.storage.metadata import copy_claim, manifest
from omnigraph.storage.metadata.copy_claim import CopyClaim
from omnigraph.storage.objects.file_tree import StoredFile
from omnigraph.storage.objects.locks import CONTROL, RECOVERY_DIRECTORY
from omnigraph.storage.objects.object_store import Location, ObjectStore
from omnigraph.upkeep.clone.copy_graph import CloneResult, GraphCopy
from omnigraph.upkeep.clone.copy_plan import PlannedFile, Step, surplus, version_file
from omnigraph.upkeep.clone.cut import SCHEMA_FILES
from omnigraph.upkeep.clone.places import require_place, two_graphs

#: What the last complete run knew of the files of its source.
FILES = f"{RECOVERY_DIRECTORY}/backup.files"


def backup(
    source: str | os.PathLike[str] | Location, target: str | os.PathLike[str] | Location, *, prune: bool = False
) -> CloneResult:
    """Make a backup of a graph, or bring one up to date by copying what is new.

    The target is a graph that can be read with ``mode="ro"`` and with every command that reads; writers are refused. To
    bring a backup back, clone it. While a run is under way, and after one that was interrupted, main shows the state
    before or after it.

    Args:
        source: the graph.
        target: an empty place, or the backup of this graph from before.
        prune: remove what the source has no more: deleted branches, dropped tables, files of writes that failed.

    Raises:
        ConflictError: the target is a backup of another graph, or has a state that the source does not have.
        AlreadyInitialized: the target is a graph, not a backup.
        InputError: the target is not empty, or one of the two lies in the other.

    Example:
        >>> og.backup("people.omni", "backup.omni").copied_files > 0
        True
        >>> og.backup("people.omni", "backup.omni").copied_files
        0
    """
    one, other = two_graphs(source, target)
    claim = CopyClaim("backup", one.location.uri)
    require_place(other, claim)
    with other.sections.hold(CONTROL) as fence, fence.kept():
        require_place(other, claim)
        copy_claim.make(other.objects, claim)
        failpoints.reach("clone.after_claim")
        known, stored = _read_files(other.objects)
        copy = GraphCopy(one, other, known, _settle, stored, prune)
        result = copy.run()
        failpoints.reach("backup.before_files")
        _write_files(other.objects, copy)
    return result


def _settle(copy: GraphCopy, plan: list[PlannedFile]) -> None:
    """Take away branches of the backup that are other ones now, before files of theirs are replaced."""
    _require_known_main(copy, plan)
    changed = [
        each.path
        for each in plan
        if each.content is not None
        and each.path not in SCHEMA_FILES
        and each.path in copy.present
        and copy.target.objects.read(each.path) != each.content
    ]
    copy.remove([*changed, *surplus(copy.present, [each.path for each in plan])])


def _require_known_main(copy: GraphCopy, plan: list[PlannedFile]) -> None:
    """The newest state of main in the target must be one that the source has: nothing newer is overwritten."""
    newest = max(
        (
            (found.version, path)
            for path in copy.present
            if (found := version_file(path)) is not None and (found.table, found.lineage) == (manifest.PATH, None)
        ),
        default=None,
    )
    if newest is None:
        return
    path = newest[1]
    is_planned = any(each.path == path and each.step == Step.MAIN for each in plan)
    if not is_planned or copy.source.objects.read(path) != copy.target.objects.read(path):
        raise ConflictError(
            f"{copy.target.location.uri} has version {newest[0]} of main, which {copy.source.location.uri} does not "
            "have: it is another graph, or it was set back",
            hint="make the backup in another place",
            uri=copy.target.location.uri,
        )


def _read_files(objects: ObjectStore) -> tuple[dict[str, StoredFile], dict[str, int]]:
    """What a former run knew; nothing when there was none. Whatever is not understood is compared again."""
    try:
        rows = json.loads(objects.read(FILES) or b"[]")
        known = {path: StoredFile(path, int(size), str(tag)) for path, size, tag, _ in rows}
        return known, {path: int(stored) for path, _, _, stored in rows}
    except (ValueError, TypeError):
        return {}, {}


def _write_files(objects: ObjectStore, copy: GraphCopy) -> None:
    rows = [
        [path, file.size, file.tag, copy.stored[path]]
        for path, file in sorted(copy.known.items())
        if file.tag and path in copy.present and path in copy.stored
    ]
    objects.write(FILES, json.dumps(rows).encode())
