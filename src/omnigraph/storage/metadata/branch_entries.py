"""Which lineage of the manifest a branch name means: one small object per name, changed only by compare-and-swap.

A name that was deleted on an object store keeps its entry, so that its next branch gets a lineage that nobody ever
wrote to; then nothing that comes late from the former branch can reach the new one. Branches that other software made
have no entry: their Lance ref alone says that they exist.

A rename moves a lineage from one entry to another. The entry of the former name decides it, and until the new entry is
live it is read as live by what the former one says.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal, get_args
from urllib.parse import quote, unquote

from omnigraph.errors import CorruptGraph
from omnigraph.storage.objects.object_store import ObjectStore

DIRECTORY = "__branches"

State = Literal["making", "live", "deleted"]


@dataclass(frozen=True, slots=True)
class BranchEntry:
    """What is known of a branch name.

    Attributes:
        lineage: Lance branch of the manifest; never given to another branch.
        identity: differs between two branches of one name.
        parent: branch it was made from.
        parent_version: manifest version it was made from; 0 while that is not decided.
        state: ``making`` until everything of it is there, and then ``live``; ``deleted`` from then on.
        formerly: names that the branch had before, the latest last.
        renamed_to: the name that the branch has since this one was ``deleted``.
        token: differs between two entries that say the same, so that a tag is never met again.
    """

    name: str
    lineage: str
    identity: str
    parent: str
    parent_version: int
    state: State
    formerly: tuple[str, ...] = ()
    renamed_to: str | None = None
    token: str | None = None


class BranchEntries:
    """The entries of one graph."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def read(self, name: str) -> tuple[BranchEntry, str] | None:
        """The entry of a name with its tag for `put`; None when there is none. A rename that is decided is live."""
        found = self._objects.read_versioned(_path(name))
        if found is None:
            return None
        entry = _parse(name, found[0])
        if entry.state == "making" and self._is_renamed(entry):
            entry = replace(entry, state="live")
        return entry, found[1]

    def _is_renamed(self, entry: BranchEntry) -> bool:
        """Whether the branch that an entry takes over left its former name for it."""
        if not entry.formerly:
            return False
        found = self._objects.read(_path(entry.formerly[-1]))
        former = _parse(entry.formerly[-1], found) if found is not None else None
        return former is not None and (former.renamed_to, former.identity) == (entry.name, entry.identity)

    def put(self, entry: BranchEntry, tag: str | None) -> str | None:
        """Write an entry in the place of the one with this tag (None: of none). Returns its tag, None when it lost."""
        content = _text(entry)
        path = _path(entry.name)
        new = self._objects.create(path, content) if tag is None else self._objects.replace(path, content, tag)
        if new is not None:
            return new
        found = self._objects.read_versioned(path)  # an answer that was lost and asked for again looks like a loss
        return found[1] if found and found[0] == content else None

    def forget(self, name: str) -> None:
        """Remove the entry of a deleted branch. Only where the kernel guards the section of branch control."""
        self._objects.delete(_path(name))

    def names(self) -> list[str]:
        """Every name that has an entry, whatever it says."""
        return [unquote(name.removesuffix(".json")) for name in self._objects.names(DIRECTORY)]


def _path(name: str) -> str:
    return f"{DIRECTORY}/{quote(name, safe='')}.json"


def _text(entry: BranchEntry) -> bytes:
    values: dict[str, object] = {
        "state": entry.state,
        "lineage": entry.lineage,
        "identity": entry.identity,
        "parent": entry.parent,
        "parent_version": entry.parent_version,
    }
    later = {"formerly": list(entry.formerly), "renamed_to": entry.renamed_to, "token": entry.token}
    return json.dumps(values | {name: value for name, value in later.items() if value}).encode()


def _parse(name: str, content: bytes) -> BranchEntry:
    try:
        values = json.loads(content)
        state = values["state"]
        if state not in get_args(State) or not all(isinstance(values[key], str) for key in ("lineage", "identity")):
            raise ValueError(state)
        return BranchEntry(
            name,
            values["lineage"],
            values["identity"],
            str(values["parent"]),
            int(values["parent_version"]),
            state,
            tuple(str(each) for each in values.get("formerly", ())),
            values.get("renamed_to"),
            values.get("token"),
        )
    except (ValueError, KeyError, TypeError):
        raise CorruptGraph(f"{_path(name)} is unreadable", hint="restore it from a copy", file=_path(name)) from None
