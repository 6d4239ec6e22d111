"""Commands on graphs behind a server: addresses, tokens, stored queries, aliases, and what goes wrong on the way."""

from __future__ import annotations

import http.server
import shutil
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.conftest import shell_in
from tests.support.command_line import CommandLine, Ended
from tests.support.served import served

POLICY = """
version: 1
groups: {team: [act-ana], readers: [act-bo]}
rules:
  - id: team
    allow:
      actors: {group: team}
      actions: [read, export, change, branch_create, branch_delete, branch_merge, schema_apply, invoke_query]
  - {id: readers, allow: {actors: {group: readers}, actions: [read]}}
"""
SERVER_POLICY = """
version: 1
groups: {team: [act-ana]}
rules:
  - {id: list, allow: {actors: {group: team}, actions: [graph_list]}}
"""
TOKENS = {"act-ana": "tok-ana-secret", "act-bo": "tok-bo-secret"}
CONFIG = """
operator: {{actor: act-nobody}}
servers: {{prod: {{url: '{url}/'}}, page: {{url: '{page}'}}}}
profiles:
  people: {{server: prod, default_graph: people}}
  all: {{server: prod}}
aliases:
  who: {{server: prod, graph: people, query: person, args: [who]}}
  everybody: {{server: prod, graph: people, query: people, format: csv}}
  ana: {{server: prod, graph: people, query: person, params: {{who: ana}}}}
  add: {{server: prod, graph: people, query: add, args: [handle, name]}}
  half: {{server: prod}}
"""
DELETE = ("mutate", "-e", 'query q() { delete Person where handle = "nobody" }')


@dataclass(frozen=True)
class Operator:
    """A command line whose operator knows a server by name and has a token for it."""

    shell: CommandLine
    url: str

    def run(self, *words: str, **environment: str) -> Ended:
        return self._checked(self.shell.run(*words, **environment))

    def run_all(self, lines: Sequence[Sequence[str]]) -> list[Ended]:
        return [self._checked(ended) for ended in self.shell.run_all(lines)]

    @staticmethod
    def _checked(ended: Ended) -> Ended:
        assert "Traceback" not in ended.err
        assert "secret" not in ended.out + ended.err
        return ended

    def ok(self, *words: str, **environment: str) -> Ended:
        ended = self.run(*words, **environment)
        assert ended.code == 0, ended.err
        return ended


class _Page(http.server.BaseHTTPRequestHandler):
    """Answers whatever is asked with a page for people."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html>Please log in</html>")

    do_POST = do_GET

    def log_message(self, *parts: object) -> None:
        """Keeps the output of the tests clean."""


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """An HTTP server that is none of ours."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def operator(people: Path, page: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    folder = tmp_path_factory.mktemp("operator") / "work"
    shutil.copytree(people, folder, ignore=shutil.ignore_patterns("home"))
    shutil.copytree(folder / "people.omni", folder / "teams.omni")
    (folder / "policy.yaml").write_text(POLICY, "utf-8")
    (folder / "server.yaml").write_text(SERVER_POLICY, "utf-8")
    shell = shell_in(folder)
    graphs = {"people": folder / "people.omni", "teams": folder / "teams.omni"}
    with served(
        graphs,
        tokens=TOKENS,
        queries=folder / "people.gq",
        policy=folder / "policy.yaml",
        server_policy=folder / "server.yaml",
    ) as server:
        (folder / "home" / "config.yaml").write_text(CONFIG.format(url=server.url, page=page), "utf-8")
        shell.ok("login", "prod", "--token", TOKENS["act-ana"])
        yield Operator(shell, server.url)


def test_a_graph_is_found_by_each_kind_of_address(operator: Operator) -> None:
    ways: list[tuple[str, ...]] = [
        ("--server", "prod", "--graph", "people"),
        ("--server", f"{operator.url}/", "--graph", "people"),
        ("--server", f"{operator.url}/graphs/people"),
        ("--profile", "people"),
        ("--profile", "all", "--graph", "teams"),
        ("--store", f"{operator.url}/graphs/people"),
        ("--uri", f"{operator.url}/graphs/people"),
        (f"{operator.url}/graphs/people",),
    ]
    for way, ended in zip(ways, operator.run_all([("branch", "list", *way) for way in ways]), strict=True):
        assert (ended.code, ended.out) == (0, "main\n"), way
    assert operator.ok("branch", "list", OMNIGRAPH_PROFILE="people").out == "main\n"


def test_graphs_are_listed_for_whoever_may_know_them(operator: Operator) -> None:
    folder = operator.shell.folder
    ways = (("--server", "prod"), ("--server", operator.url), ("--profile", "people"))
    for ended in operator.run_all([("graphs", "list", *way) for way in ways]):
        assert ended.out == f"people\t{folder}/people.omni\nteams\t{folder}/teams.omni\n"
    assert operator.ok("graphs", "list", "--server", "prod", "--json").json["graphs"][1]["graph_id"] == "teams"
    denied = operator.run("graphs", "list", "--server", "prod", OMNIGRAPH_TOKEN_PROD=TOKENS["act-bo"])
    assert (denied.code, denied.out) == (1, "")
    assert denied.err.startswith("error: the policy denies action 'graph_list'")


