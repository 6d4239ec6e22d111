"""Leases on an object store: one owner, watched expiry, an epoch that only grows."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints, ids, limits
from omnigraph.errors import CorruptGraph, LockTimeout, StoreUnavailable
from omnigraph.storage.commit import sidecar
from omnigraph.storage.graph_store import GraphStore
from omnigraph.storage.objects import locks as leases
from omnigraph.storage.objects.locks import Lease
from omnigraph.storage.objects.object_store import ObjectStore, parse_location
from tests.support.s3_server import S3Server
from tests.support.small_graphs import ids_of, people, persons, run_child, start_child
from tests.support.waiting import wait_until

pytestmark = pytest.mark.s3

PATH = "__recovery/branch.main.lease"


@pytest.fixture
def objects(s3_root: str) -> ObjectStore:
    return ObjectStore(parse_location(s3_root))


def _soon() -> float:
    return time.monotonic() + 0.05


def _later() -> float:
    return time.monotonic() + 20


def _stored(objects: ObjectStore) -> dict[str, Any]:
    content = objects.read(PATH)
    assert content is not None
    stored: dict[str, Any] = json.loads(content)
    return stored


def _foreign(objects: ObjectStore, **fields: Any) -> None:
    """A lease object as another machine left it."""
    record = {"owner": "x", "epoch": 7, "seconds": 30, "pid": 1, "host": "elsewhere", "started": "1"}
    objects.write(PATH, json.dumps(record | fields).encode())


def test_a_lease_has_one_owner_and_can_be_given_back(objects: ObjectStore) -> None:
    one, other = Lease(objects, PATH), Lease(objects, PATH)
    one.acquire(_soon())
    with pytest.raises(LockTimeout, match="OMNIGRAPH_LOCK_TIMEOUT"):
        other.acquire(_soon())
    one.release()
    assert _stored(objects)["owner"] is None
    other.acquire(_soon())
    assert other.epoch > one.epoch


def test_an_owner_whose_answer_was_lost_takes_its_own_lease_at_once(objects: ObjectStore) -> None:
    lease, other = Lease(objects, PATH), Lease(objects, PATH)
    lease.acquire(_soon())
    lease._tag, lease._held = None, False  # as if the answers to taking it and giving it back had been lost
    with pytest.raises(LockTimeout):
        other.acquire(_soon())
    lease.acquire(_soon())
    assert _stored(objects)["epoch"] == lease.epoch == 2
    lease.release()
    other.acquire(_soon())


def test_a_store_that_does_not_take_a_lease_back_fails_nothing(
    objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = Lease(objects, PATH)
    lease.acquire(_soon())
    with monkeypatch.context() as patch:
        patch.setattr(objects, "replace", _fails)
        lease.release()
    assert _stored(objects)["owner"] is not None
    lease.acquire(_soon())
    assert lease.epoch == 2


def _fails(*given: object) -> str:
    raise StoreUnavailable("the store is away")


def test_whoever_has_waited_longest_looks_most_often() -> None:
    shortest, longest = limits.LEASE_POLL_SECONDS
    assert leases.look_again_after(0) == shortest, "a section is short"
    assert leases.look_again_after(0.5) == leases.look_again_after(1) == longest, "the store is spared"
    waits = [leases.look_again_after(second) for second in range(1, 60)]
    assert waits == sorted(waits, reverse=True)
    assert waits[-1] == shortest


def test_the_epoch_grows_with_every_taking(objects: ObjectStore) -> None:
    lease, seen = Lease(objects, PATH), []
    for _ in range(3):
        lease.acquire(_soon())
        seen.append(lease.epoch)
        lease.release()
    assert seen == sorted(set(seen))
    assert _stored(objects)["epoch"] == seen[-1]


def test_a_dead_owner_on_this_machine_is_recognised_at_once(s3: S3Server, s3_root: str, objects: ObjectStore) -> None:
    code = (
        "import sys, time, os, signal\n"
        "from omnigraph.storage.objects.locks import Lease\n"
        "from omnigraph.storage.objects.object_store import parse_location\n"
        "from omnigraph.storage.objects.object_store import ObjectStore\n"
        f"Lease(ObjectStore(parse_location(sys.argv[1])), '{PATH}').acquire(time.monotonic() + 10)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert run_child(code, s3_root, env=s3.env()).returncode == -9
    assert _stored(objects)["owner"] is not None
    started = time.monotonic()
    lease = Lease(objects, PATH)
    lease.acquire(_later())
    assert lease.epoch == 2
    assert time.monotonic() - started < _stored(objects)["seconds"] / 2


def test_a_reused_pid_is_another_process(objects: ObjectStore) -> None:
    _foreign(objects, host=leases._machine(), pid=os.getpid(), started="1")
    Lease(objects, PATH).acquire(_soon())
    _foreign(objects, host=leases._machine(), pid=os.getpid(), started=leases._started(os.getpid()))
    with pytest.raises(LockTimeout):
        Lease(objects, PATH).acquire(_soon())


def test_an_owner_elsewhere_is_waited_for_until_its_record_stood_still_for_its_life(objects: ObjectStore) -> None:
    _foreign(objects, seconds=0.4)
    started = time.monotonic()
    lease = Lease(objects, PATH)
    lease.acquire(_later())
    assert time.monotonic() - started >= 0.4
    assert lease.epoch == 8


def test_a_renewed_record_starts_the_watch_again(objects: ObjectStore) -> None:
    _foreign(objects, seconds=30)
    lease = Lease(objects, PATH)
    first = lease._try(None)
    assert first is not None
    assert lease._try(first) == first
    _foreign(objects, seconds=30, renewed=True)
    second = lease._try(first)
    assert second is not None
    assert second.tag != first.tag


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"epoch": "many"}'])
def test_an_unreadable_lease_is_a_typed_error(objects: ObjectStore, content: bytes) -> None:
    objects.write(PATH, content)
    with pytest.raises(CorruptGraph, match="unreadable"):
        Lease(objects, PATH).acquire(_soon())


def test_an_owner_knows_whether_anybody_was_there(objects: ObjectStore) -> None:
    owner = Lease(objects, PATH)
    owner.acquire(_soon())
    assert owner.is_held()
    _foreign(objects, epoch=owner.epoch + 1)
    assert not owner.is_held()
    owner.release()
    assert _stored(objects)["owner"] == "x", "a release must not take it from its new owner"


def test_an_owner_that_cannot_ask_does_not_know(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Lease(objects, PATH)
    owner.acquire(_soon())

    def fails(*_: object) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(objects, "replace", fails)
    assert not owner.is_held()


def test_work_that_takes_longer_than_a_lease_keeps_it(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_LEASE_SECONDS", "0.2")
    owner, other = Lease(objects, PATH), Lease(objects, PATH)
    owner.acquire(_soon())
    first = _stored(objects)["epoch"]
    with owner.kept():
        wait_until(lambda: _stored(objects)["epoch"] >= first + 4, timeout=10, what="renewals")
        with pytest.raises(LockTimeout):
            other.acquire(time.monotonic() + 0.5)
    assert owner.is_held()
    owner.release()
    other.acquire(_soon())


def test_a_writer_that_was_paused_too_long_cannot_publish(
    s3: S3Server, s3_root: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds staged tables and stands before the publish; meanwhile another process takes over and finishes it."""
    monkeypatch.setenv("OMNIGRAPH_LEASE_SECONDS", "0.5")
    people(s3_root, "a").close()
    meeting = tmp_path / "meeting"
    code = (
        "import sys\n"
        "import omnigraph as og\n"
        "from tests.support.small_graphs import persons\n"
        "graph = og.open(sys.argv[1], actor='act-slow')\n"
        "try:\n"
        "    print(graph.write([persons('slow')]).commit.id)\n"
        "except og.OmniGraphError as error:\n"
        "    print(error.code)\n"
    )
    slow = start_child(
        code,
        s3_root,
        env={**s3.env(), "OMNIGRAPH_FAILPOINTS": f"write.after_all_table_commits=pause:{meeting}"},
    )
    wait_until(meeting.with_name("meeting.reached").exists, timeout=60, what="the slow writer to stand before publish")
    with og.open(s3_root, actor="act-fast") as graph:
        fast = graph.write([persons("fast")]).commit
        assert fast is not None
        meeting.with_name("meeting.release").touch()
        out, errors = slow.communicate(timeout=60)
        assert slow.returncode == 0, errors
        assert ids_of(graph, "Person") == {"a", "slow", "fast"}, "the takeover finished the paused write"
        chain = graph.commits.list()
        assert [commit.actor for commit in chain] == ["act-fast", "act-slow", None, None]
        # The paused writer either finds its own commit or is told that it does not know; it never adds a second one.
        assert out.strip() in {chain[1].id, "recovery_required", "limit.lock_timeout", "outcome_unknown"}
        assert graph.commits.head() == fast


