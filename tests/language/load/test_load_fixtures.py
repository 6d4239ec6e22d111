"""Loads and refusals, case by case; see `fixtures.py` for the files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import omnigraph as og
from tests.language.load.fixtures import Case, Refusal, Step, cases, refusals
from tests.language.mutation.fixtures import check
from tests.language.query.fixtures import HERE as SMALL
from tests.load.reading import parse, said

GOOD = '{"type":"All","data":{"k":"good","i":1,"day":"2024-01-01"}}\n{"edge":"Link","from":"a","to":"b"}\n'


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small graph, made by a load."""
    root = tmp_path_factory.mktemp("template") / "small"
    with og.init(root, (SMALL / "schema.pg").read_text("utf-8")) as graph:
        result = graph.load(SMALL / "data.jsonl", "overwrite")
        assert result.nodes == {"Doc": 4, "Note": 3, "Person": 5, "Team": 3}  # L1
        assert result.edges == {"Follows": 6, "MemberOf": 4, "Wrote": 3}
    return root


@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_load_does_what_the_example_says(case: Case, small: Path, tmp_path: Path) -> None:
    if case.schema is None:
        shutil.copytree(small, tmp_path / "g")
    else:
        og.init(tmp_path / "g", case.schema).close()
    with og.open(tmp_path / "g") as graph:
        for step in case.steps:
            _run(graph, step, tmp_path / "input.jsonl")


def _run(graph: og.Graph, step: Step, path: Path) -> None:
    path.write_text("\n".join(step.lines), "utf-8")
    head = graph.commits.head().id
    try:
        result = graph.load(path, step.mode)  # type: ignore[arg-type]
    except og.OmniGraphError as error:
        assert f"{type(error).__name__}: {error.message}" == step.outcome
        assert graph.commits.head().id == head
    else:
        assert f"{sum(result.nodes.values())}/{sum(result.edges.values())}" == step.outcome
        assert result.commit is not None
        assert graph.commits.list(limit=2)[1].id == head, "not exactly one commit"
    _check(graph, list(step.checks))


def _check(graph: og.Graph, lines: list[str]) -> None:
    while lines:
        line = lines.pop(0)
        if not line.startswith("export "):
            check(graph, line)
            continue
        expected = ""
        while lines and lines[0].startswith("{"):
            expected += lines.pop(0) + "\n"
        assert graph.export(types=[line.removeprefix("export ")]).text == expected


@pytest.mark.parametrize("refusal", refusals(), ids=str)
def test_a_line_is_refused_with_the_right_words(refusal: Refusal) -> None:
    """Alone, and in the middle of lines that are fine."""
    alone = parse(refusal.line)
    assert said(alone) == [(1, refusal.error, refusal.message.replace("{line}", "1"))]
    assert alone.violations[0].record == refusal.line
    amid = parse(GOOD * 20 + refusal.line + "\n" + GOOD * 20)
    assert said(amid) == [(41, refusal.error, refusal.message.replace("{line}", "41"))]
    assert sum(batch.rows.num_rows for batches in amid.rows.values() for batch in batches) == 80
