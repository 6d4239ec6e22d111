"""Where tokens come from, and how they change while the server runs."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from omnigraph.errors import InputError, StoreUnavailable, Unauthenticated
from omnigraph.server.server_settings import GraphSettings, ServerSettings
from omnigraph.server.tokens import TokenSources, TokenTable
from tests.support.http_call import call
from tests.support.served import serving
from tests.support.server_process import server_process
from tests.support.waiting import wait_until

SERVER = "OMNIGRAPH_SERVER_BEARER_"
STATS = "/graphs/people/branches"


def actor_of(tokens: TokenTable, token: str) -> str | None:
    try:
        return tokens.actor(f"Bearer {token}")
    except Unauthenticated:
        return None


def test_a_token_stands_for_its_actor() -> None:
    tokens = TokenTable(TokenSources(text='{" act-ana ": " one ", "act-bo": "two"}'))
    assert (actor_of(tokens, "one"), actor_of(tokens, "two"), actor_of(tokens, "three")) == ("act-ana", "act-bo", None)
    assert "one" not in repr(vars(tokens)["_actors"])


@pytest.mark.parametrize(
    ("header", "told"),
    [
        (None, "missing"),
        ("", "missing"),
        ("Bearer", "missing"),
        ("Bearer ", "missing"),
        ("bearer one", "missing"),
        ("BEARER one", "missing"),
        ("Basic one", "missing"),
        ("one", "missing"),
        ("Bearer one two", "invalid"),
        ("Bearer on", "invalid"),
        ("Bearer onee", "invalid"),
        ("Bearer \xff", "invalid"),
    ],
)
def test_other_headers_are_refused(header: str | None, told: str) -> None:
    with pytest.raises(Unauthenticated) as caught:
        TokenTable(TokenSources(token="one")).actor(header)
    assert caught.value.message == f"{told} bearer token"


def test_sources_of_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"act-file": "f"}', "utf-8")
    both = {f"{SERVER}TOKEN": "t", f"{SERVER}TOKENS_FILE": str(file), f"{SERVER}TOKENS_JSON": '{"act-json": "j"}'}
    tokens = TokenTable(TokenSources.of(both))
    assert [actor_of(tokens, each) for each in "tfj"] == ["default", "act-file", None]
    del both[f"{SERVER}TOKENS_FILE"]
    assert [actor_of(TokenTable(TokenSources.of(both)), each) for each in "tfj"] == ["default", None, "act-json"]
    both[f"{SERVER}TOKENS_AWS_SECRET"] = "name"
    assert TokenSources.of(both) == TokenSources(secret="name")
    assert TokenSources.of(both, file) == TokenSources(token="t", file=file)
    assert not TokenSources.of({f"{SERVER}TOKEN": "  "}).any


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"": "a"}', "without a name"),
        ('{"act-ana": " "}', "is blank"),
        ('{"act-ana": "a", " act-ana": "b"}', "has two tokens"),
        ('{"act-ana": "a", "act-ana": "b"}', "has two tokens"),
        ('{"act-ana": "a", "act-bo": "a "}', "the same token"),
        ('{"act-ana": "a b"}', "no header"),
        ('{"act-ana": "ä"}', "no header"),
        ('{"act-ana": 3}', "is not a JSON object"),
        ('{"act-ana": {"x": "s3cret"}}', "is not a JSON object"),
        ('["s3cret"]', "is not a JSON object"),
        ('[["act-ana", "s3cret"]]', "is not a JSON object"),
        ('{"act-ana": "s3cret"', "is not a JSON object"),
        ("[" * 100_000, "is not a JSON object"),
        ("", "is not a JSON object"),
    ],
)
def test_wrong_tokens_stop_the_start_and_are_not_told(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        TokenSources(text=text).read()
    assert "s3cret" not in str(caught.value)


def test_the_secret_of_a_cloud_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        client = boto3.client("secretsmanager")
        client.create_secret(Name="graph/tokens", SecretString='{"act-ana": "one"}')
        tokens = TokenTable(TokenSources(secret="graph/tokens"))
        assert actor_of(tokens, "one") == "act-ana"
        client.put_secret_value(SecretId="graph/tokens", SecretString='{"act-ana": "two"}')
        tokens.reload()
        assert (actor_of(tokens, "one"), actor_of(tokens, "two")) == (None, "act-ana")
        with pytest.raises(StoreUnavailable, match="'graph/other' cannot be read"):
            TokenTable(TokenSources(secret="graph/other"))


def test_a_file_that_changes_counts_at_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"act-ana": "first"}', "utf-8")
    tokens = TokenTable(TokenSources(file=file))
    assert actor_of(tokens, "first") == "act-ana"
    file.write_text('{"act-ana": "second"}', "utf-8")
    assert (actor_of(tokens, "first"), actor_of(tokens, "second")) == (None, "act-ana")
    with caplog.at_level(logging.ERROR, "omnigraph.server"):
        file.write_text('{"act-ana": "third"', "utf-8")
        assert (actor_of(tokens, "second"), actor_of(tokens, "third")) == ("act-ana", None)
        file.write_text("{}", "utf-8")
        assert actor_of(tokens, "second") == "act-ana"
        file.unlink()
        assert actor_of(tokens, "second") == "act-ana"
    assert caplog.text.count("those from before hold") == 3 and "there is no token in it" in caplog.text
    assert "third" not in caplog.text
    file.write_text('{"act-bo": "fourth"}', "utf-8")
    assert (actor_of(tokens, "second"), actor_of(tokens, "fourth")) == (None, "act-bo")


def test_a_running_server_follows_its_file(people_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"act-ana": "old"}', "utf-8")
    settings = ServerSettings((GraphSettings("people", str(people_path)),), tokens=TokenSources(file=file))
    with serving(settings) as found:
        assert call(found.port, "GET", STATS, token="old").status == 200
        file.write_text('{"act-ana": "new"}', "utf-8")
        assert [call(found.port, "GET", STATS, token=each).status for each in ("old", "new")] == [401, 200]


def test_sighup_reads_the_sources_again(people_path: Path) -> None:
    with server_process(people_path, tokens={"act-ana": "tok"}) as found:
        found.signal(signal.SIGHUP)
        wait_until(lambda: "tokens were read again" in found.log_text(), timeout=30, what="the tokens")
        assert call(found.port, "GET", STATS, token="tok").status == 200


def test_sighup_does_not_end_a_server_without_tokens(people_path: Path) -> None:
    with server_process(people_path) as found:
        found.signal(signal.SIGHUP)
        assert call(found.port, "GET", STATS).status == 200
        assert found.stop() == 0


@pytest.mark.parametrize("header", [(), (("X-Actor-Id", "act-bo"), ("Actor", "act-bo"))])
def test_the_actor_comes_from_the_token_only(
    serve_probes: Callable[..., object], header: tuple[tuple[str, str], ...]
) -> None:
    port = serve_probes(tokens={"act-ana": "tok"}).port  # type: ignore[attr-defined]
    answer = call(port, "POST", "/graphs/people/echo", {"text": "x"}, header, token="tok")
    assert answer.json()["actor"] == "act-ana"
    twice = call(port, "POST", "/graphs/people/echo", {"text": "x"}, [("Authorization", "Bearer x")], token="tok")
    assert twice.status == 401 and twice.headers["www-authenticate"] == "Bearer"
    assert json.loads(twice.body)["code"] == "unauthorized"
