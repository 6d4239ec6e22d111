"""Merges on Spark: what the embedded merge does or refuses, this one does or refuses, with the rows on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph import spark as ogs
from omnigraph.errors import InputError, MergeConflict, ResourceLimitExceeded, StorageError
from omnigraph.history.merge.engine import EmbeddedMerge
from omnigraph.history.merge.merge import MergeRequest
from omnigraph.history.merge.merge import merge as merge_branches
from omnigraph.schema.compiled_schema import compile_schema
from omnigraph.schema_registry import SchemaRegistry
from omnigraph.spark.cluster import Cluster
from omnigraph.spark.spark_merge import SparkMerge, spark_merge
from omnigraph.storage.commit.preparation import Workspace
from omnigraph.write.change import Change, Mode
from tests.merge.branches import apart, edges, fingerprint, gone, notes, people, state
from tests.spark.test_read import SCHEMA as THINGS
from tests.spark.test_read import some
from tests.spark.test_write import data_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Person { handle: String @key  age: I32?  email: String? @unique }
node Note { text: String }
edge Knows: Person -> Person @card(0..3) { weight: I32? }
edge Wrote: Person -> Note
"""
#: Source and target of every merge here that does not say otherwise.
INTO_MAIN = ("a", "main")


@pytest.fixture(autouse=True)
def jobs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Rows of each Spark job. No merge is too small for one here, and two rows are a task."""
    seen: list[int] = []
    collect = Cluster.collect

    def noted(self: Cluster, frame: Any, stage: Any = None) -> list[Any]:
        rows = collect(self, frame, stage)
        seen.append(len(rows))
        return rows

    monkeypatch.setattr(Cluster, "collect", noted)
    monkeypatch.setattr(limits, "DRIVER_ROWS", 0)
    monkeypatch.setattr(limits, "FRAGMENT_ROWS", 2)
    yield seen


def ages(*values: int | None) -> pa.Array:
    return pa.array(values, pa.int32())


def forked(root: Path | str) -> og.Graph:
    """Six people, three edges and two notes on main, and a branch of it."""
    graph = og.init(root, SCHEMA)
    names = [f"p{number}" for number in range(6)]
    write(graph, "main", people("hub", "rim", *names, age=ages(None, None, *range(6))), edges("e1", "e2"))
    write(graph, "main", edges("e3", src="p1", dst="p2"), notes("n1", "n2"))
    graph.branches.create("a")
    return graph


def write(graph: og.Graph, branch: str, *changes: Change) -> None:
    graph.write(list(changes), branch=branch)


def only_the_source(graph: og.Graph) -> None:
    write(graph, "a", people("p0", "p1", "new1", "new2", "new3", age=ages(9, 9, 9, 9, None)), edges("e9", src="new1"))
    write(graph, "a", gone("edge:Knows", "e3"), gone("node:Person", "p2"))


def both_sides(graph: og.Graph) -> None:
    only_the_source(graph)
    write(graph, "main", people("p3", "p4", "own", age=ages(7, 7, 7)), edges("e8", src="own", weight=1))
    write(graph, "main", gone("node:Person", "p5"), gone("edge:Knows", "e1"), notes("n3"))


def same_on_both(graph: og.Graph) -> None:
    for branch in INTO_MAIN:
        write(graph, branch, people("p0", "p1", "new", age=ages(9, None, 1)), gone("edge:Knows", "e1"))


def every_row_conflict(graph: og.Graph) -> None:
    write(graph, "a", people("p0", "p1", "eve", "fay", "p5", age=ages(7, 8, 7, 8, 8)))
    write(graph, "main", people("p0", "p1", "eve", "fay", "own", age=ages(1, 8, 1, 8, 8)))
    write(graph, "a", gone("edge:Knows", "e3"), gone("node:Person", "p2"))
    write(graph, "main", people("p2", age=ages(8)))
    write(graph, "main", gone("node:Person", "p5"))


def orphans(graph: og.Graph) -> None:
    write(graph, "a", gone("node:Person", "p4"), edges("lost", src="p5"))
    write(graph, "main", gone("node:Person", "p5"), edges("left", dst="p4"))


def broken_sets(graph: og.Graph) -> None:
    write(graph, "a", people("x", "y", email=pa.array(["m@", "n@"])), edges("s1", src="p1"))
    write(graph, "main", people("z", email=pa.array(["m@"])), edges("s2", "s3", src="p1"))


def conflicts_of_every_kind(graph: og.Graph) -> None:
    every_row_conflict(graph)
    broken_sets(graph)
    write(graph, "a", gone("node:Person", "p4"))
    write(graph, "main", people("p4", age=ages(9)), edges("left", dst="p4"))


def nothing(graph: og.Graph) -> None:
    write(graph, "main", people("own"))


GIVEN = {
    "node:Person/p0": {"handle": "p0", "age": 50},
    "node:Person/eve": {"handle": "eve", "email": "e@"},
    "node:Person/p2": "theirs",
    "node:Person/p5": "theirs",
    "node:Person/own": "theirs",
}

ROW_CONFLICTS = ["DeleteVsUpdate", "DeleteVsUpdate", "DivergentInsert", "DivergentUpdate"]

#: What the two sides do, how conflicts are resolved, and the outcome: a word, or the kinds of conflicts.
CASES: dict[str, tuple[Callable[[og.Graph], None], Any, str | list[str]]] = {
    "fast-forward": (only_the_source, None, "fast_forward"),
    "both sides": (both_sides, None, "merged"),
    "the same on both sides": (same_on_both, None, "merged"),
    "nothing to merge": (nothing, None, "already_up_to_date"),
    "row conflicts": (every_row_conflict, None, ROW_CONFLICTS),
    "row conflicts, theirs": (every_row_conflict, "theirs", "merged"),
    "row conflicts, ours": (every_row_conflict, "ours", "merged"),
    "row conflicts, given": (every_row_conflict, GIVEN, "merged"),
    "row conflicts, a function": (every_row_conflict, lambda each: "ours" if each.ours else None, ["DeleteVsUpdate"]),
    "orphans": (orphans, None, ["OrphanEdge", "OrphanEdge"]),
    "orphans, resolved": (orphans, {"edge:Knows/lost": "ours", "node:Person/p4": "ours"}, "merged"),
    "unique and cardinality": (broken_sets, None, ["CardinalityViolation", "UniqueViolation"]),
}


def seen(graph: og.Graph, source: str, target: str, merge: Callable[[], Any]) -> dict[str, Any]:
    """All that a merge shows of itself, without the ids that differ from run to run."""
    before, head, source_head = fingerprint(graph, target), graph.commits.head(target), graph.commits.head(source)
    files = data_files(graph)
    try:
        result = merge()
    except MergeConflict as error:
        assert fingerprint(graph, target) == before
        assert data_files(graph) == files
        kinds = sorted(each["kind"] for each in error.details["conflicts"])
        return {"outcome": kinds, "message": error.message, "details": error.details}
    if result.commit is not None:
        assert (result.commit.parent, result.commit.merged_parent) == (head.id, source_head.id)
        assert graph.commits.head(target) == result.commit
    report = graph.verify(deep=True)
    assert report.problems == (), report.problems
    said = result.to_dict()
    ids = {key: {op: rows.ids[op].to_pylist() for op in rows.ids} for key, rows in result.tables.items()}
    changes = None if result.commit is None else graph.diff(head.id, result.commit.id).stats
    left_out = ("commit", "base_commit_id", "source_commit_id")
    return {
        "outcome": result.outcome,
        "said": {name: value for name, value in said.items() if name not in left_out},
        "ids": {key: {op: sorted(found) for op, found in ops.items()} for key, ops in ids.items()},
        "state": state(graph, target),
        "changes": changes,
    }


@pytest.mark.parametrize("case", CASES)
def test_spark_does_what_the_embedded_merge_does(tmp_path: Path, jobs: list[int], case: str) -> None:
    change, resolve, outcome = CASES[case]
    outcomes = []
    for number in range(2):
        graph = forked(tmp_path / f"g{number}")
        change(graph)
        verbs = (
            lambda: graph.branches.merge(*INTO_MAIN, resolve=resolve, engine="embedded"),  # noqa: B023
            lambda: ogs.merge(graph, *INTO_MAIN, resolve=resolve),  # noqa: B023
        )
        outcomes.append(seen(graph, *INTO_MAIN, verbs[number]))
        assert number == 1 or jobs == []
        graph.close()
    assert outcomes[1] == outcomes[0]
    assert outcomes[1]["outcome"] == outcome
    assert bool(jobs) == (case not in ("nothing to merge", "orphans, resolved"))


@pytest.mark.parametrize(
    ("ancestry", "direction"), [("criss-cross", "between siblings"), ("merged before", "from main")]
)
def test_ancestry_and_direction_make_no_difference(
    tmp_path: Path, jobs: list[int], ancestry: str, direction: str
) -> None:
    outcomes = []
    for number in range(2):
        branches = apart(tmp_path / f"g{number}", ancestry, direction, people("ann", "ben", age=ages(1, 1)))
        graph, source, target = branches.graph, branches.source, branches.target
        write(graph, source, people("ann", "cy", "dot", age=ages(2, 2, 2)), edges("k1", src="cy"))
        write(graph, target, people("own"), gone("node:Note", "n-before"))
        write(graph, target, gone("node:Person", "ben"))
        verbs = (
            lambda: branches.merge(engine="embedded"),  # noqa: B023
            lambda: ogs.merge(graph, source, target),  # noqa: B023
        )
        outcomes.append(seen(graph, source, target, verbs[number]))
        graph.close()
    assert outcomes[1] == outcomes[0]
    assert jobs


def test_every_kind_of_value_arrives_and_is_compared(tmp_path: Path, jobs: list[int]) -> None:
    with og.init(tmp_path / "g", THINGS) as graph:
        graph.write([Change("node:Thing", some(range(4)))])
        graph.branches.create("a")
        later = some(range(4, 9))
        write(graph, "main", Change("node:Thing", later, Mode.MERGE))
        blobs = later.column_names.index("raw")
        other = later.set_column(
            blobs, "raw", pa.array([b"x" * 9, *later.column("raw").to_pylist()[1:]], pa.large_binary())
        )
        write(graph, "a", Change("node:Thing", other, Mode.MERGE))
        with pytest.raises(MergeConflict) as caught:
            ogs.merge(graph, "a")
        assert [(each.kind, each.row_id) for each in caught.value.conflicts] == [("DivergentInsert", "t004")]
        ogs.merge(graph, "a", resolve="theirs")
        assert state(graph, "main") == state(graph, "a")
        assert graph.verify().ok
    assert jobs


def test_a_merge_too_large_for_one_process_is_carried(
    tmp_path: Path, jobs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    branches = apart(tmp_path / "g", "plain", "into main")
    graph = branches.graph
    write(graph, "a", people(*(f"q{number}" for number in range(100))))
    monkeypatch.setattr(limits, "MERGE_BYTES", 1_000)
    monkeypatch.setattr(limits, "FRAGMENT_ROWS", 40)
    with pytest.raises(ResourceLimitExceeded) as caught:
        branches.merge(engine="embedded")
    assert "engine='spark'" in (caught.value.hint or "")
    result = ogs.merge(graph, "a", delete_branch=True, message="all of them")
    assert (result.outcome, result.tables["node:Person"].inserted, result.branch_deleted) == ("fast_forward", 100, True)
    assert (graph.commits.head().kind, graph.commits.head().message) == ("merge", "all of them")
    assert graph.branches.list() == ["main"]
    assert jobs == [3]


@pytest.mark.parametrize("change", [both_sides, every_row_conflict, conflicts_of_every_kind])
def test_a_dry_run_tells_what_the_embedded_one_tells(
    tmp_path: Path, jobs: list[int], change: Callable[[og.Graph], None]
) -> None:
    graph = forked(tmp_path / "g")
    change(graph)
    before, files = fingerprint(graph, "main"), data_files(graph)
    embedded = graph.branches.merge("a", dry_run=True, engine="embedded")
    assert jobs == []
    on_spark = ogs.merge(graph, "a", dry_run=True)
    assert jobs
    assert (embedded.engine, on_spark.engine) == ("embedded", "spark")
    assert on_spark.to_dict() == embedded.to_dict()
    assert on_spark.conflicts == embedded.conflicts
    assert (fingerprint(graph, "main"), data_files(graph)) == (before, files)


def test_a_merge_goes_to_spark_by_itself_from_the_table_on_where_it_is_large(
    tmp_path: Path, jobs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = forked(tmp_path / "expected")
    both_sides(expected)
    assert expected.branches.merge("a").engine == "embedded"
    assert jobs == []
    graph = forked(tmp_path / "g")
    both_sides(graph)
    staged = {kind: noted_stages(kind, monkeypatch) for kind in (EmbeddedMerge, SparkMerge)}
    monkeypatch.setattr(limits, "FILTERED_ROWS", 1)  # the one edge that goes over is few, the people are not
    monkeypatch.setattr(limits, "SPARK_MERGE_BYTES", 1)
    result = graph.branches.merge("a")
    assert (result.engine, result.outcome) == ("spark", "merged")
    assert staged == {EmbeddedMerge: ["edge:Knows"], SparkMerge: ["node:Person"]}
    assert state(graph, "main") == state(expected, "main")
    assert graph.verify().ok
    assert jobs


def noted_stages(kind: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tables that an engine stages from now on."""
    stage, tables = kind.stage, list[str]()

    def noted(self: Any, workspace: Workspace, changes: Any) -> Any:
        tables.extend(change.type.table_key for change in changes)
        return stage(self, workspace, changes)

    monkeypatch.setattr(kind, "stage", noted)
    return tables


