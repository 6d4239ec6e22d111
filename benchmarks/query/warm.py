"""Warm answers, side by side: every engine gives the same answer, then they take turns.

Each engine may have several phrasings of a question. All must agree; the fastest one is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Action, in_turns, seconds_of
from benchmarks.options import Options
from benchmarks.query.engines import DUCKDB, LADYBUG, OURS, Engine, ask, comparable, engine_class, ways
from benchmarks.query.questions import ANALYSES, HOPS, LOOKUP, MANY, Parameters, Params, Phrasing
from benchmarks.report import Goal, Row

ROUNDS = 7
MOST_ROUNDS = 51
ENOUGH_SECONDS = 1.0

#: A phrasing this many times slower than the engine's best at first is not measured further.
HOPELESS = 3.0

FASTER = Goal(1, below=True)

TITLES = {
    "q1": "Q1 three most-followed persons",
    "q2": "Q2 city of the most-followed person",
    "q3": "Q3 five youngest cities of a country",
    "q4": "Q4 persons aged 30–40 per country",
    "q5": "Q5 men in a city with an interest",
    "q6": "Q6 city with most women with an interest",
    "q7": "Q7 state with most persons aged 23–30 with an interest",
    "q8": "Q8 number of 2-hop paths",
    "q9": "Q9 number of filtered 2-hop paths",
    "lookup": "point lookup by key",
    "hop1": "1 hop from one key",
    "hop2": "2 hops from one key",
    "hop3": "3 hops from one key",
    "many1": "1 hop from 1,000 keys",
    "many2": "2 hops from 1,000 keys",
    "many3": "3 hops from 1,000 keys",
}


@dataclass(frozen=True, slots=True)
class Warm:
    """Rows, and for every engine and question the phrasing that won."""

    rows: list[Row]
    best: Mapping[tuple[str, str], Phrasing]


class DifferentAnswers(AssertionError):
    """Two engines or two phrasings do not agree; no time means anything then."""


def compare(places: Mapping[str, Path], parameters: Parameters, options: Options) -> Warm:
    """Ask every question of every engine."""
    engines = {name: engine_class(name)(place) for name, place in places.items()}
    rows: list[Row] = []
    best: dict[tuple[str, str], Phrasing] = {}
    try:
        for question in (*ANALYSES, LOOKUP, *HOPS, *MANY):
            check_answers(engines, question, parameters)
            taken = _times(engines, question, parameters, options)
            for name, (_, phrasing) in taken.items():
                best[(name, question)] = phrasing
            rows += _rows(question, {name: seconds for name, (seconds, _) in taken.items()})
    finally:
        for engine in engines.values():
            engine.close()
    return Warm(rows, best)


def check_answers(engines: Mapping[str, Engine], question: str, parameters: Parameters) -> None:
    """Every phrasing of every engine must give the same answer, for each parameter."""
    for params in parameters.of(question):
        seen = [
            (
                f"{name} {phrasing.label}".strip(),
                comparable(ask(engine, phrasing, params), ordered=question in ANALYSES),
            )
            for name, engine in engines.items()
            for phrasing in ways(engine, question)
        ]
        for who, answer in seen[1:]:
            if answer != seen[0][1]:
                raise DifferentAnswers(
                    f"{question} {dict(params)}: {seen[0][0]} says {seen[0][1][:5]}, {who} says {answer[:5]}"
                )


def _times(
    engines: Mapping[str, Engine], question: str, parameters: Parameters, options: Options
) -> dict[str, tuple[float, Phrasing]]:
    """Per engine the median seconds of one asking in its best phrasing."""
    batch = parameters.of(question)
    choices: dict[str, tuple[str, Phrasing, Callable[[], None]]] = {}
    first: dict[str, float] = {}
    for name, engine in engines.items():
        tried = {phrasing: _asker(engine, phrasing, batch) for phrasing in ways(engine, question)}
        seconds = {phrasing: seconds_of(run) for phrasing, run in tried.items()}
        limit = HOPELESS * min(seconds.values())
        for number, (phrasing, run) in enumerate(tried.items()):
            if seconds[phrasing] <= limit:
                choices[f"{name} {number}"] = (name, phrasing, run)
                first[f"{name} {number}"] = seconds[phrasing]
    rounds = _rounds(sum(first.values()), options)
    taken = in_turns({key: Action(run) for key, (_, _, run) in choices.items()}, rounds, warm_up=1)
    best: dict[str, tuple[float, Phrasing]] = {}
    for key, (name, phrasing, _) in choices.items():
        seconds_each = taken[key].median / len(batch)
        if name not in best or seconds_each < best[name][0]:
            best[name] = (seconds_each, phrasing)
    return best


def _asker(engine: Engine, phrasing: Phrasing, batch: Sequence[Params]) -> Callable[[], None]:
    def run() -> None:
        for params in batch:
            ask(engine, phrasing, params)

    return run


def _rounds(seconds: float, options: Options) -> int:
    """Seven, or more where a round is quick; fewer only for a trial at a tiny scale."""
    wanted = min(MOST_ROUNDS, math.ceil(ENOUGH_SECONDS * options.scale / max(seconds, 1e-6)))
    return max(ROUNDS, wanted)


def _rows(question: str, seconds: Mapping[str, float]) -> list[Row]:
    ours = seconds.get(OURS)
    peers = {name: seconds[name] for name in (LADYBUG, DUCKDB) if name in seconds}
    title = TITLES[question]
    if question == LOOKUP and peers:
        better = min(peers, key=peers.__getitem__)
        return [
            Row(title, ours, value, name, goal=Goal(3) if name == better else None) for name, value in peers.items()
        ]
    return [Row(title, ours, value, name, goal=FASTER) for name, value in peers.items()]
