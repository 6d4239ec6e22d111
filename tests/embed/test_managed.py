"""Vectors that follow their texts: what is made, what is committed, what is known on branches and after merges."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import omnigraph as og
from omnigraph.embed.managed import embed_graph, ledger, row_states
from omnigraph.embed.mock_vectors import mock_vectors
from omnigraph.errors import (
    EmbeddingModelMismatch,
    EmbeddingSettingsError,
    InputError,
    InvalidEmbedding,
    ProviderRefused,
    ProviderUnavailable,
    ReadOnly,
    TypeNotFound,
)
from tests.support.command_line import CommandLine
from tests.support.embedding_server import EmbeddingServer, Misbehaviour, error_body

SCHEMA = """
node Note { slug: String @key  body: String?  photo: Blob?  vec: Vector(4)? @embed("body") }
node Fixed { slug: String @key  body: String  vec: Vector(4) @embed("body", model="m1") }
node Plain { slug: String @key }
edge Has: Note -> Plain
"""
VECTORS = "query q() { match { $n: Note } return { $n.slug as slug, $n.body as body, $n.vec as vec } order { slug } }"


@pytest.fixture
def env(provider: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> EmbeddingServer:
    for name, value in provider.environment(OMNIGRAPH_EMBED_BATCH="2").items():
        monkeypatch.setenv(name, value)
    return provider


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    with og.init(tmp_path / "notes.omni", SCHEMA, actor="act-ana") as graph:
        graph.load({"Note": [{"slug": f"n{number}", "body": f"text {number}"} for number in range(5)]}, "append")
        yield graph


def status(graph: og.Graph, branch: str = "main", name: str = "Note") -> dict[str, Any]:
    found = next(each for each in graph.stats(branch, embeddings=True).embeddings if each.type == name)
    figures = {key: value for key, value in found.to_dict().items() if isinstance(value, int) and value}
    return {**figures, **({"reasons": dict(found.reasons)} if found.reasons else {})}


def assert_vectors_fit(graph: og.Graph, branch: str = "main") -> None:
    for row in graph.query(VECTORS, branch=branch).rows():
        assert np.allclose(row["vec"], mock_vectors([row["body"]], 4)[0], atol=1e-6), row["slug"]


def edit(graph: og.Graph, slug: str, body: str | None, branch: str = "main") -> None:
    text = "query q($b: String?, $s: String) { update Note set { body: $b } where slug = $s }"
    graph.mutate(text, {"b": body, "s": slug}, branch=branch)


# --- the way of a vector


def test_missing_vectors_are_made_once_in_bounded_commits(graph: og.Graph, env: EmbeddingServer) -> None:
    assert status(graph) == {"pending": 5}
    done = graph.embed(rows=2)
    assert (done.embedded, done.failed, done.skipped, done.stopped, done.model) == (5, 0, 0, None, "m1")
    assert len(done.commits) == 3
    assert done.characters == sum(len(text) for text in env.texts) == 30
    assert status(graph) == {"ready": 5}
    assert_vectors_fit(graph)
    assert graph.embed().to_dict()["commits"] == []
    assert sorted(env.texts) == [f"text {number}" for number in range(5)]
    kinds = [(commit.kind, commit.actor) for commit in graph.commits.list()[:3]]
    assert kinds == [("embed", "act-ana")] * 3
    assert graph.verify().ok


def test_a_changed_text_makes_its_vector_stale_and_only_that_one_is_made_again(
    graph: og.Graph, env: EmbeddingServer
) -> None:
    graph.embed()
    edit(graph, "n3", "another text")
    graph.mutate('query q() { insert Note { slug: "new", body: "fresh" } }')
    assert status(graph) == {"pending": 1, "ready": 4, "stale": 1}
    del env.requests[:]
    assert graph.embed().embedded == 2
    assert sorted(env.texts) == ["another text", "fresh"]
    assert status(graph) == {"ready": 6}
    assert_vectors_fit(graph)


def test_a_text_that_comes_back_is_ready_only_with_its_own_vector(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.embed()
    edit(graph, "n1", "other")
    edit(graph, "n1", "text 1")
    assert status(graph) == {"ready": 5}


def test_a_text_that_is_gone_takes_its_vector_along(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.embed()
    edit(graph, "n1", None)
    edit(graph, "n2", "  ")
    assert status(graph) == {"ready": 3, "stale": 2}
    done = graph.embed()
    assert (done.cleared, done.embedded) == (2, 0)
    assert [row["vec"] for row in graph.query(VECTORS).rows()[1:3]] == [None, None]
    assert status(graph) == {"ready": 3}


def test_rows_without_a_text_are_left_alone(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.load({"Note": [{"slug": "blank", "body": " \t"}, {"slug": "none"}]}, "append")
    assert graph.embed().embedded == 5
    assert status(graph) == {"ready": 5}


def test_a_vector_that_came_with_the_data_stays_until_its_text_changes(graph: og.Graph, env: EmbeddingServer) -> None:
    given = [1.0, 0.0, 0.0, 0.0]
    graph.load({"Note": [{"slug": slug, "body": "mine", "vec": given} for slug in ("g1", "g2")]}, "append")
    assert status(graph) == {"pending": 5, "given": 2}
    assert graph.embed().embedded == 5
    assert status(graph) == {"ready": 5, "given": 2}
    edit(graph, "g1", "changed")
    assert status(graph) == {"ready": 5, "given": 1, "stale": 1}
    assert graph.embed().embedded == 1
    assert status(graph) == {"ready": 6, "given": 1}
    rows = {row["slug"]: row["vec"] for row in graph.query(VECTORS).rows()}
    assert rows["g2"] == given


def test_reembed_replaces_given_vectors_too(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.load({"Note": [{"slug": "g1", "body": "mine", "vec": [1.0, 0.0, 0.0, 0.0]}]}, "append")
    assert graph.embed(reembed=True).embedded == 6
    assert status(graph) == {"ready": 6}
    assert graph.embed(reembed=True).embedded == 0


def test_blobs_and_edges_of_a_row_stay(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.load({"Note": [{"slug": "b", "body": "with a photo", "photo": "base64:aGVsbG8="}]}, "append")
    graph.load({"Plain": [{"slug": "p"}]}, "append")
    graph.mutate('query q() { insert Has { from: "b", to: "p" } }')
    before = [line for line in (graph.export().text or "").splitlines() if '"photo":"base64' in line]
    assert graph.embed().embedded == 6
    after = [line for line in (graph.export().text or "").splitlines() if '"photo":"base64' in line]
    assert len(before) == len(after) == 1
    assert graph.query("query q() { match { $n: Note  $n has $p } return { $n.slug as s } }").rows() == [{"s": "b"}]


# --- bounds


def test_rows_of_many_small_fragments_share_a_commit(graph: og.Graph, env: EmbeddingServer) -> None:
    for slug in "abcd":
        graph.mutate("query q($s: String) { insert Note { slug: $s, body: $s } }", {"s": slug})
    done = graph.embed(rows=6)
    assert (done.embedded, len(done.commits)) == (9, 2)
    assert_vectors_fit(graph)


def test_a_run_that_a_limit_ended_leaves_no_fragment_unread(graph: og.Graph, env: EmbeddingServer) -> None:
    for slug in "abcd":
        graph.mutate("query q($s: String) { insert Note { slug: $s, body: $s } }", {"s": slug})
    for _ in range(5):
        assert graph.embed(limit=2, rows=1).embedded <= 2
    assert status(graph) == {"ready": 9}


def test_limit_and_budget_end_a_run_and_the_next_one_goes_on(graph: og.Graph, env: EmbeddingServer) -> None:
    first = graph.embed(limit=3, rows=2)
    assert (first.embedded, first.stopped) == (3, "limit")
    second = graph.embed(budget=7, rows=2)
    assert (second.embedded, second.stopped) == (0, "budget")
    third = graph.embed(budget=12)
    assert (third.embedded, third.stopped) == (2, None)
    assert sorted(env.texts) == [f"text {number}" for number in range(5)]
    assert status(graph) == {"ready": 5}


def test_progress_is_told(graph: og.Graph, env: EmbeddingServer) -> None:
    told: list[og.Progress] = []
    graph.embed(rows=2, progress=told.append)
    assert [each.rows for each in told if each.stage == "embed"] == [0, 2, 4, 5, 5]
    assert told[-1].finished


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"types": ["Nte"]}, TypeNotFound),
        ({"types": "Plain"}, InputError),
        ({"limit": -1}, InputError),
        ({"rows": 0}, InputError),
        ({"budget": "much"}, InputError),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_asked(
    graph: og.Graph, env: EmbeddingServer, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        graph.embed(**arguments)
    assert env.requests == []


def test_a_missing_provider_and_a_read_only_graph_are_refused(graph: og.Graph) -> None:
    with pytest.raises(EmbeddingSettingsError):
        graph.embed()
    with og.open(graph.uri, mode="ro") as reader, pytest.raises(ReadOnly):
        reader.embed()


def test_a_graph_without_such_a_property_needs_no_provider(tmp_path: Path) -> None:
    with og.init(tmp_path / "x.omni", "node Plain { slug: String @key }") as graph:
        assert graph.embed().commits == ()
        assert graph.stats(embeddings=True).embeddings == ()


# --- providers that fail


def test_what_was_answered_before_a_provider_failed_is_committed(graph: og.Graph, env: EmbeddingServer) -> None:
    env.script = [Misbehaviour(), *[Misbehaviour(503) for _ in range(4)]]
    with pytest.raises(ProviderUnavailable):
        graph.embed()
    assert status(graph) == {"pending": 3, "ready": 2}
    assert graph.embed().embedded == 3
    assert len(set(env.texts)) == 5


def test_a_text_that_is_refused_is_marked_and_the_others_are_embedded(graph: og.Graph, env: EmbeddingServer) -> None:
    env.refused = {"text 3"}
    done = graph.embed()
    assert (done.embedded, done.failed) == (4, 1)
    assert status(graph) == {"ready": 4, "failed": 1, "reasons": {"refused with status 400": 1}}
    del env.requests[:]
    assert graph.embed().embedded == 0
    assert env.requests == []
    edit(graph, "n3", "a better text")
    assert status(graph) == {"pending": 1, "ready": 4}
    edit(graph, "n3", "text 3")
    env.refused = set()
    assert graph.embed(retry_failed=True).embedded == 1
    assert status(graph) == {"ready": 5}


def test_a_text_with_a_zero_vector_is_marked_with_the_reason(graph: og.Graph, env: EmbeddingServer) -> None:
    def zero(answer: Any) -> Any:
        return {"data": [{**each, "embedding": [0.0] * 4} for each in answer["data"]]}

    env.script = [Misbehaviour(), Misbehaviour(change=zero), Misbehaviour(change=zero)]
    done = graph.embed()
    assert (done.embedded, done.failed) == (4, 1)
    (reason,) = status(graph)["reasons"]
    assert reason == "the embedding provider answered with a zero vector"


def test_a_provider_that_refuses_everything_marks_nothing(graph: og.Graph, env: EmbeddingServer) -> None:
    env.refused = {f"text {number}" for number in range(5)}
    with pytest.raises(ProviderRefused, match="status 400"):
        graph.embed()
    assert status(graph) == {"pending": 5}


@pytest.mark.parametrize("status_code", [401, 403, 404])
def test_a_refusal_that_is_not_about_a_text_ends_the_run(
    graph: og.Graph, env: EmbeddingServer, status_code: int
) -> None:
    env.script = [Misbehaviour(status_code, body=error_body("no"))]
    with pytest.raises(ProviderRefused):
        graph.embed()
    assert status(graph) == {"pending": 5}


def test_a_wrong_dimension_ends_the_run(graph: og.Graph, env: EmbeddingServer) -> None:
    env.script = [Misbehaviour(body=b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}')]
    with pytest.raises(InvalidEmbedding, match="1 components, 4 are wanted"):
        graph.embed()
    assert status(graph) == {"pending": 5}


# --- models


def test_vectors_of_two_models_do_not_meet_unless_all_are_made_again(
    graph: og.Graph, env: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.embed(limit=2)
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "m2")
    with pytest.raises(EmbeddingModelMismatch, match="model 'm1', and the configured model is 'm2'"):
        graph.embed(["Note"])
    assert graph.embed(["Note"], reembed=True).embedded == 5
    (note,) = (each for each in graph.stats(embeddings=True).embeddings if each.type == "Note")
    assert dict(note.models) == {"m2": 5}
    graph.mutate('query q() { insert Note { slug: "z", body: "zz" } }')
    assert graph.embed(["Note"]).embedded == 1


def test_another_model_than_the_declared_one_is_refused(
    graph: og.Graph, env: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "m2")
    with pytest.raises(EmbeddingModelMismatch, match=r"Fixed.vec holds vectors of model 'm1'"):
        graph.embed()
    assert env.requests == []


def test_a_required_vector_is_made_again_when_its_text_changes(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.load({"Fixed": [{"slug": "f", "body": "one", "vec": [1.0, 0.0, 0.0, 0.0]}]}, "append")
    graph.embed(["Fixed"])
    assert status(graph, name="Fixed") == {"given": 1}
    graph.mutate('query q() { update Fixed set { body: "two" } where slug = "f" }')
    assert graph.embed(["Fixed"]).embedded == 1
    assert status(graph, name="Fixed") == {"ready": 1}


# --- branches, merges, writers, copies


def test_facts_hold_on_branches_after_merges_and_after_going_back(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.branches.create("model/try")
    graph.embed(branch="model/try")
    assert (status(graph, "model/try"), status(graph)) == ({"ready": 5}, {"pending": 5})
    edit(graph, "n0", "changed on main")
    merged = graph.branches.merge("model/try", resolve="ours")
    assert merged.commit is not None
    assert status(graph) == {"pending": 1, "ready": 4}
    graph.embed()
    assert status(graph) == {"ready": 5}
    before = graph.commits.head().id
    edit(graph, "n1", "later")
    graph.restore(before)
    assert status(graph) == {"ready": 5}
    assert len(env.texts) == 6


def test_a_row_that_changes_while_it_is_embedded_keeps_its_new_text_and_waits(
    graph: og.Graph, env: EmbeddingServer
) -> None:
    def change() -> None:
        env.before_answer = None
        edit(graph, "n0", "newer")
        graph.mutate('query q() { delete Note where slug = "n1" }')

    env.before_answer = change
    done = graph.embed()
    assert (done.embedded, done.skipped) == (5, 2)
    assert status(graph) == {"pending": 1, "ready": 3}
    assert graph.embed().embedded == 1
    assert_vectors_fit(graph)


def test_a_write_does_not_wait_for_a_provider(graph: og.Graph, env: EmbeddingServer) -> None:
    """The edit runs while the provider holds its answer back, so a lock around the run would never end."""
    written: list[object] = []

    def write() -> None:
        if not written:
            written.append(graph.mutate('query q() { insert Note { slug: "w", body: "while" } }').commit)

    env.before_answer = write
    assert graph.embed().embedded == 5
    assert written[0] is not None
    assert status(graph) == {"pending": 1, "ready": 5}


def test_a_renamed_type_and_property_keep_what_is_known(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.embed()
    renamed = SCHEMA.replace("node Note {", 'node Memo @rename_from("Note") {').replace("Note ->", "Memo ->")
    renamed = renamed.replace("vec: Vector(4)? @embed", 'vector: Vector(4)? @rename_from("vec") @embed', 1)
    graph.schema.apply(renamed)
    assert status(graph, name="Memo") == {"ready": 5}
    assert graph.embed().embedded == 0


def test_a_clone_knows_what_its_source_knows(graph: og.Graph, env: EmbeddingServer, tmp_path: Path) -> None:
    graph.embed()
    og.clone(graph.uri, tmp_path / "twin.omni")
    with og.open(tmp_path / "twin.omni") as twin:
        assert status(twin) == {"ready": 5}
        edit(twin, "n0", "changed")
        assert status(twin) == {"ready": 4, "stale": 1}


def test_a_lost_ledger_makes_vectors_given_and_breaks_nothing(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.embed()
    for file in Path(graph.uri, ledger.DIRECTORY).rglob("*.arrays"):
        file.unlink()
    assert status(graph) == {"given": 5}
    assert graph.embed().embedded == 0


def test_files_of_the_ledger_are_written_together_and_no_fact_is_lost(graph: og.Graph, env: EmbeddingServer) -> None:
    rows = [{"slug": f"m{number}", "body": f"more {number}"} for number in range(20)]
    graph.load({"Note": rows}, "append")
    env.refused = {"more 7"}
    assert graph.embed(rows=1).failed == 1
    files = list(Path(graph.uri, ledger.DIRECTORY).rglob("*.arrays"))
    assert len(files) == 1
    assert status(graph) == {"ready": 24, "failed": 1, "reasons": {"refused with status 400": 1}}


def test_a_file_of_a_later_version_is_passed_over(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.embed()
    (file,) = Path(graph.uri, ledger.DIRECTORY).rglob("*.arrays")
    text = file.read_bytes().replace(b'"format": 1', b'"format": 9')
    (file.parent / "01ZZZZZZZZZZZZZZZZZZZZZZZZ.arrays").write_bytes(text)
    assert status(graph) == {"ready": 5}


@pytest.mark.s3
def test_the_same_holds_on_an_object_store(s3_root: str, env: EmbeddingServer) -> None:
    with og.init(f"{s3_root}/notes", SCHEMA) as graph:
        graph.load({"Note": [{"slug": "a", "body": "alpha"}, {"slug": "b", "body": "beta"}]}, "append")
        assert graph.embed(rows=1).embedded == 2
        edit(graph, "a", "changed")
        assert status(graph) == {"ready": 1, "stale": 1}
        assert graph.embed().embedded == 1
        assert status(graph) == {"ready": 2}
        assert_vectors_fit(graph)


# --- the cost follows the change


@pytest.fixture
def read_fragments(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many fragments each run reads."""
    seen: list[int] = []

    def batches(handle: Any, target: Any, fragments: Any = None) -> Any:
        seen.append(len(fragments))
        return row_states.batches_of(handle, target, fragments)

    monkeypatch.setattr(embed_graph, "batches_of", batches)
    return seen


