"""The S3 server that tests use behaves like S3 where our protocol depends on it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import obstore
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

from tests.support.moto_server import moto_server
from tests.support.s3_server import S3Server
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from obstore import UpdateVersion  # exists for type checkers only

pytestmark = pytest.mark.s3

RIVALS = 8


def test_the_second_create_of_one_object_is_refused(s3_root: str) -> None:
    store = S3Store.from_url(s3_root)
    obstore.put(store, "lease", b"first", mode="create")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "lease", b"second", mode="create")
    assert bytes(obstore.get(store, "lease").bytes()) == b"first"


def test_a_replace_with_a_stale_etag_is_refused(s3_root: str) -> None:
    store = S3Store.from_url(s3_root)
    tag = obstore.put(store, "lease", b"first", mode="create")["e_tag"]
    assert tag
    # Without versioning the result names no version, and obstore takes a missing one but not None.
    stale: UpdateVersion = {"e_tag": tag}
    obstore.put(store, "lease", b"second", mode=stale)
    with pytest.raises(PreconditionError):
        obstore.put(store, "lease", b"third", mode=stale)
    assert bytes(obstore.get(store, "lease").bytes()) == b"second"


@pytest.mark.parametrize("condition", ["new", "unchanged"])
def test_of_many_conditional_writes_at_once_one_wins(s3: S3Server, s3_root: str, condition: str) -> None:
    key = f"{s3_root.removeprefix(f'{s3.url}/')}/lease"
    clients = [s3.client() for _ in range(RIVALS)]
    for number in range(10):
        if condition == "unchanged":
            tag = clients[0].put_object(Bucket=s3.bucket, Key=key, Body=f"before {number}".encode())["ETag"]
            wanted = {"Key": key, "IfMatch": tag}
        else:
            wanted = {"Key": f"{key}-{number}", "IfNoneMatch": "*"}
        start = threading.Barrier(RIVALS)

        def put(rival: int, wanted: dict[str, str] = wanted, start: threading.Barrier = start) -> bool:
            start.wait(30)
            try:
                clients[rival].put_object(Bucket=s3.bucket, Body=f"by {rival}".encode(), **wanted)
            except ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412)
                return False
            return True

        with ThreadPoolExecutor(RIVALS) as pool:
            won = [rival for rival, done in enumerate(pool.map(put, range(RIVALS))) if done]
        assert len(won) == 1
        content = clients[0].get_object(Bucket=s3.bucket, Key=wanted["Key"])["Body"].read()
        assert content == f"by {won[0]}".encode()


def test_lance_writes_and_reads_through_the_environment(s3_root: str) -> None:
    uri = f"{s3_root}/people.lance"
    lance.write_dataset(pa.table({"id": ["a", "b"]}), uri)
    assert lance.dataset(uri).count_rows() == 2


def test_each_root_is_empty(s3: S3Server, s3_root: str) -> None:
    assert s3_root.startswith(f"{s3.url}/")
    assert list(obstore.list(S3Store.from_url(s3_root))) == []


def test_the_server_has_its_own_bucket_restores_the_environment_and_ends() -> None:
    before = dict(os.environ)
    with moto_server("another-bucket") as server:
        assert os.environ["AWS_ENDPOINT_URL"] == server.endpoint
        store = S3Store.from_url(server.url)
        obstore.put(store, "x", b"1")
        server.reset()
        assert list(obstore.list(store)) == []
        obstore.put(store, "x", b"1", mode="create")
        port = int(server.endpoint.rpartition(":")[2])
    assert dict(os.environ) == before
    assert not _listens(port)


def test_the_server_ends_when_its_parent_is_killed() -> None:
    code = (
        "import os, signal\n"
        "from tests.support.moto_server import moto_server\n"
        "with moto_server() as server:\n"
        "    print(server.endpoint.rpartition(':')[2], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    parent = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, timeout=120, check=False)
    assert parent.returncode == -9
    port = int(parent.stdout)
    wait_until(lambda: not _listens(port), timeout=10, what="the orphaned S3 server to end")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
