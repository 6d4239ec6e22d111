"""What is wrong with the input of a load: which record, where, and why.

A violation holds the error that a failing load raises. `Violations` chooses that error and, in its details, shows the
first violation of each kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TextIO

import pyarrow as pa

from omnigraph import limits
from omnigraph.errors import CheckViolation, ConflictError, EnumViolation, InvalidRowSet, OmniGraphError, RangeViolation

#: Order in which kinds are reported: what cannot be read or converted, then values, then rows together.
#: Ends of the names of sources whose records are counted as rows; a table in memory is called ``<Type>``.
_TABLES = (".parquet", ".pq", ">")

_VALUE_RULES = (RangeViolation, CheckViolation, EnumViolation)
_SET_RULES = (InvalidRowSet, ConflictError)

REJECTS = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("type", pa.string()),
        pa.field("code", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("record", pa.string(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One record that cannot be taken.

    Attributes:
        line: physical line of a text file, or row of a table, from 1.
        table_key: type of the record, if it got that far.
        record: the record as it was read, cut when it is very long.
    """

    file: str
    line: int
    table_key: str | None
    error: OmniGraphError
    record: str

    @property
    def stage(self) -> int:
        return 2 if isinstance(self.error, _SET_RULES) else 1 if isinstance(self.error, _VALUE_RULES) else 0

    @property
    def kind(self) -> tuple[str, str | None, Any]:
        return (self.error.code, self.table_key, self.error.details.get("property"))

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.error.code, "message": self.error.message, "file": self.file, "line": self.line}


def place_of(file: str, line: int) -> str:
    """Where a record is, for people."""
    return f"{file}, row {line}" if file.endswith(_TABLES) else f"{file}:{line}"


def cut(record: str) -> str:
    return record[: limits.LOAD_REJECT_CHARACTERS]


def failure(found: Iterable[Violation]) -> OmniGraphError:
    """The error of a load that fails: the first violation, with the first of each kind in its details."""
    ordered = sorted(enumerate(found), key=lambda each: (each[1].stage, each[0]))
    kinds: dict[Any, Violation] = {}
    for _, violation in ordered:
        kinds.setdefault(violation.kind, violation)
    shown = [violation.to_dict() for violation in list(kinds.values())[: limits.LOAD_SHOWN_VIOLATIONS]]
    return placed(ordered[0][1], shown)


def placed(violation: Violation, shown: list[dict[str, Any]]) -> OmniGraphError:
    """The error of a violation, saying at the end of its hint where: ``… (people.jsonl:3)``."""
    error = violation.error
    place = place_of(violation.file, violation.line)
    error.hint = f"{error.hint}; {place}" if error.hint else place
    for name in ("row", "first_row"):
        error.details.pop(name, None)
    error.details |= {"file": violation.file, "line": violation.line, "violations": shown}
    return error


def rejects_table(found: Iterable[Violation]) -> pa.Table:
    """Rejected records as a table: where, of which type, why, and the record itself."""
    rows = [
        {
            "file": each.file,
            "line": each.line,
            "type": each.table_key.partition(":")[2] if each.table_key else None,
            "code": each.error.code,
            "reason": each.error.message,
            "record": each.record,
        }
        for each in found
    ]
    return pa.Table.from_pylist(rows, schema=REJECTS)


def write_rejects(rejects: pa.Table, target: TextIO) -> None:
    """One JSON object per rejected record and line."""
    for batch in rejects.to_batches(max_chunksize=limits.RESULT_BATCH_ROWS):
        for row in batch.to_pylist():
            target.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