def test_the_epoch_is_in_the_head_and_grows(s3_root: str) -> None:
    with people(s3_root, "a") as graph:
        first = graph._store.snapshot("main").epoch
        graph.write([persons("b")])
        assert graph._store.snapshot("main").epoch > first > 0


def test_a_copied_graph_with_a_fresh_lease_can_be_written(s3: S3Server, s3_root: str) -> None:
    with people(s3_root, "a") as graph:
        graph.write([persons("b")])
        epoch = graph._store.snapshot("main").epoch
    copy = f"{s3.url}/{ids.new_ulid()}"
    source, target = s3_root.removeprefix(f"{s3.url}/"), copy.removeprefix(f"{s3.url}/")
    client = s3.client()
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=s3.bucket, Prefix=f"{source}/")
    for key in [entry["Key"] for page in pages for entry in page["Contents"]]:
        if not key.endswith(".lease"):
            client.copy_object(
                Bucket=s3.bucket, CopySource={"Bucket": s3.bucket, "Key": key}, Key=target + key.removeprefix(source)
            )
    with og.open(copy) as moved:
        moved.write([persons("z")])
        assert moved._store.snapshot("main").epoch >= epoch
        assert moved.snapshot().count("Person") == 3
    with og.open(s3_root) as graph:
        assert graph.snapshot().count("Person") == 2


def test_a_lost_acknowledgement_of_the_publish_is_found_on_s3(s3_root: str) -> None:
    with people(s3_root, "a") as graph:
        failpoints.arm("publish.lost_ack=lose")
        try:
            done = graph.write([persons("b")]).commit
        finally:
            failpoints.arm("")
        assert done == graph.commits.head()
        assert sidecar.pending(GraphStore(parse_location(s3_root)).objects) == []
