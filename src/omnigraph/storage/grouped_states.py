"""The states between commits that were published together.

One publish may make several commits (decision 29). The version of the manifest is the state of the last of them. The
state of another one has the tables as they were before, with what it and those before it did; what that is, their rows
say (`metadata/commit_part.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile

from omnigraph.errors import HistoricalVersionReclaimed
from omnigraph.storage.graph_store import BranchRef, GraphStore
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.metadata.manifest import Commit, Head, ManifestSnapshot, Pin, table_version_of
from omnigraph.storage.tables.datasets import DerivedVersion


def state_between(
    store: GraphStore, ref: BranchRef, published: ManifestSnapshot, commit_id: str
) -> ManifestSnapshot | None:
    """The state of a commit that was published with the head of another state; None if it was not.

    Raises:
        HistoricalVersionReclaimed: the state before all of them was cleaned up.
    """
    whole = published.whole
    chain = list(takewhile(lambda each: each.version == published.version, commit_log.history(store.tables, whole)))
    names = [commit.id for commit in chain]
    if commit_id not in names[1:]:
        return None
    chain.reverse()  # oldest first
    own = chain[: len(chain) - names.index(commit_id)]
    before = _state_before(store, ref, chain[0])
    pins = {key: _pin(key, before.pins[key], pin, own) for key, pin in whole.pins.items()}
    last, head = own[-1], published.head
    assert head is not None
    return store.seen(
        replace(
            whole,
            pins=pins,
            head=Head(last.id, last.parent, head.epoch, head.version, head.schema),
            between=True,
        )
    )


def _state_before(store: GraphStore, ref: BranchRef, first: Commit) -> ManifestSnapshot:
    before = store.state_on(ref, first.version - 1).whole
    if before.head is None or before.head.commit_id != first.parent:
        raise HistoricalVersionReclaimed(
            f"the state before commit {first.id} is no longer known", hint="choose a newer commit", commit_id=first.id
        )
    return before


def _pin(key: str, before: Pin, after: Pin, own: list[Commit]) -> Pin:
    """What a state shows of a table: the version before, that of all commits, or one between."""
    touching = [commit for commit in own if key in commit.parts]
    if not touching:
        return before
    parts = [commit.parts[key] for commit in touching]
    derived = DerivedVersion(
        table_version_of(before),
        tuple(each for part in parts for each in part.put),
        tuple(address for part in parts for address in part.gone),
    )
    return replace(after, row_count=parts[-1].rows, metadata=_marked(after.metadata, own[-1].id), derived=derived)


def _marked(metadata: str, commit_id: str) -> str:
    """The metadata of a version, with an origin that no other state of this version has."""
    values: Mapping[str, object] = json.loads(metadata)
    return json.dumps({**values, "transaction": f"{values.get('transaction')}/{commit_id}"}, separators=(",", ":"))
