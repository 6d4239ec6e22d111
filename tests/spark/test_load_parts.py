"""Pieces of a load on Spark that need no Spark: splits, numbers of keys, judgement, what tasks and driver tell."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph import limits
from omnigraph.errors import InvalidRecord, ResourceLimitExceeded, UniqueViolation
from omnigraph.progress import Progress, Stage, describe, plain_lines, reporter, silent
from omnigraph.schema.compiled_schema import compile_schema
from omnigraph.spark.loading.key_spaces import KeyCounts, KeyUse, Suspicion, spaces_of, suspicious_keys
from omnigraph.spark.loading.splits import ParsedSplit, Split, splits_of, tasks_of
from omnigraph.spark.messages import (
    ConflictFound,
    FragmentStaged,
    FragmentsWritten,
    LinesFound,
    RowRange,
    RowRefused,
    RowsDeleted,
    RowsFetched,
    SplitFailed,
    SplitRead,
    TaskError,
    decode,
    encode,
)
from omnigraph.write.change import Mode
from omnigraph.write.load.load_source import Format, Part
from omnigraph.write.load.valid_rows import LINE, Reading

CATALOG = compile_schema("node P { k: String @key }  node Q { t: String? }  edge E: P -> Q @card(0..2)").catalog


@given(
    keys=st.lists(st.text("abé\n ", max_size=4), min_size=1, max_size=30), size=st.integers(1, 200), end=st.booleans()
)
def test_every_line_belongs_to_exactly_one_split(
    keys: list[str], size: int, end: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("splits") / "x.jsonl"
    lines = [json.dumps({"type": "Q", "data": {"t": key}}) if key else "" for key in keys]
    text = "\n".join(lines) + ("\n" if end else "")
    path.write_bytes(text.encode())
    part = Part(str(path), Format.JSONL)
    total = len(text.encode())
    found: list[tuple[int, str]] = []
    before = 0
    for start in range(0, max(total, 1), size):
        split = ParsedSplit(CATALOG, part, Split(0, size, start, min(start + size, total)), before + 1, Reading(100))
        for parsed in split:
            assert not parsed.violations
            for batch in parsed.rows.get("node:Q", ()):
                found += zip(batch.rows.column(LINE).to_pylist(), batch.rows.column("t").to_pylist(), strict=True)
        before += split.count
    assert found == [(number, key) for number, key in enumerate(keys, start=1) if key]


def test_small_neighbours_share_a_task_and_large_files_are_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOAD_BLOCK_BYTES", 100)
    monkeypatch.setattr(limits, "SPLIT_BYTES", 100)
    sizes = [10, 20, 30, 350, 5, 5]
    parts = []
    for number, size in enumerate(sizes):
        (tmp_path / f"{number}.jsonl").write_bytes(b"x" * size)
        parts.append(Part(str(tmp_path / f"{number}.jsonl"), Format.JSONL))
    splits = splits_of(parts, cores=2)
    assert [(split.part, split.start, split.end) for split in splits if split.part == 3] == [
        (3, 0, 100),
        (3, 100, 200),
        (3, 200, 300),
        (3, 300, 350),
    ]
    tasks = tasks_of(splits)
    assert [number for task in tasks for number in task] == list(range(len(splits)))
    assert len(tasks) == 6 and list(tasks[0]) == [0, 1, 2]


def _judged(
    mode: Mode, *key_counts: tuple[int, int, KeyUse, int], fresh: bool = False
) -> set[tuple[int, int, Suspicion]]:
    loaded = {"node:P": False, "node:Q": fresh, "edge:E": fresh}
    spaces = spaces_of(CATALOG, loaded, mode)
    columns = [np.array(column, np.int64) for column in zip(*key_counts, strict=True)]
    places = np.arange(len(key_counts))
    found = suspicious_keys(spaces, KeyCounts(columns[0], columns[1], columns[2], columns[3], places))
    rows = zip(found["space"].tolist(), found["hash"].tolist(), found["suspicion"].tolist(), strict=True)
    return {(space, hash_, Suspicion(suspicion)) for space, hash_, suspicion in rows}


def test_keys_are_judged_by_everything_that_was_seen_of_them() -> None:
    spaces = spaces_of(CATALOG, {"node:P": False, "node:Q": False, "edge:E": False}, Mode.APPEND)
    number = {(space.key, space.kind): space.number for space in spaces.all}
    p, q, e, card = (
        number[each] for each in (("node:P", "id"), ("node:Q", "id"), ("edge:E", "id"), ("edge:E", "card"))
    )
    key_counts: list[tuple[int, int, KeyUse, int]] = [
        (p, 1, KeyUse.NEW, 1),
        (p, 1, KeyUse.NEW, 1),
        (p, 2, KeyUse.NEW, 1),
        (p, 2, KeyUse.NEEDED, 9),
        (p, 3, KeyUse.NEEDED, 1),
        (p, 4, KeyUse.STORED, 1),
        (p, 4, KeyUse.NEEDED, 1),
        (p, 5, KeyUse.STORED, 1),
        (p, 5, KeyUse.NEW, 1),
        (q, 1, KeyUse.NEW, 1),
        (e, 7, KeyUse.NEW, 2),
        (card, 1, KeyUse.NEW, 2),
        (card, 2, KeyUse.NEW, 2),
        (card, 2, KeyUse.STORED, 1),
        (card, 3, KeyUse.STORED, 9),
    ]
    always = {(p, 3, Suspicion.MISSING), (card, 2, Suspicion.COUNTED)}
    assert _judged(Mode.APPEND, *key_counts) == always | {
        (p, 1, Suspicion.REPEATED),
        (p, 5, Suspicion.EXISTS),
        (e, 7, Suspicion.REPEATED),
    }
    assert _judged(Mode.MERGE, *key_counts) == always | {(p, 1, Suspicion.REPEATED), (e, 7, Suspicion.COLLAPSES)}
    assert suspicious_keys(spaces, KeyCounts(*(np.zeros(0, np.int64) for _ in range(5))))["hash"].tolist() == []


def test_every_message_travels_as_itself() -> None:
    refused = RowRefused(3, "f", 7, None, TaskError("c", "m", None, {"ids": ["a"]}), "{}")
    ranges = (RowRange(0, 5, 2, True), RowRange(1, 0, 1, False))
    rows = pa.table({"id": ["a", "b"], "n": pa.array([1, None], pa.uint64())})
    told = [
        *(SplitRead(1, 9, {"node:P": 2}), SplitFailed(2, refused.error), refused),
        FragmentStaged("node:P", "{}", 3, ranges),
        *(FragmentsWritten(4, ("x", "y")), FragmentsWritten(5, ()), RowsDeleted(1, 2, None), RowsDeleted(1, 2, "z")),
        *(ConflictFound(None, "k", "m"), RowsFetched.of("node:P", rows.slice(1)), LinesFound(0, "node:P", (1,), (4,))),
    ]
    again = list(decode(encode(told).to_pylist(), object))
    assert again == told
    assert again[9].table().equals(rows.slice(1))  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="SplitRead is not a RowsDeleted"):
        list(decode(encode(told[:1]).to_pylist(), RowsDeleted))


def test_an_error_travels_as_itself() -> None:
    for error in (
        InvalidRecord("line 3: no", hint="scan_keys"),
        UniqueViolation("twice", type="P", ids=["a", "b"], row=3),
        ResourceLimitExceeded("rejects", 3, 2),
    ):
        (told,) = decode(encode([TaskError.of(error)]).to_pylist(), TaskError)
        again = told.rebuilt()
        assert type(again) is type(error)
        assert (again.message, again.hint, again.details, str(again)) == (
            error.message,
            error.hint,
            error.details,
            str(error),
        )


def test_progress_is_shown_to_who_looks_or_asks() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    log = io.StringIO()
    with reporter(None, log) as report:
        assert report is silent
    with reporter(True, log) as report:
        report(Progress("read", 10, None, 2.0))
        report(Progress("read", 10, 10, 2.0, 1.0, finished=True))
    assert log.getvalue() == "read     10 rows in 2.0 s (5 rows/s)\n"
    assert describe(Progress("index", seconds=1.5)) == "index    1.5 s"
    with reporter(False, Terminal()) as report:
        assert report is silent
    screen = Terminal()
    with reporter(None, screen) as report:
        report(Progress("read", 10, 10, 2.0, 1.0, finished=True))
    assert "10 rows" in screen.getvalue()
    told: list[Progress] = []
    with reporter(told.append) as report:
        report(Progress("read"))
    assert told == [Progress("read")]


def test_a_stage_is_timed_and_told_even_if_it_fails() -> None:
    told: list[Any] = []
    timings: dict[str, float] = {}
    with Stage("read", told.append, timings) as stage:
        stage.rows = 5
        stage.tell(0.5)
    with pytest.raises(ZeroDivisionError), Stage("check", plain_lines(io.StringIO()), timings):
        raise ZeroDivisionError
    assert set(timings) == {"read", "check"}
    assert [(each.rows, each.share, each.finished) for each in told] == [
        (0, None, False),
        (5, 0.5, False),
        (5, 1.0, True),
    ]
