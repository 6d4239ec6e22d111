"""From a commit id, a tag, a version or a time to one state of one branch: time travel.

Each of them may be given as a text. A time without a zone is UTC, a date is the beginning of that day.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from typing import TypeAlias, TypeVar

from omnigraph import ids
from omnigraph.errors import BranchNotFound, CommitNotFound, HistoricalVersionReclaimed, InputError, InvalidName
from omnigraph.ids import known_branch
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.grouped_states import state_between
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import Commit, ManifestSnapshot
from omnigraph.storage.metadata.reclaimed import given_up, is_reclaimed
from omnigraph.storage.tagged_states import holder_of, tag_entry, tagged_commit, tagged_state

#: A moment: a commit id, ``tag:NAME``, a manifest version, or a time; the last two also as texts.
At: TypeAlias = str | int | date

_Moment = TypeVar("_Moment")

#: A state: a branch, a moment, or a snapshot.
Target: TypeAlias = At | ManifestSnapshot


def snapshot_at(store: GraphStore, branch: str, at: At | None) -> ManifestSnapshot:
    """The state of a branch now (``at=None``) or at a moment."""
    if at is None:
        return store.snapshot(branch)
    moment = moment_of(at)
    if isinstance(moment, str):
        return _named_state(store, moment, branch)
    state = store.snapshot_at(*locate(store, branch, moment))
    if isinstance(moment, int):
        _require_true(store, state)
    return state


def _require_true(store: GraphStore, state: ManifestSnapshot) -> None:
    """Refuse a version that a late request put where a cleanup had removed one: nobody ever saw it. Its commit may have
    been tried again, and then the history has it with another version."""
    if not is_reclaimed(store.objects, state.lineage, state.version, state.identity):
        return
    head = state.head
    known = commit_log.find_commit(store.snapshot(state.branch), head.commit_id) if head is not None else None
    if head is None or known is None or known.version != head.version:
        raise given_up(state.branch, state.version)


def untagged(store: GraphStore, at: _Moment) -> _Moment | str:
    """A moment as it was given, with the commit in the place of its tag."""
    return (tagged_commit(store, at) or at) if isinstance(at, str) else at


def _named_state(store: GraphStore, moment: str, branch: str) -> ManifestSnapshot:
    """The state of a tag or of a commit id, which is looked for on ``branch`` first."""
    tag = ids.tag_in(moment)
    if tag is not None:
        return tagged_state(store, tag_entry(store, tag))
    return state_of(store, get_commit(store, moment, branch))


def asked_state(store: GraphStore, branch: str | None, at: At | None) -> ManifestSnapshot:
    """The state that a caller asks for. A commit is found wherever it was made, unless a branch is named: then it must
    be in the history of that branch.

    Args:
        branch: None means main, without insisting on it.
    """
    if branch is None:
        return snapshot_at(store, ids.MAIN, at)
    name = known_branch(branch)
    moment = None if at is None else moment_of(at)
    if isinstance(moment, str) and not _is_in_history(store, moment, name):
        what = f"tag '{ids.tag_in(moment)}'" if ids.tag_in(moment) else f"commit {moment!r}"
        raise CommitNotFound(
            f"{what} is not in the history of branch '{name}'",
            hint="leave branch= out to read a commit of any branch",
            commit_id=moment,
            branch=name,
        )
    return snapshot_at(store, name, moment)


def _is_in_history(store: GraphStore, commit_id: str, branch: str) -> bool:
    newest = store.snapshot(branch)
    commit_id = tagged_commit(store, commit_id) or commit_id
    synthetic = ids.parse_synthetic_commit_id(commit_id)
    if synthetic is None:
        return _commit_on(store, commit_id, branch) is not None
    return synthetic[1] <= newest.version and _holder(store, branch, synthetic[1]) == synthetic[0]


def moment_of(at: object) -> str | int | datetime:
    """A moment as a caller gives it: a commit id, a tag, a version, or a time with its zone.

    >>> moment_of("2026-01-01")
    datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    if isinstance(at, str):
        found = ids.moment_in(at)
        if found is None:
            raise CommitNotFound(f"there is no commit {at!r}, and it is no tag, version or time", commit_id=at)
        return moment_of(found) if isinstance(found, datetime) else found
    if isinstance(at, int) and not isinstance(at, bool):
        return at
    if isinstance(at, date) and at == at:  # pandas has a time that is none, and it equals nothing
        moment = at if isinstance(at, datetime) else datetime(at.year, at.month, at.day)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    raise InputError(
        f"a moment is a commit id, a tag, a version or a time, not {at!r} of type {type(at).__name__}",
        hint="give a time as a datetime, or as a text like '2026-01-31T12:00:00Z'",
    )


