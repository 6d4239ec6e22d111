"""What a server with or without tokens and policies allows, and when it does not start."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from omnigraph.errors import DeniedError, InputError, OmniGraphError, PolicyError
from omnigraph.server.asgi_app import make_app
from omnigraph.server.server_settings import GraphSettings, ServerSettings
from omnigraph.server.tokens import TokenSources
from tests.support.http_call import call
from tests.support.served import served
from tests.support.small_graphs import people

TOKENS = {"act-ana": "ana", "act-bo": "bo"}
RULES = """
version: 1
groups: {team: [act-ana]}
protected_branches: [main]
rules:
  - {id: see, allow: {actors: {group: team}, actions: [read]}}
  - {id: write, allow: {actors: {group: team}, actions: [change, branch_create]}}
"""
SERVER_RULES = """
version: 1
groups: {ops: [act-ana]}
rules: [{id: list, allow: {actors: {group: ops}, actions: [graph_list]}}]
"""
ADD = {"query": 'query q() { insert Person { handle: "new" } }'}
COUNT = {"query": "query q() { match { $p: Person } return { count($p) as n } }"}
HERE = "/graphs/people"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    people(tmp_path / "people.omni", "ana").close()
    return tmp_path / "people.omni"


def statuses(port: int, token: str | None) -> dict[str, int]:
    """What somebody may do."""
    asked: dict[str, tuple[str, str, Any]] = {
        "read": ("POST", f"{HERE}/query", COUNT),
        "change": ("POST", f"{HERE}/mutate", ADD),
        "create": ("POST", f"{HERE}/branches", {"name": "x"}),
        "list": ("GET", "/graphs", None),
    }
    return {name: call(port, *what, token=token).status for name, what in asked.items()}


def test_without_tokens_and_rules_everything_but_the_list_is_open(path: Path) -> None:
    with served({"people": path}) as found:
        assert statuses(found.port, None) == {"read": 200, "change": 200, "create": 200, "list": 403}
        assert (
            call(found.port, "POST", f"{HERE}/mutate", {"query": ADD["query"].replace("new", "n2")}).json()["actor_id"]
            is None
        )


def test_a_server_of_this_machine_without_tokens_is_not_called_by_a_strangers_name(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served({"people": path}) as found:

        def status(host: str, method: str = "POST", target: str = f"{HERE}/mutate", body: Any = ADD) -> int:
            return call(found.port, method, target, body, {"Host": host}).status

        assert status("evil.example") == status(f"evil.example:{found.port}") == status("127.0.0.1.evil.example") == 403
        assert status("evil.example", "GET", f"{HERE}/schema", None) == 403
        assert status(f"localhost:{found.port}") == 200
        assert status("[::1]:80", "GET", f"{HERE}/schema", None) == 200
        monkeypatch.setenv("OMNIGRAPH_HOSTS", "graph.internal")
        assert status("graph.internal:80", "GET", f"{HERE}/schema", None) == 200
    with served({"people": path}, tokens=TOKENS) as found:
        assert call(found.port, "GET", f"{HERE}/schema", None, {"Host": "graph.internal"}, token="ana").status == 200


def test_with_tokens_and_no_rules_only_reading_is_open(path: Path) -> None:
    with served({"people": path}, tokens=TOKENS) as found:
        assert statuses(found.port, "ana") == {"read": 200, "change": 403, "create": 403, "list": 403}
        assert statuses(found.port, "no") == dict.fromkeys(("read", "change", "create", "list"), 401)


def test_with_rules_they_decide_and_follow_their_file(path: Path, tmp_path: Path) -> None:
    rules, server_rules = tmp_path / "rules.yaml", tmp_path / "server.yaml"
    rules.write_text(RULES, "utf-8")
    server_rules.write_text(SERVER_RULES, "utf-8")
    with served({"people": path}, tokens=TOKENS, policy=rules, server_policy=server_rules) as found:
        assert statuses(found.port, "ana") == {"read": 200, "change": 200, "create": 200, "list": 200}
        assert statuses(found.port, "bo") == {"read": 403, "change": 403, "create": 403, "list": 403}
        listed = call(found.port, "GET", "/graphs", token="ana").json()
        assert listed == {"graphs": [{"graph_id": "people", "uri": found.app.opened.graphs["people"].uri}]}
        rules.write_text(RULES.replace("[act-ana]", "[act-bo]"), "utf-8")
        assert statuses(found.port, "ana")["read"] == 403
        assert statuses(found.port, "bo")["read"] == 200


def test_a_decision_stands_once_in_the_audit_log(path: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"
    with served({"people": path}, tokens=TOKENS, audit=str(log)) as found:
        denied = call(found.port, "POST", f"{HERE}/mutate", ADD, {"X-Request-Id": "r-1"}, token="ana")
        allowed = call(found.port, "POST", f"{HERE}/query", COUNT, {"X-Request-Id": "r-2"}, token="ana")
        listed = call(found.port, "GET", "/graphs", None, {"X-Request-Id": "r-3"}, token="ana")
    assert [each.status for each in (denied, allowed, listed)] == [403, 200, 403]
    records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    told = [(each["request_id"], each["actor"], each["action"], each["decision"]) for each in records]
    assert told == [
        ("r-1", "act-ana", "change", "deny"),
        ("r-2", "act-ana", "read", "allow"),
        ("r-3", "act-ana", "graph_list", "deny"),
    ]


def test_a_stored_query_that_may_not_be_run_does_not_exist(path: Path, tmp_path: Path) -> None:
    queries = tmp_path / "people.gq"
    queries.write_text(COUNT["query"].replace("query q", "query people_count"), "utf-8")
    with served({"people": path}, tokens=TOKENS, queries=queries) as found:
        hidden = call(found.port, "POST", f"{HERE}/queries/people_count", {}, token="ana")
        unknown = call(found.port, "POST", f"{HERE}/queries/other", {}, token="ana")
    assert hidden.status == unknown.status == 404
    assert hidden.json()["error"] == unknown.json()["error"] == "stored query not found"


def settings(path: Path, **more: Any) -> ServerSettings:
    return ServerSettings((GraphSettings("people", str(path), policy=more.pop("rules", None)),), **more)


def refusal(given: ServerSettings) -> OmniGraphError:
    with pytest.raises(OmniGraphError) as caught:
        make_app(given)
    return caught.value


def test_starts_that_would_be_unclear_are_refused(path: Path, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES, "utf-8")
    no_tokens = refusal(settings(path))
    assert isinstance(no_tokens, DeniedError) and "--unauthenticated" in str(no_tokens)
    only_rules = refusal(settings(path, rules=rules, unauthenticated=True))
    assert isinstance(only_rules, DeniedError) and "no token" in str(only_rules)
    (tmp_path / "server.yaml").write_text(SERVER_RULES, "utf-8")
    assert "no token" in str(refusal(settings(path, policy=tmp_path / "server.yaml", unauthenticated=True)))
    assert "holds none" in str(refusal(settings(path, tokens=TokenSources(text="{}"))))
    rules.write_text("version: 2", "utf-8")
    assert isinstance(refusal(settings(path, rules=rules, tokens=TokenSources(token="x"))), PolicyError)


def test_a_graph_that_cannot_be_opened_is_left_out(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.ERROR, "omnigraph.server"),
        served({"people": path, "gone": tmp_path / "gone"}) as found,
    ):
        assert call(found.port, "POST", f"{HERE}/query", COUNT).status == 200
        assert call(found.port, "POST", "/graphs/gone/query", COUNT).json()["error"] == "graph 'gone' not found"
        ready = call(found.port, "GET", "/readyz").json()
        assert (ready["served_graph_count"], ready["quarantined_graph_count"]) == (1, 1)
    assert "graph 'gone' cannot be opened" in caplog.text
    both = (GraphSettings("people", str(path)), GraphSettings("gone", str(tmp_path / "gone")))
    assert "gone" in str(refusal(ServerSettings(both, unauthenticated=True, require_all_graphs=True)))
    nothing = refusal(ServerSettings(both[1:], unauthenticated=True))
    assert isinstance(nothing, InputError) and "none of the graphs can be opened" in nothing.message
