"""What a report says about its goals, and what the command returns."""

from __future__ import annotations

import io
import json
import os
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import child, docs, storage
from benchmarks.measure import Action, in_turns
from benchmarks.options import Options
from benchmarks.query.engines import Answer, Engine
from benchmarks.query.questions import Params, draw_parameters
from benchmarks.query.warm import DifferentAnswers, check_answers
from benchmarks.report import HEADINGS, Goal, Grid, Report, Row, show
from benchmarks.storage.calls import tally
from benchmarks.storage.proxy import Call

MET = Row("quick", 1.0, 2.0, "peer", goal=Goal(1, below=True))
MISSED = Row("slow", 3.0, 1.0, "peer", goal=Goal(2))


def printed(report: Report) -> str:
    text = io.StringIO()
    show(report, Console(file=text, width=200))
    return text.getvalue()


def test_a_missed_goal_says_by_how_much() -> None:
    assert (MET.met, MISSED.met) == (True, False)
    assert "goal missed: slow, NO, by 50%" in printed(Report("storage", (MET, MISSED)))
    assert all(heading in printed(Report("storage", (MET,))) for heading in HEADINGS)


def test_a_goal_below_is_not_met_by_an_equal_figure() -> None:
    assert Row("equal", 1.0, 1.0, "peer", goal=Goal(1, below=True)).met is False
    assert Row("equal", 1.0, 1.0, "peer", goal=Goal(1)).met is True


def test_a_goal_that_was_not_measured_counts_as_missed() -> None:
    absent = Row("absent", None, 1.0, "peer", goal=Goal(1))
    assert Report("query", (absent,)).missed == [absent]
    assert "not measured" in absent.cells()


@pytest.mark.parametrize(("flags", "code"), [([], 0), (["--check"], 1)])
def test_only_check_turns_a_missed_goal_into_a_failure(
    flags: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "run", lambda options: Report("storage", (MET, MISSED)))
    monkeypatch.setattr(command, "limit_threads", lambda: None)
    monkeypatch.setattr(command, "limit_arrow", lambda: None)
    out = tmp_path / "out.json"
    place = ["--place", str(tmp_path / "files")]
    assert command.main(["storage", "--json", str(out), *place, *flags]) == code
    rows = json.loads(out.read_text(encoding="utf-8"))["parts"][0]["rows"]
    assert [(row["measure"], row["met"]) for row in rows] == [("quick", True), ("slow", False)]


def test_writing_the_docs_replaces_only_what_stands_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(docs.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    grid = Grid("Storage calls of a commit", ("object", "method", "after 10"), (("sidecars", "PUT", "1"),))
    for _ in range(2):
        docs.write([Report("storage", (MET,), (grid,))], 1.0, page)
    text = page.read_text(encoding="utf-8")
    assert text.count("| quick |") == text.count("| sidecars | PUT | 1 |") == 1
    assert "Not measured yet: `python -m benchmarks storage" not in text
    before, after = docs.PAGE.read_text(encoding="utf-8"), text
    assert before.partition("<!-- storage: begin -->")[0] == after.partition("<!-- storage: begin -->")[0]
    assert before.partition("<!-- storage: end -->")[2] == after.partition("<!-- storage: end -->")[2]


def test_actions_take_turns_and_the_warm_up_is_not_counted() -> None:
    seen: list[str] = []
    actions = {name: Action(partial(seen.append, name)) for name in "ab"}
    taken = in_turns(actions, rounds=2, warm_up=1)
    assert seen == ["a", "b"] * 3
    assert [len(samples.seconds) for samples in taken.values()] == [2, 2]


def test_a_child_measures_in_a_process_of_its_own() -> None:
    assert child.run("os:getpid") != os.getpid()
    assert child.run("benchmarks.child:peak_memory") > 1_000_000


def test_a_failing_child_says_why() -> None:
    with pytest.raises(RuntimeError, match="no_such_function"):
        child.run("os:no_such_function")


class Liar:
    """An engine that answers every question with one number."""

    language = "sql"

    def __init__(self, number: int) -> None:
        self._number = number

    def run(self, statement: str, params: Params, *, arrow: bool) -> Answer:
        return [(self._number,)]

    def columns(self, statement: str, params: Params) -> dict[str, int]:
        return {"start": self._number}


def test_different_answers_are_refused() -> None:
    def engines(*numbers: int) -> dict[str, Engine]:
        return {f"engine {number}": Liar(number) for number in numbers}  # type: ignore[misc]

    parameters = draw_parameters(100, handles=1, many=1)
    check_answers(engines(5), "q8", parameters)
    with pytest.raises(DifferentAnswers, match=r"engine 5 join says .* engine 6 join says"):
        check_answers(engines(5, 6), "q8", parameters)


def test_calls_are_sorted_by_method_and_kind_of_object() -> None:
    body = b"<Delete><Object><Key>g/__recovery/01X.json</Key></Object></Delete>"
    counted = tally(
        [
            Call("GET", "/bucket?list-type=2&prefix=g%2F__manifest%2F_versions%2F", 200),
            Call("GET", "/bucket/g/__manifest/_versions/184.manifest", 200),
            Call("PUT", "/bucket/g/nodes/ab12/data/x.lance", 200),
            Call("POST", "/bucket?delete", 200, body),
        ]
    )
    assert dict(counted) == {
        ("LIST", "manifest: version files"): 1,
        ("GET", "manifest: version files"): 1,
        ("PUT", "tables: rows"): 1,
        ("DELETE", "sidecars and leases"): 1,
    }


def test_sizes_follow_the_scale_but_never_vanish() -> None:
    assert Options(Path(), scale=0.5).size(1_000, 10) == 500
    assert Options(Path(), scale=0.001).size(1_000, 10) == 10
