"""Keeps a backup of a graph: a copy that a second run brings up to date with what is new, and that only reads."""

from __future__ import annotations

import json
import os

from omnigraph import failpoints, ids
from omnigraph.errors import ConflictError
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import copy_claim, manifest
from omnigraph.storage.metadata.copy_claim import CopyClaim
from omnigraph.storage.objects.file_tree import StoredFile
from omnigraph.storage.objects.locks import CONTROL, RECOVERY_DIRECTORY
from omnigraph.storage.objects.object_store import Location, ObjectStore
from omnigraph.upkeep.clone.carry_files import FileCarriers, carried_here
from omnigraph.upkeep.clone.copy_graph import CloneResult, GraphCopy
from omnigraph.upkeep.clone.copy_plan import PlannedFile, surplus
from omnigraph.upkeep.clone.cut import SCHEMA_FILES, Cut
from omnigraph.upkeep.clone.places import require_place, two_graphs

#: What the last complete run knew of the files of its source.
FILES = f"{RECOVERY_DIRECTORY}/backup.files"


def keep_backup(
    source: str | os.PathLike[str] | Location,
    target: str | os.PathLike[str] | Location,
    prune: bool = False,
    carriers: FileCarriers = carried_here,
) -> CloneResult:
    """Make a backup of a graph, or bring one up to date; see `omnigraph.backup`."""
    one, other = two_graphs(source, target)
    claim = CopyClaim("backup", one.location.uri)
    require_place(other, claim)
    with other.sections.hold(CONTROL) as fence, fence.kept():
        require_place(other, claim)
        copy_claim.make(other.objects, claim)
        failpoints.reach("clone.after_claim")
        known, stored = _read_files(other.objects)
        copy = GraphCopy(one, other, known, _settle, stored, prune, carriers)
        result = copy.run()
        failpoints.reach("backup.before_files")
        _write_files(other.objects, copy)
    return result


def _settle(copy: GraphCopy, cut: Cut, plan: list[PlannedFile]) -> None:
    """Take away branches of the backup that are other ones now, before files of theirs are replaced."""
    _require_known_main(copy, cut)
    changed = [
        each.path
        for each in plan
        if each.content is not None
        and each.path not in SCHEMA_FILES
        and each.path in copy.present
        and copy.target.objects.read(each.path) != each.content
    ]
    copy.remove([*changed, *surplus(copy.present, [each.path for each in plan])])


def _require_known_main(copy: GraphCopy, cut: Cut) -> None:
    """The newest commit of main in the target must be one that the source knows, also if a cleanup gave its state up:
    nothing newer is overwritten."""
    store = GraphStore(copy.target.location)
    if store.tables.newest_or_none(manifest.PATH) is None:
        return
    state = store.snapshot(ids.MAIN)
    if store.head_id(state) not in cut.commits[ids.MAIN]:
        raise ConflictError(
            f"{copy.target.location.uri} has version {state.version} of main, which {copy.source.location.uri} never "
            "had: it is another graph, or it was set back",
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
