"""What writers meant to do, noted outside the graph, and the one question to ask afterwards: does the graph agree?

A writer notes an operation *before* it starts and *after* it was acknowledged or definitely refused; each note is
synced to the disk, so it survives the writer. Values name their operation (``writer-17-op-42``), so no value is ever
added twice and a row says where it came from. Whoever dies or gets an unknown outcome simply writes no second note.

    ledger = Ledger(tmp_path / "writer-1.jsonl")
    value = name(writer=1, op=42)
    ledger.start(value, adds={"node:Person": [value]})
    graph.write(...)
    ledger.acknowledge(value, commit_id)

    assert violations(read(tmp_path / "writer-1.jsonl"), {"node:Person": snapshot_ids}) == []
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

#: Table → values in it. A value is the id of a row, or any column whose values are unique.
Values = Mapping[str, Sequence[str]]

State = Literal["started", "acknowledged", "refused"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One noted operation.

    Attributes:
        state: ``started`` means unknown: nobody heard how it ended.
        receipt: what the acknowledgement said, such as a commit id.
    """

    name: str
    adds: Values
    removes: Values = field(default_factory=dict)
    state: State = "started"
    receipt: str | None = None


class Ledger:
    """The notes of one writer. Several writers may share a file: each note is one appended line."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def start(self, operation: str, adds: Values, removes: Values | None = None) -> None:
        """Note what is about to be tried."""
        self._note({"start": operation, "adds": adds, "removes": removes or {}})

    def acknowledge(self, operation: str, receipt: str | None = None) -> None:
        """Note that the operation was reported as done."""
        self._note({"acknowledged": operation, "receipt": receipt})

    def refuse(self, operation: str) -> None:
        """Note that the operation was reported as *not* done. An unknown outcome gets no note at all."""
        self._note({"refused": operation})

    def _note(self, record: Mapping[str, object]) -> None:
        line = json.dumps(record).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            written = os.write(descriptor, line)
            assert written == len(line), "a note was written in part"
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def name(writer: int | str, op: int | str, row: int | None = None) -> str:
    """A value that says where it came from: ``writer-17-op-42`` or ``writer-17-op-42-row-3``."""
    return f"writer-{writer}-op-{op}" + (f"-row-{row}" if row is not None else "")


def read(*paths: str | os.PathLike[str]) -> list[Operation]:
    """Every operation of some ledgers, in the order in which each was started. A missing file has none."""
    found: dict[str, Operation] = {}
    for path in paths:
        lines = Path(path).read_text(encoding="utf-8").splitlines() if Path(path).exists() else []
        for line in lines:
            record = json.loads(line)
            if "start" in record:
                assert record["start"] not in found, f"operation {record['start']} was started twice"
                found[record["start"]] = Operation(record["start"], record["adds"], record["removes"])
            elif "acknowledged" in record:
                operation = found[record["acknowledged"]]
                found[operation.name] = replace(operation, state="acknowledged", receipt=record["receipt"])
            else:
                found[record["refused"]] = replace(found[record["refused"]], state="refused")
    return list(found.values())


def violations(operations: Iterable[Operation], present: Mapping[str, Iterable[str]]) -> list[str]:
    """Sentences about everything in the graph that the ledger does not explain; an empty list is the proof.

    Acknowledged means present exactly once, refused means absent, unknown means wholly one or the other, and every
    present value belongs to an operation. A removed value must be gone when its removal happened.

    Args:
        present: the values the graph shows now, for every table that any operation touched.
    """
    noted = list(operations)
    seen = {table: Counter(values) for table, values in present.items()}
    happened = {operation.name for operation in noted if _happened(operation, noted, seen)}
    expected: dict[str, Counter[str]] = {table: Counter() for table in seen}
    for operation in noted:
        if operation.name in happened:
            for table, values in operation.adds.items():
                expected.setdefault(table, Counter()).update(values)
    for operation in noted:
        if operation.name in happened:
            for table, values in operation.removes.items():
                for value in values:
                    expected.setdefault(table, Counter()).pop(value, None)
    return [sentence for table in sorted(expected) for sentence in _compare(table, expected[table], seen, noted)]


def _happened(operation: Operation, noted: list[Operation], seen: Mapping[str, Counter[str]]) -> bool:
    """Known from the note, or for an unknown outcome guessed from any one trace; `_compare` then wants all of them."""
    if operation.state != "started":
        return operation.state == "acknowledged"
    if any(seen.get(table, Counter())[value] for table, values in operation.adds.items() for value in values):
        return True
    others = [other for other in noted if other.name != operation.name]
    was_there = _pairs([other.adds for other in others if other.state == "acknowledged"])
    removed_elsewhere = _pairs([other.removes for other in others if other.state != "refused"])
    telling = (_pairs([operation.removes]) & was_there) - removed_elsewhere
    return any(not seen.get(table, Counter())[value] for table, value in telling)


def _pairs(some: Iterable[Values]) -> set[tuple[str, str]]:
    return {(table, value) for values in some for table in values for value in values[table]}


def _compare(table: str, expected: Counter[str], seen: Mapping[str, Counter[str]], noted: list[Operation]) -> list[str]:
    actual = seen.get(table, Counter())
    origin = {value: op for op in noted for value in op.adds.get(table, ())}
    found = []
    for value in sorted(set(expected) | set(actual)):
        if actual[value] == expected[value]:
            continue
        operation = origin.get(value)
        source = f"{operation.state} operation {operation.name}" if operation else "no operation"
        found.append(f"{table}: {value!r} of {source} is there {actual[value]} times, not {expected[value]}")
    return found
