"""The two example graphs: their data is always the same, it loads, and every query of theirs runs."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.support.source_tree import ROOT

PARAMETERS: dict[str, dict[str, dict[str, Any]]] = {
    "library": {"popular": {"shelf": "fiction"}, "leads_to": {"isbn": "1000"}},
    "transit": {
        "trouble_spots": {"least": 30},
        "since": {"day": "2025-12-30T00:00:00Z"},
    },
}


def write_data(name: str, folder: Path) -> list[bytes]:
    runpy.run_path(str(ROOT / "examples" / name / "make_data.py"))["write"](folder)
    return [file.read_bytes() for file in sorted(folder.iterdir())]


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_an_example_loads_and_answers_all_its_queries(name: str, tmp_path: Path) -> None:
    folder = ROOT / "examples" / name
    data = write_data(name, tmp_path / "data")
    assert data == write_data(name, tmp_path / "again")
    with og.init(tmp_path / "g.omni", folder / f"{name}.pg") as graph:
        loaded = graph.load(tmp_path / "data", "append", engine="embedded")
        assert loaded.total == sum(text.count(b"\n") for text in data) > 4_000
        assert len(loaded.nodes) >= 3
        assert len(loaded.edges) >= 3
        report = graph.lint(folder / "queries.gq")
        assert report.ok, report
        parameters = {**PARAMETERS[name], **_of_a_station(graph)} if name == "transit" else PARAMETERS[name]
        for query in (result.name for result in report.results if result.kind == "read"):
            assert len(graph.query(folder / "queries.gq", query, parameters.get(query))) > 0, query


def _of_a_station(graph: og.Graph) -> dict[str, dict[str, Any]]:
    text = "query q() { match { $l: Line  $l serves $s } return { $s.code as code } order { code } limit 1 }"
    station = graph.query(text).rows()[0]["code"]
    return {"lines_at": {"station": station}, "around": {"station": station}}