def test_a_server_with_several_graphs_wants_one_named(operator: Operator) -> None:
    for way in (("--server", "prod"), ("--profile", "all")):
        ended = operator.run("branch", "list", *way)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err == f"error: which graph of {operator.url}?\nhint: pass --graph with one of people, teams\n"
    silent = operator.run("branch", "list", "--server", "prod", OMNIGRAPH_TOKEN_PROD=TOKENS["act-bo"])
    assert (silent.code, silent.out) == (1, "")
    assert silent.err.endswith("hint: pass --graph ID; the server does not tell its graphs\n")


def test_the_token_of_the_environment_comes_first_and_a_wrong_one_is_one_sentence(operator: Operator) -> None:
    listing = ("branch", "list", "--profile", "people")
    assert operator.ok(*listing, OMNIGRAPH_TOKEN_PROD=TOKENS["act-bo"]).out == "main\n"
    wrong = operator.run(*listing, OMNIGRAPH_TOKEN_PROD="wrong-secret")
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err == "error: invalid bearer token\nhint: the token is from OMNIGRAPH_TOKEN_PROD\n"
    other = f"{operator.url.replace('127.0.0.1', 'localhost')}/graphs/people"
    missing = operator.run("branch", "list", other)
    assert missing.err == (
        "error: missing bearer token\nhint: set OMNIGRAPH_BEARER_TOKEN, "
        "or declare the server in config.yaml and use 'omnigraph login NAME'\n"
    )
    assert operator.ok("branch", "list", other, OMNIGRAPH_BEARER_TOKEN=TOKENS["act-ana"]).out == "main\n"
    odd = operator.run(*listing, OMNIGRAPH_TOKEN_PROD="secret secret")
    assert odd.err.startswith("error: the token holds a blank")


def test_what_cannot_be_reached_or_is_no_server_is_one_sentence(operator: Operator, page: str) -> None:
    listing = ("branch", "list")
    cases = [
        ((*listing, "--server", "prod", "--graph", "nothing"), "error: graph 'nothing' not found\n"),
        ((*listing, "--server", "prod", "--graph", "a/b"), "error: this is no id of a graph\n"),
        ((*listing, f"{operator.url}/elsewhere/graphs/people"), "error: there is nothing at this path\n"),
        ((*listing, f"{page}/graphs/people"), "error: the answer with status 200 cannot be understood"),
        (("graphs", "list", "--server", "page"), "error: the answer with status 200 cannot be understood"),
        ((*listing, "http://127.0.0.1:9/graphs/people"), "error: http://127.0.0.1:9/graphs/people "),
        ((*listing, f"{operator.url.replace('http', 'https')}/graphs/people"), "error: https://127.0.0.1"),
        (
            (*listing, "http://me:secret@127.0.0.1/graphs/people"),
            "error: the address of a server holds no name and pas",
        ),
    ]
    for (words, said), ended in zip(cases, operator.run_all([words for words, _ in cases]), strict=True):
        assert (ended.code, ended.out) == (1, ""), words
        assert ended.err.startswith(said), ended.err
        assert [line.partition(":")[0] for line in ended.err.splitlines()] in (["error"], ["error", "hint"]), ended.err
        if words[-1].startswith("https"):
            assert "hint: the server speaks no TLS there: write http://" in ended.err


def test_stored_queries_are_run_by_their_names(operator: Operator) -> None:
    listed = operator.ok("queries", "list", "--profile", "people")
    assert listed.out.splitlines() == [
        "mutation  add($handle: String, $name: String)",
        "read  people()",
        "read  person($who: String)",
        "mutation  rename($handle: String, $name: String)",
    ]
    shown = {
        each["name"]: each for each in operator.ok("queries", "list", "--profile", "people", "--json").json["queries"]
    }
    assert shown["person"] == {
        "name": "person",
        "mcp_expose": True,
        "tool_name": "person",
        "mutation": False,
        "params": [{"name": "who", "type": "String", "nullable": False}],
    }
    read = operator.ok("query", "person", "--profile", "people", "--params", '{"who": "bo"}', "--format", "jsonl")
    assert read.out.splitlines()[1] == '{"name":"Bo \\"B\\" Chen, jr."}'
    before = operator.ok("commit", "list", "--profile", "people").out.split()[0]
    change = ("mutate", "add", "--profile", "people", "--params", '{"handle": "stored", "name": "S"}')
    lost = operator.run(*change, "--if-commit", "01M7P7767W8AKRBJ13C7CZG8PZ", "--json")
    assert (lost.code, lost.json["precondition_failure"]["actual"]) == (4, before)
    done = operator.ok(*change, "--if-commit", before, "--json").json
    assert (done["actor_id"], done["affected_nodes"]) == ("act-ana", 1)
    operator.ok("revert", done["commit"]["graph_commit_id"], "--profile", "people", "--quiet")


