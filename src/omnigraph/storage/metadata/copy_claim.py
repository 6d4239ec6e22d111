"""The object that says that a graph is a copy: one that is being made, or a backup, which only backups write to.

It lies among the recovery records, where no reader of the graph looks. Whoever opens a graph for writing asks here
first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal, get_args

from omnigraph.errors import CorruptGraph, GraphNotFound, ReadOnly
from omnigraph.storage.objects.locks import RECOVERY_DIRECTORY
from omnigraph.storage.objects.object_store import ObjectStore

PATH = f"{RECOVERY_DIRECTORY}/copy.claim"

Kind = Literal["clone", "backup"]


@dataclass(frozen=True, slots=True)
class CopyClaim:
    """What is being made somewhere, and of which graph."""

    kind: Kind
    source: str


def read(objects: ObjectStore) -> CopyClaim | None:
    """The claim of a place, or None when it is no copy, or a clone that is complete."""
    content = objects.read(PATH)
    if content is None:
        return None
    try:
        values = json.loads(content)
        if values["kind"] in get_args(Kind) and isinstance(values["source"], str):
            return CopyClaim(values["kind"], values["source"])
        raise ValueError(values["kind"])
    except (ValueError, KeyError, TypeError):
        raise CorruptGraph(f"{PATH} is unreadable", hint="remove the copy, and make it again", file=PATH) from None


def make(objects: ObjectStore, claim: CopyClaim) -> bool:
    """Claim a place for a copy; False when somebody else did."""
    content = json.dumps({"kind": claim.kind, "source": claim.source}).encode()
    return objects.create(PATH, content) is not None or read(objects) == claim


def remove(objects: ObjectStore) -> None:
    """A clone is complete: it is a graph like any other from now on."""
    objects.delete(PATH)


def require_writable(objects: ObjectStore, uri: str) -> None:
    """Refuse to write to a copy.

    Raises:
        GraphNotFound: a clone that is not complete.
        ReadOnly: a backup.
    """
    claim = read(objects)
    if claim is None:
        return
    if claim.kind == "clone":
        raise unfinished(claim, uri)
    raise ReadOnly(
        f"{uri} is a backup of {claim.source}, which only backups write to",
        hint="clone it, and write to the clone",
        uri=uri,
    )


def unfinished(claim: CopyClaim, uri: str) -> GraphNotFound:
    """The error for a place where a copy began and did not come to its end."""
    return GraphNotFound(
        f"there is no graph at {uri} yet, only an unfinished {claim.kind} of {claim.source}",
        hint=f"run `omnigraph {claim.kind} {claim.source} {uri}` again, which continues it",
        uri=uri,
    )
