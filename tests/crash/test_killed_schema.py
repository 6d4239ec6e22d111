"""A schema change dies by SIGKILL at each failpoint that it reaches: the graph has the old schema or the new one, with
the tables and the files that belong to it, and the change can be asked for again."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import OmniGraphError, RecoveryRequired, StoreUnavailable
from tests.evolve.graphs import SCHEMA, assert_whole, content, rows, small_graph
from tests.support.crash_checks import assert_mirrored, assert_pins_are_heads, drafted_commit, files, records
from tests.support.kill_runner import Target, kill_opening
from tests.support.schema_child import ACTOR, kill_apply

OLD, NEW = "old", "new"

#: A type more, one renamed, one gone, columns changed in two tables.
CHANGED = """
node Human @rename_from("Person") { name: String @key  age: I64  alias: String? @rename_from("nick")  mail: String? }
node City { name: String @key }
edge Knows: Human -> Human { since: I32?  until: I32? }
"""

#: Nothing but files.
RENAMED_INDEX = SCHEMA.replace("nick: String? @index", "nick: String?")

POINTS: tuple[tuple[str, str], ...] = (
    ("schema_apply.after_lock", OLD),
    ("write.after_stage", OLD),
    ("write.after_gate_checks", OLD),
    ("recovery.sidecar_write", OLD),
    ("write.after_sidecar", OLD),
    ("write.after_table_commit[SchemaApply]", NEW),
    ("write.after_table_commit", NEW),
    ("table.lost_ack", NEW),
    ("write.after_all_table_commits", NEW),
    ("schema_apply.before_staging_write", NEW),
    ("schema_apply.after_staging_write", NEW),
    ("publish.before_commit", NEW),
    ("publish.lost_ack", NEW),
    ("schema_apply.after_manifest_commit", NEW),
    ("schema_apply.between_renames", NEW),
    ("write.after_publish_before_delete", NEW),
    ("recovery.sidecar_delete", NEW),
)

#: Without a table that moved, only the publish decides.
FILES_ONLY: tuple[tuple[str, str], ...] = (
    ("schema_apply.before_staging_write", OLD),
    ("schema_apply.after_staging_write", OLD),
    ("publish.lost_ack", NEW),
    ("schema_apply.after_manifest_commit", NEW),
    ("schema_apply.between_renames", NEW),
)
_DECIDING = "schema_apply.after_staging_write"


def _check(uri: str, schema: str, end: str, before: str, past: str, drafted: str | None) -> None:
    """A reader sees one of the two at once, the first open settles everything, a second one changes nothing."""
    with og.open(uri, mode="ro") as reader:
        assert reader.schema.text in (SCHEMA, schema)
        shown = reader.schema.text
        assert content(reader)
        assert {f"node:{name}" for name in reader.catalog.nodes} < set(reader.snapshot().tables)
        assert (shown == schema) == (reader.commits.head().id != before)
    with og.open(uri, actor=ACTOR) as graph:
        assert records(uri) == {}
        head = graph.commits.head()
        assert graph.schema.text == (schema if end == NEW else SCHEMA)
        if end == NEW:
            assert (head.parent, head.actor, head.id) == (before, ACTOR, drafted or head.id)
        else:
            assert head.id == before
            assert content(graph) == past
        assert content(graph, at=before) == past
        assert_pins_are_heads(graph, "main")
        audited = [recovery.operation_id for recovery in graph.recoveries]
        assert len(audited) == len(set(audited))
        graph._store.mirror.flush()
        assert_mirrored(graph, "main")
        assert_whole(graph)
    settled = files(uri)
    with og.open(uri, actor=ACTOR) as graph:
        assert files(uri) == settled, "a second open changed something"
        assert graph.schema.apply(schema).applied == (end == OLD)
        assert graph.schema.text == schema
        assert content(graph, at=before) == past
        assert_whole(graph)


def _kill_and_check(uri: str, schema: str, point: str, end: str) -> None:
    with small_graph(uri) as graph:
        before, past = graph.commits.head().id, content(graph)
    kill_apply(uri, schema, point)
    _check(uri, schema, end, before, past, drafted_commit(uri))


#: What lies on the disk is the same as at a neighbour: the quick run takes one of them.
_ALIKE = (
    "write.after_stage",
    "write.after_gate_checks",
    "recovery.sidecar_write",
    "write.after_table_commit",
    "table.lost_ack",
    "write.after_all_table_commits",
    "publish.before_commit",
    "publish.lost_ack",
    "write.after_publish_before_delete",
    "recovery.sidecar_delete",
)


@pytest.mark.parametrize(
    ("point", "end"),
    [pytest.param(*each, marks=[pytest.mark.torture] if each[0] in _ALIKE else []) for each in POINTS],
)
def test_a_schema_change_that_was_killed_is_finished_or_never_happened(tmp_path: Path, point: str, end: str) -> None:
    _kill_and_check(str(tmp_path / "g"), CHANGED, point, end)


@pytest.mark.parametrize(
    ("point", "end"),
    [pytest.param(*each, marks=[] if each[0] == _DECIDING else [pytest.mark.torture]) for each in FILES_ONLY],
)
def test_a_change_of_files_only_that_was_killed_is_decided_by_its_publish(tmp_path: Path, point: str, end: str) -> None:
    _kill_and_check(str(tmp_path / "g"), RENAMED_INDEX, point, end)


@pytest.mark.s3
@pytest.mark.parametrize(
    ("point", "end"), [("write.after_table_commit[SchemaApply]", NEW), ("schema_apply.between_renames", NEW)]
)
def test_a_schema_change_that_was_killed_on_s3_is_finished(s3_root: str, point: str, end: str) -> None:
    _kill_and_check(s3_root, CHANGED, point, end)


@pytest.mark.torture
@pytest.mark.s3
@pytest.mark.parametrize(("point", "end"), POINTS)
def test_a_schema_change_killed_anywhere_on_s3_is_finished_or_never_happened(
    s3_root: str, point: str, end: str
) -> None:
    _kill_and_check(s3_root, CHANGED, point, end)


@pytest.mark.parametrize(
    "point",
    ["recovery.before_roll_forward_publish", "schema_apply.after_staging_write", "schema_apply.between_renames"],
)
def test_a_recovery_of_a_schema_change_that_is_killed_is_finished_by_the_next(tmp_path: Path, point: str) -> None:
    uri = str(tmp_path / "g")
    with small_graph(uri) as graph:
        before, past = graph.commits.head().id, content(graph)
    kill_apply(uri, CHANGED, "write.after_table_commit[SchemaApply]")
    drafted = drafted_commit(uri)
    kill_opening(Target(uri, "main", tmp_path / "ledger.jsonl"), point)
    _check(uri, CHANGED, NEW, before, past, drafted)


def test_a_live_handle_finishes_a_dead_schema_change_and_goes_on_with_the_new_schema(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    kill_apply(graph.uri, CHANGED, "write.after_table_commit[SchemaApply]")
    graph.mutate('query m() { insert Knows { from: "Bob", to: "Ann", since: 5 } }')
    assert [(row["since"], row["until"]) for row in rows(graph, "Knows") if row["src"] == "Bob"] == [(5, None)]
    graph.mutate('query m() { insert Human { name: "Zed", age: 1099511627776, mail: "z" } }')
    assert [row["id"] for row in rows(graph, "Human")] == ["Ann", "Bob", "Zed"]
    assert graph.schema.text == CHANGED
    assert_whole(graph)


def test_a_hard_drop_that_was_killed_before_it_removed_anything_removes_it_later(tmp_path: Path) -> None:
    graph = small_graph(tmp_path / "g")
    place = graph.snapshot().tables["node:Place"].location
    text = SCHEMA.replace("node Place { title: String @key }\n", "")
    kill_apply(graph.uri, text, "schema_apply.after_manifest_commit", loss=True)
    assert any((tmp_path / "g" / place).rglob("*.lance"))
    og.open(graph.uri).close()
    assert not any((tmp_path / "g" / place).rglob("*.lance"))
    assert_whole(graph)


_FAILURES: tuple[tuple[str, str, type[OmniGraphError] | None], ...] = (
    ("write.after_sidecar", OLD, StoreUnavailable),
    ("write.after_table_commit[SchemaApply]", NEW, RecoveryRequired),
    ("schema_apply.after_staging_write", NEW, RecoveryRequired),
    ("schema_apply.after_manifest_commit", NEW, None),
    ("schema_apply.between_renames", NEW, None),
)


@pytest.mark.parametrize(("point", "end", "error"), _FAILURES)
def test_a_schema_change_whose_store_fails_says_so_and_leaves_the_next_one_free(
    tmp_path: Path, point: str, end: str, error: type[OmniGraphError] | None
) -> None:
    graph = small_graph(tmp_path / "g")
    before, past = graph.commits.head().id, content(graph)
    failpoints.arm(f"{point}=raise")
    if error is None:
        assert graph.schema.apply(CHANGED).applied
    else:
        with pytest.raises(error):
            graph.schema.apply(CHANGED)
    failpoints.arm("")
    assert graph.schema.apply(CHANGED).applied == (end == OLD)
    assert graph.schema.text == CHANGED
    assert content(graph, at=before) == past
    assert records(graph.uri) == {}
    assert_whole(graph)