def test_a_stored_query_that_cannot_be_run_says_why(operator: Operator) -> None:
    cases = [
        (
            ("query", "nothing"),
            1,
            "error: stored query 'nothing' not found\nhint: 'omnigraph queries list' shows those that you may run\n",
        ),
        (("query", "add"), 1, "error: stored query 'add' writes\nhint: use 'omnigraph mutate add'\n"),
        (("mutate", "people"), 1, "error: stored query 'people' reads\nhint: use 'omnigraph query people'\n"),
        (("query",), 2, "error: 'query' needs the name of a stored query, or a query text\n"),
        (("query", "person"), 1, "error: "),
    ]
    lines = [(*words, "--profile", "people") for words, _, _ in cases]
    for (_, code, said), ended in zip(cases, operator.run_all(lines), strict=True):
        assert (ended.code, ended.out) == (code, "")
        assert ended.err.startswith(said), ended.err


def test_an_alias_runs_a_stored_read_with_its_own_places_and_values(operator: Operator) -> None:
    assert operator.ok("alias", "who", "ana", "--format", "csv").out == "name\nAna Ruiz 🎉\n"
    assert operator.ok("alias", "ana", "--format", "csv").out == "name\nAna Ruiz 🎉\n"
    assert operator.ok("alias", "everybody").out.startswith("p.handle,name,age\nana,")
    overridden = operator.ok("alias", "who", "ana", "--params", '{"who": "bo"}', "--json").json
    assert overridden["rows"] == [{"name": 'Bo "B" Chen, jr.'}]
    number = operator.run("alias", "who", "7")
    assert (number.code, number.out) == (1, "")
    config = operator.shell.folder / "home" / "config.yaml"
    cases = [
        (("who", "a", "b"), 2, "error: alias 'who' takes WHO, and 2 are given\n"),
        (("nothing",), 1, f"error: there is no alias 'nothing' in {config}\nhint: there are add, ana, everybody, "),
        (("half",), 1, f"error: alias 'half' has no query in {config}\n"),
        (("add", "x", "y"), 1, "error: stored query 'add' writes\n"),
    ]
    lines = [("alias", *words) for words, _, _ in cases]
    for (words, code, said), ended in zip(cases, operator.run_all(lines), strict=True):
        assert (ended.code, ended.out) == (code, ""), words
        assert ended.err.startswith(said), ended.err


def test_a_server_knows_who_writes_by_the_token(operator: Operator) -> None:
    there = ("--profile", "people")
    load = ("load", "--data", "people.jsonl", "--mode", "merge")
    lines = [DELETE, ("branch", "create", "x"), ("branch", "delete", "x"), load]
    for ended in operator.run_all([(*words, *there, "--as", "act-me") for words in lines]):
        assert (ended.code, ended.out) == (2, "")
        assert ended.err == "error: --as names nobody to a server: it knows you by your token\nhint: leave it out\n"
    made = operator.ok("branch", "create", "a/b", *there, "--json")
    assert made.json == {
        "uri": f"{operator.url}/graphs/people",
        "from": "main",
        "name": "a/b",
        "actor_id": "act-ana",
    }
    assert made.err == f"omnigraph branch create → {operator.url}/graphs/people (served)\n"
    operator.ok("branch", "rename", "a/b", "c-d/e", *there, "--quiet")
    unconfirmed = operator.run("branch", "delete", "c-d/e", *there)
    assert (unconfirmed.code, unconfirmed.out) == (1, "")
    assert unconfirmed.err.endswith("destroys data and nobody consented\nhint: pass --yes\n")
    asked = operator.shell.on_terminal("branch", "delete", "c-d/e", *there, typed="no\n", after="go on: ")
    assert asked.code == 1
    assert operator.ok("branch", "delete", "c-d/e", *there, "--yes", "--json").json["actor_id"] == "act-ana"
    denied = operator.run(*DELETE, *there, OMNIGRAPH_TOKEN_PROD=TOKENS["act-bo"])
    assert denied.err.startswith("error: the policy denies action 'change' on branch 'main' to actor 'act-bo'")


def test_work_on_the_storage_is_refused_with_the_way_to_it(operator: Operator) -> None:
    verbs = ("optimize", "verify", "recover", "repair", "embed", "upkeep", "relocate")
    for verb, ended in zip(verbs, operator.run_all([(verb, "--profile", "people") for verb in verbs]), strict=True):
        assert (ended.code, ended.out) == (1, ""), verb
        assert ended.err == (
            f"error: '{verb}' works on the storage itself, and profile 'people' names the server 'prod'\n"
            "hint: give the directory, file:// or s3:// where the server keeps the graph\n"
        )
    there = ("--profile", "people", "--quiet")
    lines = [("export", "--out", "x.parquet", *there), ("branch", "merge", "main", "--engine", "spark", *there)]
    for ended in operator.run_all(lines):
        assert (ended.code, ended.out) == (1, "")
        assert ended.err.endswith("hint: leave that out, or pass --store URI where the storage can be reached\n")
    assert not (operator.shell.folder / "x.parquet").exists()
