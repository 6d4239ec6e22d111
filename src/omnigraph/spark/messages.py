"""What tasks and driver tell each other: a few columns of text. Rows of the graph do not travel this way.

An input that is wrong is an answer of the task, not a failure, so that Spark does not try it four times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from omnigraph import errors
from omnigraph.errors import OmniGraphError
from omnigraph.write.load.violations import Violation

#: Answers of tasks: the number of what was asked, a word, and a JSON text.
ANSWER = pa.schema([("number", pa.int64()), ("word", pa.string()), ("body", pa.string())])
ANSWER_DDL = "number long, word string, body string"


@dataclass(frozen=True, slots=True)
class Answer:
    number: int
    word: str
    body: Any


def batch_of(answers: list[Answer]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "number": [each.number for each in answers],
            "word": [each.word for each in answers],
            "body": [json.dumps(each.body, separators=(",", ":")) for each in answers],
        },
        schema=ANSWER,
    )


def answers_of(rows: list[Any]) -> Iterator[Answer]:
    """Collected rows as answers."""
    for row in rows:
        yield Answer(row["number"], row["word"], json.loads(row["body"]))


def error_text(error: OmniGraphError) -> dict[str, Any]:
    return {"code": error.code, "message": error.message, "hint": error.hint, "details": _plain(error.details)}


def error_of(text: dict[str, Any]) -> OmniGraphError:
    """The same error on this side."""
    kind = _by_code().get(text["code"], errors.InternalError)
    error = kind.__new__(kind)
    OmniGraphError.__init__(error, text["message"], hint=text["hint"], **text["details"])
    return error


def violation_text(violation: Violation) -> dict[str, Any]:
    return {
        "file": violation.file,
        "line": violation.line,
        "key": violation.table_key,
        "error": error_text(violation.error),
        "record": violation.record,
    }


def violation_of(text: dict[str, Any]) -> Violation:
    return Violation(text["file"], text["line"], text["key"], error_of(text["error"]), text["record"])


@cache
def _by_code() -> dict[str, type[OmniGraphError]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OmniGraphError)]
    return {kind.code: kind for kind in kinds}


def _plain(value: Any) -> Any:
    """Details as JSON takes them."""
    plain: Any = json.loads(json.dumps(value, default=str))
    return plain
