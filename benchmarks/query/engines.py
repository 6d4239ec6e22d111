"""What the query measures need of an engine, and which engines there are."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard

import pyarrow as pa

from benchmarks.query.questions import AS_ARROW, Params, Phrasing, phrasings
from benchmarks.social import Social

#: A row as a tuple, or for large answers the one column as it came.
Answer: TypeAlias = Sequence[tuple[Any, ...]] | pa.Table


class Engine(Protocol):
    """An open database that holds the social graph. The constructor opens it."""

    language: str

    def __init__(self, place: Path) -> None: ...

    @staticmethod
    def build(social: Social, place: Path) -> None:
        """Make the database at a place from the same tables as everybody."""

    def run(self, statement: str, params: Params, *, arrow: bool) -> Answer:
        """Run one statement and fetch all of its answer."""

    def columns(self, statement: str, params: Params) -> Mapping[str, Any]:
        """Run one statement and return its first row by name."""

    def close(self) -> None: ...


OURS, LADYBUG, DUCKDB = "OmniGraph", "Ladybug", "DuckDB"

_CLASSES = {
    OURS: ("benchmarks.query.omnigraph_engine", "OmniGraphEngine", "omnigraph"),
    LADYBUG: ("benchmarks.query.ladybug_engine", "LadybugEngine", "ladybug"),
    DUCKDB: ("benchmarks.query.duckdb_engine", "DuckDbEngine", "duckdb"),
}


def available() -> list[str]:
    """Names of the engines that can run here."""
    return [name for name, (_, _, package) in _CLASSES.items() if find_spec(package) and _can_answer(name)]


def _can_answer(name: str) -> bool:
    if name != OURS:
        return True
    import omnigraph as og

    return hasattr(og.Graph, "query")


def engine_class(name: str) -> type[Engine]:
    module, class_name, _ = _CLASSES[name]
    found: type[Engine] = getattr(importlib.import_module(module), class_name)
    return found


def ask(engine: Engine, phrasing: Phrasing, params: Params) -> Answer:
    """Ask a question in one phrasing, all steps of it."""
    known = dict(params)
    for step in phrasing.steps[:-1]:
        row = engine.columns(step.text, step.pick(known))
        known |= {name.rpartition(".")[2]: value for name, value in row.items()}
    last = phrasing.steps[-1]
    return engine.run(last.text, last.pick(known), arrow=phrasing.question in AS_ARROW)


def ways(engine: Engine, question: str) -> Sequence[Phrasing]:
    """The phrasings of a question for an engine."""
    return phrasings(engine.language)[question]


def comparable(answer: Answer, *, ordered: bool) -> list[tuple[Any, ...]]:
    """An answer as engines can be compared by: floats rounded, the order dropped where none was asked for."""
    rows = list(zip(*(column.to_pylist() for column in answer.columns), strict=True)) if _is_arrow(answer) else answer
    found = [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows]
    return found if ordered else sorted(found)


def _is_arrow(answer: Answer) -> TypeGuard[pa.Table]:
    return isinstance(answer, pa.Table)
