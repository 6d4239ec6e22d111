"""Which graph is meant, which flags a verb takes, and what the operator's file may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph.cli.addressing import Accepts, Address, FlagCheck, Flags, Resolver
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
    Accepts.STORE_WRITE: {"store", "actor", "profile"},
    Accepts.SERVED: {"server", "graph", "profile"},
    Accepts.SERVER: {"server", "profile"},
    Accepts.NOTHING: set(),
    Accepts.LOCAL: set(),
    Accepts.ALIAS: set(),
}


def resolve(flags: Flags, config: Config, positional: str | None = None, **more: Any) -> Address:
    return Resolver("the verb", flags, config, **more).address(positional, "its address")


@pytest.mark.parametrize("accepts", TABLE, ids=lambda accepts: accepts.name)
@pytest.mark.parametrize("flag", ["server", "cluster", "graph", "store", "actor", "profile"])
def test_a_flag_is_taken_or_refused_but_never_ignored(accepts: Accepts, flag: str) -> None:
    values: dict[str, Any] = {flag: "x"}
    check, given = FlagCheck("the verb", accepts), Flags(**values)
    if flag in TABLE[accepts] - {"cluster"}:
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
    assert resolve(Flags(), config, "given.omni").uri == "given.omni"
    assert resolve(Flags(store="s.omni"), config).uri == "s.omni"
    assert resolve(Flags(profile="p"), config).uri == "profile.omni"
    assert resolve(Flags(), config).uri == "default.omni"
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "p")
    assert resolve(Flags(), config).uri == "profile.omni"
    monkeypatch.setenv("OMNIGRAPH_PROFILE", "")
    assert resolve(Flags(), config).uri == "default.omni"


#: A configuration of an operator with servers.
SERVERS = Config(
    server="prod",
    default_graph="people",
    servers={"prod": "https://prod.example/og/", "test": "http://127.0.0.1:8080", "half": None},
    profiles={
        "two": Profile("two", store="a", server="b"),
        "c": Profile("c", cluster="x"),
        "t": Profile("t", server="test", default_graph="teams"),
        "u": Profile("u", server="http://other.example"),
        "s": Profile("s", store="s.omni"),
        "w": Profile("w", server="wrong"),
    },
)


@pytest.mark.parametrize(
    ("flags", "positional", "uri"),
    [
        (Flags(), None, "https://prod.example/og/graphs/people"),
        (Flags(graph="teams"), None, "https://prod.example/og/graphs/teams"),
        (Flags(server="test", graph="a b/c"), None, "http://127.0.0.1:8080/graphs/a%20b%2Fc"),
        (Flags(server="http://x/", graph="g"), None, "http://x/graphs/g"),
        (Flags(server="HTTPS://x/graphs/g/"), None, "https://x/graphs/g"),
        (Flags(profile="t"), None, "http://127.0.0.1:8080/graphs/teams"),
        (Flags(profile="t", graph="other"), None, "http://127.0.0.1:8080/graphs/other"),
        (Flags(profile="u", graph="g"), None, "http://other.example/graphs/g"),
        (Flags(profile="s"), None, "s.omni"),
        (Flags(profile="t"), "here.omni", "here.omni"),
        (Flags(), "http://x/graphs/g", "http://x/graphs/g"),
        (Flags(graph="g"), "http://x", "http://x/graphs/g"),
        (Flags(store="http://x/graphs/g"), None, "http://x/graphs/g"),
    ],
)
def test_a_graph_of_a_server_is_addressed_by_name_url_profile_or_defaults(
    flags: Flags, positional: str | None, uri: str
) -> None:
    assert resolve(flags, SERVERS, positional).uri == uri


@pytest.mark.parametrize(
    ("flags", "positional", "error", "said"),
    [
        (Flags(store="a"), "b", UsageError, "addressed twice: by argument and by --store"),
        (Flags(store="a", server="test"), None, UsageError, "addressed twice: by --store and by --server"),
        (Flags(server="test"), "b", UsageError, "addressed twice: by argument and by --server"),
        (Flags(graph="g"), "b.omni", UsageError, "'b.omni' is already one graph"),
        (Flags(graph="g", store="b.omni"), None, UsageError, "'b.omni' is already one graph"),
        (Flags(graph="g", profile="s"), None, UsageError, "profile 's' names the store 's.omni', which is already one"),
        (Flags(graph="g", server="http://x/graphs/h"), None, UsageError, "'http://x/graphs/h' is already one graph"),
        (Flags(graph=" ", server="test"), None, UsageError, "--graph names no graph"),
        (Flags(profile="two"), None, InputError, "exactly one of"),
        (Flags(profile="c"), None, InputError, "the cluster 'x', and there are no clusters"),
        (Flags(profile="none"), None, InputError, "no profile 'none'"),
        (Flags(profile="w", graph="g"), None, InputError, "there is no server 'wrong'"),
        (Flags(server="half", graph="g"), None, InputError, "server 'half' has no url"),
        (Flags(server="ftp://x", graph="g"), None, InputError, "no address with 'ftp://'"),
        (Flags(server="http://me:secret@x", graph="g"), None, InputError, "no name and password"),
    ],
)
def test_addresses_that_cannot_be_meant_are_refused(
    flags: Flags, positional: str | None, error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as refused:
        resolve(flags, SERVERS, positional)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_without_any_address_the_ways_to_give_one_are_named() -> None:
    with pytest.raises(UsageError, match="which graph") as refused:
        resolve(Flags(), Config())
    assert refused.value.hint is not None
    assert refused.value.hint.startswith("give its address, --store URI, --server NAME|URL, --profile NAME, ")


@pytest.mark.parametrize(
    ("flags", "positional", "said"),
    [
        (Flags(), None, "'the verb' works on the storage itself, and defaults.server names the server 'prod'"),
        (Flags(profile="t"), None, "'the verb' works on the storage itself, and profile 't' names the server 'test'"),
        (Flags(), "http://a:secret@x/g", "'the verb' works on the storage itself, and 'http://x/g' is a server"),
    ],
)
def test_a_verb_of_the_storage_takes_no_server(flags: Flags, positional: str | None, said: str) -> None:
    with pytest.raises((UsageError, InputError)) as refused:
        resolve(flags, SERVERS, positional, direct=True)
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_server_is_asked_for_its_graphs_when_none_is_named() -> None:
    asked: list[str] = []

    def several(base: str) -> list[str]:
        asked.append(base)
        return ["people", "teams"]

    with pytest.raises(UsageError, match=r"which graph of https://prod.example/og\?") as refused:
        resolve(Flags(server="prod"), SERVERS, lister=several)
    assert refused.value.hint == "pass --graph with one of people, teams"
    assert asked == ["https://prod.example/og"]
    assert resolve(Flags(server="prod"), SERVERS, lister=lambda base: None).uri == "https://prod.example/og"
    assert resolve(Flags(server="prod"), SERVERS, lister=lambda base: []).uri == "https://prod.example/og"
    assert resolve(Flags(server="prod", graph="g"), SERVERS, lister=several).uri.endswith("/graphs/g")
    assert len(asked) == 1


def test_a_verb_that_asks_a_server_takes_no_store() -> None:
    assert Resolver("graphs list", Flags(profile="t"), SERVERS).server() == "http://127.0.0.1:8080"
    assert Resolver("graphs list", Flags(server="http://x/graphs/g"), SERVERS).server() == "http://x"
    for profile, kind in (("s", "store"), ("c", "cluster")):
        with pytest.raises(InputError, match=f"names the {kind} .*'graphs list' asks a server"):
            Resolver("graphs list", Flags(profile=profile), SERVERS).server()
    with pytest.raises(UsageError, match="which server"):
        Resolver("graphs list", Flags(), Config()).server()


@pytest.mark.parametrize(
    ("uri", "access"),
    [
        ("a/b", "direct, local"),
        ("FILE:///a", "direct, local"),
        ("s3://b/p", "direct, remote"),
        ("http://127.0.0.1:8080/graphs/a", "served"),
    ],
)
def test_only_paths_and_file_addresses_are_local(uri: str, access: str) -> None:
    assert resolve(Flags(), Config(), uri).access == access


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
        ("servers: {prod: {url: 7}}", "servers.prod.url must be text"),
        ("servers: [prod]", "servers must be a mapping"),
        ("aliases: {a: {args: name}}", "aliases.a.args must be a list of texts"),
        ("aliases: {a: {params: {1: 2}}}", "aliases.a.params must be a mapping with texts as keys"),
        ("aliases: {a: {format: xml}}", "aliases.a.format must be one of"),
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
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        f"error: there is no server 'prod' in {shell.folder}/home/config.yaml\n"
        "hint: give its URL, or declare it below servers\n"
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
