"""`omnigraph mcp` as an agent host starts it: a process of its own, over a store and over a server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

import omnigraph as og
from omnigraph.mcp.server_app import mcp_sub_app
from omnigraph.mcp.tools import TOOLS
from tests.mcp.agents import ADD, COUNT, EXECUTABLE, Agent, make_graph, talk
from tests.support.command_line import CommandLine
from tests.support.served import served


def command(folder: Path, *words: str, **environment: str) -> StdioServerParameters:
    """The process that a host starts; it sees no setting of this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMNIGRAPH_", "AWS_"))}
    own = {"OMNIGRAPH_HOME": str(folder / "home"), "OMNIGRAPH_FSYNC": "0"}
    return StdioServerParameters(
        command=str(EXECUTABLE), args=["mcp", *words], env={**kept, **own, **environment}, cwd=folder
    )


def test_a_store_is_served_with_its_stored_queries(place: Path) -> None:
    async def work(agent: Agent) -> None:
        assert len((await agent.client.list_tools()).tools) == len(TOOLS) + 4
        assert len((await agent.client.list_resources()).resources) == 6
        assert (await agent.call("health"))["source_version"] == og.__version__
        assert (await agent.call("graphs_list"))["graphs"][0]["graph_id"] == "people"
        assert (await agent.call("by_name", params={"name": "Bo"}))["rows"] == [{"handle": "bo"}]
        assert (await agent.refused("query", query="nonsense"))["code"] == "bad_request"
        done = await agent.call("mutate", query=ADD, params={"h": "di"})
        assert (done["branch"], done["actor_id"], done["branch_created"]) == ("agent/act-bo", "act-bo", True)
        assert [each["id"] for each in (await agent.call("diff"))["changes"]] == ["di"]
        assert (await agent.call("merge_preview"))["tables"]["node:Person"]["inserted"] == 1
        assert (await agent.call("branches_merge"))["outcome"] == "fast_forward"

    talk(command(place.parent, place.name, "--as", "act-bo", "--queries", "stored.gq"), work)
    with og.open(place, mode="ro") as graph:
        assert (graph.branches.list(), graph.snapshot().count("Person")) == (["main"], 4)


@pytest.mark.parametrize(
    ("words", "environment", "branch"),
    [
        (["--branch", "direct"], {"OMNIGRAPH_MCP_BRANCH": "review/x"}, "dev"),
        ([], {"OMNIGRAPH_MCP_BRANCH": "tasks/{actor}"}, "tasks/anonymous"),
    ],
)
def test_the_branch_can_be_chosen(
    graph: og.Graph, place: Path, words: list[str], environment: Mapping[str, str], branch: str
) -> None:
    graph.branches.create("dev")
    graph.mutate(ADD, {"h": "dev"}, branch="dev")

    async def work(agent: Agent) -> list[Any]:
        base = await agent.call("query", query=COUNT)
        done = await agent.call("mutate", query=ADD, params={"h": "di"})
        return [base["branch"], base["rows"], done["branch"]]

    server = command(place.parent, place.name, *words, OMNIGRAPH_DEFAULT_BRANCH="dev", **environment)
    assert talk(server, work) == ["dev", [{"people": 4}], branch]


