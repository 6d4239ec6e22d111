"""From a commit id, a version or a time to one state of one branch: time travel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from typing import TypeAlias

from omnigraph import ids
from omnigraph.errors import BranchNotFound, CommitNotFound, HistoricalVersionReclaimed, InputError, InvalidName
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot

#: A moment: a commit id, a manifest version, or a time.
At: TypeAlias = str | int | datetime

#: A state: a branch, a moment, or a snapshot.
Target: TypeAlias = At | ManifestSnapshot

_VERSION_DIGITS = 18


def snapshot_at(store: GraphStore, branch: str, at: At | None) -> ManifestSnapshot:
    """The state of a branch now (``at=None``) or at a moment."""
    if at is None:
        return store.snapshot(branch)
    if isinstance(at, str):
        return state_of(store, get_commit(store, at, branch))
    return store.snapshot_at(*locate(store, branch, at))


def snapshot_of(store: GraphStore, target: Target, branch: str) -> ManifestSnapshot:
    """The state that a target names: a branch's newest one, a moment of ``branch``, or a snapshot itself.

    A text is a branch if there is one of that name, else a commit id, a version number or a time.
    """
    if isinstance(target, ManifestSnapshot):
        return target
    if not isinstance(target, str):
        return snapshot_at(store, branch, target)
    text = target.strip()
    if text == ids.MAIN or _is_branch(store, text):
        return store.snapshot(text)
    if ids.is_ulid(text) or ids.parse_synthetic_commit_id(text):
        return snapshot_at(store, branch, text)
    moment = _moment(text)
    if moment is None:
        raise BranchNotFound(
            f"there is no branch {text!r}, and it is no commit id, version or time",
            hint="list branches with branches.list(), commits with commits.list()",
            branch=text,
        )
    return snapshot_at(store, branch, moment)


def _is_branch(store: GraphStore, text: str) -> bool:
    try:
        store.branch_ref(ids.branch_name(text))
    except (BranchNotFound, InvalidName):
        return False
    return True


def _moment(text: str) -> At | None:
    if text.isascii() and text.isdigit() and len(text) <= _VERSION_DIGITS:
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def locate(store: GraphStore, branch: str, at: At | None) -> tuple[str, int]:
    """Branch and manifest version of a moment. A commit id may belong to another branch than the one given."""
    if at is None:
        return branch, store.refresh(branch).version
    if isinstance(at, bool):
        raise InputError("a moment is a commit id, a version or a time")
    if isinstance(at, int):
        newest = store.refresh(branch).version
        if not 1 <= at <= newest:
            raise CommitNotFound(f"branch '{branch}' has versions 1 to {newest}, not {at}", branch=branch, version=at)
        return _holder(store, branch, at), at
    if isinstance(at, datetime):
        commit = _newest_until(store, branch, at)
        return commit.branch, commit.version
    if not isinstance(at, str):
        raise InputError("a moment is a commit id, a version or a time")
    commit = get_commit(store, at, branch)
    state_of(store, commit)
    return commit.branch, commit.version


@contextmanager
def at_state(snapshot: ManifestSnapshot) -> Iterator[None]:
    """Inside, rows that were cleaned up are reported with the commit that had them."""
    try:
        yield
    except HistoricalVersionReclaimed as error:
        if snapshot.head is None or "commit_id" in error.details:
            raise
        commit = snapshot.head.commit_id
        text = f"{error.message}; they belong to commit {commit}"
        raise HistoricalVersionReclaimed(text, hint=error.hint, **error.details, commit_id=commit) from error


def state_of(store: GraphStore, commit: Commit) -> ManifestSnapshot:
    """The state that a commit made.

    Raises:
        HistoricalVersionReclaimed: it is gone with its branch, also when another branch has its name by now.
    """
    try:
        snapshot = store.snapshot_at(commit.branch, commit.version)
    except BranchNotFound:
        raise _gone(commit) from None
    head = snapshot.head
    is_recorded = head is not None and head.version == snapshot.version and ids.is_ulid(commit.id)
    if is_recorded and head is not None and head.commit_id != commit.id:
        raise _gone(commit)
    return snapshot


def state_before(store: GraphStore, commit: Commit) -> ManifestSnapshot:
    """The state that a commit was made on: that of its first parent, which it has.

    It is the version before on the same branch, unless somebody wrote there without a commit; so the parent's own row,
    which may lie far back, is hardly ever looked for.

    Raises:
        HistoricalVersionReclaimed: it was cleaned up.
    """
    with suppress(HistoricalVersionReclaimed, BranchNotFound):
        earlier = store.snapshot_at(commit.branch, commit.version - 1)
        if earlier.head and (earlier.head.version, earlier.head.commit_id) == (earlier.version, commit.parent):
            return earlier
    try:
        return state_of(store, get_commit(store, commit.parent or "", commit.branch))
    except CommitNotFound as error:
        raise HistoricalVersionReclaimed(
            f"the state before commit {commit.id} is no longer known", hint="choose a newer commit", commit_id=commit.id
        ) from error


def _gone(commit: Commit) -> HistoricalVersionReclaimed:
    return HistoricalVersionReclaimed(
        f"the state of commit {commit.id} went with branch '{commit.branch}'",
        hint="choose another commit",
        commit_id=commit.id,
    )


def _holder(store: GraphStore, branch: str, version: int) -> str:
    """Whose version a number is: versions from before a branch was made are those of the branch it was made from."""
    ref = store.branch_ref(branch)
    while ref.parent is not None and version < ref.parent_version:
        ref = store.branch_ref(ref.parent)
    return ref.name


def get_commit(store: GraphStore, commit_id: str, branch: str = ids.MAIN) -> Commit:
    """A commit by id: on the given branch first, then on all others."""
    synthetic = ids.parse_synthetic_commit_id(commit_id)
    if synthetic:
        return _synthetic(store, commit_id, *synthetic)
    found = _commit_on(store, commit_id, branch)
    if found is not None:
        return found
    others = (_commit_on(store, commit_id, ref.name) for ref in store.branch_refs() if ref.name != branch)
    found = next((commit for commit in others if commit is not None), None)
    if found is None:
        raise CommitNotFound(f"there is no commit {commit_id!r}", commit_id=commit_id)
    return found


def _commit_on(store: GraphStore, commit_id: str, branch: str) -> Commit | None:
    try:
        snapshot = store.snapshot(branch)
    except BranchNotFound:
        return None  # deleted since it was named
    recorded = commit_log.find_commit(snapshot, commit_id)
    return recorded or commit_log.commits_of(store.tables, snapshot).get(commit_id)


def list_commits(store: GraphStore, branch: str, limit: int | None, before: str | None) -> list[Commit]:
    """The first-parent history of a branch, newest first; ``before`` continues below a commit."""
    chain = commit_log.history(store.tables, store.snapshot(branch))
    if before is not None and all(commit.id != before for commit in chain):  # reads on until it is found
        raise CommitNotFound(f"commit {before!r} is not in the history of branch '{branch}'", commit_id=before)
    return list(chain if limit is None else islice(chain, max(limit, 0)))


def _newest_until(store: GraphStore, branch: str, moment: datetime) -> Commit:
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    chain = commit_log.history(store.tables, store.snapshot(branch))
    recorded = (commit for commit in chain if ids.is_ulid(commit.id))
    commit = next((commit for commit in recorded if commit.created_at <= moment), None)
    if commit is None:
        raise CommitNotFound(f"branch '{branch}' has no commit at or before {moment.isoformat()}", branch=branch)
    return commit


def _synthetic(store: GraphStore, commit_id: str, branch: str, version: int) -> Commit:
    newest = store.snapshot(branch)
    if not 1 <= version <= newest.version:
        raise HistoricalVersionReclaimed(f"branch '{branch}' has no version {version}", commit_id=commit_id)
    return Commit(commit_id, branch, version, None, None, None, ids.from_micros(0))
