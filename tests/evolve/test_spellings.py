"""Graphs whose compiled schema is spelled otherwise: as this software did first, and as other software may."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.errors import SchemaFilesDisagree
from omnigraph.schema import compile_schema, compiled_schema
from omnigraph.schema.contract import state_text
from omnigraph.schema.earlier_spelling import earlier_ir
from omnigraph.schema.ir import ir_hash
from tests.evolve.graphs import SCHEMA, assert_whole, content, small_graph
from tests.support.foreign_writer import manifest_uri

_NEXT = SCHEMA.replace("age: I32 ", "age: I64  born: Date? ")
_LAST = _NEXT.replace("node Place", 'node Site @rename_from("Place")')
_ADD = "query add($name: String) { insert Person { name: $name, age: 1 } }"


def _add(graph: og.Graph, name: str, branch: str = "main") -> None:
    assert graph.mutate(_ADD, params={"name": name}, branch=branch).commit is not None


def _recorded(root: Path) -> str:
    state: dict[str, str] = json.loads((root / "__schema_state.json").read_text("utf-8"))
    return state["schema_ir_hash"]


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, str]]:
    """A graph with two schemas and a branch, written while the compiled schema had its earlier spelling."""
    root = tmp_path / "g"
    with monkeypatch.context() as then:
        then.setattr(compiled_schema, "ir_of", earlier_ir)
        with small_graph(root) as graph:
            graph.schema.apply(_NEXT)
            _add(graph, "Cem")
            graph.branches.create("side")
            _add(graph, "Dee", branch="side")
            states = {commit.id: content(graph, at=commit.id) for commit in graph.commits.list()}
    assert _recorded(root) == ir_hash(earlier_ir(compile_schema(_NEXT).catalog))
    return root, states


def test_graph_of_the_earlier_spelling_is_read_and_written(earlier: tuple[Path, dict[str, str]]) -> None:
    root, states = earlier
    hash_ = _recorded(root)
    with og.open(root, mode="ro") as reader:
        assert {at: content(reader, at=at) for at in states} == states
    with og.open(root) as graph:
        assert graph.schema.hash == hash_
        assert not graph.schema.plan(_NEXT).steps
        _add(graph, "Eva")
        graph.branches.merge("side")
        assert sorted(graph.snapshot().arrow("Person")["id"].to_pylist()) == ["Ann", "Bob", "Cem", "Dee", "Eva"]
        assert {at: content(graph, at=at) for at in states} == states
        assert_whole(graph)
    assert _recorded(root) == hash_


def test_change_of_such_a_graph_has_the_spelling_of_today(earlier: tuple[Path, dict[str, str]]) -> None:
    root, states = earlier
    with og.open(root) as graph:
        graph.branches.delete("side")
        graph.schema.apply(_LAST)
        assert graph.schema.hash == compile_schema(_LAST).hash == _recorded(root)
        assert graph.schema.apply(_LAST).commit is None, "a rename that happened is not repeated"
    with og.open(root) as graph:
        _add(graph, "Eva")
        assert {at: content(graph, at=at) for at in states} == states
        assert_whole(graph)


def test_late_files_of_the_earlier_spelling_are_put_right(earlier: tuple[Path, dict[str, str]]) -> None:
    root, _ = earlier
    late = {name: (root / name).read_bytes() for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json")}
    with og.open(root) as graph:
        graph.branches.delete("side")
        graph.schema.apply(_LAST)
    for name, before in late.items():
        (root / name).write_bytes(before)
    with og.open(root) as graph:
        assert graph.schema.text == _LAST
        assert_whole(graph)
    assert _recorded(root) == compile_schema(_LAST).hash


def _respelled(root: Path, text: str) -> str:
    """Give a graph the files and heads of software that spells otherwise and records no hash; the hash."""
    ir = json.loads(compile_schema(text).ir_text)
    ir["nodes"].reverse()
    (root / "_schema.ir.json").write_text(json.dumps(ir), "utf-8")
    (root / "__schema_state.json").write_text(state_text(ir_hash(ir)), "utf-8")
    lance.dataset(manifest_uri(root)).update(
        {"metadata": "replace(metadata, 'schema_ir_hash', 'unknown_key')"}, where="object_type = 'graph_head'"
    )
    return ir_hash(ir)


def test_graph_in_a_spelling_of_other_software_is_read_written_and_changed(tmp_path: Path) -> None:
    root = tmp_path / "g"
    small_graph(root).close()
    foreign = _respelled(root, SCHEMA)
    with og.open(root) as graph:
        assert graph.schema.hash == foreign
        before = content(graph)
        _add(graph, "Cem")
        written = graph.commits.head().id
        graph.schema.apply(_NEXT)
        assert graph.schema.hash == compile_schema(_NEXT).hash
    with og.open(root) as graph:
        assert '"Cem"' in content(graph, at=written)
        assert content(graph, at=graph.commits.list()[-1].id) != before
        assert_whole(graph)
    kept = root / "__schema_history" / foreign.removeprefix("sha256:")
    assert ir_hash(json.loads(kept.with_suffix(".ir.json").read_text("utf-8"))) == foreign


def test_kept_text_of_another_meaning_is_not_used(tmp_path: Path) -> None:
    root = tmp_path / "g"
    small_graph(root).close()
    foreign = _respelled(root, SCHEMA)
    with og.open(root) as graph:
        _add(graph, "Cem")
        written = graph.commits.head().id
        graph.schema.apply(_NEXT)
    (root / "__schema_history" / f"{foreign.removeprefix('sha256:')}.pg").write_text(_LAST, "utf-8")
    with og.open(root) as graph, pytest.raises(og.errors.CorruptGraph, match="is not kept"):
        graph.catalog_of(at=written)


def test_files_that_mean_different_schemas_are_refused_with_the_difference(tmp_path: Path) -> None:
    root = tmp_path / "g"
    small_graph(root).close()
    _respelled(root, _NEXT)
    with pytest.raises(SchemaFilesDisagree, match="node Person property age is I32, not I64"):
        og.open(root)
