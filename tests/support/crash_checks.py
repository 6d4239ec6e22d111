"""What must hold after any crash, once the graph has been opened again.

No recovery record is left, every table stands where the graph says, the ledger explains every row, each interrupted
operation has at most one audit row, the mirrors of the commits are complete, and a second open changes no file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import obstore

import omnigraph as og
from omnigraph.storage.inspect_files import ValueProcess
from omnigraph.storage.metadata import commit_log
from omnigraph.storage.objects.object_store import ObjectStore, parse_location
from omnigraph.storage.tables.datasets import is_ours, maker
from tests.support import ledger as ledgers
from tests.support.crash_graph import ACTOR, marks


def records(uri: str) -> dict[str, dict[str, Any]]:
    """The recovery records that lie there now, by operation id."""
    objects = ObjectStore(parse_location(uri))
    names = [name for name in objects.names("__recovery") if name.endswith(".json")]
    return {name.removesuffix(".json"): json.loads(objects.read(f"__recovery/{name}") or b"{}") for name in names}


def drafted_commit(uri: str) -> str | None:
    """Id of the commit that an interrupted write minted; records that only announce a fork mint none that counts."""
    drafts = [record["intent"]["commit"]["graph_commit_id"] for record in records(uri).values() if record["tables"]]
    assert len(drafts) <= 1, "one interrupted write left two records"
    return drafts[0] if drafts else None


def files(uri: str) -> dict[str, tuple[int, str]]:
    """Every object of a graph with its size and version tag."""
    store = ObjectStore(parse_location(uri))._connect()
    return {entry["path"]: (entry["size"], str(entry["e_tag"])) for page in obstore.list(store) for entry in page}


@contextmanager
def settled(
    uri: str, branch: str, ledger: Path, *, mirrored: bool = True, allowed: Set[str] = frozenset()
) -> Iterator[og.Graph]:
    """Open the graph as a new writer would, hold everything against everything, open it again: nothing may change.

    Gives the second handle. ``mirrored=False`` is for the one gap that an open does not notice: the copy of the last
    commit of a branch. ``allowed`` names checks of `verify` that other software has broken.
    """
    with og.open(uri, actor=ACTOR) as graph:
        if not mirrored:
            graph.recover()
        assert_sound(graph, branch, ledger)
        assert_whole(graph, allowed)
        version = graph.snapshot(branch).version
    before = files(uri)
    with og.open(uri, actor=ACTOR) as graph:
        assert files(uri) == before, "a second open changed something"
        assert graph.snapshot(branch).version == version
        yield graph


def assert_sound(graph: og.Graph, branch: str, ledger: Path) -> None:
    """The checks on one open graph."""
    assert records(graph.uri) == {}, "a recovery record is left"
    assert ledgers.violations(ledgers.read(ledger), marks(graph, branch)) == []
    for name in {branch, "main"}:
        assert_pins_are_heads(graph, name)
    audited = Counter(recovery.operation_id for recovery in graph.recoveries)
    assert all(count == 1 for count in audited.values()), f"audited more than once: {audited}"
    graph._store.mirror.flush()
    assert_mirrored(graph, branch)


def assert_whole(graph: og.Graph, allowed: Set[str] = frozenset()) -> None:
    """The graph's own proof finds nothing, down to every value; leftovers that do no harm are allowed. Every file has a
    digest, unless other software wrote it and ``coverage`` is allowed to be incomplete."""
    with patch.object(ValueProcess, "_started", return_value=None):  # undamaged bytes need no process of their own
        report = graph.verify(deep=True)
    wrong = {problem.check for problem in report.problems if not problem.harmless}
    wrong |= {"coverage" for problem in report.problems if problem.harmless and problem.check == "digests"}
    assert not wrong - allowed, str(report)


def assert_pins_are_heads(graph: og.Graph, branch: str) -> None:
    """Every table that the branch owns ends at its pin, or at what a write left that never became visible."""
    tables, snapshot = graph._store.tables, graph._store.snapshot(branch)
    for key, pin in snapshot.pins.items():
        if snapshot.owns(pin.branch):
            head = tables.newest(pin.location, pin.branch)
            passed = [is_ours(maker(head, version)) for version in range(pin.version + 1, head.version + 1)]
            assert all(passed), f"{key} on {branch} is at {head.version}, pinned at {pin.version}"


def assert_mirrored(graph: og.Graph, branch: str) -> None:
    """The commit mirrors tell the same history as the manifest, each commit once; those of merged branches are not
    among them, because a reader of the mirrors takes the highest version for the head."""
    store = graph._store
    known = commit_log.own_commits(store.tables, store.snapshot(branch))
    own = {commit.id: commit.actor for commit in known}
    mirror = store.tables.newest_or_none(commit_log.COMMITS_PATH, store.snapshot(branch).lineage)
    if mirror is None:
        assert all(commit.branch != branch for commit in known), f"branch {branch} has commits and no mirror"
        return
    rows = mirror.to_table()
    copied = Counter(rows.column("graph_commit_id").to_pylist())
    assert copied == Counter(list(own)), f"the mirror of {branch} differs from its history"
    actors = Counter(
        (row["graph_commit_id"], row["actor_id"])
        for row in store.tables.newest(commit_log.ACTORS_PATH).to_table().to_pylist()
        if row["graph_commit_id"] in own
    )
    assert actors == Counter((commit, actor) for commit, actor in own.items() if actor)
