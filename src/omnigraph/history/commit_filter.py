"""Which commits of a history are wanted: by author, kind, words, branch and time.

A commit id as a bound means what ``since..until`` means in git: the commits after the one, up to and with the other. A
time means the history as it was read at that time, see `state_at.py`. Clocks of writers differ, so a bound is where the
walk back in history first meets it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from omnigraph import ids
from omnigraph.choices import CommitKind
from omnigraph.errors import CommitNotFound, InputError
from omnigraph.history.state_at import At, moment_of
from omnigraph.storage.metadata.manifest import Commit

#: One text, several of which one has to fit, or None for any.
Texts = str | Sequence[str] | None

KINDS: tuple[str, ...] = get_args(CommitKind)


@dataclass(frozen=True, slots=True)
class CommitFilter:
    """What a commit must be like. An empty tuple asks for nothing.

    Attributes:
        messages: texts of which the message holds at least one.
        branches: on which it was made.
        since: a commit id or version that is too old already, or the earliest time.
        until: the newest commit id, version or time.
    """

    actors: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    since: str | int | datetime | None = None
    until: str | int | datetime | None = None

    def fits(self, commit: Commit) -> bool:
        """Whether a commit is wanted, apart from where it stands in the history."""
        return (
            (not self.actors or commit.actor in self.actors)
            and (not self.kinds or commit.kind in self.kinds)
            and (not self.messages or any(text in (commit.message or "") for text in self.messages))
            and (not self.branches or commit.branch in self.branches)
        )

    def is_too_old(self, commit: Commit) -> bool:
        """Whether a commit, and so all before it, is older than ``since``."""
        if isinstance(self.since, str):
            return commit.id == self.since
        if isinstance(self.since, int):
            return commit.version <= self.since
        return self.since is not None and has_time(commit) and commit.created_at < self.since

    def is_too_new(self, commit: Commit) -> bool:
        """Whether a commit is newer than ``until``, as far as it tells by itself."""
        if isinstance(self.until, str):
            return commit.id != self.until
        if isinstance(self.until, int):
            return commit.version > self.until
        return self.until is not None and not (has_time(commit) and commit.created_at <= self.until)


def has_time(commit: Commit) -> bool:
    """Whether it is known when a commit was made; software that leaves no commit record does not say."""
    return ids.is_ulid(commit.id)


def commit_filter(
    *,
    actor: Texts = None,
    kind: Texts = None,
    message: Texts = None,
    made_on: Texts = None,
    since: At | None = None,
    until: At | None = None,
) -> CommitFilter:
    """The filter that a caller asks for.

    Raises:
        InputError: something is asked for that no commit can have.
    """
    kinds = _texts("kind", kind)
    unknown = next((name for name in kinds if name not in KINDS), None)
    if unknown is not None:
        hint = ids.did_you_mean(unknown, KINDS) or f"known: {', '.join(KINDS)}"
        raise InputError(f"there is no kind of commit {unknown!r}", hint=hint)
    return CommitFilter(
        actors=_texts("actor", actor),
        kinds=kinds,
        messages=_texts("message", message),
        branches=tuple(map(ids.known_branch, _texts("made_on", made_on))),
        since=_bound("since", since),
        until=_bound("until", until),
    )


def _texts(name: str, given: Texts) -> tuple[str, ...]:
    if given is None:
        return ()
    texts = (given,) if isinstance(given, str) or not isinstance(given, Iterable) else tuple(given)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{name} is a text or several, not {text!r} of type {type(text).__name__}")
        if not text.strip():
            raise InputError(f"{name} is blank", hint="leave it out to list all commits")
    return texts


def _bound(name: str, given: At | None) -> str | int | datetime | None:
    if given is None:
        return None
    try:
        return moment_of(given)
    except CommitNotFound:
        raise InputError(f"{name} is a commit id, a tag, a version or a time, not {given!r}") from None