def test_a_graph_on_s3_is_merged_by_executors(jobs: list[int], s3_root: str) -> None:
    graph = forked(f"{s3_root}/g")
    both_sides(graph)
    embedded = graph.branches.merge("a", dry_run=True, engine="embedded")
    result = ogs.merge(graph, "a", delete_branch=True)
    assert (result.outcome, result.branch_deleted) == ("merged", True)
    assert {key: rows.to_dict() for key, rows in result.tables.items()} == {
        key: rows.to_dict() for key, rows in embedded.tables.items()
    }
    assert {"new1", "new2", "new3", "own"} <= set(state(graph, "main")["node:Person"])
    assert not {"p2", "p5"} & set(state(graph, "main")["node:Person"])
    report = graph.verify()
    assert report.ok, report.problems
    assert jobs


def test_key_columns_that_do_not_fit_into_the_driver_refuse_the_merge(
    tmp_path: Path, jobs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = forked(tmp_path / "g")
    both_sides(graph)
    before, files = fingerprint(graph, "main"), data_files(graph)
    monkeypatch.setattr(limits, "KEY_TASK_ROWS", 2)
    monkeypatch.setattr(limits, "MERGE_KEY_BYTES", 20)
    with pytest.raises(ResourceLimitExceeded, match="bytes of 'id' in one merge") as caught:
        ogs.merge(graph, "a")
    assert "earlier commit" in (caught.value.hint or "")
    assert (fingerprint(graph, "main"), data_files(graph)) == (before, files)


def test_a_fast_forward_brings_no_key_columns_to_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source's state is valid, so nothing is looked up and only ids are held."""
    graph = forked(tmp_path / "g")
    only_the_source(graph)
    monkeypatch.setattr(limits, "MERGE_KEY_BYTES", 0)
    assert ogs.merge(graph, "a").outcome == "fast_forward"
    assert state(graph, "main") == state(graph, "a")


def test_a_row_that_breaks_a_rule_on_its_own_is_found_by_the_executors(tmp_path: Path, jobs: list[int]) -> None:
    """No write lets such a row in, so the merge is asked under a stricter schema."""
    strict = compile_schema(SCHEMA.replace("email: String? @unique }", "email: String? @unique  @range(age, 0..8) }"))
    schemas = cast(SchemaRegistry, SimpleNamespace(of=lambda snapshot: strict))
    graph = forked(tmp_path / "g")
    both_sides(graph)
    request = MergeRequest("a", "main", dry_run=True)
    embedded = merge_branches(graph.internals.reader(), schemas, request)
    on_spark = merge_branches(graph.internals.reader(), schemas, request, spark_merge)
    assert on_spark.conflicts == embedded.conflicts
    assert [each.row_id for each in on_spark.conflicts] == ["new1", "new2", "p0", "p1"]
    assert jobs


def test_a_target_that_moves_is_merged_as_it_became(
    tmp_path: Path, jobs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = forked(tmp_path / "g")
    only_the_source(graph)
    stage, staged = SparkMerge.stage, list[set[str]]()

    def with_another_writer(self: SparkMerge, *given: Any) -> Any:
        tables = stage(self, *given)
        staged.append(data_files(graph))
        if len(staged) == 1:
            write(graph, "main", people("meanwhile"))
        return tables

    monkeypatch.setattr(SparkMerge, "stage", with_another_writer)
    before = data_files(graph)
    result = ogs.merge(graph, "a")
    assert (result.outcome, len(staged)) == ("merged", 2)
    assert {"meanwhile", "new1"} <= set(state(graph, "main")["node:Person"])
    first = staged[0] - before
    assert first
    assert not first & data_files(graph)
    assert graph.verify().ok


def test_a_row_that_takes_the_place_of_another_keeps_its_row_id(tmp_path: Path, jobs: list[int]) -> None:
    graph = forked(tmp_path / "g")
    both_sides(graph)
    before = row_ids(graph)
    ogs.merge(graph, "a")
    after = row_ids(graph)
    assert {id_: after[id_] for id_ in before if id_ != "p2"} == {id_: before[id_] for id_ in before if id_ != "p2"}
    assert len(set(after.values())) == len(after)
    assert after.keys() - before.keys() == {"new1", "new2", "new3"}
    assert jobs


def row_ids(graph: og.Graph) -> dict[str, int]:
    handle = Workspace(graph.internals.store, graph.internals.store.snapshot("main")).readable("node:Person")
    rows = handle.scanner(columns=["id"], with_row_id=True).to_table()
    return dict(zip(rows.column("id").to_pylist(), rows.column("_rowid").to_pylist(), strict=True))


def test_a_failure_while_staging_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = forked(tmp_path / "g")
    both_sides(graph)
    before, files = fingerprint(graph, "main"), data_files(graph)
    written: list[set[str]] = []

    def fail(*given: Any) -> None:
        written.append(data_files(graph) - files)
        raise StorageError("the disk is full")

    monkeypatch.setattr("omnigraph.spark.spark_merge.staged_replacement", fail)
    with pytest.raises(StorageError, match="the disk is full"):
        ogs.merge(graph, "a")
    assert written[0]
    assert (fingerprint(graph, "main"), data_files(graph)) == (before, files)
    monkeypatch.undo()
    assert ogs.merge(graph, "a").outcome == "merged"


def test_what_makes_no_sense_is_refused_before_any_job(tmp_path: Path, jobs: list[int]) -> None:
    graph = apart(tmp_path / "g", "plain", "into main").graph
    with pytest.raises(InputError, match="into itself"):
        ogs.merge(graph, "a", "a")
    with pytest.raises(InputError, match="mine"):
        ogs.merge(graph, "a", resolve="mine")  # type: ignore[arg-type]
    assert jobs == []
