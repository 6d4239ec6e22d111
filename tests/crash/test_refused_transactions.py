"""A write of several tables of which Lance takes some and never the others: it is dropped, and the next one goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pytest

import omnigraph as og
from omnigraph.errors import RecoveryRequired
from tests.support.crash_checks import assert_whole
from tests.support.small_graphs import ids_of, knows, people, persons


def _refuse_edges_of(monkeypatch: pytest.MonkeyPatch, operations: int) -> list[str]:
    """Lance refuses the edges of the next writes, whoever brings them; returns which transactions it refused."""
    commit = lance.LanceDataset.commit
    refused: list[str] = []

    def refuse(table: Any, transaction: Any, *args: Any, **options: Any) -> Any:
        is_edge = "/edges/" in getattr(table, "uri", "")
        if is_edge and (transaction.uuid in refused or len(refused) < operations):
            refused.append(transaction.uuid)
            raise OSError("Invalid user input: this does not fit, rust/lance/src/io/commit.rs:1:1")
        return commit(table, transaction, *args, **options)

    monkeypatch.setattr(lance.LanceDataset, "commit", refuse)
    return refused


def test_the_next_write_drops_it_and_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = people(tmp_path / "g", "ann", "bob")
    refused = _refuse_edges_of(monkeypatch, 1)
    with pytest.raises(RecoveryRequired, match="this does not fit"):
        graph.write([persons("cid"), knows(("ann", "cid"))])
    graph.write([persons("dan"), knows(("ann", "dan"))])
    assert len(refused) == 2 and len(set(refused)) == 1, "by its writer, and by who would have finished it"
    assert ids_of(graph, "Person") == {"ann", "bob", "dan"}
    assert graph.snapshot().count("Knows") == 1
    assert_whole(graph)


def test_an_open_drops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with people(tmp_path / "g", "ann", "bob") as graph:
        _refuse_edges_of(monkeypatch, 1)
        with pytest.raises(RecoveryRequired):
            graph.write([persons("cid"), knows(("ann", "cid"))])
    with og.open(tmp_path / "g") as graph:
        assert graph.verify().ok
        assert ids_of(graph, "Person") == {"ann", "bob"}
