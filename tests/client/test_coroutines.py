"""The verbs as coroutines: the same flows, the same answers, many at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import aio
from omnigraph.errors import GraphClosed, OutcomeUnknown, QueryTypeError
from tests.support.fault_proxy import WRITES, Fault, FaultProxy
from tests.support.served import Served, served

SCHEMA = "node Person { handle: String @key  name: String  photo: Blob? }\nedge Follows: Person -> Person"
INSERT = "query add($h: String) { insert Person { handle: $h, name: $h } }"
NAMES = "query q() { match { $p: Person } return { $p.handle as handle } order { handle } }"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with og.init(tmp_path / "people.omni", SCHEMA) as graph:
        rows = [{"handle": "ana", "name": "Ana", "photo": b"pixels"}, {"handle": "bo", "name": "Bo"}]
        graph.load({"Person": rows, "Follows": [{"from": "ana", "to": "bo", "id": "f1"}]}, "append")
    return tmp_path / "people.omni"


async def everything(url: str, folder: Path) -> None:
    async with await aio.open(url) as graph:
        assert (await graph.query(NAMES)).column("handle").to_pylist() == ["ana", "bo"]
        done = await graph.mutate(INSERT, {"h": "cy"})
        assert done.commit is not None
        (folder / "more.jsonl").write_text('{"type":"Person","data":{"handle":"di","name":"Di"}}\n', "utf-8")
        assert (await graph.load(folder / "more.jsonl", "append")).total == 1
        assert await graph.branches.list() == ["main"]
        assert (await graph.branches.create("x")).parent == "main"
        await graph.mutate('query q() { delete Person where handle = "bo" }', branch="x")
        diff = await graph.diff("main", "x")
        assert [(change.op, change.id) async for change in diff] == [("delete", "bo"), ("delete", "f1")]
        assert diff.stats.deletes == len(await diff.rows()) == (await diff.to_arrow()).num_rows
        merged = await graph.branches.merge("x", delete_branch=True)
        assert merged.commit is not None
        assert (await graph.commits.head()).to_dict() == merged.commit.to_dict()
        assert len(await graph.commits.graph()) == 6
        assert (await graph.tags.create("t")).commit_id == merged.commit.id
        state = await graph.snapshot(at="tag:t")
        assert state.count("Person") == 3
        assert (await state.arrow("Person", ["handle"])).num_rows == 3
        photo = await graph.blob("Person", "ana", "photo")
        assert (photo.size, await photo.read(1, 3), await photo.save(folder / "ana")) == (6, b"ixe", 6)
        changes = await graph.commit_changes(done.commit.id)
        assert [change.id async for change in changes] == ["cy"]
        assert (await changes.stats()).inserts == 1
        assert "node Person" in await graph.schema.text
        assert "Person" in (await graph.catalog).nodes
        assert (await graph.export(folder / "all.jsonl")).nodes == {"Person": 3}
        with pytest.raises(QueryTypeError):
            await graph.query("query q() { match { $p: Persn } return { $p.name } }")
    with pytest.raises(GraphClosed):
        await graph.branches.list()


def test_every_verb_is_a_coroutine(place: Path, tmp_path: Path) -> None:
    with served({"people": place}) as server:
        asyncio.run(everything(server.graph_url(), tmp_path))
    with og.open(place) as graph:
        assert graph.snapshot().count("Person") == 3


def test_many_coroutines_share_a_handle(place: Path) -> None:
    async def work(server: Served) -> list[og.MutationResult]:
        async with await aio.open(server.graph_url()) as graph:
            return await asyncio.gather(*(graph.mutate(INSERT, {"h": f"c{number}"}) for number in range(12)))

    with served({"people": place}) as server:
        done = asyncio.run(work(server))
    assert len({each.commit.id for each in done if each.commit is not None}) == 12
    with og.open(place) as graph:
        assert graph.snapshot().count("Person") == 14


@pytest.mark.parametrize("kind", ["503", "reset_before", "reset_after", "cut"])
def test_a_lost_answer_is_met_as_by_callers_that_wait(kind: str, place: Path) -> None:
    async def work(url: str, proxy: FaultProxy) -> None:
        async with await aio.open(f"{url}/graphs/people") as graph:
            with proxy.armed(Fault(kind, times=2)):
                assert (await graph.mutate(INSERT, {"h": "cy"})).commit is not None
            with proxy.armed(Fault(kind, times=2, methods=WRITES)):
                assert len(await graph.query(NAMES)) == 3
            with proxy.armed(Fault(kind, times=99)), pytest.raises(OutcomeUnknown):
                await graph.revert((await graph.commits.head()).id)

    with served({"people": place}) as server:
        proxy = FaultProxy(server.url)
        with proxy.serve() as url:
            asyncio.run(work(url, proxy))
