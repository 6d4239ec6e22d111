"""What agents can read: schema, branches, graphs, and our advice, whose examples run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

import omnigraph as og
from omnigraph.mcp.graph_resources import RESOURCES, best_practices
from tests.mcp.agents import Agent, desk_of, server_of, talk

TOPICS = ("queries", "writing", "branches")


def blocks(topic: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", best_practices(topic), re.DOTALL | re.MULTILINE)


def test_every_resource_is_listed_and_can_be_read(graph: og.Graph) -> None:
    async def work(agent: Agent) -> dict[str, str]:
        listed = (await agent.client.list_resources()).resources
        assert [each.uri for each in listed] == [each.uri for each in RESOURCES]
        texts = {}
        for each in listed:
            (found,) = (await agent.client.read_resource(each.uri)).contents
            assert (found.uri, found.mime_type) == (each.uri, each.mime_type)
            texts[each.uri] = getattr(found, "text", "")
        return texts

    texts = talk(server_of(desk_of(graph)), work)
    assert texts["omnigraph://schema"] == graph.schema.text
    assert json.loads(texts["omnigraph://branches"])["default"]["writes_go_to"] == "agent/act-ana"
    assert json.loads(texts["omnigraph://graphs"])["graphs"][0]["graph_id"] == "people"
    assert all(texts[f"omnigraph://best-practices/{topic}"] for topic in TOPICS)


def test_an_unknown_resource_is_an_error_of_the_protocol_with_the_usual_body(graph: og.Graph) -> None:
    async def work(agent: Agent) -> None:
        with pytest.raises(MCPError, match="did you mean 'omnigraph://schema'") as caught:
            await agent.client.read_resource("omnigraph://schemas")
        assert caught.value.error.data["status"] == 400

    talk(server_of(desk_of(graph)), work)


@pytest.mark.parametrize("topic", TOPICS)
def test_the_examples_of_our_advice_run(tmp_path: Path, topic: str) -> None:
    (schema,) = blocks("queries", "pg")
    params = {"h": "ana", "n": "Ana", "code": "c1", "a": "ana", "b": "bo", "min": 1, "words": "ana"}
    with og.init(tmp_path / "g.omni", schema) as graph:
        graph.load(
            {
                "Person": [{"handle": "ana", "name": "Ana"}, {"handle": "bo", "name": "Bo"}],
                "Team": [{"code": "c1", "kind": "core"}],
                "MemberOf": [{"from": "ana", "to": "c1"}],
            },
            "append",
        )
        count = 0
        for text in blocks(topic, "gq"):
            for checked in graph.lint(text).results:
                assert checked.error is None, (text, checked.error)
                declared = set(re.findall(r"\$(\w+): ", text[text.index(f"query {checked.name}(") :].partition(")")[0]))
                given = {name: params[name] for name in declared}
                run = graph.mutate if checked.kind == "mutation" else graph.query
                assert run(text, checked.name, given).query_name == checked.name
                count += 1
        for lines in blocks(topic, "jsonl"):
            path = tmp_path / "lines.jsonl"
            path.write_text(lines)
            assert graph.load(path, "append").total == 2
    assert count or topic == "branches"
