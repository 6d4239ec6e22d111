"""Fresh processes: the first answer after opening, and the most memory that answering everything takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import child
from benchmarks.measure import Samples, no_garbage_collection, seconds_of
from benchmarks.options import Options
from benchmarks.query.engines import DUCKDB, LADYBUG, OURS, Engine, ask, engine_class
from benchmarks.query.questions import ANALYSES, HOPS, LOOKUP, MANY, Parameters, Params, Phrasing, Step
from benchmarks.query.warm import TITLES
from benchmarks.report import Goal, Row

FIRST_QUESTIONS = (LOOKUP, "hop2", "q1", "q5")
ROUNDS = 7
MEGABYTE = 1_000_000


def compare(
    places: Mapping[str, Path],
    best: Mapping[tuple[str, str], Phrasing],
    parameters: Parameters,
    options: Options,
) -> list[Row]:
    """First answers and peak memory, each engine in processes of its own, in turns."""
    rows: list[Row] = []
    for question in FIRST_QUESTIONS[: options.size(len(FIRST_QUESTIONS), 1)]:
        taken = _first_answers(places, question, best, parameters, options.size(ROUNDS, 1))
        rows += [
            Row(
                f"open and first answer: {TITLES[question]}",
                taken[OURS].median if OURS in taken else None,
                taken[name].median,
                name,
                goal=Goal(1.5) if name == LADYBUG else None,
            )
            for name in (LADYBUG, DUCKDB)
            if name in taken
        ]
    return [*rows, *_memory(places, best, parameters, options.size(3, 1))]


def _first_answers(
    places: Mapping[str, Path],
    question: str,
    best: Mapping[tuple[str, str], Phrasing],
    parameters: Parameters,
    rounds: int,
) -> dict[str, Samples]:
    taken: dict[str, list[float]] = {name: [] for name in places}
    for _ in range(rounds):
        for name, place in places.items():
            work = _work(best[(name, question)], parameters.of(question)[0])
            taken[name].append(child.run("benchmarks.query.fresh:first_answer", name=name, place=str(place), **work))
    return {name: Samples(tuple(seconds)) for name, seconds in taken.items()}


def _memory(
    places: Mapping[str, Path], best: Mapping[tuple[str, str], Phrasing], parameters: Parameters, rounds: int
) -> list[Row]:
    taken: dict[str, list[float]] = {name: [] for name in places}
    idle: dict[str, float] = {}
    for _ in range(rounds):
        for name, place in places.items():
            questions = (*ANALYSES, LOOKUP, *HOPS, *MANY)
            work = [_work(best[(name, question)], parameters.of(question)[0]) for question in questions]
            answer = child.run("benchmarks.query.fresh:answer_all", name=name, place=str(place), work=work)
            taken[name].append(answer["peak"])
            idle[name] = answer["imported"]
    medians = {name: Samples(tuple(values)).median / MEGABYTE for name, values in taken.items()}
    note = ", ".join(f"{name} {value / MEGABYTE:,.0f} MB after import" for name, value in idle.items())
    return [
        Row(
            "peak memory of answering every question",
            medians.get(OURS),
            medians[name],
            name,
            "MB",
            goal=Goal(1.5) if name == LADYBUG else None,
            note=note if name == LADYBUG else "",
        )
        for name in (LADYBUG, DUCKDB)
        if name in medians
    ]


def _work(phrasing: Phrasing, params: Params) -> dict[str, Any]:
    steps = [{"text": step.text, "names": list(step.names)} for step in phrasing.steps]
    return {"question": phrasing.question, "steps": steps, "params": json.loads(json.dumps(dict(params)))}


def _phrasing(question: str, steps: list[dict[str, Any]]) -> Phrasing:
    return Phrasing(question, "", tuple(Step(step["text"], tuple(step["names"])) for step in steps))


def first_answer(name: str, place: str, question: str, steps: list[dict[str, Any]], params: dict[str, Any]) -> float:
    """Runs in the child: seconds from opening to the whole first answer; imports are done before."""
    engine_type, phrasing = engine_class(name), _phrasing(question, steps)
    opened: list[Engine] = []

    def open_and_ask() -> None:
        opened.append(engine_type(Path(place)))
        ask(opened[0], phrasing, params)

    child.import_rooms()
    with no_garbage_collection():
        elapsed = seconds_of(open_and_ask)
    opened[0].close()
    return elapsed


def answer_all(name: str, place: str, work: list[dict[str, Any]]) -> dict[str, int]:
    """Runs in the child: most bytes held after the imports, and after every question was asked twice."""
    engine_type = engine_class(name)
    imported = child.peak_memory()
    engine = engine_type(Path(place))
    for item in [*work, *work]:
        ask(engine, _phrasing(item["question"], item["steps"]), item["params"])
    engine.close()
    return {"imported": imported, "peak": child.peak_memory()}
