"""Which graph is meant, which flags a verb takes, and what the operator's file may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.cli.addressing import Accepts, FlagCheck, Flags, resolve
from omnigraph.cli.app import arrange
from omnigraph.cli.config import Config, Profile, read_config
from omnigraph.cli.error_text import UsageError
from omnigraph.errors import InputError
from tests.support.command_line import CommandLine
from tests.support.s3_server import S3Server

#: The flags that a group of verbs takes, from the table of the interface.
TABLE = {
    Accepts.WRITE: {"server", "graph", "store", "actor", "profile"},
    Accepts.READ: {"server", "graph", "store", "profile"},
    Accepts.DIRECT: {"cluster", "graph", "store", "profile"},
    Accepts.PLAN: {"store", "profile"},
    Accepts.NOTHING: set(),
}
USABLE = {"store", "actor", "profile"}


@pytest.mark.parametrize("accepts", TABLE, ids=lambda accepts: accepts.name)
@pytest.mark.parametrize("flag", ["server", "cluster", "graph", "store", "actor", "profile"])
def test_a_flag_is_taken_or_refused_but_never_ignored(accepts: Accepts, flag: str) -> None:
    values: dict[str, Any] = {flag: "x"}
    check, given = FlagCheck("the verb", accepts), Flags(**values)
    if flag in TABLE[accepts] & USABLE:
        check.refuse_unusable(given)
        return
    with pytest.raises(UsageError) as refused:
        check.refuse_unusable(given)
    spelling = "--as" if flag == "actor" else f"--{flag}"
    words = "cannot be used yet" if flag in TABLE[accepts] else f"'the verb' does not take {spelling}"
    assert words in str(refused.value)


def test_the_first_flag_that_does_not_fit_is_reported() -> None:
    with pytest.raises(UsageError, match="--server"):
        FlagCheck("init", Accepts.NOTHING).refuse_unusable(Flags(profile="p", actor="a", server="s"))


def test_flags_may_stand_before_between_and_behind_the_words() -> None:
    assert arrange(["--store", "g", "query", "-e", "x"]) == ["query", "--store", "g", "-e", "x"]
    assert arrange(["--quiet", "branch", "--as=me", "create", "x"]) == ["branch", "create", "--quiet", "--as=me", "x"]
    assert arrange(["query", "-e", "--store"]) == ["query", "-e", "--store"]
    assert arrange(["branch", "--help"]) == ["branch", "--help"]
    assert arrange([]) == []


def test_old_spellings_work_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert arrange(["read", "-e", "x"]) == ["query", "-e", "x"]
    assert arrange(["change"]) == ["mutate"]
    assert capsys.readouterr().err == (
        "warning: 'read' is now called 'query'\nwarning: 'change' is now called 'mutate'\n"
    )


def test_an_address_wins_over_a_profile_and_a_profile_over_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(store="default.omni", profiles={"p": Profile("p", store="profile.omni")})
    monkeypatch.delenv("OMNIGRAPH_PROFILE", raising=False)
    assert resolve(Flags(), config, "given.omni", "").uri == "given.omni"
    assert resolve(Flags(store="s.omni"), config, None, "").uri == "s.omni"
    assert resolve(Flags(profile="p"), config, None, "").uri == "profile.omni"
    assert resolve(Flags(), config, None, "").uri == "default.omni"
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "p")
    assert resolve(Flags(), config, None, "").uri == "profile.omni"
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "")
    assert resolve(Flags(), config, None, "").uri == "default.omni"


def test_addresses_that_cannot_be_meant_are_refused() -> None:
    servers = Config(
        server="prod", profiles={"two": Profile("two", store="a", server="b"), "c": Profile("c", cluster="x")}
    )
    with pytest.raises(UsageError, match="addressed twice"):
        resolve(Flags(store="a"), Config(), "b", "")
    with pytest.raises(UsageError, match="address of a server"):
        resolve(Flags(), Config(), "https://example.org", "")
    with pytest.raises(InputError, match="works on stores only"):
        resolve(Flags(), servers, None, "")
    with pytest.raises(InputError, match="exactly one of"):
        resolve(Flags(profile="two"), servers, None, "")
    with pytest.raises(InputError, match="the cluster 'x'"):
        resolve(Flags(profile="c"), servers, None, "")
    with pytest.raises(InputError, match="no profile 'none'"):
        resolve(Flags(profile="none"), servers, None, "")
    with pytest.raises(UsageError, match="which graph"):
        resolve(Flags(), Config(), None, "its address")


@pytest.mark.parametrize(
    ("uri", "access"),
    [("a/b", "direct, local"), ("FILE:///a", "direct, local"), ("s3://b/p", "direct, remote")],
)
def test_only_paths_and_file_addresses_are_local(uri: str, access: str) -> None:
    assert resolve(Flags(), Config(), uri, "").access == access


def test_unknown_keys_of_the_configuration_are_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    assert read_config() == Config()
    text = (
        "operator: {actor: act-op, shoe: 43}\ndefaults: {output: csv, store: g.omni, table_cell_layout: wrap}\n"
        "profiles: {p: {store: x, colour: red}}\nservers: {s: {url: 'https://x'}}\ncolour: blue\n"
    )
    (tmp_path / "config.yaml").write_text(text, "utf-8-sig")
    config = read_config()
    assert (config.actor, config.output, config.store, config.table_wraps) == ("act-op", "csv", "g.omni", True)
    assert config.profile("p").scope() == ("store", "x")
    warned = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[-1] for line in warned] == [
        f"unknown key '{key}' is ignored" for key in ("colour", "operator.shoe", "profiles.p.colour")
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("defaults: {output: xml}", "defaults.output must be one of"),
        ("defaults: {store: a, server: b}", "cannot stand beside"),
        ("defaults: [1]", "defaults must be a mapping"),
        ("- 1", "the file must be a mapping"),
        ("operator: {actor: 7}", "operator.actor must be text"),
        ("defaults: {table_max_column_width: wide}", "must be a whole number"),
        ("a: b: c", ":1:5: "),
    ],
)
def test_a_configuration_that_cannot_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    (tmp_path / "config.yaml").write_text(text, "utf-8")
    with pytest.raises(InputError, match=problem):
        read_config()


def test_the_operators_file_gives_address_actor_and_format(shell: CommandLine) -> None:
    (shell.folder / "home" / "config.yaml").write_text(
        "operator: {actor: act-op}\ndefaults: {store: people.omni, output: jsonl}\n"
        "profiles: {other: {store: elsewhere.omni}}\n",
        "utf-8",
    )
    asked = shell.ok("query", "person", "--query", "people.gq", "--params", '{"who": "ana"}')
    assert asked.out.splitlines()[1] == '{"name":"Ana Ruiz 🎉"}'
    done = shell.ok("mutate", "add", "--query", "people.gq", "--params", '{"handle": "di", "name": "Di"}', "--json")
    assert done.json["actor_id"] == "act-op"
    elsewhere = shell.run("snapshot", OMNIGRAPH_PROFILE="other")
    assert elsewhere.code == 1
    assert "elsewhere.omni" in elsewhere.err
    refused = shell.run("query", "--server", "prod", "-e", "query q() { }")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        "error: --server cannot be used yet: there is no server in this version\nhint: pass --store or a profile\n"
    )


@pytest.mark.s3
def test_destroying_remote_data_needs_consent(shell: CommandLine, s3: S3Server, s3_root: str) -> None:
    environment = s3.env()
    shell.ok("init", s3_root, "--schema", "people.pg", **environment)
    shell.ok("branch", "create", "x", "--store", s3_root, "--quiet", **environment)
    delete = ("branch", "delete", "x", "--store", s3_root)
    refused = shell.run(*delete, **environment)
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.splitlines()[1] == "hint: pass --yes"
    declined = shell.on_terminal(*delete, typed="no\n", **environment)
    assert declined.code == 1
    assert "not confirmed; nothing was changed" in declined.out
    deleted = shell.on_terminal(*delete, typed="YES\n", **environment)
    assert deleted.code == 0
    assert f"omnigraph branch delete → {s3_root} (direct, remote)" in deleted.out
    assert deleted.out.endswith("deleted branch x\n")
    overwrite = ("load", s3_root, "--data", "people.jsonl", "--mode", "overwrite", "--json")
    assert shell.run(*overwrite, **environment).code == 1
    assert shell.ok(*overwrite, "--yes", "--quiet", **environment).json["total_entities"] == 6
