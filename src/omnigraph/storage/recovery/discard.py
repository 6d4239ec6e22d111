"""Takes back what other software did to a table without telling the graph: on request, never by itself.

The version that the graph shows becomes the newest one again, and the graph shows that. What was written in between
stays in the history of the table.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph import ids
from omnigraph.storage import durable, manifest
from omnigraph.storage.commit.publish import GraphChange, publish
from omnigraph.storage.commit.record import CommitDraft
from omnigraph.storage.manifest import Pin
from omnigraph.storage.recovery.sweep import heal_branch
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import is_ours, maker, version_file


def discard_drift(store: GraphStore) -> int:
    """Take back foreign changes of the tables of every branch; returns of how many tables."""
    discarded = 0
    for ref in store.branch_refs():
        with store.sections.hold(ref.name) as fence:
            heal_branch(store, ref.name, fence)
            snapshot = store.refresh(ref.name, migrate_layout=True)
            pins = [pin for pin in snapshot.pins.values() if snapshot.owns(pin.branch) and _is_foreign(store, pin)]
            if pins:
                draft = CommitDraft(ids.new_ulid(), ids.REPAIR_ACTOR, ids.now())
                expected = {pin.table_key: pin.version for pin in pins}
                change = GraphChange(draft, tuple(_taken_back(store, pin) for pin in pins), (), expected)
                published = publish(store, ref.name, change, fence.epoch, ids.new_ulid())
                store.mirror.note(published.snapshot, published.commit)
                discarded += len(pins)
    return discarded


def _is_foreign(store: GraphStore, pin: Pin) -> bool:
    newest = store.tables.newest(pin.location, pin.branch)
    return not all(is_ours(maker(newest, version)) for version in range(pin.version + 1, newest.version + 1))


def _taken_back(store: GraphStore, pin: Pin) -> Pin:
    """The pin of a new version with the content of the old one."""
    restored = store.tables.restore(store.tables.newest(pin.location, pin.branch), pin.version, ids.new_ulid())
    uri, version = store.tables.uri(pin.location, pin.branch), int(restored.version)
    if store.location.is_local:
        durable.sync_files([f"{uri}/{version_file(version)}"], store.location.uri)
    made = maker(restored, version)
    return replace(
        pin, version=version, metadata=manifest.pin_metadata(uri, version, made.uuid if made is not None else None)
    )
