"""Blobs of every size, empty ones and null through everything that a graph does: files, branches, history, upkeep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import omnigraph as og
from tests.blobs.blob_graphs import EVERY, SCHEMA, SIZES, bodies, doc_graph, put, text
from tests.compat.test_older_blobs import TODAY, WRITTEN
from tests.compat.test_older_blobs import root as older_root  # noqa: F401


@pytest.mark.parametrize("format_", ["jsonl", "parquet", "csv"])
def test_an_export_loads_again_as_the_same_blobs(tmp_path: Path, format_: Any) -> None:
    with doc_graph(tmp_path / "g", EVERY) as graph:
        graph.load([{"id": "e", "from": "inline", "to": "empty", "note": b"n"}], "append", type="Cites")
        target = tmp_path / ("out.jsonl" if format_ == "jsonl" else "out")
        graph.export(target, format=format_)
    with og.init(tmp_path / "copy", SCHEMA) as copy:
        copy.load(target, "overwrite")
        assert bodies(copy) == EVERY
        assert copy.blob("Cites", "e", "note").read() == b"n"
        again = tmp_path / ("again.jsonl" if format_ == "jsonl" else "again")
        copy.export(again, format=format_)
    files = [target] if target.is_file() else sorted(target.iterdir())
    for file in files:
        other = again if target.is_file() else again / file.name
        if format_ == "parquet":
            assert pq.read_table(file).equals(pq.read_table(other))
        else:
            assert file.read_bytes() == other.read_bytes()


def test_json_says_null_empty_and_bytes_apart(tmp_path: Path) -> None:
    lines = ['{"name":"null","body":null}', '{"name":"absent"}', '{"name":"empty","body":"base64:"}']
    (tmp_path / "docs.jsonl").write_text("".join(f'{{"type":"Doc","data":{line}}}\n' for line in lines))
    with og.init(tmp_path / "g", SCHEMA) as graph:
        graph.load(tmp_path / "docs.jsonl", "append")
        assert bodies(graph) == {"null": None, "absent": None, "empty": b""}
        exported = [json.loads(line)["data"] for line in graph.export(types=["Doc"]).text.splitlines()]  # type: ignore[union-attr]
        assert {row["name"]: row["body"] for row in exported} == {"null": None, "absent": None, "empty": "base64:"}


def test_a_diff_compares_blobs_by_their_bytes(tmp_path: Path) -> None:
    with doc_graph(tmp_path / "g", {"a": b"12345", "same": SIZES["packed"], "empty": b"", "null": None}) as graph:
        start = graph.commits.head().id
        put(graph, {"a": b"54321", "same": SIZES["packed"], "empty": None, "null": b""}, "merge")
        changes = {change.id: change for change in graph.diff(start, "main")}
        assert sorted(changes) == ["a", "empty", "null"]
        assert {change.changed for change in changes.values()} == {("body",)}
        images = {
            name: (change.before["properties"]["body"], change.after["properties"]["body"])  # type: ignore[index]
            for name, change in changes.items()
        }
        assert images == {
            "a": (text(b"12345"), text(b"54321")),
            "empty": ("base64:", None),
            "null": (None, "base64:"),
        }


def test_a_merge_brings_blobs_over_and_meets_conflicts(tmp_path: Path) -> None:
    with doc_graph(tmp_path / "g", {**EVERY, "both": b"old"}) as graph:
        graph.branches.create("side")
        put(graph, {"inline": SIZES["dedicated"], "empty": None, "null": b"", "both": b"theirs"}, "merge", "side")
        put(graph, {"packed": b"ours", "both": b"ourss"}, "merge")
        with pytest.raises(og.errors.MergeConflict) as refused:
            graph.branches.merge("side")
        assert [conflict.row_id for conflict in refused.value.conflicts] == ["both"]
        graph.branches.merge("side", resolve="theirs")
        assert bodies(graph) == {
            **EVERY,
            "inline": SIZES["dedicated"],
            "empty": None,
            "null": b"",
            "packed": b"ours",
            "both": b"theirs",
        }


def test_optimize_restore_and_cleanup_leave_blobs_as_they_are(tmp_path: Path) -> None:
    with doc_graph(tmp_path / "g", EVERY) as graph:
        start = graph.commits.head().id
        for number in range(12):
            put(graph, {f"k{number}": bytes([number]) * number})
        wanted = {**EVERY, **{f"k{number}": bytes([number]) * number for number in range(12)}}
        held = graph.blob("Doc", "dedicated", "body")
        assert any(table.fragments_removed for table in graph.optimize().tables)
        assert bodies(graph) == wanted
        assert bodies(graph, at=start) == EVERY
        assert held.read(19_000_000, 3) == SIZES["dedicated"][19_000_000:19_000_003]
        graph.restore(start)
        assert bodies(graph) == EVERY
        assert [problem for problem in graph.verify(deep=True).problems if not problem.harmless] == []
        graph.cleanup(keep=1, confirm=True, grace=0)
        assert bodies(graph) == EVERY


def test_a_clone_has_its_own_blobs(tmp_path: Path) -> None:
    with doc_graph(tmp_path / "g", EVERY) as graph:
        graph.branches.create("side")
        put(graph, {"null": SIZES["packed"]}, "merge", "side")
        og.clone(tmp_path / "g", tmp_path / "copy")
        tag = graph.blob("Doc", "inline", "body").etag
        put(graph, {"inline": b"changed"}, "merge")
    with og.open(tmp_path / "copy") as copy:
        assert bodies(copy) == EVERY
        assert bodies(copy, "side") == {**EVERY, "null": SIZES["packed"]}
        assert copy.blob("Doc", "inline", "body").etag == tag


def test_null_blobs_of_older_files_are_null_one_by_one(older_root: Path) -> None:  # noqa: F811
    with og.open(older_root) as graph:
        assert bodies(graph) == {**WRITTEN, **TODAY}
