"""What a cleanup may give up: the newest commits of each branch stay, and those that are young.

A commit goes only if every part of the rule lets it go. Commits that only say that a cleanup ran are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from omnigraph import given, limits
from omnigraph.errors import InputError
from omnigraph.storage.metadata.manifest import Commit

#: What the history calls the commits of a cleanup.
CLEANUP = "cleanup"

#: Fewer commits than this are worth a warning.
_FEW = 3

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_LONGEST = 1000 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """Which commits of a branch stay. At least one of the first two is given.

    Attributes:
        keep: the newest so many of each branch.
        older_than: those that are younger.
        grace: those that were the newest of their branch so recently that somebody may still be reading them.
    """

    keep: int | None
    older_than: timedelta | None
    grace: timedelta = timedelta(seconds=limits.CLEANUP_GRACE_SECONDS)

    def first_kept(self, own: Sequence[Commit], now: datetime) -> int:
        """The oldest version of a branch that stays because of its age or number; 0 when all of them do.

        Args:
            own: the commits that were made on the branch, newest first.
        """
        if not own:
            return 0
        cuts = [self._by_grace(own, now)]
        if self.keep is not None:
            counted = [commit for commit in own if commit.kind != CLEANUP]
            cuts.append(counted[self.keep - 1].version if len(counted) >= self.keep else 0)
        if self.older_than is not None:
            cuts.append(_oldest_since(own, now - self.older_than))
        return min(cuts)

    def _by_grace(self, own: Sequence[Commit], now: datetime) -> int:
        """The version that was the newest at the beginning of the grace."""
        return max((commit.version for commit in own if commit.created_at <= now - self.grace), default=0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever asks for this should know."""
        if self.keep is not None and self.keep < _FEW:
            plural = "commit" if self.keep == 1 else "commits"
            return (f"keeping {self.keep} {plural} leaves hardly anything to go back to; 10 is a good number",)
        return ()


def _oldest_since(own: Sequence[Commit], horizon: datetime) -> int:
    """The oldest version that was made since a moment; the newest one when none was, and 0 when all of them were."""
    young = [commit.version for commit in own if commit.created_at >= horizon]
    return 0 if len(young) == len(own) else min(young, default=own[0].version)


def policy_of(keep: object, older_than: object, grace: object = None) -> CleanupPolicy:
    """A policy as a caller gives it.

    Raises:
        InputError: there is no rule, or a part of it cannot be meant.
    """
    if keep is None and older_than is None:
        raise InputError(
            "cleanup needs a rule that says what stays",
            hint="give keep=10 for the newest 10 commits of each branch, older_than='7d' for those of a week, or both",
        )
    number = None if keep is None else given.whole_number(keep, "keep")
    if number is not None and number < 1:
        raise InputError(
            f"keep is {number}; at least the newest commit of each branch stays", hint="give keep=1 or more"
        )
    age = None if older_than is None else duration_of(older_than, "older_than")
    if grace is None:
        return CleanupPolicy(number, age)
    return CleanupPolicy(number, age, duration_of(grace, "grace"))


def duration_of(value: object, what: str) -> timedelta:
    """A length of time: a number of seconds, a `timedelta`, or a text like ``90m``, ``24h``, ``7d`` or ``2w``.

    >>> duration_of("90m", "older_than")
    datetime.timedelta(seconds=5400)
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str) and (found := re.fullmatch(r"\s*(\d{1,12})\s*([smhdw]?)\s*", value)):
        seconds = float(int(found[1]) * _UNITS[found[2]])
    else:
        raise InputError(f"{what} is {value!r:.40}, which is no length of time", hint="write 90m, 24h, 7d or 2w")
    if not 0 <= seconds <= _LONGEST:
        raise InputError(f"{what} is {value!r:.40}, which is out of range", hint="write 90m, 24h, 7d or 2w")
    return timedelta(seconds=seconds)
