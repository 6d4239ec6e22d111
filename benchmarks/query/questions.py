"""The questions: their parameters, and their phrasings in each language, read from the three text files beside.

A section starts with a comment `name` or `name label`. A phrasing may have steps, separated by a comment `then`: the
columns of a step's only row become parameters of the next.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ANALYSES = tuple(f"q{number}" for number in range(1, 10))
HOPS = ("hop1", "hop2", "hop3")
MANY = ("many1", "many2", "many3")
LOOKUP = "lookup"

#: Questions with large answers are fetched as Arrow, the others as rows; the same for every engine.
AS_ARROW = frozenset(MANY) | {"hop2", "hop3"}

_MARKS = {"gq": "//", "cypher": "//", "sql": "--"}
_NAMES = frozenset((*ANALYSES, *HOPS, *MANY, LOOKUP))

Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One statement and the names of its parameters."""

    text: str
    names: tuple[str, ...]

    def pick(self, params: Params) -> dict[str, Any]:
        """Just the parameters that the statement uses."""
        return {name: params[name] for name in self.names if name in params}


@dataclass(frozen=True, slots=True)
class Phrasing:
    """One way to ask a question in one language."""

    question: str
    label: str
    steps: tuple[Step, ...]


@cache
def phrasings(language: str) -> Mapping[str, Sequence[Phrasing]]:
    """Every phrasing of every question in a language: ``gq``, ``cypher`` or ``sql``."""
    mark = _MARKS[language]
    found: dict[str, list[Phrasing]] = defaultdict(list)
    head, lines = "", []
    for line in [*Path(__file__).with_name(f"questions.{language}").read_text(encoding="utf-8").splitlines(), mark]:
        begins = line.startswith(mark) and line.removeprefix(mark).split(maxsplit=1)[:1] != ["then"]
        if not begins:
            lines.append(line)
            continue
        name, _, label = head.partition(" ")
        if name in _NAMES:
            found[name].append(Phrasing(name, label, _steps("\n".join(lines), mark)))
        head, lines = line.removeprefix(mark).strip(), []
    return dict(found)


def _steps(text: str, mark: str) -> tuple[Step, ...]:
    parts = re.split(rf"(?m)^{re.escape(mark)} then$", text)
    return tuple(Step(part.strip(), tuple(dict.fromkeys(re.findall(r"\$(\w+)", part)))) for part in parts)


@dataclass(frozen=True, slots=True)
class Parameters:
    """What is asked for: fixed values for the analyses, persons drawn from a seed for the rest."""

    analyses: Mapping[str, Params]
    handles: Sequence[str]
    many: Sequence[str]

    def of(self, question: str) -> Sequence[Params]:
        """The parameters of each run of a question; one run asks it once for every element."""
        if question in ANALYSES:
            return [self.analyses[question]]
        if question in MANY:
            return [{"handles": list(self.many)}]
        return [{"handle": handle} for handle in self.handles]


def draw_parameters(persons: int, *, seed: int = 11, handles: int = 20, many: int = 1_000) -> Parameters:
    """Parameters for a graph of so many persons."""
    random = np.random.default_rng(seed)
    drawn = [f"person-{number:06d}" for number in random.choice(persons, min(persons, handles + many), replace=False)]
    analyses: dict[str, Params] = {
        "q1": {},
        "q2": {},
        "q3": {"country": "United States"},
        "q4": {"young": 30, "old": 40},
        "q5": {"gender": "male", "city": "city-0000", "interest": "Astronomy"},
        "q6": {"gender": "female", "interest": "Chess"},
        "q7": {"young": 23, "old": 30, "interest": "Cycling"},
        "q8": {},
        "q9": {"young": 50, "old": 25},
    }
    return Parameters(analyses, drawn[:handles], drawn[handles:])
