"""`omnigraph embed` on files: which records get a vector of which text, and what stays letter by letter."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.embed.mock_vectors import mock_vectors
from omnigraph.errors import EmbeddingSettingsError, InputError, InvalidRecord, ProviderUnavailable
from tests.support.command_line import CommandLine
from tests.support.embedding_server import EmbeddingServer, Misbehaviour

SPEC = {
    "dimension": 3,
    "types": {
        "Note": {"target": "vec", "fields": ["title", "tags", "year"]},
        "Chunk": {"target": "embedding", "fields": ["text"]},
    },
}
LINES = [
    '{"type":"Note", "data":{"slug":"a","title":"  Alpha ","tags":["x"," y "],"year":7}}',
    '{"type":"Note","data":{"slug":"b","title":"Beta","vec":[1.0,0.0,0.0]}}',
    "",
    '{"type":"Chunk","data":{"id":"c","text":"gamma ✓","embedding":null}}',
    '{"type":"Chunk","data":{"id":"d","text":"delta","embedding":[]}}',
    '{"type":"Other","data":{"n":1.50}}',
    '{"edge":"Has","from":"a","to":"c", "data":{}}',
]
TEXTS = {
    "a": "type: Note\ntitle: Alpha\ntags: x, y\nyear: 7",
    "b": "type: Note\ntitle: Beta",
    "c": "type: Chunk\ntext: gamma ✓",
    "d": "type: Chunk\ntext: delta",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "toy")
    (tmp_path / "in.jsonl").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    yield tmp_path
    assert list(tmp_path.glob("**/*.tmp")) == []


def run(folder: Path, **more: Any) -> og.EmbedFileResult:
    return og.embed_file(folder / "in.jsonl", folder / "out.jsonl", folder / "spec.json", **more)


def vectors(folder: Path, name: str = "out.jsonl") -> dict[str, Any]:
    found = {}
    for line in (folder / name).read_text("utf-8").splitlines():
        data = json.loads(line).get("data", {})
        found[data.get("slug") or data.get("id")] = data.get("vec") or data.get("embedding")
    return found


def expected(slug: str) -> Any:
    return pytest.approx(mock_vectors([TEXTS[slug]], 3)[0].tolist(), abs=1e-8)


def test_by_default_only_missing_vectors_are_filled_with_the_documented_text(folder: Path) -> None:
    done = run(folder)
    assert done.to_dict() == {
        "input": str(folder / "in.jsonl"),
        "output": str(folder / "out.jsonl"),
        "records": 5,
        "selected_records": 4,
        "embedded_records": 3,
        "cleaned_records": 0,
        "mode": "fill_missing",
        "dimension": 3,
        "model": "toy",
    }
    found = vectors(folder)
    assert [found[slug] == expected(slug) for slug in "acd"] == [True] * 3
    assert found["b"] == [1.0, 0.0, 0.0]


def test_what_is_not_touched_stays_letter_by_letter_and_blank_lines_go(folder: Path) -> None:
    run(folder)
    lines = (folder / "out.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 6
    assert [lines[1], lines[4], lines[5]] == [LINES[1], LINES[5], LINES[6]]


def test_a_vector_has_the_same_bits_after_reading_it_again(folder: Path) -> None:
    run(folder)
    import numpy as np

    again = np.asarray(vectors(folder)["a"], np.float32)
    assert again.tobytes() == mock_vectors([TEXTS["a"]], 3)[0].tobytes()


def test_reembed_all_makes_every_vector_anew(folder: Path) -> None:
    done = run(folder, reembed_all=True)
    assert (done.mode, done.embedded_records) == ("reembed_all", 4)
    assert vectors(folder)["b"] == expected("b")


def test_clean_removes_vectors_and_needs_no_provider(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMNIGRAPH_EMBED_PROVIDER")
    done = run(folder, clean=True)
    assert (done.mode, done.cleaned_records, done.model) == ("clean", 3, "")
    assert "vec" not in (folder / "out.jsonl").read_text("utf-8")
    assert "embedding" not in (folder / "out.jsonl").read_text("utf-8")


@pytest.mark.parametrize(
    ("more", "chosen"),
    [
        ({"types": ["Chunk"]}, {"c", "d"}),
        ({"select": ["slug=b"]}, {"b"}),
        ({"select": ["Note:year=7", "Chunk:id=d"]}, {"a", "d"}),
        ({"select": ["Chunk:slug=b"]}, set()),
        ({"types": ["Note"], "select": ["title=Beta"]}, {"b"}),
        ({"select": ["slug=b=c"]}, set()),
    ],
)
def test_a_selection_names_records_and_they_get_a_new_vector(
    folder: Path, more: dict[str, Any], chosen: set[str]
) -> None:
    done = run(folder, **more)
    found = vectors(folder)
    assert {slug for slug in TEXTS if found[slug] and found[slug] == expected(slug)} == chosen
    assert done.embedded_records == len(chosen)
    assert done.mode == ("reembed_selected" if "select" in more else "fill_missing")


def test_input_and_output_may_be_the_same_file(folder: Path) -> None:
    og.embed_file(folder / "in.jsonl", folder / "in.jsonl", SPEC)
    assert vectors(folder, "in.jsonl")["a"] == expected("a")


def test_a_seed_manifest_names_everything_relative_to_itself(folder: Path) -> None:
    manifest = {"sources": {"raw_seed": "in.jsonl"}, "embeddings": SPEC}
    (folder / "seed.yaml").write_text(json.dumps(manifest))
    done = og.embed_file(seed=folder / "seed.yaml")
    assert done.output == str(folder / "build/seed.embedded.jsonl")
    assert vectors(folder, "build/seed.embedded.jsonl")["a"] == expected("a")
    older = {"seed": {"data": "in.jsonl"}, "artifacts": {"embedded_seed": "x.jsonl"}, "embeddings": SPEC}
    (folder / "seed.yaml").write_text(json.dumps(older))
    assert og.embed_file(seed=folder / "seed.yaml").output == str(folder / "x.jsonl")


def test_many_records_go_through_in_parts_and_keep_their_order(folder: Path) -> None:
    lines = [json.dumps({"type": "Chunk", "data": {"id": str(n), "text": f"t{n}"}}) for n in range(2_500)]
    (folder / "in.jsonl").write_text("\n".join(lines))
    assert run(folder).embedded_records == 2_500
    found = [json.loads(line)["data"] for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [each["id"] for each in found] == [str(n) for n in range(2_500)]
    assert found[2_400]["embedding"] == pytest.approx(
        mock_vectors(["type: Chunk\ntext: t2400"], 3)[0].tolist(), abs=1e-8
    )


WRONG_LINES = {
    "[1]": "line 1: is not a JSON object",
    "{": "line 1: is not JSON",
    '{"type":"Note"}': "line 1: a record with 'type' needs an object 'data'",
    '{"type":"Note","data":[]}': "line 1: a record with 'type' needs an object 'data'",
    '{"type":1,"data":{}}': "line 1: a record with 'type' needs an object 'data'",
    '{"a":NaN}': "NaN is no number of JSON",
}


@pytest.mark.parametrize("line", WRONG_LINES)
def test_a_wrong_line_is_refused_and_nothing_is_written(folder: Path, line: str) -> None:
    (folder / "in.jsonl").write_text(line)
    with pytest.raises(InvalidRecord, match=WRONG_LINES[line]):
        run(folder)
    assert not (folder / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ([], "is not a mapping"),
        ({"types": {}}, "'dimension' is a whole number"),
        ({"dimension": 0, "types": {"A": {}}}, "'dimension' is a whole number"),
        ({"dimension": True, "types": {"A": {}}}, "'dimension' is a whole number"),
        ({"dimension": 2, "types": {}}, "names no type"),
        ({"dimension": 2, "types": {"A": {"fields": ["x"]}}}, "type 'A' has no 'target'"),
        ({"dimension": 2, "types": {"A": {"target": "v", "fields": []}}}, "type 'A' has no 'fields'"),
    ],
)
def test_a_wrong_spec_is_refused(folder: Path, spec: Any, said: str) -> None:
    (folder / "spec.json").write_text(json.dumps(spec))
    with pytest.raises(InputError, match=said):
        run(folder)


@pytest.mark.parametrize("text", ["slug", "=x", ":slug=x"])
def test_a_selection_that_is_none_is_refused(folder: Path, text: str) -> None:
    with pytest.raises(InputError, match="selects nothing"):
        run(folder, select=[text])


def test_a_type_that_the_spec_does_not_name_is_refused_with_the_nearest_one(folder: Path) -> None:
    with pytest.raises(InputError, match=r"does not name the type 'Chnk'.*Chunk"):
        run(folder, types=["Chnk"])


def test_a_provider_that_fails_leaves_the_old_output(
    folder: Path, provider: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "out.jsonl").write_text("old")
    for name, value in provider.environment(OMNIGRAPH_EMBED_RETRY_ATTEMPTS="1").items():
        monkeypatch.setenv(name, value)
    provider.script = [Misbehaviour(503)]
    with pytest.raises(ProviderUnavailable):
        run(folder)
    assert (folder / "out.jsonl").read_text() == "old"


def test_a_missing_key_is_an_error_before_anything_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMNIGRAPH_EMBED_PROVIDER")
    with pytest.raises(EmbeddingSettingsError):
        run(folder)


def test_texts_go_to_the_provider_in_batches(
    folder: Path, provider: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in provider.environment("gemini", OMNIGRAPH_EMBED_BATCH="2").items():
        monkeypatch.setenv(name, value)
    run(folder)
    assert provider.texts == [TEXTS["a"], TEXTS["c"], TEXTS["d"]]
    assert len(provider.requests) == 2
    lengths = [math.dist(each, [0, 0, 0]) for each in vectors(folder).values() if each]
    assert lengths == pytest.approx([1.0] * 4)


# --- the command


def test_the_command_says_what_it_did_in_one_line_and_as_json(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = CommandLine(folder, os.environ)
    files = ("--input", "in.jsonl", "--output", "out.jsonl", "--spec", "spec.json")
    said = shell.ok("embed", *files)
    assert said.out == (
        "in.jsonl → out.jsonl: 5 records, 4 selected, 3 embedded, 0 cleaned (fill_missing, dimension 3)\n"
    )
    shown = shell.ok("embed", *files, "--select", "slug=b", "--json").json
    assert (shown["mode"], shown["embedded_records"], shown["model"]) == ("reembed_selected", 1, "toy")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--input", "in.jsonl"), "which files?"),
        (("--seed", "s.yaml", "--input", "in.jsonl"), "--seed names the files itself"),
        (("--input", "in.jsonl", "--output", "o", "--spec", "spec.json", "--clean", "--reembed-all"), "exclude each"),
        (("--input", "no.jsonl", "--output", "o", "--spec", "spec.json"), "no.jsonl does not exist"),
    ],
)
def test_the_command_refuses_what_does_not_fit_together(folder: Path, words: tuple[str, ...], said: str) -> None:
    done = CommandLine(folder, os.environ).run("embed", *words)
    assert done.code in (1, 2)
    assert said in done.err
