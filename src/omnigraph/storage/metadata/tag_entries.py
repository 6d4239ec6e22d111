"""Names for states: one small object per tag, changed only by compare-and-swap.

A tag is entered as ``making`` and becomes ``live`` once nothing can take its state away any more; whoever cleans up
spares the states of both. On an object store a deleted tag keeps its entry, so that a delete that takes effect late
meets another entry and does nothing to the next tag of the name. Readers that know no tags never look here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from urllib.parse import quote, unquote

from omnigraph import ids
from omnigraph.errors import CorruptGraph
from omnigraph.storage.objects.object_store import ObjectStore

DIRECTORY = "__tags"

TagState = Literal["making", "live", "deleted"]


@dataclass(frozen=True, slots=True)
class TagEntry:
    """What is known of the name of a tag.

    Attributes:
        commit: id of the commit that made the state.
        branch: name of the branch that has the state, when the tag was made.
        lineage: Lance branch of the manifest that has the state; None for that of main. A renamed branch keeps it.
        version: manifest version on that lineage.
        created_at: clock of whoever made the tag.
        state: ``making`` until it is sure that the state stays, then ``live``; ``deleted`` from then on.
        token: differs between two tags that say the same, so that the version tag of an object is never met again.
    """

    name: str
    commit: str
    branch: str
    lineage: str | None
    version: int
    created_at: datetime
    actor: str | None
    message: str | None
    state: TagState
    token: str


def read_tags(objects: ObjectStore) -> tuple[TagEntry, ...]:
    """Every tag whose state has to stay, by name: those that are live and those that somebody is making."""
    names = [unquote(name.removesuffix(".json")) for name in objects.names(DIRECTORY)]
    found = (read_tag(objects, name) for name in sorted(names))
    return tuple(each[0] for each in found if each is not None and each[0].state != "deleted")


def read_tag(objects: ObjectStore, name: str) -> tuple[TagEntry, str] | None:
    """The entry of a name with its version tag for `put_tag`; None when there is none."""
    found = objects.read_versioned(path_of(name))
    return (parse_tag(name, found[0]), found[1]) if found is not None else None


def put_tag(objects: ObjectStore, entry: TagEntry, seen: str | None) -> str | None:
    """Write an entry in the place of the one with this version tag (None: of none). Returns its own, None when it lost.

    On a disk the caller holds the section of branch control.
    """
    path, content = path_of(entry.name), _text(entry)
    new = objects.create(path, content) if seen is None else objects.replace(path, content, seen)
    if new is not None:
        return new
    found = objects.read_versioned(path)  # an answer that was lost and asked for again looks like a loss
    return found[1] if found and found[0] == content else None


def forget_tag(objects: ObjectStore, name: str) -> None:
    """Remove an entry. Only where the kernel guards the section of branch control."""
    objects.delete(path_of(name))


def path_of(name: str) -> str:
    return f"{DIRECTORY}/{quote(name, safe='')}.json"


def _text(entry: TagEntry) -> bytes:
    values = {
        "name": entry.name,
        "commit": entry.commit,
        "branch": entry.branch,
        "lineage": entry.lineage,
        "version": entry.version,
        "created_at": ids.micros(entry.created_at),
        "actor": entry.actor,
        "message": entry.message,
        "state": entry.state,
        "token": entry.token,
    }
    return json.dumps(values).encode()


def parse_tag(name: str, content: bytes) -> TagEntry:
    """The entry that an object holds."""
    try:
        values = json.loads(content)
        if values["state"] not in get_args(TagState):
            raise ValueError(values["state"])
        texts = [values[key] for key in ("commit", "branch", "token")]
        texts += [values[key] for key in ("lineage", "actor", "message") if values[key] is not None]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError
        return TagEntry(
            name,
            values["commit"],
            values["branch"],
            values["lineage"],
            int(values["version"]),
            ids.from_micros(int(values["created_at"])),
            values["actor"],
            values["message"],
            values["state"],
            values["token"],
        )
    except (ValueError, KeyError, TypeError, OverflowError):
        path = path_of(name)
        raise CorruptGraph(f"{path} is unreadable", hint="restore it from a copy", file=path) from None