def snapshot_of(store: GraphStore, target: Target, branch: str) -> ManifestSnapshot:
    """The state that a target names: a branch's newest one, a moment of ``branch``, or a snapshot itself.

    A text is a branch if there is one of that name, else a commit id, a tag, a version number or a time.
    """
    if isinstance(target, ManifestSnapshot):
        return target
    if not isinstance(target, str):
        return snapshot_at(store, branch, target)
    text = target.strip()
    if text == ids.MAIN or _is_branch(store, text):
        return store.snapshot(text)
    moment = ids.moment_in(text)
    if moment is None:
        raise BranchNotFound(
            f"there is no branch {text!r}, and it is no commit id, tag, version or time",
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


def locate(store: GraphStore, branch: str, at: At | None) -> tuple[str, int]:
    """Branch and manifest version of a moment. A commit id may belong to another branch than the one given."""
    if at is None:
        return branch, store.refresh(branch).version
    moment = moment_of(at)
    if isinstance(moment, int):
        newest = store.refresh(branch).version
        if not 1 <= moment <= newest:
            text = f"branch '{branch}' has versions 1 to {newest}, not {moment}"
            raise CommitNotFound(text, branch=branch, version=moment)
        return _holder(store, branch, moment), moment
    if isinstance(moment, str):
        state = _named_state(store, moment, branch)
    else:
        state = state_of(store, _newest_until(store, branch, moment))
    return state.branch, state.version


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
        raise HistoricalVersionReclaimed(text, hint=error.hint, **error.details, commit_id=commit) from None


def state_of(store: GraphStore, commit: Commit) -> ManifestSnapshot:
    """The state that a commit made, on the branch of its name or on one that had this name then.

    Raises:
        HistoricalVersionReclaimed: it is gone with its branch, also when another branch has its name by now.
    """
    gone = _gone(commit)
    for ref in store.branches_called(commit.branch):
        try:
            snapshot = store.state_on(ref, commit.version)
        except BranchNotFound:
            continue  # deleted since it was found
        except HistoricalVersionReclaimed as error:
            gone = error
            continue
        head = snapshot.head
        is_recorded = head is not None and head.version == snapshot.version and ids.is_ulid(commit.id)
        if head is None or not is_recorded or head.commit_id == commit.id:
            return snapshot
        if commit.parts:
            try:
                between = state_between(store, ref, snapshot, commit.id)
            except HistoricalVersionReclaimed as error:
                gone = error
                continue
            if between is not None:
                return between
    raise gone


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
    except CommitNotFound:
        raise HistoricalVersionReclaimed(
            f"the state before commit {commit.id} is no longer known", hint="choose a newer commit", commit_id=commit.id
        ) from None


def _gone(commit: Commit) -> HistoricalVersionReclaimed:
    return HistoricalVersionReclaimed(
        f"the state of commit {commit.id} went with branch '{commit.branch}'",
        hint="choose another commit",
        commit_id=commit.id,
    )


def _holder(store: GraphStore, branch: str, version: int) -> str:
    """Whose version a number is: versions from before a branch was made are those of the branch it was made from."""
    ref = store.branch_ref(branch)
    if ref.parent is not None and version < ref.parent_version:
        refs = {each.name: each for each in store.branch_refs()}
        ref = refs.get(ref.name, ref)
        while ref.parent is not None and version < ref.parent_version:
            ref = refs[ref.parent]
    return ref.name


def get_commit(store: GraphStore, commit_id: str, branch: str = ids.MAIN) -> Commit:
    """A commit by id or by its tag: on the given branch first, then on all others."""
    tag = ids.tag_in(commit_id)
    if tag is not None:
        entry = tag_entry(store, tag)
        return get_commit(store, entry.commit, holder_of(store, entry).name)
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


def _newest_until(store: GraphStore, branch: str, moment: datetime) -> Commit:
    chain = commit_log.history(store.tables, store.snapshot(branch))
    recorded = (commit for commit in chain if ids.is_ulid(commit.id))
    oldest = None
    for oldest in recorded:
        if oldest.created_at <= moment:
            return oldest
    first = f"its first one is of {oldest.created_at.isoformat()}" if oldest is not None else None
    text = f"branch '{branch}' has no commit at or before {moment.isoformat()}"
    raise CommitNotFound(text, hint=first, branch=branch)


def _synthetic(store: GraphStore, commit_id: str, branch: str, version: int) -> Commit:
    newest = store.snapshot(branch)
    if not 1 <= version <= newest.version:
        raise HistoricalVersionReclaimed(f"branch '{branch}' has no version {version}", commit_id=commit_id)
    return Commit(commit_id, branch, version, None, None, None, ids.from_micros(0))
