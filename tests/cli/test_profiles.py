"""`omnigraph profile list` and `profile show`."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine

CONFIG = """
defaults: {server: prod, default_graph: people, output: csv}
servers: {prod: {url: 'https://prod.example/'}}
profiles:
  work: {server: prod, default_graph: teams}
  here: {store: people.omni}
  url: {server: 'http://127.0.0.1:8080'}
  lost: {server: gone}
  both: {server: prod, store: people.omni}
  far: {cluster: big}
"""


@pytest.fixture
def operator(shell: CommandLine) -> CommandLine:
    (shell.folder / "home" / "config.yaml").write_text(CONFIG, "utf-8")
    return shell


def test_profiles_are_listed_with_what_they_address(operator: CommandLine) -> None:
    config = operator.folder / "home" / "config.yaml"
    shown = operator.ok("profile", "list", OMNIGRAPH_PROFILE="here").out
    assert shown.splitlines() == [
        "both  invalid: profile 'both' must name exactly one of server, cluster and store",
        "far  cluster: big",
        "here (active)  store: people.omni",
        f"lost  server: gone  invalid: there is no server 'gone' in {config}",
        "url  server: http://127.0.0.1:8080",
        "work  server: prod · graph: teams",
    ]
    listed = {each["name"]: each for each in operator.ok("profile", "list", "--json").json}
    assert listed["work"] == {
        "name": "work",
        "binding": "server: prod",
        "scope_kind": "server",
        "target": "prod",
        "valid": True,
        "error": None,
        "default_graph": "teams",
        "active": False,
    }
    assert (listed["lost"]["valid"], listed["both"]["scope_kind"]) == (False, None)


def test_a_profile_is_shown_resolved(operator: CommandLine) -> None:
    assert operator.ok("profile", "show", "work").out == (
        "name: work\nscope_kind: server\ntarget: prod\nendpoint: https://prod.example/\ndefault_graph: teams\n"
        "output_format: csv\n"
    )
    assert operator.ok("profile", "show", "--json").json == {
        "name": "(defaults)",
        "scope_kind": "server",
        "target": "prod",
        "endpoint": "https://prod.example/",
        "default_graph": "people",
        "output_format": "csv",
    }
    active = operator.ok("profile", "show", "--json", OMNIGRAPH_PROFILE="here").json
    assert (active["name"], active["scope_kind"], active["target"]) == ("here", "store", "people.omni")
    assert operator.run("profile", "show", "both").code == 1
    assert operator.run("profile", "show", "lost").code == 1


def test_without_a_configuration_there_is_nothing_to_show(shell: CommandLine) -> None:
    assert shell.ok("profile", "list").out == "(no profiles)\n"
    assert shell.ok("profile", "list", "--json").json == []
    assert shell.ok("profile", "show").out == "name: (defaults)\nscope_kind: none\noutput_format: table\n"
