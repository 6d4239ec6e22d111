"""Every route, for every kind of caller, in every state of a server."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from omnigraph.server.operations import OPERATIONS
from tests.server.security.places import BELOW, TOKENS, Place, place
from tests.server.security.routes import ROUTES, Route
from tests.support.waiting import wait_until

names = pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)

#: What the policy grants, by actor. Scopes are tests of their own.
GRANTED = {
    "act-all": {route.needs for route in ROUTES},
    "act-reader": {"read"},
    "act-writer": {"read"},
    "act-exporter": {"export"},
    "act-stranger": set[str](),
}
FREE = ("/healthz", "/readyz", "/openapi.json", "/docs")


def test_the_table_has_every_route() -> None:
    assert sorted(route.name for route in ROUTES) == sorted(f"{one.method} {one.path}" for one in OPERATIONS)


def _status(place: Place, route: Route, **caller: str | None) -> int:
    headers = {"Content-Type": route.type, **route.headers} if route.body is not None else route.headers
    return place.ask(route.method, BELOW + route.target, route.content, headers, **caller).status


@names
@pytest.mark.parametrize("caller", ["none", "wrong", "empty", "other scheme", "lower case", "two"])
def test_without_a_known_token_every_route_is_closed(policy_place: Place, route: Route, caller: str) -> None:
    known = TOKENS["act-all"]
    header = {
        "none": (),
        "wrong": (("Authorization", f"Bearer {known}x"),),
        "empty": (("Authorization", "Bearer "),),
        "other scheme": (("Authorization", f"Basic {known}"),),
        "lower case": (("Authorization", f"bearer {known}"),),
        "two": (("Authorization", f"Bearer {known}"), ("Authorization", "Bearer other")),
    }[caller]
    given = (*header, ("Content-Type", route.type), *route.headers.items())
    reply = policy_place.ask(route.method, BELOW + route.target, route.content, given, actor=None)
    assert reply.status == 401
    if route.method != "HEAD":
        assert reply.json()["error"] in ("missing bearer token", "invalid bearer token")
        assert reply.json()["code"] == "unauthorized"


@names
def test_without_a_policy_a_token_only_reads(deny_place: Place, route: Route) -> None:
    status = _status(deny_place, route, actor="act-reader")
    if route.needs == "read":
        assert status not in (401, 403)
    elif route.needs == "invoke_query":
        assert status == 404
    else:
        assert status == 403


@names
@pytest.mark.parametrize("actor", GRANTED)
def test_a_policy_decides_about_every_route(policy_place: Place, route: Route, actor: str) -> None:
    status = _status(policy_place, route, actor=actor)
    if route.needs in GRANTED[actor]:
        assert status not in (401, 403)
    else:
        assert status == (404 if route.hidden else 403)


@names
def test_an_open_server_asks_nobody(open_place: Place, route: Route) -> None:
    assert _status(open_place, route, actor=None) not in (401, 403)
    assert _status(open_place, route, token="any-token-at-all") not in (401, 403)


def test_what_is_not_about_a_graph(open_place: Place, deny_place: Place, policy_place: Place) -> None:
    for at in (open_place, deny_place, policy_place):
        for path in FREE:
            assert at.ask("GET", path, actor=None).status == 200
    for at in (deny_place, policy_place):
        for path in ("/graphs", "/metrics", "/graphs/none/snapshot", "/graphs/%2e%2e/snapshot"):
            assert at.ask("GET", path, actor=None).status == 401
            assert at.ask("GET", path, token="wrong").status == 401
    assert open_place.ask("GET", "/graphs", actor=None).status == 403
    assert deny_place.ask("GET", "/graphs", actor="act-all").status == 403
    assert policy_place.ask("GET", "/graphs", actor="act-reader").status == 403
    assert policy_place.ask("GET", "/graphs", actor="act-all").status == 200


def test_an_unknown_graph_is_told_to_those_with_a_token_only(policy_place: Place) -> None:
    reply = policy_place.ask("GET", "/graphs/none/snapshot", actor="act-stranger")
    assert (reply.status, reply.json()["error"]) == (404, "graph 'none' not found")


@pytest.mark.parametrize("name", ["X-Actor-Id", "X-Omnigraph-Actor", "X-Forwarded-User", "Actor", "X-User"])
def test_the_actor_is_that_of_the_token(policy_place: Place, name: str) -> None:
    body = {"query": 'query q() { insert Person { name: "' + name + '" } }'}
    for field in ("actor", "actor_id"):
        named = policy_place.ask("POST", f"{BELOW}/mutate", {**body, field: "act-stranger"}, actor="act-all")
        assert named.status == 400 and f"`{field}`" in named.json()["error"]
        named = policy_place.ask("POST", f"{BELOW}/mutate?{field}=act-stranger", body, actor="act-all")
        assert named.status == 400 and f"'{field}'" in named.json()["error"]
    reply = policy_place.ask("POST", f"{BELOW}/mutate", body, {name: "act-stranger"}, actor="act-all")
    assert reply.status == 200
    assert reply.json()["actor_id"] == reply.json()["commit"]["actor_id"] == "act-all"


def test_a_token_ends_when_it_is_replaced(tmp_path: Path) -> None:
    with place(tmp_path, tokens=True, policy=True) as at:
        old = TOKENS["act-all"]
        assert at.ask("GET", f"{BELOW}/branches", token=old).status == 200
        changed = tmp_path / "tokens.new"
        changed.write_text(json.dumps({**TOKENS, "act-all": "another-token-of-all"}), "utf-8")
        os.replace(changed, tmp_path / "tokens.json")
        for route in ROUTES:
            assert _status(at, route, token=old) == 401, route.name
        assert at.ask("GET", f"{BELOW}/branches", token="another-token-of-all").status == 200
        assert at.ask("GET", f"{BELOW}/branches", actor="act-reader").status == 200

        # What cannot be read leaves the tokens as they are.
        (tmp_path / "tokens.json").write_text("{", "utf-8")
        wait_until(
            lambda: "cannot be used" in (at.ask("GET", "/healthz"), at.ask("GET", "/graphs"), at.log)[2],
            timeout=20,
            what="the log",
        )
        assert at.ask("GET", f"{BELOW}/branches", token="another-token-of-all").status == 200
        assert at.ask("GET", f"{BELOW}/branches", token=old).status == 401
        assert "another-token-of-all" not in at.log and old not in at.log
