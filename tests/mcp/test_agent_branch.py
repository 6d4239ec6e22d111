"""On which branch an agent works: one of its own, made by the first write and merged when somebody asks for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omnigraph as og
from omnigraph import ids
from omnigraph.mcp.agent_branch import AgentBranch, branch_segment
from tests.mcp.agents import ADD, COUNT, Agent, desk_of, server_of, talk

POLICY = """
version: 1
groups: { team: [act-ana] }
protected_branches: [main]
rules:
  - id: team-read
    allow: { actors: { group: team }, actions: [read] }
  - id: team-write
    allow: { actors: { group: team }, actions: [change], branch_scope: unprotected }
"""


@given(st.text(min_size=1, max_size=300), st.text(min_size=1, max_size=300))
def test_every_actor_gets_a_branch_of_its_own(one: str, other: str) -> None:
    names = [f"agent/{branch_segment(actor)}" for actor in (one, other, None)]
    assert [ids.branch_name(name) for name in names] == names
    assert len(set(names)) == len({one, other, None})


@pytest.mark.parametrize(
    ("setting", "actor", "base", "own"),
    [
        (None, "act-ana", None, "agent/act-ana"),
        ("", None, "", "agent/anonymous"),
        (None, "Ana R.", "dev", "agent/Ana-R-6a97df46"),
        ("direct", "act-ana", None, None),
        ("tasks/{actor}/7", "act-ana", None, "tasks/act-ana/7"),
        ("review", "act-ana", None, "review"),
        ("main", "act-ana", None, None),
    ],
)
def test_the_setting_says_which_branch(
    setting: str | None, actor: str | None, base: str | None, own: str | None
) -> None:
    rule = AgentBranch.of(setting, actor, base)
    assert (rule.own, rule.base) == (own, base or "main")


@pytest.mark.parametrize("setting", ["a b", "__x", "x..y", "../up"])
def test_a_setting_that_is_no_branch_is_refused(setting: str) -> None:
    with pytest.raises(og.errors.InvalidName):
        AgentBranch.of(setting, "act-ana")


def test_an_agent_writes_looks_previews_and_merges(graph: og.Graph) -> None:
    async def work(agent: Agent) -> None:
        assert (await agent.call("query", query=COUNT))["branch"] == "main"
        first = await agent.call("mutate", query=ADD, params={"h": "di"})
        assert (first["branch"], first["branch_created"]) == ("agent/act-ana", True)
        again = await agent.call("load", data='{"type": "Person", "data": {"handle": "ed", "name": "Ed"}}')
        assert (again["branch"], again["branch_created"]) == ("agent/act-ana", False)
        mine = await agent.call("query", query=COUNT)
        assert (mine["branch"], mine["rows"]) == ("agent/act-ana", [{"people": 5}])
        assert (await agent.call("query", query=COUNT, branch="main"))["rows"] == [{"people": 3}]
        compared = await agent.call("diff")
        assert (compared["from"], compared["to"]) == ("main", "agent/act-ana")
        assert [each["id"] for each in compared["changes"]] == ["di", "ed"]
        preview = await agent.call("merge_preview")
        assert (preview["conflict_count"], preview["dry_run"]) == (0, True)
        assert graph.snapshot().count("Person") == 3
        merged = await agent.call("branches_merge", message="two more")
        assert (merged["source"], merged["target"], merged["branch_deleted"]) == ("agent/act-ana", "main", True)
        after = await agent.call("query", query=COUNT)
        assert (after["branch"], after["rows"]) == ("main", [{"people": 5}])

    talk(server_of(desk_of(graph)), work)
    assert graph.branches.list() == ["main"]
    assert graph.commits.head().note["message"] == "two more"


def test_conflicts_are_previewed_and_settled(graph: og.Graph) -> None:
    rename = 'query r($n: String) { update Person set { name: $n } where handle = "ana" }'

    async def work(agent: Agent) -> None:
        await agent.call("mutate", query=rename, params={"n": "Agent"})
        graph.mutate(rename, {"n": "Person"})
        preview = await agent.call("merge_preview")
        assert (preview["conflict_count"], preview["conflicts"][0]["row_id"]) == (1, "ana")
        refused = await agent.refused("branches_merge")
        assert (refused["status"], refused["code"]) == (409, "conflict")
        assert refused["body"]["merge_conflicts"][0]["kind"] == "divergent_update"
        done = await agent.call("branches_merge", resolve={"node:Person/ana": "theirs"}, deleteBranch=False)
        assert done["outcome"] == "merged" and "branch_deleted" not in done

    talk(server_of(desk_of(graph)), work)
    assert (
        graph.query('query q() { match { $p: Person { handle: "ana" } } return { $p.name as n } }').scalar() == "Agent"
    )
    assert "agent/act-ana" in graph.branches.list()


def test_a_first_write_that_is_refused_leaves_no_branch(graph: og.Graph) -> None:
    async def work(agent: Agent) -> None:
        await agent.refused("mutate", query='query q() { insert Person { handle: "z" } }')
        await agent.refused("load", data='{"type": "Person", "data": {"handle": "z"}}')
        assert (await agent.call("query", query=COUNT))["branch"] == "main"

    talk(server_of(desk_of(graph)), work)
    assert graph.branches.list() == ["main"]


def test_a_branch_that_was_given_up_is_made_again(graph: og.Graph) -> None:
    async def work(agent: Agent) -> list[Any]:
        await agent.call("mutate", query=ADD, params={"h": "di"})
        await agent.call("branches_delete", name="agent/act-ana")
        before = await agent.call("query", query=COUNT)
        made = await agent.call("mutate", query=ADD, params={"h": "ed"})
        return [before["branch"], made["branch_created"], (await agent.call("query", query=COUNT))["rows"]]

    assert talk(server_of(desk_of(graph)), work) == ["main", True, [{"people": 4}]]


def test_direct_agents_write_to_the_base(graph: og.Graph) -> None:
    graph.branches.create("dev")

    async def work(agent: Agent) -> tuple[dict[str, Any], dict[str, Any]]:
        written = await agent.call("mutate", query=ADD, params={"h": "di"})
        return written, await agent.refused("branches_merge")

    desk = desk_of(graph, branch="direct")
    written, refused = talk(server_of(desk), work)
    assert (written["branch"], written["branch_created"], refused["status"]) == ("main", False, 400)


def test_first_writes_at_once_share_the_branch(graph: og.Graph) -> None:
    desk = desk_of(graph)

    def write(number: int) -> bool:
        _, branch, made = desk.writing(None, lambda name: graph.mutate(ADD, {"h": f"n{number}"}, branch=name))
        assert branch == "agent/act-ana"
        return made

    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(write, range(8)))
    assert sum(made) == 1
    assert graph.snapshot("agent/act-ana").count("Person") == 11


def test_who_may_not_make_the_branch_is_told_what_to_do(place: Path) -> None:
    rules = place.with_name("rules.yaml")
    rules.write_text(POLICY)

    async def work(agent: Agent) -> dict[str, Any]:
        return await agent.refused("mutate", query=ADD, params={"h": "di"})

    with og.open(place, actor="act-ana", policy=rules) as graph:
        refused = talk(server_of(desk_of(graph)), work)
    assert (refused["status"], refused["code"]) == (403, "forbidden")
    assert "branch_create" in refused["error"] and "agent/act-ana" in refused["error"]
