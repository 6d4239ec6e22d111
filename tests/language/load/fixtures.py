"""Reads the text fixtures of this folder.

examples.txt   loads into the small graph of the query fixtures, or into an empty one with a schema of its own
refused.txt    lines that are no records, and what is said about them; records.pg is their schema

A case of examples.txt is a block: its name after ``###``, optionally ``schema <one line of .pg>``, then steps. A step
is a mode, lines of input, and after ``=>`` the loaded ``nodes/edges`` or the error. Lines below a step say what the
graph holds then, as in the mutation fixtures; ``export <Type>`` is followed by the exact lines of the export.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).parent
MODES = ("append", "merge", "overwrite")


@dataclass(frozen=True)
class Step:
    """One load: its lines, the outcome, and what holds afterwards."""

    mode: str
    lines: tuple[str, ...]
    outcome: str
    checks: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One block; ``schema`` is None for the small graph."""

    name: str
    schema: str | None
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Refusal:
    """A line and its error; ``{line}`` in the message is the line's number."""

    line: str
    error: str
    message: str

    def __str__(self) -> str:
        return f"{self.error} {self.message}"[:60]


def cases() -> list[Case]:
    return [_case(block) for block in (HERE / "examples.txt").read_text("utf-8").split("### ")[1:]]


def refusals() -> list[Refusal]:
    return list(_refusals((HERE / "refused.txt").read_text("utf-8")))


def _case(block: str) -> Case:
    name, *lines = block.strip("\n").split("\n")
    schema = lines.pop(0).removeprefix("schema ") if lines[0].startswith("schema ") else None
    starts = [number for number, line in enumerate(lines) if line in MODES] + [len(lines)]
    return Case(name, schema, tuple(_step(lines[a:b]) for a, b in pairwise(starts)))


def _step(lines: list[str]) -> Step:
    end = next(number for number, line in enumerate(lines) if line.startswith("=> "))
    checks = tuple(line for line in lines[end + 1 :] if line.strip())
    return Step(lines[0], tuple(lines[1:end]), lines[end].removeprefix("=> "), checks)


def _refusals(text: str) -> Iterator[Refusal]:
    line = None
    for entry in text.splitlines():
        if entry.startswith("=> "):
            assert line is not None, f"nothing before {entry!r}"
            error, _, message = entry.removeprefix("=> ").partition(": ")
            yield Refusal(line, error, message)
        elif entry and not entry.startswith("#"):
            line = entry
