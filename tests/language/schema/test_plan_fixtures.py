"""Schema changes, case by case. A case is text: a name, a change, and after ``=>`` what is planned for it.

plan/changes/    the accepted schema, ``->``, the desired schema; expected: one line a step, or the error
plan/examples/   edits of the library schema: a line to find, ``- `` a line to remove, ``+ `` a line to add there
plan/json/       as changes/; expected: one JSON object a step

A name that ends in ``(hard)`` is planned with data loss allowed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.errors import CatalogError, SchemaIdentityError
from omnigraph.schema import compile_schema
from omnigraph.schema.evolve import SchemaPlan, UnsupportedChange, plan_change
from tests.schema.library import LIBRARY

_HERE = Path(__file__).parent / "plan"


def cases(folder: str) -> list[object]:
    return list(_read_cases(folder))


def _read_cases(folder: str) -> Iterator[object]:
    for path in sorted((_HERE / folder).glob("*.txt")):
        for block in path.read_text("utf-8").split("### ")[1:]:
            name, _, rest = block.partition("\n")
            change, _, expected = rest.rpartition("\n=>")
            yield pytest.param(change, expected.strip(), name.endswith("(hard)"), id=f"{path.stem}: {name}")


@pytest.mark.parametrize(("change", "expected", "hard"), cases("changes"))
def test_change_is_planned(change: str, expected: str, hard: bool) -> None:
    before, after = change.split("\n->\n")
    assert _outcome(before, after, hard) == expected


@pytest.mark.parametrize(("change", "expected", "hard"), cases("examples"))
def test_change_of_the_library_is_planned(change: str, expected: str, hard: bool) -> None:
    assert _outcome(LIBRARY, edited(LIBRARY, change), hard) == expected


@pytest.mark.parametrize(("change", "expected", "hard"), cases("json"))
def test_step_has_its_json(change: str, expected: str, hard: bool) -> None:
    before, after = change.split("\n->\n")
    steps = _plan(before, after, hard).to_dict()["steps"]
    assert [json.dumps(step) for step in steps] == expected.splitlines()


def _outcome(before: str, after: str, hard: bool) -> str:
    try:
        plan = _plan(before, after, hard)
    except (SchemaIdentityError, CatalogError) as error:
        return f"error {error.line}:{error.column} {error.message}"
    return "\n".join(plan.lines())


def _plan(before: str, after: str, hard: bool) -> SchemaPlan:
    plan = plan_change(compile_schema(before), compile_schema(after), allow_data_loss=hard)
    refused = [step.message for step in plan.steps if isinstance(step, UnsupportedChange)]
    assert plan.supported == (not refused)
    assert plan.first_refusal() == (refused[0] if refused else None)
    return plan


def edited(text: str, edits: str) -> str:
    """The text after its edits; each is looked for below the one before it."""
    lines = text.splitlines()
    at = 0
    for edit in edits.splitlines():
        sign, line = edit[:2], edit[2:].strip()
        if sign == "+ ":
            lines.insert(at, line)
            at += 1
            continue
        at = next(number for number in range(at, len(lines)) if lines[number].strip() == line)
        if sign == "- ":
            del lines[at]
        else:
            at += 1
    return "\n".join(lines)
