"""The rule by which a graph is kept small, stored with the graph: one object, changed only by compare-and-swap."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from omnigraph import limits
from omnigraph.errors import ConflictError, CorruptGraph
from omnigraph.storage.metadata.reclaimed import DIRECTORY
from omnigraph.storage.objects.object_store import ObjectStore

PATH = f"{DIRECTORY}/retention.json"


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """What `upkeep` does.

    Attributes:
        keep: the newest so many commits of each branch stay.
        older_than: so do commits that are younger.
        optimize_every: how often the tables are put in order; None never.
        is_default: nobody set a rule; this is what holds then.
    """

    keep: int | None
    older_than: timedelta | None
    optimize_every: timedelta | None
    is_default: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; times are in seconds."""
        return {
            "keep": self.keep,
            "older_than_secs": _seconds(self.older_than),
            "optimize_every_secs": _seconds(self.optimize_every),
            "default": self.is_default,
        }


def default_rule() -> RetentionRule:
    """What holds when nobody set a rule."""
    return RetentionRule(
        limits.RETENTION_KEEP,
        timedelta(seconds=limits.RETENTION_SECONDS),
        timedelta(seconds=limits.OPTIMIZE_SECONDS),
        is_default=True,
    )


def read_rule(objects: ObjectStore) -> tuple[RetentionRule | None, str | None]:
    """The rule that somebody set, and the tag of the object for `put_rule`; None for what is not there."""
    found = objects.read_versioned(PATH)
    if found is None:
        return None, None
    try:
        values = json.loads(found[0])
        if not values:
            return None, found[1]
        keep = values["keep"]
        rule = RetentionRule(
            None if keep is None else int(keep),
            _duration(values["older_than_secs"]),
            _duration(values["optimize_every_secs"]),
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        raise CorruptGraph(f"{PATH} is unreadable", hint="restore it from a copy, or remove it", file=PATH) from None
    return rule, found[1]


def put_rule(objects: ObjectStore, rule: RetentionRule | None, tag: str | None) -> None:
    """Replace the rule that was read; None clears it. On a disk the caller holds the section of branch control.

    Raises:
        ConflictError: somebody else set a rule meanwhile.
    """
    values = {} if rule is None else {name: each for name, each in rule.to_dict().items() if name != "default"}
    content = json.dumps(values).encode()
    new = objects.create(PATH, content) if tag is None else objects.replace(PATH, content, tag)
    if new is None and objects.read(PATH) != content:
        raise ConflictError("somebody else changed the retention rule meanwhile", hint="look at it, and set it again")


def _seconds(duration: timedelta | None) -> int | None:
    return None if duration is None else int(duration.total_seconds())


def _duration(seconds: Any) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=int(seconds))
