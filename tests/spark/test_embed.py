"""Vectors that executors ask for: the graph and the bounds of an embedded run, and no text that is paid for twice."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.errors import InputError, ProviderRefused
from omnigraph.spark import embedding_tasks
from tests.support.command_line import EXECUTABLE
from tests.support.embedding_server import KEY, EmbeddingServer, Misbehaviour, embedding_server
from tests.support.spark_job import run_child

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = 'node Note { slug: String @key  body: String?  vec: Vector(4)? @embed("body") }'
ROWS = 10
VECTORS = "query q() { match { $n: Note } return { $n.slug as slug, $n.body as body, $n.vec as vec } order { slug } }"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        for name, value in server.environment(OMNIGRAPH_EMBED_BATCH="2").items():
            monkeypatch.setenv(name, value)
        yield server


def notes(place: Path, rows: int = ROWS) -> og.Graph:
    graph = og.init(place, SCHEMA)
    some = [{"slug": f"n{number:02}", "body": f"text {number}"} for number in range(rows)]
    graph.load({"Note": [*some, {"slug": "none"}]}, "append")
    return graph


def content(graph: og.Graph) -> list[dict[str, Any]]:
    return graph.query(VECTORS).rows()


def status(graph: og.Graph) -> tuple[int, int, int]:
    (found,) = graph.stats(embeddings=True).embeddings
    return found.ready, found.pending, found.failed


def test_executors_make_the_graph_that_this_process_makes(
    tmp_path: Path, provider: EmbeddingServer, spark: SparkSession
) -> None:
    with notes(tmp_path / "here") as here, notes(tmp_path / "there") as there:
        for graph in (here, there):
            graph.mutate('query q() { update Note set { body: "text 3" } where slug = "n04" }')
        expected = here.embed(rows=4, engine="embedded")
        del provider.requests[:]
        done = there.embed(rows=4, engine="spark")
        assert (done.engine, expected.engine) == ("spark", "embedded")
        assert {**done.to_dict(), "engine": "", "commits": len(done.commits)} == {
            **expected.to_dict(), "engine": "", "commits": 3
        }  # fmt: skip
        assert content(there) == content(here)
        assert sorted(provider.texts) == sorted(row["body"] for row in content(here) if row["body"])
        assert status(there) == (ROWS, 0, 0)
        assert there.verify().ok
        assert there.embed(engine="spark").commits == ()
        edit = 'query q() { update Note set { body: "other" } where slug = "n01" }'
        there.mutate(edit)
        assert (there.embed(engine="spark").embedded, there.embed(engine="embedded").embedded) == (1, 0)


def test_limit_budget_and_refused_texts_are_those_of_an_embedded_run(
    tmp_path: Path, provider: EmbeddingServer, spark: SparkSession
) -> None:
    provider.refused.add("text 1")
    with notes(tmp_path / "here") as here, notes(tmp_path / "there") as there:
        for bounds in ({"limit": 5}, {"budget": 14}, {"budget": 5}, {}):
            found = []
            for graph, engine in ((here, "embedded"), (there, "spark")):
                done = graph.embed(**bounds, engine=engine)  # type: ignore[arg-type]
                found.append((done.embedded, done.failed, done.characters, done.stopped))
            assert found[0] == found[1], bounds
            assert content(there) == content(here)
        assert status(there) == status(here) == (ROWS - 1, 0, 1)


def test_a_wrong_key_ends_the_run_with_its_error_and_is_not_told(
    tmp_path: Path, provider: EmbeddingServer, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with notes(tmp_path / "g") as graph:
        provider.script += [Misbehaviour(status=401)] * 8
        with pytest.raises(ProviderRefused, match="refused the request with status 401") as raised:
            graph.embed(engine="spark")
        assert raised.value.details["status"] == 401
        assert len(provider.requests) <= 2, "a refusal is no failure of a task, so no task is run again"
        del provider.script[:]
        assert graph.embed(engine="spark").embedded == ROWS
    assert {headers["Authorization"] for headers in provider.headers} == {f"Bearer {KEY}"}
    said = capfd.readouterr()
    assert KEY not in said.out + said.err + str(raised.value)
    assert KEY not in str(spark.sparkContext.getConf().getAll())


def test_what_was_answered_before_a_provider_failed_is_committed(
    tmp_path: Path, provider: EmbeddingServer, spark: SparkSession
) -> None:
    with notes(tmp_path / "g") as graph:
        provider.script += [Misbehaviour(), Misbehaviour(), Misbehaviour(status=403)]
        with pytest.raises(ProviderRefused):
            graph.embed(engine="spark")
        made = status(graph)[0]
        assert made >= 4
        del provider.script[:]
        assert graph.embed(engine="spark").embedded == ROWS - made


def test_tasks_share_the_rate(tmp_path: Path, provider: EmbeddingServer, spark: SparkSession) -> None:
    settings = provider_settings(rate=7)
    shared, tasks = embedding_tasks._shared(settings, 2)
    assert (shared.patience.rate, tasks) == (3, 2)
    assert embedding_tasks._shared(provider_settings(rate=1), 8)[1] == 1
    assert embedding_tasks._shared(provider_settings(rate=None), 8) == (provider_settings(rate=None), 8)


def provider_settings(rate: int | None) -> Any:
    from dataclasses import replace

    from omnigraph.embed.embedding_settings import settings_from

    found = settings_from()
    return replace(found, patience=replace(found.patience, rate=rate))


def test_requests_keep_to_the_rate_together(
    tmp_path: Path, provider: EmbeddingServer, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_REQUESTS_PER_MINUTE", "120")
    began: list[float] = []
    provider.before_answer = lambda: began.append(time.monotonic())
    with notes(tmp_path / "g") as graph:
        graph.embed(engine="spark")
    assert len(began) == 5
    assert max(began) - min(began) > 1.5, "five requests of two tasks, each of which may send one a second"


def test_auto_takes_spark_for_many_rows_only(
    tmp_path: Path, provider: EmbeddingServer, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPARK_EMBED_ROWS", 8)
    with notes(tmp_path / "g") as graph:
        assert graph.embed(limit=4).engine == "embedded"
        assert graph.embed().engine == "spark"
        with pytest.raises(InputError, match="engine 'both' is not one of"):
            graph.embed(engine="both")  # type: ignore[arg-type]


def test_the_command_asks_from_spark(tmp_path: Path, provider: EmbeddingServer, spark: SparkSession) -> None:
    notes(tmp_path / "g").close()
    words = ("embed", "--store", str(tmp_path / "g"), "--engine", "spark", "--json", "--quiet")
    child = run_child([str(EXECUTABLE), *words])
    shown = json.loads(child.stdout)
    assert (shown["engine"], shown["embedded"], len(provider.texts)) == ("spark", ROWS, ROWS)


@pytest.mark.parametrize(
    "point",
    [
        "embed.after_commit",
        pytest.param("embed.after_facts", marks=pytest.mark.torture),
        pytest.param("write.after_sidecar", marks=pytest.mark.torture),
    ],
)
def test_a_killed_driver_is_continued_without_asking_again(
    point: str, tmp_path: Path, provider: EmbeddingServer, spark: SparkSession
) -> None:
    uri = str(tmp_path / "g")
    notes(tmp_path / "g").close()
    command = [sys.executable, "-m", "tests.support.spark_embed_child", uri, f"{point}=kill"]
    child = run_child(command)
    assert child.returncode == -signal.SIGKILL, child.stderr[-2000:]
    assert len(provider.texts) == ROWS
    with og.open(uri) as graph:
        done = graph.embed(engine="spark")
        assert (done.embedded, status(graph)) == (0, (ROWS, 0, 0))
        assert graph.verify().ok
    assert sorted(provider.texts) == sorted(f"text {number}" for number in range(ROWS))


def test_a_task_that_dies_and_runs_again_asks_only_for_what_was_not_answered(
    tmp_path: Path, provider: EmbeddingServer, spark: SparkSession
) -> None:
    uri = str(tmp_path / "g")
    notes(tmp_path / "g").close()
    command = [sys.executable, "-m", "tests.support.spark_embed_child", uri, ""]
    child = run_child(command, OMNIGRAPH_FAILPOINTS="embed.after_answer=kill@2")
    assert child.stdout == f"{ROWS} 0 spark after a death\n", child.stderr[-2000:]
    assert KEY not in child.stderr
    assert sorted(provider.texts) == sorted(f"text {number}" for number in range(ROWS))
    with og.open(uri) as graph:
        assert status(graph) == (ROWS, 0, 0)
