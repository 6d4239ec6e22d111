"""First write of a graph branch to a table: the table gets a Lance branch of the same name.

Forking copies nothing and shows nothing: until a publish names it, the fork is invisible, and one that nobody touched
can be used by the next writer or thrown away. The recovery record comes first all the same, so that no ref exists that
nobody accounts for.
"""

from __future__ import annotations

from omnigraph import failpoints, ids
from omnigraph.errors import BranchNotFound
from omnigraph.storage.commit import sidecar
from omnigraph.storage.commit.sidecar import CommitDraft, Sidecar, WriterKind
from omnigraph.storage.manifest import Pin
from omnigraph.storage.recovery.sweep import heal_branch
from omnigraph.storage.section import Fence
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.tables import Handle


class BaseMoved(Exception):
    """The branch advanced while a write was prepared; prepare it again on the new state.

    Attributes:
        healed: how many writes of dead processes were resolved meanwhile.
    """

    def __init__(self, healed: int) -> None:
        super().__init__()
        self.healed = healed


def writable(store: GraphStore, snapshot: Snapshot, pin: Pin, fence: Fence | None) -> Handle:
    """A table at its pin, on the lineage that a write to the snapshot's branch commits to.

    Args:
        fence: the section, when the caller is inside it already.
    """
    branch = store.lance_branch(snapshot.branch)
    if pin.branch == branch or branch is None:
        return store.table(pin)
    untouched = _untouched(store, pin, branch)
    if untouched is not None:
        return untouched
    if fence is not None:
        return _fork(store, snapshot, pin, branch)
    with store.sections.hold(snapshot.branch) as own:
        healed = heal_branch(store, snapshot.branch, own)
        if store.refresh(snapshot.branch).pins.get(pin.table_key) != pin:
            raise BaseMoved(healed)
        return _fork(store, snapshot, pin, branch)


def _fork(store: GraphStore, snapshot: Snapshot, pin: Pin, branch: str) -> Handle:
    untouched = _untouched(store, pin, branch)
    if untouched is not None:
        return untouched
    record = _record(snapshot.branch, pin, store.tables.uri(pin.location))
    sidecar.write(store.objects, record)
    failpoints.reach("mutation.post_sidecar_pre_fork")
    drop_fork(store, pin.location, branch)  # residue of an earlier branch of this name: nobody shows it
    handle = store.tables.fork(pin.location, branch, pin.branch, pin.version)
    failpoints.reach("fork.post_create_pre_open")
    sidecar.remove(store.objects, record.operation_id)
    return handle


def drop_fork(store: GraphStore, location: str, branch: str) -> None:
    """Remove a branch of a table that no graph branch shows, with what dead branches forked from it.

    The caller holds the section of the branch. Lance keeps a branch while another one was forked from it; such a child
    is the fork of a write that never came to its commit, on a graph branch that is gone or was made anew. A branch
    that has no ref has no child either.
    """
    children = _children(store, location, branch) if store.tables.ref(location, branch) is not None else []
    for child in children:
        with store.sections.hold(child):
            if child in _children(store, location, branch) and not _is_shown(store, location, child):
                drop_fork(store, location, child)
    store.tables.drop_branch(location, branch)


def _children(store: GraphStore, location: str, branch: str) -> list[str]:
    return [name for name, ref in store.tables.branches(location).items() if ref["parent_branch"] == branch]


def _is_shown(store: GraphStore, location: str, branch: str) -> bool:
    try:
        pins = store.snapshot(branch).pins.values()
    except BranchNotFound:
        return False
    return any(pin.location == location and pin.branch == branch for pin in pins)


def _untouched(store: GraphStore, pin: Pin, branch: str) -> Handle | None:
    """A fork that stands exactly on the pin and carries no commit of its own."""
    ref = store.tables.ref(pin.location, branch)
    if ref is None or (ref.parent_branch, ref.parent_version) != (pin.branch, pin.version):
        return None
    handle = store.tables.newest(pin.location, branch)
    return handle if handle.version == pin.version else None


def _record(graph_branch: str, pin: Pin, uri: str) -> Sidecar:
    moment = ids.now()
    fork = {"table_key": pin.table_key, "table_path": uri, "from_branch": pin.branch, "from_version": pin.version}
    return Sidecar(
        operation_id=ids.new_ulid(),
        branch=graph_branch,
        actor=None,
        kind=WriterKind.MUTATION,
        tables=(),
        started_at=moment,
        commit=CommitDraft(ids.new_ulid(), None, moment),
        extra={"forks": [fork]},
    )
