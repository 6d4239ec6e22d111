"""The rig itself: a held request ends as it is told, and what a case must not show is noticed."""

from __future__ import annotations

import http.client
import threading
from urllib.parse import urlsplit

import pytest

import omnigraph as og
from tests.support.holding_proxy import ANY, End, Hold, HoldingProxy
from tests.support.ledger import Operation
from tests.support.s3_server import S3Server
from tests.support.waiting import wait_until
from tests.takeover.case import Case, StepEnd, Told, branch_violations, ledger_violations, operations
from tests.takeover.rig import TakeoverRig
from tests.takeover.shown import Shown, hold_against
from tests.takeover.writers import ACTOR, Ground, pair_values

GROUND = Ground(1)
DONE, REFUSED, UNKNOWN = StepEnd("acknowledged", "done"), StepEnd("refused", "BranchExists"), StepEnd("unknown", "?")
#: The server wants to see a signature; which one does not matter to it.
SIGNED = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00"


def _put(address: str, path: str, answers: list[int | None]) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    try:
        connection.request("PUT", path, b"content", {"Authorization": SIGNED})
        answers.append(connection.getresponse().status)
    except (http.client.HTTPException, ConnectionError):
        answers.append(None)
    finally:
        connection.close()


@pytest.mark.s3
@pytest.mark.parametrize(("end", "status", "there"), [("answered", 200, 1), ("lost", None, 0), ("unheard", None, 1)])
def test_a_held_request_has_no_effect_until_it_ends(
    s3: S3Server, s3_root: str, end: End, status: int | None, there: int
) -> None:
    if s3.checks_signatures:
        pytest.skip("the server wants signed requests, and those of this rig are bare")
    prefix = s3_root.removeprefix(f"{s3.url}/")
    proxy, held, others = HoldingProxy(s3.endpoint), list[int | None](), list[int | None]()

    def count() -> int:
        return int(s3.client().list_objects_v2(Bucket=s3.bucket, Prefix=f"{prefix}/x")["KeyCount"])

    with proxy.serve() as address, proxy.holding(Hold(2, ANY, prefix, after="/first")):
        for name in ("before", "first", "one"):
            _put(address, f"/{s3.bucket}/{prefix}/{name}", others)
        thread = threading.Thread(target=_put, args=(address, f"/{s3.bucket}/{prefix}/x", held))
        thread.start()
        wait_until(lambda: proxy.holds, timeout=30, what="the request")
        _put(address, f"/{s3.bucket}/{prefix}/other", others)
        assert (others, held, count()) == ([200] * 4, [], 0)
        proxy.release(end)
        thread.join(30)
    assert held == [status]
    assert count() == there


@pytest.mark.parametrize(
    ("first", "second", "existed", "exists", "explained"),
    [
        ([DONE], [REFUSED], False, True, True),
        ([DONE], [DONE, DONE], False, True, False),  # both made it
        ([UNKNOWN], [DONE, DONE], False, True, True),
        ([REFUSED], [DONE, DONE], False, False, False),  # made, and gone
        ([UNKNOWN], [REFUSED], False, False, True),
    ],
)
def test_what_was_done_to_a_branch_explains_whether_it_is_there(
    first: list[StepEnd], second: list[StepEnd], existed: bool, exists: bool, explained: bool
) -> None:
    told = [Told("branch_create", "a1", first), Told("create_write", "b1", second)]
    assert (branch_violations(GROUND, told, existed, exists) == []) == explained


@pytest.mark.parametrize(
    ("ends", "there", "explained"),
    [
        ((DONE, DONE), ["a1", "b1"], True),
        ((DONE, DONE), ["a1"], False),
        ((DONE, DONE), ["a1", "b1", "b1"], False),
        ((UNKNOWN, DONE), ["b1"], True),
        ((REFUSED, DONE), ["a1", "b1"], False),
    ],
)
def test_acknowledged_is_there_once_and_refused_is_not(
    ends: tuple[StepEnd, StepEnd], there: list[str], explained: bool
) -> None:
    told = [Told("insert", "a1", [ends[0]]), Told("insert", "b1", [ends[1]])]
    shown = dict.fromkeys(pair_values("a1"), there)
    assert (ledger_violations(operations(GROUND, told, {}), shown) == []) == explained


def test_what_was_overwritten_meanwhile_may_be_there_or_not_but_never_in_part() -> None:
    told = [Told("insert", "a1", [DONE]), Told("overwrite", "b1", [DONE])]
    before = pair_values("seed")
    noted = [Operation("before", before, state="acknowledged"), *operations(GROUND, told, before)]
    person, knows = before
    for there in (["b1"], ["a1", "b1"]):
        assert ledger_violations(noted, {person: there, knows: there}) == []
    assert ledger_violations(noted, {person: ["a1", "b1"], knows: ["b1"]}) != []
    assert ledger_violations(noted, {person: ["seed", "b1"], knows: ["b1"]}) != []


def test_rows_of_earlier_cases_that_survive_an_overwrite_are_wrong() -> None:
    case = Case("overwrite", "insert", Hold(), "late", Ground(2), noted=[Operation("before", {})])
    case.told = [Told("overwrite", "a2", [DONE]), Told("insert", "b2", [REFUSED])]
    found: Shown = {1: {"main node:Company": ["c1"]}, 2: {name: ["a2"] for name in pair_values("a2")}}
    hold_against(found, [case])
    assert case.wrong == []
    found[1]["main node:Person"] = ["a1"]
    hold_against(found, [case])
    assert case.wrong == ["main node:Person: ['a1'] of case 1 are there after an overwrite"]


@pytest.mark.s3
def test_a_row_that_is_lost_after_its_case_is_found_and_names_its_case(place: TakeoverRig) -> None:
    cases = [place.play_at("insert", "insert", Hold(number)) for number in (1, 2, 3)]
    mark = cases[1].told[1].mark
    with og.open(place.uri, actor=ACTOR) as graph:
        graph.mutate("query drop($m: String) { delete Person where name = $m }", params={"m": mark})
    with pytest.raises(AssertionError, match=rf"{mark}' of acknowledged operation {mark}.0 is there 0 times, not 1"):
        place.finish()
    assert [bool(case.wrong) for case in cases] == [False, True, False]


@pytest.mark.s3
def test_a_graph_that_is_damaged_after_its_last_case_fails_the_test(place: TakeoverRig, s3: S3Server) -> None:
    place.play_at("insert", "insert", Hold())
    key = place.uri.removeprefix(f"{s3.url}/")
    files = s3.client().list_objects_v2(Bucket=s3.bucket, Prefix=f"{key}/nodes/")["Contents"]
    # All of them: some hold only rows of an attempt that was overtaken, which nothing shows.
    for lost in [each["Key"] for each in files if each["Key"].endswith(".lance")]:
        s3.client().delete_object(Bucket=s3.bucket, Key=lost)
    with pytest.raises(AssertionError, match=r"CorruptGraph|verify: "):
        place.finish()
