"""Schema files that other software left staged without a recovery record: every row of the table of what to do."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.errors import CorruptGraph, SchemaFilesDisagree
from omnigraph.schema.compiled_schema import compile_schema
from omnigraph.schema.contract import state_text
from tests.evolve.graphs import SCHEMA, assert_whole, content, small_graph
from tests.support.foreign_writer import manifest_uri

FILES = ("_schema.pg", "_schema.ir.json", "__schema_state.json")
_MORE = SCHEMA + "\nnode City { name: String @key }\n"
_SAME_TABLES = SCHEMA.replace("nick: String? @index", "nick: String?")


def _stage(root: Path, text: str, names: tuple[str, ...] = FILES) -> None:
    compiled = compile_schema(text)
    texts = dict(zip(FILES, (compiled.source, compiled.ir_text, state_text(compiled.hash)), strict=True))
    for name in names:
        (root / f"{name}.staging").write_text(texts[name], encoding="utf-8")


def _forget_hash(root: Path) -> None:
    """Rewrite the head rows as software does that records no schema."""
    manifest = lance.dataset(manifest_uri(root))
    changed = manifest.update(
        {"metadata": "replace(metadata, 'schema_ir_hash', 'unknown_key')"}, where="object_type = 'graph_head'"
    )
    assert changed["num_rows_updated"] == 1


def _live(root: Path) -> str:
    return (root / "_schema.pg").read_text(encoding="utf-8")


def _graph(root: Path, *, recorded: bool = True) -> str:
    with small_graph(root) as graph:
        text = content(graph)
    if not recorded:
        _forget_hash(root)
    return text


@pytest.mark.parametrize("recorded", [True, False], ids=["hash recorded", "no hash recorded"])
@pytest.mark.parametrize("text", [SCHEMA, _MORE], ids=["the same schema", "other tables"])
def test_files_of_a_change_that_did_not_happen_are_removed(tmp_path: Path, text: str, recorded: bool) -> None:
    before = _graph(tmp_path / "g", recorded=recorded)
    _stage(tmp_path / "g", text)
    with og.open(tmp_path / "g", mode="ro") as reader:
        assert content(reader) == before
        assert list((tmp_path / "g").glob("*.staging")), "a reader removes nothing"
    with og.open(tmp_path / "g") as graph:
        assert (content(graph), graph.schema.text, _live(tmp_path / "g")) == (before, SCHEMA, SCHEMA)
        assert not list((tmp_path / "g").glob("*.staging"))


def test_the_recorded_hash_decides_where_the_tables_do_not_tell(tmp_path: Path) -> None:
    _graph(tmp_path / "g")
    _stage(tmp_path / "g", _SAME_TABLES)
    with og.open(tmp_path / "g") as graph:
        assert graph.schema.text == SCHEMA
        graph.schema.apply(_SAME_TABLES)
    for name in FILES:  # as if the renames had not happened
        (tmp_path / "g" / name).rename(tmp_path / "g" / f"{name}.staging")
    _write_live(tmp_path / "g", SCHEMA)
    with og.open(tmp_path / "g", mode="ro") as reader:
        assert reader.schema.text == _SAME_TABLES
    with og.open(tmp_path / "g") as graph:
        assert (graph.schema.text, _live(tmp_path / "g")) == (_SAME_TABLES, _SAME_TABLES)
        assert_whole(graph)


def _write_live(root: Path, text: str) -> None:
    compiled = compile_schema(text)
    for name, content_ in zip(FILES, (compiled.source, compiled.ir_text, state_text(compiled.hash)), strict=True):
        (root / name).write_text(content_, encoding="utf-8")


def test_without_a_record_and_with_the_same_tables_it_is_for_the_operator_to_say(tmp_path: Path) -> None:
    _graph(tmp_path / "g", recorded=False)
    _stage(tmp_path / "g", _SAME_TABLES)
    with pytest.raises(SchemaFilesDisagree, match="nothing tells whether it happened"):
        og.open(tmp_path / "g")
    assert len(list((tmp_path / "g").glob("*.staging"))) == 3


def test_renames_that_were_interrupted_are_finished(tmp_path: Path) -> None:
    _graph(tmp_path / "g", recorded=False)
    (tmp_path / "g" / "_schema.pg").write_text(_MORE, encoding="utf-8")
    _stage(tmp_path / "g", _MORE, FILES[1:])
    with og.open(tmp_path / "g") as graph:
        assert graph.schema.text == _MORE
        assert not list((tmp_path / "g").glob("*.staging"))


def test_a_staged_rest_that_belongs_to_no_source_is_for_the_operator_to_say(tmp_path: Path) -> None:
    _graph(tmp_path / "g", recorded=False)
    _stage(tmp_path / "g", _MORE, FILES[1:])
    with pytest.raises(SchemaFilesDisagree, match="neither staged nor live"):
        og.open(tmp_path / "g")


@pytest.mark.parametrize("names", [FILES[:1], FILES[:2]], ids=["source", "source and compiled form"])
def test_staging_that_was_interrupted_is_removed(tmp_path: Path, names: tuple[str, ...]) -> None:
    before = _graph(tmp_path / "g", recorded=False)
    _stage(tmp_path / "g", _MORE, names)
    with og.open(tmp_path / "g") as graph:
        assert content(graph) == before
        assert not list((tmp_path / "g").glob("*.staging"))


def test_a_lock_that_other_software_left_does_not_stop_a_schema_change(tmp_path: Path) -> None:
    _graph(tmp_path / "g")
    lance.dataset(manifest_uri(tmp_path / "g")).create_branch("__schema_apply_lock__")
    with og.open(tmp_path / "g") as graph:
        graph.mutate('query m() { insert Place { title: "Oslo" } }')
        assert graph.schema.apply(_MORE).applied
        assert graph.branches.list() == ["main"]
        assert_whole(graph)


def test_software_that_records_no_schema_may_write_after_a_change(tmp_path: Path) -> None:
    with small_graph(tmp_path / "g") as graph:
        graph.schema.apply(_MORE)
    lance.dataset(manifest_uri(tmp_path / "g")).update_config({"written": "by others"})
    with og.open(tmp_path / "g") as graph:
        assert graph._store.snapshot("main").schema is None
        assert (graph.schema.text, "City" in graph.catalog.nodes) == (_MORE, True)
        graph.mutate('query m() { insert City { name: "Oslo" } }')
        assert graph._store.snapshot("main").schema == graph.schema.hash
        assert_whole(graph)


def test_a_graph_whose_past_records_no_schema_is_read_with_the_one_it_had(tmp_path: Path) -> None:
    before = _graph(tmp_path / "g", recorded=False)
    with og.open(tmp_path / "g") as graph:
        past = graph._store.snapshot("main").version
        assert graph._store.snapshot("main").schema is None
        graph.schema.apply("node Place { title: String @key }")
        assert graph.query("query q() { match { $p: Person } return { $p.name } }", at=past).rows()
        assert content_at(graph, past) == before


def content_at(graph: og.Graph, version: int) -> str:
    return graph.export(at=version).text or ""


def test_the_text_is_the_one_that_was_accepted_last(tmp_path: Path) -> None:
    with small_graph(tmp_path / "g") as graph:
        other = og.open(tmp_path / "g", mode="ro")
        graph.schema.apply(_MORE)
        again = f"// spelt in another way\n{SCHEMA}"
        graph.schema.apply(again)
        assert [handle.schema.text for handle in (graph, other)] == [again, again]


def test_a_schema_that_nobody_kept_is_said_and_not_guessed(tmp_path: Path) -> None:
    with small_graph(tmp_path / "g") as graph:
        before = graph.commits.head().id
        graph.schema.apply(_MORE)
    for kept in (tmp_path / "g" / "__schema_history").iterdir():
        kept.unlink()
    with og.open(tmp_path / "g") as graph:
        assert graph.schema.text == _MORE
        with pytest.raises(CorruptGraph, match="which is not kept"):
            graph.query("query q() { match { $p: Person } return { $p.name } }", at=before)


@pytest.mark.s3
def test_a_schema_changes_on_s3_and_what_others_left_staged_there_is_removed(s3_root: str) -> None:
    with small_graph(s3_root) as graph:
        before = graph.commits.head().id
        graph.schema.apply(_MORE)
        objects = graph._store.objects
        compiled = compile_schema(SCHEMA)
        for name, text in zip(FILES, (compiled.source, compiled.ir_text, state_text(compiled.hash)), strict=True):
            objects.write(f"{name}.staging", text.encode())
    with og.open(s3_root) as graph:
        assert [name for name in objects.names("") if name.endswith(".staging")] == []
        assert graph.schema.text == _MORE
        assert graph.query("query q() { match { $p: Place } return { $p.title } }", at=before).rows()
        graph.schema.apply(SCHEMA, allow_data_loss=True)
        assert_whole(graph)
