"""Every tool, listed and called by the official client: what it answers, and how it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

import omnigraph as og
from omnigraph import limits
from omnigraph.mcp.desk import AnswerSize
from omnigraph.mcp.tools import TOOLS
from tests.mcp.agents import ADD, COUNT, Agent, desk_of, server_of, talk

#: The tools of other bridges to such servers, with the arguments that they have there.
KNOWN = {
    "health": set(),
    "snapshot": {"branch"},
    "query": {"query", "name", "params", "branch", "snapshot"},
    "schema_get": set(),
    "branches_list": set(),
    "graphs_list": set(),
    "commits_list": {"branch"},
    "commits_get": {"commitId"},
    "commits_changes": {"commitId", "pageToken", "limit", "kind", "type", "op"},
    "changes_poll": {"branch", "cursor", "start", "pageToken", "limit", "kind", "type", "op"},
    "mutate": {"query", "name", "params", "branch", "ifGraphCommit"},
    "load": {"branch", "from", "mode", "data"},
    "branches_create": {"name", "from"},
    "branches_delete": {"name"},
    "branches_merge": {"source", "target"},
}
OURS = {"explain", "diff", "merge_preview", "search"}
WRITES = {"mutate", "load", "branches_create", "branches_delete", "branches_merge"}


def test_the_tools_have_the_names_and_arguments_that_clients_know() -> None:
    schemas = {tool.name: tool.schema() for tool in TOOLS}
    assert set(schemas) == set(KNOWN) | OURS
    for name, arguments in KNOWN.items():
        assert arguments <= schemas[name]["properties"].keys()
    for name, schema in schemas.items():
        assert all(each.get("description") for each in schema["properties"].values()), name


def test_the_list_says_what_each_tool_is_for_and_whether_it_writes(graph: og.Graph) -> None:
    async def work(agent: Agent) -> list[Any]:
        return list((await agent.client.list_tools()).tools)

    tools = {tool.name: tool for tool in talk(server_of(desk_of(graph)), work)}
    assert {name for name, tool in tools.items() if not tool.annotations.read_only_hint} == WRITES | {"add_person"}
    assert {name for name, tool in tools.items() if tool.annotations.destructive_hint} == (
        WRITES - {"branches_create"} | {"add_person"}
    )
    for tool in tools.values():
        assert tool.title and tool.description and tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False


def test_each_tool_answers_in_the_shapes_of_the_http_interface(graph: og.Graph) -> None:
    async def work(agent: Agent) -> None:
        call = agent.call
        assert (await call("health"))["status"] == "ok"
        assert (await call("graphs_list"))["graphs"] == [{"graph_id": "people", "uri": graph.uri}]
        assert "node Person" in (await call("schema_get"))["schema_source"]
        assert await call("branches_list") == {
            "branches": ["main"],
            "default": {"base": "main", "writes_go_to": "agent/act-ana", "exists": False},
        }
        counts = {each["type_name"]: each["entity_count"] for each in (await call("snapshot"))["datasets"]}
        assert counts == {"Follows": 1, "MemberOf": 1, "Person": 3, "Team": 1}
        asked = await call("query", query=COUNT)
        assert (asked["rows"], asked["row_count"], asked["branch"]) == ([{"people": 3}], 1, "main")
        head = asked["graph_commit_id"]
        assert (await call("query", query=COUNT, snapshot=head))["target"] == {"branch": None, "snapshot": head}
        found = await call("search", words="ana", hops=1)
        assert found["hits"][0]["id"] == "ana" and found["hits"][0]["neighbour_count"] == 2
        assert (await call("explain", query=COUNT, run=True))["row_count"] == 1
        assert [each["graph_commit_id"] for each in (await call("commits_list", limit=1))["commits"]] == [head]
        assert await call("commits_get", commitId=head) == graph.commits.get(head).to_dict()
        page = await call("commits_changes", commitId=head, limit=1, kind=["node"])
        assert [each["op"] for each in page["changes"]] == ["insert"] and page["next_page_token"]
        rest = await call("commits_changes", commitId=head, kind=["node"], pageToken=page["next_page_token"])
        assert len(rest["changes"]) == 3 and "next_page_token" not in rest
        feed = await call("changes_poll", start="beginning", type=["Team"])
        assert [each["id"] for block in feed["blocks"] for each in block["changes"]] == ["c1"] and feed["caught_up"]
        made = await call("branches_create", name="review/x")
        assert made == {"from": "main", "name": "review/x"}
        done = await call("mutate", query=ADD, params={"h": "di"}, branch="review/x", ifGraphCommit=head, message="why")
        assert (done["branch"], done["affected_nodes"], done["branch_created"]) == ("review/x", 1, False)
        assert done["commit"]["message"] == "why"
        lines = (
            '{"type": "Person", "data": {"handle": "ed", "name": "Ed"}}\n{"edge": "Follows", "from": "ed", "to": "ana"}'
        )
        loaded = await call("load", data=lines, branch="review/y", **{"from": "review/x"})
        assert (loaded["total_entities"], loaded["base_branch"], loaded["branch_created"]) == (2, "review/x", True)
        compared = await call("diff", to="review/x", **{"from": "main"})
        assert [each["id"] for each in compared["changes"]] == ["di"] and compared["stats"]["inserts"] == 1
        assert (await call("merge_preview", source="review/x"))["tables"]["node:Person"]["inserted"] == 1
        assert (await call("branches_merge", source="review/x"))["outcome"] == "fast_forward"
        assert await call("branches_delete", name="review/y") == {"name": "review/y"}
        assert (await call("branches_list"))["branches"] == ["main", "review/x"]

    talk(server_of(desk_of(graph)), work)


BAD: list[tuple[str, dict[str, Any], int, str]] = [
    ("health", {"now": True}, 400, "no argument 'now'"),
    ("snapshot", {"branch": "nope"}, 404, "no branch 'nope'"),
    ("query", {}, 400, "query"),
    ("query", {"query": 7}, 400, "$.query"),
    ("query", {"query": "query q() { match { $p: Persn } return { $p } }"}, 400, "did you mean 'Person'"),
    ("query", {"query": ADD, "params": {"h": "x"}}, 400, "use mutate"),
    ("query", {"query": COUNT, "branch": "main", "snapshot": "01M7R5WHXY46FJS40Z1VZCVYRY"}, 400, "both say"),
    ("query", {"query": COUNT, "maxRows": 0}, 400, "$.maxRows"),
    ("query", {"query": COUNT, "brnch": "main"}, 400, "did you mean 'branch'"),
    ("search", {"words": "x", "types": ["Nope"]}, 404, "Nope"),
    ("explain", {"query": "match"}, 400, "query"),
    ("commits_list", {"branch": "bad//name"}, 400, "bad//name"),
    ("commits_get", {"commitId": "01M7R5WHXY46FJS40Z1VZCVYRY"}, 404, "01M7R5WHXY46FJS40Z1VZCVYRY"),
    ("commits_changes", {"commitId": "x", "kind": ["vertex"]}, 400, "vertex"),
    ("changes_poll", {"cursor": "a", "start": "now"}, 400, "where to begin"),
    ("changes_poll", {"cursor": "garbage"}, 400, "cursor"),
    ("mutate", {"query": COUNT}, 400, "q"),
    ("mutate", {"query": ADD, "params": {"h": "z"}, "branch": "nope"}, 404, "nope"),
    (
        "mutate",
        {"query": ADD, "params": {"h": "z"}, "ifGraphCommit": "01M7R5WHXY46FJS40Z1VZCVYRY"},
        412,
        "is at commit",
    ),
    ("load", {"data": '{"type": "Person", "data": {"handle": "z"}}', "branch": "main"}, 400, "data:1"),
    ("load", {"data": "", "from": "main"}, 400, "no branch is named"),
    ("load", {"data": "", "mode": "replace"}, 400, "replace"),
    ("branches_create", {"name": "main"}, 400, "main"),
    ("branches_create", {"name": "a b"}, 400, "a b"),
    ("branches_delete", {"name": "main"}, 400, "main"),
    ("branches_delete", {"name": "nope"}, 404, "nope"),
    ("branches_merge", {"source": "nope"}, 404, "nope"),
    ("branches_merge", {"source": "nope", "resolve": 3}, 400, "$.resolve"),
    ("merge_preview", {"source": "nope"}, 404, "nope"),
    ("diff", {"from": "main", "to": "nope"}, 404, "nope"),
    ("diff", {}, 400, "no branch of your own"),
    ("branches_merge", {}, 400, "no branch of your own"),
    ("by_name", {}, 400, "name"),
    ("by_name", {"params": {"name": 3}}, 400, "name"),
    ("by_name", {"params": []}, 400, "params"),
    ("add_person", {"params": {"handle": "x", "name": "x"}, "snapshot": "x"}, 400, "snapshot"),
]


def test_bad_arguments_are_answers_that_say_what_to_do(graph: og.Graph) -> None:
    async def work(agent: Agent) -> list[Any]:
        wrong = []
        for tool, arguments, status, word in BAD:
            answer = await agent.refused(tool, **arguments)
            if (answer["status"], word in answer["error"]) != (status, True):
                wrong.append((tool, arguments, answer["status"], answer["error"]))
        return wrong

    assert talk(server_of(desk_of(graph)), work) == []
    assert graph.snapshot().count("Person") == 3


def test_a_refusal_holds_the_details_of_the_http_interface(graph: og.Graph) -> None:
    async def work(agent: Agent) -> None:
        lost = await agent.refused("mutate", query=ADD, params={"h": "z"}, ifGraphCommit="01M7R5WHXY46FJS40Z1VZCVYRY")
        assert (lost["status"], lost["code"]) == (412, None)
        assert lost["body"]["precondition_failure"]["expected"] == "01M7R5WHXY46FJS40Z1VZCVYRY"
        assert lost["requestId"] == "01REQUEST"

    talk(server_of(desk_of(graph)), work)


def test_an_unknown_tool_is_an_error_of_the_protocol(graph: og.Graph) -> None:
    async def work(agent: Agent) -> None:
        with pytest.raises(MCPError, match="Unknown tool: drop_everything"):
            await agent.client.call_tool("drop_everything", {})

    talk(server_of(desk_of(graph)), work)


def test_what_fails_inside_is_told_without_its_words(graph: og.Graph, caplog: pytest.LogCaptureFixture) -> None:
    desk = desk_of(graph)

    def broken() -> None:
        raise RuntimeError("secret at /var/somewhere")

    object.__setattr__(desk.surroundings, "health", broken)

    async def work(agent: Agent) -> dict[str, Any]:
        return await agent.refused("health")

    answer = talk(server_of(desk), work)
    assert (answer["status"], answer["code"]) == (500, "internal")
    assert "secret" not in str(answer) and "01REQUEST" in answer["error"]
    assert "secret at /var/somewhere" in caplog.text and "01REQUEST" in caplog.text


def test_long_answers_are_cut_and_say_how_to_get_the_rest(graph: og.Graph) -> None:
    rows = [{"handle": f"p{number:04}", "name": "x" * 100} for number in range(limits.MCP_ROWS + 50)]
    graph.load({"Person": rows}, "append")
    every = "query q() { match { $p: Person } return { $p.handle as handle, $p.name as name } order { handle } }"

    async def work(agent: Agent) -> None:
        usual = await agent.call("query", query=every)
        assert (usual["row_count"], len(usual["rows"])) == (limits.MCP_ROWS + 53, limits.MCP_ROWS)
        assert usual["truncated"]["by"] == "rows" and "maxRows" in usual["truncated"]["note"]
        few = await agent.call("query", query=every, maxRows=2)
        assert [row["handle"] for row in few["rows"]] == ["ana", "bo"]
        most = await agent.call("query", query=every, maxRows=limits.MCP_MOST_ROWS)
        assert len(most["rows"]) == most["row_count"] and "truncated" not in most
        changes = await agent.call("diff", to="main", limit=3, **{"from": graph.commits.list(limit=2)[1].id})
        assert len(changes["changes"]) == 3 and changes["truncated"]["by"] == "rows"
        assert changes["stats"]["inserts"] == limits.MCP_ROWS + 50

    talk(server_of(desk_of(graph)), work)

    async def narrow(agent: Agent) -> None:
        cut = await agent.call("query", query=every)
        assert cut["truncated"]["by"] == "bytes" and 0 < len(cut["rows"]) < 20

    talk(server_of(desk_of(graph, size=AnswerSize(bytes=2_000))), narrow)


def test_stored_queries_are_tools_with_the_types_of_their_parameters(graph: og.Graph) -> None:
    async def work(agent: Agent) -> None:
        tools = {tool.name: tool for tool in (await agent.client.list_tools()).tools}
        shown = tools["by_name"].input_schema
        said = str(tools["by_name"].description)
        assert "people by name" in said and "exact names" in said
        params = shown["properties"]["params"]
        assert (shown["required"], params["required"]) == (["params"], ["name"])
        assert params["properties"]["name"] == {"type": "string"}
        assert params["properties"]["min"]["type"] == ["integer", "string"]
        assert params["properties"]["on"]["format"] == "date"
        near = tools["near"].input_schema["properties"]["params"]["properties"]
        assert near["v"] == {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3}
        assert near["codes"] == {"type": "array", "items": {"type": "string"}}
        assert "params" not in tools["stored_query"].input_schema["properties"]

        assert (await agent.call("by_name", params={"name": "Ana"}))["rows"] == [{"handle": "ana"}]
        assert (await agent.call("stored_query"))["rows"] == [{"people": 3}]
        done = await agent.call("add_person", params={"handle": "di", "name": "Di"})
        assert (done["branch"], done["branch_created"], done["affected_nodes"]) == ("agent/act-ana", True, 1)
        assert (await agent.call("stored_query"))["branch"] == "agent/act-ana"
        assert (await agent.call("stored_query", snapshot=graph.commits.head().id))["rows"] == [{"people": 3}]
        assert (await agent.call("by_name", params={"name": "Di"}, branch="main"))["rows"] == []

    talk(server_of(desk_of(graph)), work)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_both_generations_of_the_protocol_are_spoken(graph: og.Graph, mode: str) -> None:
    async def work(agent: Agent) -> tuple[int, dict[str, Any]]:
        return len((await agent.client.list_tools()).tools), await agent.call("query", query=COUNT)

    count, answer = talk(server_of(desk_of(graph)), work, mode=mode)
    assert count == len(TOOLS) + 4 and answer["rows"] == [{"people": 3}]
