"""Tokens of the operator: where they are kept, who may read them, and which address gets which."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.cli.config import Config
from omnigraph.cli.credentials import owner_of, remove_token, store_token, stored_token, token_for, token_variable
from omnigraph.errors import DeniedError, InputError
from tests.support.command_line import CommandLine

SERVERS = Config(
    servers={
        "prod": "https://prod.example",
        "prod-eu": "https://prod.example/eu/",
        "local": "http://127.0.0.1:8080",
        "half": None,
    }
)


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of an operator without any token."""
    for name in list(os.environ):
        if name.startswith("OMNIGRAPH_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://prod.example", "prod"),
        ("https://prod.example/graphs/people", "prod"),
        ("HTTPS://PROD.example/graphs/people/", "prod"),
        ("https://prod.example/eu", "prod-eu"),
        ("https://prod.example/eu/graphs/people", "prod-eu"),
        ("https://prod.example/europe", "prod"),
        ("https://prod.example.evil/graphs/people", None),
        ("https://prod.example:8443/graphs/people", None),
        ("http://prod.example/graphs/people", None),
        ("http://127.0.0.1:8080/graphs/people", "local"),
        ("http://127.0.0.1:80801/graphs/people", None),
    ],
)
def test_an_address_belongs_to_the_server_with_the_longest_url_that_begins_it(url: str, name: str | None) -> None:
    assert owner_of(url, SERVERS) == name


def test_the_environment_comes_before_the_file_and_the_token_for_all_last(
    operator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = "https://prod.example/eu/graphs/people"
    assert token_for(graph, SERVERS) is None
    monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", " for-all\n")
    assert token_for(graph, SERVERS) == "for-all"
    assert token_for("http://elsewhere.example", SERVERS) == "for-all"
    store_token("prod-eu", "in-file")
    assert token_for(graph, SERVERS) == "in-file"
    assert token_variable("prod-eu") == "OMNIGRAPH_TOKEN_PROD_EU"
    monkeypatch.setenv("OMNIGRAPH_TOKEN_PROD_EU", "in-environment")
    assert token_for(graph, SERVERS) == "in-environment"
    monkeypatch.setenv("OMNIGRAPH_TOKEN_PROD_EU", " ")
    assert token_for(graph, SERVERS) == "in-file"
    assert token_for("https://prod.example/graphs/people", SERVERS) == "for-all"


def test_a_section_is_replaced_and_everything_else_stays(operator: Path) -> None:
    operator.mkdir()
    path = operator / "credentials"
    path.write_text("# mine\n[a]\ntoken = 'one'\n# token = old\n\n[b]\ntoken=\"two = 2\"\n[c]\nother = x\n", "utf-8")
    path.chmod(0o600)
    assert [stored_token(name) for name in "abcd"] == ["one", "two = 2", None, None]
    store_token("a", "new")
    assert path.read_text("utf-8") == ('# mine\n[b]\ntoken="two = 2"\n[c]\nother = x\n[a]\ntoken = new\n')
    remove_token("b")
    remove_token("never there")
    assert [stored_token(name) for name in "abc"] == ["new", None, None]
    store_token("d", '"quoted"')
    assert stored_token("d") == '"quoted"'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(operator) == ["credentials"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_file_that_others_can_use_is_refused(operator: Path, mode: int) -> None:
    store_token("a", "secret")
    path = operator / "credentials"
    path.chmod(mode)
    uses: list[Callable[[], object]] = [
        lambda: stored_token("a"),
        lambda: store_token("b", "x"),
        lambda: remove_token("a"),
    ]
    for use in uses:
        with pytest.raises(DeniedError, match="others can read the tokens") as refused:
            use()
        assert refused.value.hint == f"chmod 600 {path}"
        assert "secret" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_one_sentence(operator: Path) -> None:
    operator.mkdir()
    path = operator / "credentials"
    path.write_bytes(b"[a]\ntoken = \xff\n")
    path.chmod(0o600)
    with pytest.raises(InputError, match="is not UTF-8 text"):
        stored_token("a")


def test_login_stores_a_token_and_logout_forgets_it(shell: CommandLine) -> None:
    path = shell.folder / "home" / "credentials"
    config = shell.folder / "home" / "config.yaml"
    config.write_text("servers: {prod: {url: 'https://prod.example'}}\n", "utf-8")
    stored = shell.ok("login", "prod", "--token", "tok-1")
    assert (stored.out, stored.err) == (f"stored credential for prod in {path}\n", "")
    assert path.read_text("utf-8") == "[prod]\ntoken = tok-1\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    piped = shell.run("login", "other", "--json", given="tok-2\nmore\n")
    assert piped.json == {"server": "other", "credentials_path": str(path), "declared": False}
    assert piped.err == f"note: no server 'other' is declared in {config}; the token waits for one\n"
    assert path.read_text("utf-8") == "[prod]\ntoken = tok-1\n[other]\ntoken = tok-2\n"
    for _ in range(2):
        gone = shell.ok("logout", "prod", "--json")
        assert gone.json == {"server": "prod", "credentials_path": str(path)}
    assert path.read_text("utf-8") == "[other]\ntoken = tok-2\n"
    assert shell.ok("logout", "other").out == f"removed credential for other from {path}\n"
    assert path.read_text("utf-8") == ""


def test_a_login_without_a_token_changes_nothing(shell: CommandLine) -> None:
    for ended in (shell.run("login", "prod"), shell.run("login", "prod", given="\n")):
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.startswith("error: the token is empty\n")
    wrong = shell.run("login", "prod", given="two words\n")
    assert (wrong.code, wrong.out) == (1, "")
    assert "two words" not in wrong.err
    assert not (shell.folder / "home" / "credentials").exists()


def test_a_token_that_is_typed_is_not_shown(shell: CommandLine) -> None:
    ended = shell.on_terminal("login", "prod", typed="tok-secret\n", after="token: ")
    assert ended.code == 0
    assert "tok-secret" not in ended.out
    assert (shell.folder / "home" / "credentials").read_text("utf-8") == "[prod]\ntoken = tok-secret\n"
