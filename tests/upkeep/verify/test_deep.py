"""Bytes that changed behind the graph's back are found by a deep look, and a graph that we wrote is wholly covered."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import limits
from omnigraph.storage.inspect_files import ValueProcess, data_files, recorded_digests
from omnigraph.storage.metadata import manifest
from omnigraph.storage.metadata.manifest import fold, table_version_of
from omnigraph.storage.tables.datasets import TableVersion
from omnigraph.upkeep.verify import Problem
from omnigraph.write.change import Change, Mode
from tests.upkeep.verify.damage import append_raw, folder, only_file

SCHEMA = """
node Thing {
  name: String @key  text: String?  flag: Bool?  small: I32?  big: I64?  usmall: U32?  ubig: U64?  half: F32?
  real: F64?  day: Date?  moment: DateTime?  words: [String]?  numbers: [I64]?  vec: Vector(4)?  raw: Blob?
  color: enum(red, blue)?
}
edge Likes: Thing -> Thing { since: I32? }
"""
THING: dict[str, Any] = {
    "text": "some text", "flag": True, "small": 123456789, "big": 1234567890123, "usmall": 3456789012,
    "ubig": 12345678901234, "half": 1.25, "real": 3.14159, "day": "2031-05-06", "moment": "2031-05-06T07:08:09Z",
    "words": ["alpha", "beta"], "numbers": [11111111, 22222222], "vec": [1.5, 2.5, 3.5, 4.5], "color": "red",
    "raw": "base64:aGVsbG8gYmxvYg==",
}  # fmt: skip


@pytest.fixture(autouse=True)
def nobody_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "VERIFY_PATIENCE_SECONDS", (0.0,))
    monkeypatch.setattr(limits, "VERIFY_DEEP_SECONDS", 3.0)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose table has one data file on main and one more on a branch."""
    root = tmp_path_factory.mktemp("deep") / "g"
    with og.init(root, SCHEMA) as graph:
        lines = [{"type": "Thing", "data": {"name": f"thing {number}", **THING}} for number in range(3)]
        _load(graph, root, [*lines, {"type": "Thing", "data": {"name": "bare"}}])
        graph.branches.create("dev")
        _load(graph, root, [{"type": "Thing", "data": {"name": "other", **THING, "text": "another"}}], branch="dev")
        assert graph.verify(deep=True).problems == ()
    return root


@pytest.fixture
def graph(original: Path, tmp_path: Path) -> og.Graph:
    copied = shutil.copytree(original, tmp_path / "g")
    og.relocate(copied)
    return og.open(copied)


def _load(graph: og.Graph, root: Path, lines: list[dict[str, Any]], mode: Any = "append", **options: Any) -> None:
    path = root.with_suffix(".jsonl")
    path.write_text("\n".join(map(json.dumps, lines)))
    graph.load(path, mode, engine="embedded", **options)


def data_file(graph: og.Graph, key: str = "node:Thing", branch: str = "main") -> Path:
    return only_file(folder(graph, key, branch) / "data")


def deep_problems(graph: og.Graph) -> list[Problem]:
    return [problem for problem in graph.verify(deep=True).problems if problem.check == "digests"]


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x01
    path.write_bytes(content)


def _pages(path: Path) -> dict[str, list[tuple[int, int]]]:
    """Where the buffers of each column lie in a data file."""
    columns = [field.name for field in pa.schema(lance.dataset(str(path.parent.parent)).schema)]
    described = lance.file.LanceFileReader(str(path)).metadata().columns
    return {
        name: [(buffer.position, buffer.size) for page in column.pages for buffer in page.buffers if buffer.size]
        for name, column in zip(columns, described, strict=True)
    }


@pytest.mark.parametrize("column", ["id", "name", *THING])
def test_a_flipped_bit_changes_no_value_unseen(graph: og.Graph, column: str) -> None:
    """Each byte of a column in turn: a reader gets what was written, or the digest of just this column says no."""
    path, pin = data_file(graph), graph._store.snapshot("main").pins["node:Thing"]
    content, tables = path.read_bytes(), graph._store.tables
    (file,) = data_files(tables.at(TableVersion(pin.location, None, pin.version)))
    recorded = file.recorded(recorded_digests(graph._store.snapshot("main").handle))
    assert recorded is not None
    rows, found = _rows(tables.at(TableVersion(pin.location, None, pin.version))), []
    with ValueProcess(graph._store.location) as process:
        for position, size in _pages(path)[column]:
            for place in range(position, position + size, 3):
                path.write_bytes(content)
                flip(path, place)
                try:
                    read = process.digests(table_version_of(pin), file)
                except og.errors.CorruptGraph:
                    continue  # said so
                wrong = [name for (name, _), *two in zip(file.columns, read, recorded, strict=True) if two[0] != two[1]]
                assert wrong in ([], [column])
                found.append(read != recorded)
                if read == recorded:
                    assert _rows(tables.fresh(TableVersion(pin.location, None, pin.version))) == rows
    assert any(found)


