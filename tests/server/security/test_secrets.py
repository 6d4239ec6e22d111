"""Nothing secret is told: not by errors, logs or figures, and not when the storage itself is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.security.leaks import leaks_of
from tests.server.security.places import BELOW, PRIVATE, TOKENS, Place, place
from tests.support.http_call import Reply
from tests.support.waiting import wait_until

_TOKEN = TOKENS["act-all"]


def test_wherever_a_token_is_put_it_comes_out_nowhere(policy_place: Place) -> None:
    tries: list[tuple[str, str, object, dict[str, str], str | None]] = [
        ("GET", f"{BELOW}/snapshot?token={_TOKEN}&access_token={_TOKEN}", None, {}, None),
        ("GET", f"{BELOW}/snapshot", None, {"Authorization": f"Token {_TOKEN}"}, None),
        ("GET", f"{BELOW}/snapshot", None, {"Authorization": f"Bearer {_TOKEN} {_TOKEN}"}, None),
        ("GET", f"{BELOW}/snapshot", None, {"Cookie": f"token={_TOKEN}", "X-Api-Key": _TOKEN}, None),
        ("GET", f"{BELOW}/snapshot", None, {}, "act-reader"),
        ("POST", f"{BELOW}/mutate", {"query": 'query q() { delete Person where name = "x" }'}, {}, "act-reader"),
        ("GET", "/graphs", None, {}, "act-stranger"),
    ]
    for method, target, body, headers, actor in tries:
        policy_place.ask(method, target, body, headers, actor=actor)
    wait_until(lambda: policy_place.log.count('"listGraphs"') > 0, timeout=20, what="the last record of the log")
    found = leaks_of(policy_place)
    assert found == []


def test_values_of_the_graph_and_of_requests_are_in_no_log(policy_place: Place) -> None:
    query = "query q($text: String) { match { $p: Person } where $p.text = $text return { $p.text } }"
    ask = {"query": "query q($text: String) { match { $p: Person { text: $text } } return { $p.text } }"}
    found = policy_place.ask("POST", f"{BELOW}/query", {**ask, "params": {"text": PRIVATE}})
    assert found.json()["rows"] == [{"p.text": PRIVATE}]
    wrong = policy_place.ask(
        "POST", f"{BELOW}/query", {"query": query.replace("$text", f'"{PRIVATE}'), "name": PRIVATE}
    )
    assert wrong.status == 400
    policy_place.ask("GET", f"{BELOW}/snapshot?branch={PRIVATE}")
    named = policy_place.ask("GET", "/healthz", headers={"X-Request-Id": "the-last-one"})
    assert named.status == 200
    wait_until(lambda: "the-last-one" in policy_place.log, timeout=20, what="the last record of the log")
    assert PRIVATE not in policy_place.log
    assert PRIVATE not in policy_place.ask("GET", "/metrics").text


def test_a_broken_storage_is_told_in_one_sentence(tmp_path: Path) -> None:
    with place(tmp_path, tokens=True, policy=True) as at:
        ask = {"query": "query q() { match { $p: Person } return { $p.name, $p.text } }", "at": at.head("draft")}
        for file in sorted(Path(at.uri).rglob("*")):
            if file.is_file():
                file.write_bytes(b"broken")
        replies = [
            at.ask("POST", f"{BELOW}/query", ask),
            at.ask("POST", f"{BELOW}/mutate", {"query": 'query q() { insert Person { name: "x" } }'}),
            at.ask("POST", f"{BELOW}/rows", {"type": "Person"}),
            at.ask("POST", f"{BELOW}/export", {}),
            at.ask("GET", f"{BELOW}/commits"),
            at.ask("GET", f"{BELOW}/blob?entity=node&type=Person&id=Ana&property=photo"),
        ]
        failed = [reply for reply in replies if reply.status >= 500]
        assert failed
        for reply in failed:
            assert reply.headers["x-request-id"] in reply.json()["error"]
        assert [leak for leak in leaks_of(at) if "status 50" not in leak] == []
        assert at.ask("GET", "/healthz").status == 200


@pytest.mark.parametrize(
    ("status", "body", "wanted"),
    [
        (200, f"see {_TOKEN}", "the token of act-all"),
        (400, 'Traceback (most recent call last):\n  File "a.py", line 3', "a stack trace"),
        (404, "{folder}/staff.omni is missing", "a path of the server"),
        (500, "oh", "status 500"),
    ],
)
def test_a_planted_leak_is_found(deny_place: Place, status: int, body: str, wanted: str) -> None:
    folder = str(deny_place.folder)
    planted = Reply(status, {}, body.replace("{folder}", folder).encode())
    seen = [("GET /planted", planted)]
    found = leaks_of(Place(deny_place.folder, deny_place.process, deny_place.port, deny_place.tokens, seen))
    assert len(found) == 1 and wanted in found[0]
