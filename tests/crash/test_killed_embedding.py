"""Embedding that is killed at every boundary, again and again: no text is sent twice, no vector is lost."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

import omnigraph as og
from omnigraph.embed.mock_vectors import mock_vectors
from tests.support.children import running
from tests.support.embedding_server import embedding_server
from tests.support.kill_runner import CHILD_SECONDS
from tests.support.light_python import run_module

SCHEMA = 'node Note { slug: String @key  body: String?  vec: Vector(4)? @embed("body") }'
ROWS = 10
TEXTS = {f"n{number}": f"text {number}" for number in range(ROWS)}

#: Where a run is killed, and how often it can be before everything is done: 2 texts a request, 4 rows a commit.
BOUNDARIES = {
    "embed.after_answer": 5,
    "embed.after_commit": 3,
    "embed.after_facts": 3,
    "write.after_stage": 3,
    "write.after_sidecar": 2,
    "write.after_publish_before_delete": 3,
}


@pytest.mark.parametrize("point", BOUNDARIES)
def test_killed_at_every_boundary_no_text_is_sent_twice_and_no_vector_is_lost(point: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "notes.omni")
    with og.init(uri, SCHEMA) as graph:
        graph.load({"Note": [{"slug": slug, "body": text} for slug, text in TEXTS.items()]}, "append")
    with embedding_server() as provider:
        env = provider.environment(OMNIGRAPH_EMBED_BATCH="2")
        deaths = 0
        while True:
            armed = f"{point}=kill" if deaths < BOUNDARIES[point] else ""
            with running(
                run_module("tests.support.embed_child", uri, "4"), {**env, "OMNIGRAPH_FAILPOINTS": armed}
            ) as child:
                said, complaint = child.communicate(timeout=CHILD_SECONDS)
            if child.returncode == 0:
                break
            assert child.returncode == -signal.SIGKILL, complaint[-2000:]
            deaths += 1
        assert deaths == BOUNDARIES[point], said
        assert sorted(provider.texts) == sorted(TEXTS.values())
    with og.open(uri) as graph:
        (status,) = graph.stats(embeddings=True).embeddings
        assert (status.ready, status.pending, status.stale, status.given) == (ROWS, 0, 0, 0)
        assert graph.verify().ok
        found = graph.query("query q() { match { $n: Note } return { $n.slug as slug, $n.vec as vec } }").rows()
    for row in found:
        assert np.allclose(row["vec"], mock_vectors([TEXTS[row["slug"]]], 4)[0], atol=1e-6)