def test_a_run_reads_only_what_is_new(graph: og.Graph, env: EmbeddingServer, read_fragments: list[int]) -> None:
    graph.embed(["Note"])
    graph.embed(["Note"])
    graph.embed(["Note"])
    assert (read_fragments[0], read_fragments[-1]) == (1, 0)
    graph.mutate('query q() { insert Note { slug: "new", body: "fresh" } }')
    assert graph.embed(["Note"]).embedded == 1
    assert read_fragments[-1] == 1
    edit(graph, "n1", "changed")
    assert graph.embed(["Note"]).embedded == 1
    graph.embed(["Note"], reembed=True)
    assert read_fragments[-1] >= 2


def test_what_is_settled_on_one_branch_is_still_found_where_it_is_not(graph: og.Graph, env: EmbeddingServer) -> None:
    graph.branches.create("before")
    start = graph.commits.head().id
    for _ in range(3):
        graph.embed()
    assert graph.embed(branch="before", limit=2).embedded == 2
    graph.restore(start)
    assert status(graph) == {"pending": 5}
    assert graph.embed().embedded == 5
    edit(graph, "n2", "new again")
    assert graph.embed().embedded == 1
    assert_vectors_fit(graph)


# --- the command


def test_the_command_embeds_a_store_and_stats_count(graph: og.Graph, env: EmbeddingServer) -> None:
    env.refused = {"text 3"}
    shell = CommandLine(Path(graph.uri).parent, os.environ)
    said = shell.ok("embed", "--store", graph.uri, "--limit", "2", "--quiet")
    assert said.out == "embedded 2 rows on main in 1 commit\nstopped by --limit; run it again to go on\n"
    shown = shell.ok("embed", "--store", graph.uri, "--type", "Note", "--engine", "embedded", "--json", "--quiet").json
    assert (shown["embedded"], shown["failed"], shown["model"], len(shown["commits"])) == (2, 1, "m1", 1)
    assert shown["engine"] == "embedded"
    lines = shell.ok("stats", graph.uri, "--embeddings").out
    assert "Note.vec   | body |       0 |     4 |     0 |      1 |     0" in lines
    assert "failed: 1 text of Note.vec: refused with status 400" in lines
    counted = shell.ok("stats", graph.uri, "--embeddings", "--json").json["embeddings"]
    assert [(each["type"], each["ready"]) for each in counted] == [("Fixed", 0), ("Note", 4)]
    mixed = shell.run("embed", "--store", graph.uri, "--clean")
    assert (mixed.code, "is for the vectors of a graph" in mixed.err) == (2, True)
    other = shell.run("embed", "--store", graph.uri, "--type", "Note", OMNIGRAPH_EMBED_MODEL="m2")
    assert other.code == 1
    assert "make them all again with --reembed-all" in other.err
