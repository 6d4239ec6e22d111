"""Which lineage of the manifest a branch name means: one small object per name, changed only by compare-and-swap.

A name that was deleted on an object store keeps its entry, so that its next branch gets a lineage that nobody ever
wrote to; then nothing that comes late from the former branch can reach the new one. Branches that other software made
have no entry: their Lance ref alone says that they exist.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
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
    """

    name: str
    lineage: str
    identity: str
    parent: str
    parent_version: int
    state: State


class BranchEntries:
    """The entries of one graph."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def read(self, name: str) -> tuple[BranchEntry, str] | None:
        """The entry of a name with its tag for `put`; None when there is none."""
        found = self._objects.read_versioned(_path(name))
        return (_parse(name, found[0]), found[1]) if found else None

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
    values = {
        "state": entry.state,
        "lineage": entry.lineage,
        "identity": entry.identity,
        "parent": entry.parent,
        "parent_version": entry.parent_version,
    }
    return json.dumps(values).encode()


def _parse(name: str, content: bytes) -> BranchEntry:
    try:
        values = json.loads(content)
        state = values["state"]
        if state not in get_args(State) or not all(isinstance(values[key], str) for key in ("lineage", "identity")):
            raise ValueError(state)
        return BranchEntry(
            name, values["lineage"], values["identity"], str(values["parent"]), int(values["parent_version"]), state
        )
    except (ValueError, KeyError, TypeError):
        raise CorruptGraph(f"{_path(name)} is unreadable", hint="restore it from a copy", file=_path(name)) from None
