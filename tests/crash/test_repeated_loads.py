"""The same load twice: the second finds everything there and leaves nothing behind that could stop the next writer."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import KeyConflict
from tests.support.crash_checks import assert_pins_are_heads, assert_whole, records
from tests.support.spark_job import ROWS, SCHEMA, counts, write_input


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_load_that_is_repeated_leaves_a_graph_that_opens_and_writes(branch: str, tmp_path: Path) -> None:
    folder, more = write_input(tmp_path / "in", "one"), write_input(tmp_path / "more", "two")
    with og.init(tmp_path / "g", SCHEMA) as graph:
        if branch != "main":
            graph.branches.create(branch)
        graph.load(folder, "append", branch=branch, engine="embedded")
        head = graph.commits.head(branch)
        with pytest.raises(KeyConflict):
            graph.load(folder, "append", branch=branch, engine="embedded")
        assert (graph.commits.head(branch), records(graph.uri)) == (head, {})
        graph.load(folder, "overwrite", branch=branch, engine="embedded")
        graph.ensure_indices(branch)
        assert graph.ensure_indices(branch).commit is None, "indexes that are complete are built again"
        assert records(graph.uri) == {}
    with og.open(tmp_path / "g") as graph:
        assert counts(graph, "one", branch) == {ROWS}
        graph.load(more, "append", branch=branch, engine="embedded")
        assert counts(graph, "two", branch) == {ROWS}
        assert_pins_are_heads(graph, branch)
        graph.recover()
        assert_whole(graph)