def test_nothing_but_the_protocol_is_on_the_standard_output(place: Path) -> None:
    opening = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "health", "arguments": {}}}
    lines = [opening, {"jsonrpc": "2.0", "method": "notifications/initialized"}, "garbage", call]
    server = command(place.parent, place.name)
    with subprocess.Popen(
        [server.command, *server.args],
        cwd=server.cwd,
        env=server.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        for line in lines:
            process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        process.stdin.flush()
        answers = {}
        while 2 not in answers:
            told = json.loads(process.stdout.readline())
            answers[told.get("id")] = told
        process.stdin.close()
        assert process.stdout.read() == ""
        assert "omnigraph mcp → " in process.stderr.read()
        assert process.wait(30) == 0
    assert answers[1]["result"]["serverInfo"]["name"] == "omnigraph"
    assert answers[2]["result"]["structuredContent"]["status"] == "ok"


WRONG = {
    "missing.omni": "missing.omni",
    "people.omni --branch a//b": "'a//b'",
    "people.omni --queries nope.gq": "nope.gq does not exist",
    "--server http://127.0.0.1:1 --graph x --queries stored.gq": "--queries is for a store",
    "": "OMNIGRAPH_GRAPH_ID",
}


def test_a_wrong_command_says_what_to_do(place: Path) -> None:
    server = command(place.parent, OMNIGRAPH_BASE_URL="http://127.0.0.1:1")
    shell = CommandLine(place.parent, server.env or {})
    for ended, (words, said) in zip(
        shell.run_all([["mcp", *each.split()] for each in WRONG]), WRONG.items(), strict=True
    ):
        assert (ended.code != 0, ended.out) == (True, ""), words
        assert said in ended.err, (words, ended.err)


def test_a_graph_behind_a_server_is_served_under_the_name_of_the_token(tmp_path: Path) -> None:
    place = make_graph(tmp_path)
    (tmp_path / "rules.yaml").write_text(
        "version: 1\ngroups: { team: [act-ana] }\nrules:\n  - id: all\n    allow: { actors: { group: team }, actions: "
        "[read, export, change, branch_create, branch_delete, branch_merge, invoke_query] }\n"
    )

    async def work(agent: Agent) -> None:
        assert len((await agent.client.list_tools()).tools) == len(TOOLS) + 4
        call = agent.call
        assert (await call("health"))["version"].startswith("0.10.")
        assert "node Person" in (await call("schema_get"))["schema_source"]
        asked = await call("query", query=COUNT, maxRows=1)
        assert (asked["rows"], asked["branch"]) == ([{"people": 3}], "main")
        counts = {each["type_name"]: each["entity_count"] for each in (await call("snapshot"))["datasets"]}
        assert counts["Person"] == 3
        assert (await call("search", words="ana"))["hits"][0]["id"] == "ana"
        assert (await call("explain", query=COUNT))["steps"]
        done = await call("mutate", query=ADD, params={"h": "di"}, ifGraphCommit=asked["graph_commit_id"])
        assert (done["branch"], done["actor_id"], done["branch_created"]) == ("agent/act-ana", "act-ana", True)
        loaded = await call("load", data='{"type": "Person", "data": {"handle": "ed", "name": "Ed"}}')
        assert (loaded["branch"], loaded["total_entities"]) == ("agent/act-ana", 1)
        stored = await call("add_person", params={"handle": "fy", "name": "Fy"})
        assert stored["branch"] == "agent/act-ana"
        assert (await call("by_name", params={"name": "Fy"}))["rows"] == [{"handle": "fy"}]
        assert [each["id"] for each in (await call("diff", limit=2))["changes"]] == ["di", "ed"]
        page = await call("commits_changes", commitId=stored["commit"]["graph_commit_id"])
        assert [each["id"] for each in page["changes"]] == ["fy"]
        assert (await call("changes_poll", start="beginning"))["blocks"]
        assert (await call("commits_get", commitId=stored["commit"]["graph_commit_id"]))["actor_id"] == "act-ana"
        assert (await call("commits_list", limit=1))["truncated"]["shown"] == 1
        assert (await call("merge_preview"))["conflict_count"] == 0
        assert (await call("branches_merge"))["branch_deleted"] is True
        assert (await call("query", query=COUNT))["rows"] == [{"people": 6}]
        assert (await agent.refused("graphs_list"))["status"] == 403
        assert (await agent.refused("query", query=COUNT, branch="nope"))["status"] == 404
        lost = await agent.refused("mutate", query=ADD, params={"h": "z"}, ifGraphCommit=asked["graph_commit_id"])
        assert (lost["status"], lost["body"]["precondition_failure"]["expected"]) == (412, asked["graph_commit_id"])

    with served(
        {"people": place},
        tokens={"act-ana": "token-ana"},
        policy=tmp_path / "rules.yaml",
        queries=tmp_path / "stored.gq",
        sub_apps=[mcp_sub_app()],
    ) as running:
        settings = {
            "OMNIGRAPH_BASE_URL": running.url,
            "OMNIGRAPH_GRAPH_ID": "people",
            "OMNIGRAPH_TOKEN": "token-ana",
        }
        talk(command(tmp_path, **settings), work)