def _rows(handle: Any) -> Any:
    return handle.scanner(blob_handling="all_binary").to_table().drop_columns(["moment", "day"]).to_pylist()


def test_a_changed_value_is_a_problem_with_its_place(graph: og.Graph) -> None:
    path = data_file(graph, branch="dev")
    place = path.read_bytes().index(b"another")
    flip(path, place)
    assert graph.verify().ok, "without a deep look nobody notices"
    report = graph.verify(deep=True)
    assert not report.ok
    message = f"the file {path.name} does not hold what was written in 'text'"
    assert report.problems == (Problem("digests", "dev", "node:Thing", message),)
    assert {check.name: check.count for check in report.checks}["digests"] == 2


def test_a_file_that_branches_share_is_read_and_named_once(graph: og.Graph) -> None:
    path = data_file(graph)
    flip(path, path.read_bytes().index(b"some text"))
    (problem,) = graph.verify(deep=True).problems
    assert (problem.check, problem.branch) == ("digests", "main")


def _flip_footer(path: Path) -> None:
    flip(path, path.stat().st_size - 12)  # how many columns the file has


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("damage", [_flip_footer, _cut])
def test_a_file_that_cannot_be_decoded_is_a_problem(graph: og.Graph, damage: Callable[[Path], None]) -> None:
    path = data_file(graph, branch="dev")
    damage(path)
    (problem,) = deep_problems(graph)
    assert (problem.branch, problem.table, problem.harmless) == ("dev", "node:Thing", False)
    assert f"the file {path.name} cannot be decoded" in problem.message


def test_two_files_in_each_others_place_are_found(tmp_path: Path) -> None:
    """Both are whole and of the same size; only their rows are not where they belong."""
    graph = og.init(tmp_path / "g", SCHEMA)
    for name in ("a", "b"):
        _load(graph, tmp_path / "g", [{"type": "Thing", "data": {"name": name}}])
    one, other = sorted((folder(graph, "node:Thing") / "data").iterdir())
    kept = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(kept)
    assert graph.verify().ok
    found = sorted(problem.message for problem in deep_problems(graph))
    assert [one.name in found[0], other.name in found[1]] == [True, True]


