"""The schema files of a graph: staged before a schema change is published, promoted after it.

Every accepted schema is kept by its hash in `__schema_history/`, written before any state can name it, so that each
state of the graph can be read with its own schema. Nothing here understands a schema; the texts come compiled.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from omnigraph import failpoints, ids
from omnigraph.errors import StorageError
from omnigraph.storage.metadata.tag_entries import read_tags
from omnigraph.storage.objects.object_store import ObjectStore

if TYPE_CHECKING:
    from omnigraph.storage.commit.preparation import SchemaChange
    from omnigraph.storage.graph_store import GraphStore

SOURCE = "_schema.pg"
IR = "_schema.ir.json"
STATE = "__schema_state.json"
FILES = (SOURCE, IR, STATE)

HISTORY = "__schema_history"

#: The schema of states that were published before hashes were recorded.
_UNRECORDED = f"{HISTORY}/unrecorded.pg"


def staging(name: str) -> str:
    return f"{name}.staging"


def staged(objects: ObjectStore) -> dict[str, bytes]:
    """Staging files that are there, by the name of the file they would become."""
    found = {name: objects.read(staging(name)) for name in FILES}
    return {name: content for name, content in found.items() if content is not None}


def staged_hash(files: Mapping[str, bytes]) -> str | None:
    """Hash of the schema whose files are staged, as its state file tells; None when it does not."""
    try:
        value = json.loads(files[STATE])["schema_ir_hash"]
    except (ValueError, KeyError, TypeError):
        return None
    return value if isinstance(value, str) else None


def stage(objects: ObjectStore, schema: SchemaChange) -> None:
    """Write the files of a schema beside the live ones, and the schema into the history."""
    failpoints.reach("schema_apply.before_staging_write")
    keep(objects, schema.hash, schema.source)
    for name, text in _texts(schema).items():
        objects.write(staging(name), text.encode())
    failpoints.reach("schema_apply.after_staging_write")


def settle(store: GraphStore, schema: SchemaChange) -> None:
    """The change is visible: make its files the live ones and remove what it was asked to remove. May be repeated."""
    failpoints.reach("schema_apply.after_manifest_commit")
    for name, text in _texts(schema).items():
        store.objects.write(name, text.encode())
        store.objects.delete(staging(name))
        if name == SOURCE:
            failpoints.reach("schema_apply.between_renames")
    if schema.purge or schema.remove:
        with contextlib.suppress(StorageError):  # best effort: nothing that is shown depends on it
            _remove_dropped(store, schema)


def _remove_dropped(store: GraphStore, schema: SchemaChange) -> None:
    """Remove what a change dropped for good, unless a tag keeps it or a branch was made beside it that may read it.

    A branch takes its name before it looks at the state that it is made from; so one that is not seen here sees the
    change. The place of a removed table is never used again, and versions below the one that is shown never return.
    """
    snapshot = store.refresh(ids.MAIN)
    if store.has_branches() or read_tags(store.objects):
        return
    for pin in snapshot.pins.values():
        if pin.location in schema.purge:
            store.tables.purge(pin.location, pin.version)
    for location in {*schema.remove} - {pin.location for pin in snapshot.pins.values()}:
        store.tables.remove(location)


def write(objects: ObjectStore, texts: Mapping[str, str]) -> None:
    """Make some texts the live files, where they are not."""
    for name, text in texts.items():
        if objects.read(name) != text.encode():
            objects.write(name, text.encode())


def promote(objects: ObjectStore) -> None:
    """Make staging files the live ones, in their order, and the schema part of the history."""
    files = staged(objects)
    target = staged_hash(files)
    if target is not None and SOURCE in files:
        keep(objects, target, files[SOURCE].decode("utf-8"))
    for name, content in files.items():
        objects.write(name, content)
        objects.delete(staging(name))


def discard(objects: ObjectStore) -> None:
    """Remove staging files of a change that did not happen."""
    for name in FILES:
        objects.delete(staging(name))


def keep(objects: ObjectStore, schema_hash: str, source: str) -> None:
    """Put a schema into the history; one that is there stays."""
    objects.create(_kept(schema_hash), source.encode())


def keep_unrecorded(objects: ObjectStore, source: str) -> None:
    """Remember the schema that all states without a recorded hash have."""
    objects.create(_UNRECORDED, source.encode())


def kept(objects: ObjectStore, schema_hash: str | None) -> str | None:
    """The text of an accepted schema by its hash, or of the states without one; None when it was never changed."""
    content = objects.read(_kept(schema_hash) if schema_hash else _UNRECORDED)
    return content.decode("utf-8") if content is not None else None


def keep_ir(objects: ObjectStore, schema_hash: str, ir: str) -> None:
    """Put the compiled form beside a schema whose hash does not follow from its text."""
    objects.create(_kept(schema_hash, ".ir.json"), ir.encode())


def kept_ir(objects: ObjectStore, schema_hash: str) -> str | None:
    """The compiled form that was kept beside a schema; None when its hash follows from the text."""
    content = objects.read(_kept(schema_hash, ".ir.json"))
    return content.decode("utf-8") if content is not None else None


def _kept(schema_hash: str, suffix: str = ".pg") -> str:
    return f"{HISTORY}/{schema_hash.rpartition(':')[2]}{suffix}"


def _texts(schema: SchemaChange) -> dict[str, str]:
    return dict(zip(FILES, (schema.source, schema.ir, schema.state), strict=True))
