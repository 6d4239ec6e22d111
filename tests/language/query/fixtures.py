"""Reads the text fixtures of this folder, for every suite that runs them.

schema.pg, data.jsonl   a small graph
reads.txt, writes.txt   queries on it with their outcome, three lines each: ``name [mode] parameters | remark``, the
                        query, the outcome as JSON. Mode ``=`` means rows in this order, ``~`` rows in any order.
extra.pg                more types for the cases of valid/ and invalid/
valid/, invalid/        a name, a text, and after ``=>`` what is expected of it
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omnigraph.schema import compile_schema
from omnigraph.schema.catalog import Catalog

HERE = Path(__file__).parent


@dataclass(frozen=True)
class QueryCase:
    """One case of reads.txt or writes.txt. ``mode`` is None for a write."""

    name: str
    mode: str | None
    params: dict[str, Any]
    remark: str
    query: str
    expected: Any

    def __str__(self) -> str:
        return f"{self.name} {self.remark}"


@dataclass(frozen=True)
class TextCase:
    """One case of valid/ or invalid/."""

    name: str
    text: str
    expected: str

    def __str__(self) -> str:
        return self.name


def read_cases() -> list[QueryCase]:
    return list(_three_lines("reads.txt"))


def write_cases() -> list[QueryCase]:
    return list(_three_lines("writes.txt"))


def _three_lines(file: str) -> Iterator[QueryCase]:
    lines = (HERE / file).read_text("utf-8").splitlines()
    for head, query, expected in zip(lines[0::3], lines[1::3], lines[2::3], strict=True):
        front, _, remark = head.partition(" | ")
        name, _, rest = front.partition(" ")
        mode = rest[0] if rest[0] in "=~" else None
        params = json.loads(rest[1:] if mode else rest)
        yield QueryCase(name, mode, params, remark, query.strip(), json.loads(expected))


def text_cases(folder: str) -> list[TextCase]:
    return list(_blocks(folder))


def _blocks(folder: str) -> Iterator[TextCase]:
    for path in sorted((HERE / folder).glob("*.txt")):
        for block in path.read_text("utf-8").split("### ")[1:]:
            name, _, rest = block.partition("\n")
            text, _, expected = rest.rpartition("\n=>")
            yield TextCase(f"{path.stem}: {name}", text, expected.strip())


@cache
def small_catalog() -> Catalog:
    """The schema of the small graph."""
    return compile_schema((HERE / "schema.pg").read_text("utf-8")).catalog


@cache
def wide_catalog() -> Catalog:
    """The schema of the small graph and the types of extra.pg."""
    texts = [(HERE / name).read_text("utf-8") for name in ("schema.pg", "extra.pg")]
    return compile_schema("\n".join(texts)).catalog