def test_bytes_that_end_the_process_that_reads_them_are_named(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = ValueProcess._ask

    def after_death(process: ValueProcess, child: Any, request: Any) -> dict[str, Any]:
        child._process.kill()
        return ask(process, child, request)

    monkeypatch.setattr(ValueProcess, "_ask", after_death)
    assert ["to a sudden one" in problem.message for problem in deep_problems(graph)] == [True, True]


def test_without_a_second_process_files_are_read_in_this_one(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    path = data_file(graph)
    assert graph.verify(deep=True).problems == ()
    flip(path, path.read_bytes().index(b"some text"))
    assert len(deep_problems(graph)) == 1


def test_files_of_other_software_are_read_and_counted_as_not_covered(graph: og.Graph) -> None:
    append_raw(graph, "edge:Likes", {"id": "e1", "src": "bare", "dst": "bare"})
    report = graph.verify(deep=True)
    message = "1 of 1 data files are not covered: no digest was recorded for them"
    assert report.ok
    assert report.problems == (Problem("digests", "main", "edge:Likes", message, harmless=True),)
    _cut(data_file(graph, "edge:Likes"))
    assert [problem.harmless for problem in deep_problems(graph)] == [False, True]


def test_digests_lie_in_the_rows_of_the_past_alone(graph: og.Graph) -> None:
    rows = graph._store.snapshot("main").handle.to_table().to_pylist()
    kinds = {row["object_type"] for row in rows if manifest.digests_of(row["metadata"])}
    assert kinds == {manifest.TABLE_VERSION}
    folded = fold(graph._store.snapshot("main").handle, "main")
    assert folded.pins == graph._store.snapshot("main").pins


def test_metadata_that_cannot_be_read_holds_no_digest() -> None:
    for text in (None, "", "{", '{"digests": 3}', '{"digests": {"a": 3}}', '["digests"]', '{"digests": null}'):
        assert manifest.digests_of(text) == {}


# What we write ourselves is covered, whatever way the rows went.

PEOPLE = "node Person { name: String @key  age: I32?  note: String? }\nedge Knows: Person -> Person { since: I32? }\n"


def people(numbers: range, age: int | None = 1) -> list[Change]:
    names = [f"p{number:05d}" for number in numbers]
    rows = {"name": names, "age": pa.array([age] * len(names), pa.int32())}
    knows = {"src": names[:1], "dst": names[-1:], "since": pa.array([3], pa.int32())}
    return [Change("node:Person", pa.table(rows), Mode.MERGE), Change("edge:Knows", pa.table(knows), Mode.APPEND)]


def assert_covered(graph: og.Graph) -> None:
    graph._store.mirror.flush()
    assert graph.verify(deep=True).problems == ()


def test_folded_fragments_and_folded_histories_stay_covered(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", PEOPLE)
    graph.write(people(range(3_000)))
    for step in range(2 * limits.MANIFEST_FRAGMENTS):
        graph.write(people(range(step, step + 2), step))
    graph.mutate('query m() { delete Person where name = "p00001" }')
    assert_covered(graph)


def test_several_files_of_one_write_are_covered_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FRAGMENT_ROWS", 700)
    monkeypatch.setattr(limits, "MANIFEST_RECENT_CHARACTERS", 300)
    graph = og.init(tmp_path / "g", PEOPLE)
    graph.write(people(range(3_000)))
    present = graph._store.snapshot("main")
    assert present.recent is not None and manifest.TABLE_VERSION not in present.recent.column("object_type").to_pylist()
    graph.write(people(range(2_500, 5_000), 7))
    assert_covered(graph)
    assert graph.verify(deep=True).checks[-1].count > 8


def test_branches_and_merges_stay_covered_when_the_branch_is_gone(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", PEOPLE)
    graph.write(people(range(10)))
    graph.branches.create("dev")
    graph.branches.create("sub", from_="dev")
    graph.write(people(range(8, 12), 5), branch="dev")
    graph.write(people(range(20, 25), 6))
    graph.branches.merge("main", into="sub")
    assert_covered(graph)
    graph.branches.merge("dev", into="main")
    graph.branches.merge("main", into="sub")
    for name in ("sub", "dev"):
        graph.branches.delete(name)
    assert_covered(graph)


@pytest.mark.parametrize(
    "changes",
    [
        ["node Person { name: String @key  age: I64?  note: String?  more: String? }"],
        ["node Person { name: String @key  age: I32? }"],
        [
            "node Person { name: String @key  age: I64? }",
            'node Person { name: String @key  years: I64? @rename_from("age") }',
        ],
        [
            'node Human @rename_from("Person") { name: String @key  age: I32?  note: String? }',
            "node Human { name: String @key  age: I32?  note: String? } node Person { name: String @key }",
        ],
    ],
    ids=["widen and add", "drop", "widen, drop and rename", "rename and use the name again"],
)
def test_schema_changes_stay_covered(tmp_path: Path, changes: list[str]) -> None:
    graph = og.init(tmp_path / "a graph", PEOPLE)
    graph.write(people(range(10)))
    graph.mutate('query m() { delete Person where name = "p00004" }')
    for change in changes:
        edge = f"edge Knows: {'Human -> Human' if 'Human' in change else 'Person -> Person'} {{ since: I64? }}\n"
        graph.schema.apply(f"{change}\n{edge}", allow_data_loss=True)
        assert_covered(graph)
    graph.write([Change("node:Person", pa.table({"name": ["new"]}), Mode.MERGE)])
    assert_covered(graph)


@pytest.mark.s3
def test_a_graph_on_s3_is_covered(s3_root: str) -> None:
    graph = og.init(f"{s3_root}/a graph", PEOPLE)
    graph.write(people(range(10)))
    graph.mutate('query m() { delete Person where name = "p00004" }')
    graph.schema.apply(PEOPLE.replace("I32", "I64"))
    assert_covered(graph)
