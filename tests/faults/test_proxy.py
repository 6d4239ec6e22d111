"""The rig itself: each fault does what its name says, and a write that ends wrongly is noticed."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from omnigraph.errors import StoreUnavailable
from omnigraph.storage.objects.locks import Lease
from tests.faults.rig import fault_rig
from tests.support.fault_proxy import READS, Fault, FaultProxy
from tests.support.s3_server import S3Server

pytestmark = pytest.mark.s3

#: The server wants to see a signature; which one does not matter to it.
SIGNED = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00000000000000"
)


@pytest.fixture
def proxy(s3: S3Server) -> Iterator[tuple[FaultProxy, str]]:
    if s3.checks_signatures:
        pytest.skip("the server wants signed requests, and those of this rig are bare")
    made = FaultProxy(s3.endpoint)
    with made.serve() as address:
        yield made, address


def ask(address: str, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes] | None:
    """Status and content of an answer; None when the connection ended instead."""
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body, {"Authorization": SIGNED, **named})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (http.client.HTTPException, ConnectionError):
        return None
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("kind", "status", "there"),
    [
        ("500", 500, False),
        ("503", 503, False),
        ("429", 429, False),
        ("reset_before", None, False),
        ("reset_after", None, True),
        ("late", None, True),
    ],
)
def test_a_fault_happens_to_the_chosen_request_alone(
    proxy: tuple[FaultProxy, str], s3: S3Server, s3_root: str, kind: str, status: int | None, there: bool
) -> None:
    made, address = proxy
    path = urlsplit(s3_root).path
    names = [f"/{s3.bucket}{path}/{number}" for number in range(3)]
    with made.armed(Fault(kind, first=2, part=path)):
        ended = [ask(address, "PUT", name, b"content") for name in names]
    made.let_late_effects_happen()
    assert [answer[0] if answer else None for answer in ended] == [200, status, 200]
    assert made.seen == 3
    found = [ask(s3.endpoint, "GET", name) for name in names]
    assert [answer is not None and answer[0] == 200 for answer in found] == [True, there, True]


def test_conditional_refusals_are_for_conditional_requests(
    proxy: tuple[FaultProxy, str], s3: S3Server, s3_root: str
) -> None:
    made, address = proxy
    name = f"/{s3.bucket}{urlsplit(s3_root).path}/x"
    with made.armed(Fault("412")):
        assert ask(address, "PUT", name, b"content") == (200, b"")
        refused = ask(address, "PUT", f"{name}2", b"content", If_None_Match="*")
        assert refused is not None and refused[0] == 412
        assert ask(address, "PUT", f"{name}2", b"content", If_None_Match="*") == (200, b"")


def test_half_an_answer_is_cut_off(proxy: tuple[FaultProxy, str], s3: S3Server, s3_root: str) -> None:
    made, address = proxy
    name = f"/{s3.bucket}{urlsplit(s3_root).path}/x"
    ask(address, "PUT", name, b"0123456789")
    with made.armed(Fault("cut", methods=READS)):
        assert ask(address, "GET", name) is None
        assert ask(address, "GET", name) == (200, b"0123456789")


def test_a_write_that_is_done_and_called_refused_is_noticed(
    s3: S3Server, s3_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted defect: the turn cannot be given back, and the write that happened fails with it."""
    real, releases = Lease.release, []

    def release(lease: Lease) -> None:
        real(lease)
        releases.append(lease)
        if len(releases) == 1:
            raise StoreUnavailable("the turn was not taken back")

    with fault_rig(s3, s3_root, tmp_path) as place, monkeypatch.context() as patch:
        patch.setattr(Lease, "release", release)
        with pytest.raises(AssertionError, match="ended as StoreUnavailable"):
            place.attempt("insert", Fault("503", first=10_000))
