"""Where recovery records lie: written before any table moves, removed after everything is published.

What a record says is in `record.py`. Nothing here decides anything, see `recovery/`.
"""

from __future__ import annotations

import json

from omnigraph import failpoints, limits
from omnigraph.errors import StorageError, UnreadableSidecar
from omnigraph.storage.commit import record_json
from omnigraph.storage.commit.record import CommitDraft as CommitDraft
from omnigraph.storage.commit.record import Sidecar as Sidecar
from omnigraph.storage.commit.record import TableIntent as TableIntent
from omnigraph.storage.commit.record import WriterKind as WriterKind
from omnigraph.storage.faults import READ_EXCEPTIONS
from omnigraph.storage.objects import Objects
from omnigraph.storage.section import RECOVERY_DIRECTORY

#: What reading damaged JSON, fields and transactions may raise.
_DAMAGE: tuple[type[Exception], ...] = (LookupError, OverflowError, *READ_EXCEPTIONS)


def write(objects: Objects, sidecar: Sidecar) -> None:
    failpoints.reach("recovery.sidecar_write")
    objects.write(_path(sidecar.operation_id), json.dumps(record_json.to_json(sidecar)).encode())


def remove(objects: Objects, operation_id: str) -> bool:
    """Remove a record whose work is done. A failure is harmless (the next writer sees that it is stale): False."""
    try:
        failpoints.reach("recovery.sidecar_delete")
        objects.delete(_path(operation_id))
        return True
    except StorageError:
        return False


def pending(objects: Objects) -> list[str]:
    """Operation ids of all records, oldest first. A listing that fails is never taken for an empty one."""
    failpoints.reach("recovery.sidecar_list")
    return [name[: -len(".json")] for name in objects.names(RECOVERY_DIRECTORY) if name.endswith(".json")]


def read(objects: Objects, operation_id: str) -> Sidecar | None:
    """A record, or None when its writer finished since it was listed."""
    failpoints.reach("recovery.post_sidecar_list_pre_read")
    content = objects.read(_path(operation_id))
    if content is None:
        return None
    try:
        record = json.loads(content)
        version = record["schema_version"]
        if version == limits.SIDECAR_SCHEMA_VERSION:
            return record_json.from_json(record, operation_id)
    except _DAMAGE as error:
        raise UnreadableSidecar(
            f"the recovery record {_path(operation_id)} cannot be read ({type(error).__name__})",
            hint="it is kept; restore it from a copy or ask for help before removing it",
            operation_id=operation_id,
        ) from error
    raise UnreadableSidecar(
        f"the recovery record {_path(operation_id)} has version {version!r}, "
        f"this software knows {limits.SIDECAR_SCHEMA_VERSION}",
        hint="upgrade omnigraph",
        operation_id=operation_id,
        found_version=version,
        supported_version=limits.SIDECAR_SCHEMA_VERSION,
    )


def _path(operation_id: str) -> str:
    return f"{RECOVERY_DIRECTORY}/{operation_id}.json"
