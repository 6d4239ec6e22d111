"""Leases and claims: what somebody reads or stages stays while a cleanup runs, and expired ones are told."""

from __future__ import annotations

import gc
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints, limits
from omnigraph.errors import CleanupRefused, HistoricalVersionReclaimed, ReadSetChanged
from omnigraph.storage.metadata import holds
from omnigraph.storage.metadata.lasting_reads import READS
from tests.support.small_graphs import ids_of, people, persons
from tests.support.waiting import wait_until

NOW = {"grace": 0}


def _grown(root: Any) -> og.Graph:
    graph = people(root, "a")
    for number in range(4):
        graph.write([persons(f"p{number}")])
    return graph


def _age(graph: og.Graph) -> None:
    """Make all leases and claims of a graph expire."""
    old = time.time() - limits.hold_seconds() - 60
    for path in Path(graph.uri, "__upkeep").glob("*/*.json"):
        os.utime(path, (old, old))


def _leases(graph: og.Graph) -> int:
    return len(list(Path(graph.uri, "__upkeep", "leases").glob("*.json")))


def test_a_snapshot_of_the_past_stays_readable_while_it_is_held(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    old = graph.commits.list()[3]
    held = graph.snapshot(at=old.id)
    rows = held.count("Person")
    assert _leases(graph) == 1
    with og.open(graph.uri) as other:
        other.cleanup(keep=1, confirm=True, **NOW)
    assert held.arrow("Person").num_rows == rows
    assert graph.snapshot(at=old.id).arrow("Person").num_rows == rows
    del held
    gc.collect()
    assert _leases(graph) == 0
    graph.write([persons("x")])
    graph.cleanup(keep=1, confirm=True, **NOW)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.snapshot(at=old.id)
    assert _leases(graph) == 0


def test_a_snapshot_of_the_head_puts_no_lease(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    held = graph.snapshot()
    graph.query("query q() { match { $p: Person } return { $p.handle } }")
    assert _leases(graph) == 0 and held.count("Person") == 5


def test_a_snapshot_of_the_head_that_is_held_for_long_gets_a_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _grown(tmp_path / "g")
    held = graph.snapshot()
    monkeypatch.setattr(limits, "LASTING_SECONDS", 0.02)
    wait_until(lambda: _leases(graph) == 1, timeout=60, what="the lease")
    with og.open(graph.uri) as other:
        other.write([persons("later")])
        other.cleanup(keep=1, confirm=True, **NOW)
    graph._store.tables.forget_open()
    assert held.arrow("Person").num_rows == held.count("Person") == 5
    del held
    gc.collect()
    assert _leases(graph) == 0


def test_a_query_that_takes_long_keeps_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _grown(tmp_path / "g")
    old, real = graph.commits.list()[3], graph._reads.run

    def run(request: Any) -> Any:
        READS.protect()
        wait_until(lambda: _leases(graph) == 1, timeout=60, what="the lease")  # by whichever thread
        with og.open(graph.uri) as other:
            other.write([persons("later")])
            assert other.cleanup(keep=1, confirm=True, **NOW).states_removed > 0
        graph._store.tables.forget_open()
        return real(request)

    monkeypatch.setattr(limits, "LASTING_SECONDS", 0)
    monkeypatch.setattr(graph._reads, "run", run)
    found = graph.query("query q() { match { $p: Person } return { $p.handle as h } }", at=old.id)
    assert {row["h"] for row in found.rows()} == {"a", "p0"}
    assert _leases(graph) == 0


def test_a_merge_that_takes_long_keeps_the_state_of_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _grown(tmp_path / "g")
    graph.branches.create("dev")
    graph.write([persons("wanted")])
    real, waiting = failpoints.reach, ["write.after_stage"]

    def reach(name: str, kind: str = "") -> None:
        real(name, kind)
        if name in waiting:
            waiting.remove(name)
            READS.protect()
            wait_until(lambda: _leases(graph) == 1, timeout=60, what="the lease")
            with og.open(graph.uri) as other:
                other.write([persons("later")])
                assert other.cleanup(keep=1, confirm=True, **NOW).states_removed > 0

    monkeypatch.setattr(limits, "LASTING_SECONDS", 0)
    monkeypatch.setattr(failpoints, "reach", reach)
    graph.branches.merge("main", "dev")
    assert not waiting and _leases(graph) == 0
    assert ids_of(graph, "Person", "dev") == {"a", "p0", "p1", "p2", "p3", "wanted"}
    assert graph.verify(deep=True).ok


def test_whoever_reads_on_after_its_lease_expired_gets_a_typed_error_and_never_other_rows(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    held = graph.snapshot(at=graph.commits.list()[3].id)
    _age(graph)
    with og.open(graph.uri) as other:
        other.cleanup(keep=1, confirm=True, **NOW)
    assert _leases(graph) == 0
    graph._store.tables.forget_open()
    with pytest.raises(HistoricalVersionReclaimed):
        held.arrow("Person")


def test_an_export_holds_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _grown(tmp_path / "g")
    seen: list[int] = []
    monkeypatch.setattr("omnigraph.history.export.export", lambda *_: seen.append(_leases(graph)))
    graph.export(tmp_path / "out.jsonl")
    assert seen == [1] and _leases(graph) == 0


@pytest.mark.parametrize("point", ["after_listing", "after_reclaimed", "after_commits", "before_removal"])
def test_a_lease_that_is_put_while_a_cleanup_decides_is_seen_or_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """The reader reads its rows, or learns that they are gone."""
    graph = _grown(tmp_path / "g")
    old = graph.commits.list()[3]
    held: list[og.Snapshot] = []
    real = failpoints.reach

    def reach(name: str, kind: str = "") -> None:
        real(name, kind)
        if name == f"cleanup.{point}":
            held.append(graph.snapshot(at=old.id))

    monkeypatch.setattr(failpoints, "reach", reach)
    with og.open(graph.uri) as other:
        other.cleanup(keep=1, confirm=True, **NOW)
    graph._store.tables.forget_open()
    if point == "after_listing":
        assert _leases(graph) == 1
        assert held[0].arrow("Person").num_rows == held[0].count("Person")
    else:
        assert _leases(graph) == 0
        with pytest.raises(HistoricalVersionReclaimed):
            held[0].arrow("Person")


def test_a_copy_of_the_graph_refuses_cleanups_until_it_is_done(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    hold = holds.lease_everything(graph._store.location, graph._store.objects)
    with pytest.raises(CleanupRefused, match="copy of the graph"):
        graph.cleanup(keep=1, confirm=True, **NOW)
    hold.release()
    assert graph.cleanup(keep=1, confirm=True, **NOW).states_removed > 0
    og.clone(graph.uri, tmp_path / "twin")
    assert _leases(graph) == 0
    with og.open(tmp_path / "twin") as twin:
        assert [commit.readable for commit in twin.commits.list()] == [c.readable for c in graph.commits.list()]
        assert twin.verify(deep=True).ok
    assert not (tmp_path / "twin" / "__upkeep" / "leases").exists()


def test_an_unreadable_lease_refuses_cleanups(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    place = tmp_path / "g" / holds.LEASES
    place.mkdir(parents=True)
    (place / "x.json").write_text("[]")
    with pytest.raises(CleanupRefused, match="unreadable"):
        graph.cleanup(keep=1, confirm=True, **NOW)


def test_a_claim_spares_files_that_no_version_names_and_an_expired_one_is_missed_by_its_owner(tmp_path: Path) -> None:
    graph = _grown(tmp_path / "g")
    store = graph._store
    path = holds.claim(store.location, store.objects, store.snapshot("main"))
    stray = tmp_path / "g" / graph.snapshot().tables["node:Person"].location / "data" / "stray.lance"
    stray.write_bytes(b"x")
    old = time.time() - limits.UNFINISHED_FILES_SECONDS - 60
    os.utime(stray, (old, old))
    assert graph.cleanup(keep=1, confirm=True, **NOW).unfinished.files == 0
    holds.require_claim(store.objects, path)
    _age(graph)
    graph.write([persons("x")])
    assert graph.cleanup(keep=1, confirm=True, **NOW).unfinished.files == 1
    with pytest.raises(ReadSetChanged, match="the claim had expired"):
        holds.require_claim(store.objects, path)
    assert holds.kept(store.location, store.objects, path) is None


def test_a_hold_is_renewed_and_never_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _grown(tmp_path / "g")
    store = graph._store
    hold = holds.lease(store.location, store.objects, store.snapshot("main"), "spark")
    path = tmp_path / "g" / hold.path
    os.utime(path, (0, 0))
    assert hold._renew() and time.time() - path.stat().st_mtime < 60
    path.unlink()
    assert not hold._renew() and not path.exists()


@pytest.mark.s3
def test_a_lease_on_s3_is_renewed_and_never_comes_back(s3_root: str) -> None:
    graph = _grown(s3_root)
    store = graph._store
    hold = holds.lease(store.location, store.objects, store.snapshot("main"), "spark")
    assert hold._renew() and hold._renew() and hold.is_there()
    assert json.loads(store.objects.read(hold.path) or b"")["version"] == store.snapshot("main").version
    store.objects.delete(hold.path)
    assert not hold._renew() and not hold.is_there()
    old = graph.commits.list()[2]
    held = graph.snapshot(at=old.id)
    rows = ids_of(graph, "Person", at=old.id)
    graph.cleanup(keep=1, confirm=True, **NOW)
    assert set(held.arrow("Person").column("id").to_pylist()) == rows
