"""What the tasks of a load staged, as the driver knows it: metadata of fragments, lines of splits, violations.

The order of the input is the order of (part, split, row); every row of a type has a place in it, and the place leads
back to the file and line that the row came from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from omnigraph import limits
from omnigraph.errors import OmniGraphError
from omnigraph.spark.key_task import StagedPiece
from omnigraph.spark.messages import Answer, error_of, violation_of
from omnigraph.write.load.gather import LoadRequest, OnError, give_up
from omnigraph.write.load.violations import Violation, failure

#: Part and number of a split.
SplitId = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """Consecutive rows of one split in a fragment: where they begin among the rows of their type in that split."""

    split: SplitId
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class StagedFragment:
    """A staged fragment and where its rows came from."""

    text: str
    rows: int
    origins: tuple[RowOrigin, ...]


@dataclass(slots=True)
class Staging:
    """Everything that was staged for one load."""

    files: list[str]
    fragments: dict[str, list[StagedFragment]] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)
    lines: dict[SplitId, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    found: dict[SplitId, list[Violation]] = field(default_factory=dict)
    fatal: dict[SplitId, OmniGraphError] = field(default_factory=dict)
    _firsts: dict[str, list[int]] = field(default_factory=dict)

    @property
    def keys(self) -> list[str]:
        """Table keys in the order of the input."""
        return list(self.counts)

    @property
    def fresh(self) -> set[str]:
        return set(self.counts) - self.stale

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    def take(self, part: int | None, splits: Sequence[int], answers: Iterable[Answer]) -> None:
        """Add what tasks answered.

        Args:
            part: part of all splits, or None when ``splits`` names the part of each.
        """

        def named(number: int) -> SplitId:
            return (part, number) if part is not None else (splits[number], number)

        done: dict[SplitId, dict[str, int]] = {}
        for answer in answers:
            split, body = named(answer.number), answer.body
            match answer.word:
                case "fragment":
                    self._add(named, body)
                case "violation":
                    self.found.setdefault(split, []).append(violation_of(body))
                case "fatal":
                    self.fatal[split] = error_of(body)
                case "done":
                    self.lines[split] = body["lines"]
                    done[split] = body["rows"]
        for split in sorted(done):
            for key in sorted(done[split]):
                self.counts[key] = self.counts.get(key, 0) + done[split][key]

    def _add(self, named: Any, body: Mapping[str, Any]) -> None:
        key = body["key"]
        origins = tuple(RowOrigin(named(split), first, rows) for split, first, rows, _ in body["pieces"])
        self.fragments.setdefault(key, []).append(StagedFragment(body["fragment"], body["rows"], origins))
        if not all(fresh for *_, fresh in body["pieces"]):
            self.stale.add(key)

    def settle(self) -> None:
        """Bring fragments into the order of the input, once all of them are known."""
        for key, fragments in self.fragments.items():
            fragments.sort(key=lambda each: (each.origins[0].split, each.origins[0].first))
            self._firsts[key] = list(accumulate((each.rows for each in fragments), initial=0))

    def refuse(self, request: LoadRequest) -> list[Violation]:
        """Raise what an embedded load of the same input raises while it reads; else the violations, in order."""
        most = most_violations(request)
        gathered: list[Violation] = []
        for split in sorted({*self.found, *self.fatal}):
            gathered += self.found.get(split, [])
            if len(gathered) >= most:
                raise give_up(request, gathered)
            if split in self.fatal:
                raise self.fatal[split]
        if gathered and request.on_error is OnError.FAIL:
            raise failure(gathered)
        return gathered

    def lines_before(self, split: SplitId) -> int:
        """Lines of the same part that earlier splits hold."""
        part, number = split
        return sum(count for (other, at), count in self.lines.items() if other == part and at < number)

    def pieces(self, key: str, dropped: Mapping[int, Sequence[int]]) -> list[StagedPiece]:
        """The fragments of a type for tasks, without rows that are left out (offsets by number of the fragment)."""
        return [
            StagedPiece(key, each.text, each.rows, self._firsts[key][number], tuple(dropped.get(number, ())))
            for number, each in enumerate(self.fragments.get(key, ()))
        ]

    def address(self, key: str, place: int) -> tuple[int, int]:
        """Number of the fragment and offset of the row at a place."""
        number = bisect_right(self._firsts[key], place) - 1
        return number, place - self._firsts[key][number]

    def origin(self, key: str, place: int) -> tuple[SplitId, int]:
        """The split a row came from, and which row of its type it was there."""
        number, offset = self.address(key, place)
        for origin in self.fragments[key][number].origins:
            if offset < origin.rows:
                return origin.split, origin.first + offset
            offset -= origin.rows
        raise AssertionError("a place outside its fragment")


def most_violations(request: LoadRequest) -> int:
    """Bad rows after which a load stops looking."""
    return request.tolerated + 1 if request.on_error is OnError.REJECT else limits.LOAD_COUNTED_VIOLATIONS
