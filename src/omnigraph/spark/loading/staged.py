"""What the tasks of a load staged, as the driver knows it: metadata of fragments, lines of splits, violations.

The order of the input is the order of (part, split, row); every row of a type has a place in it, and the place leads
back to the file and line that the row came from.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from omnigraph.errors import OmniGraphError
from omnigraph.spark.loading.key_scan import StagedPiece
from omnigraph.spark.messages import FragmentStaged, RowRefused, SplitFailed, SplitRead, StagingMessage
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

    def take(self, part: int | None, splits: Sequence[int], messages: Iterable[StagingMessage]) -> None:
        """Add what tasks told.

        Args:
            part: part of all splits, or None when ``splits`` names the part of each.
        """

        def named(number: int) -> SplitId:
            return (part, number) if part is not None else (splits[number], number)

        done: dict[SplitId, Mapping[str, int]] = {}
        for message in messages:
            match message:
                case FragmentStaged():
                    self._add(named, message)
                case RowRefused():
                    self.found.setdefault(named(message.split), []).append(message.violation())
                case SplitFailed():
                    self.fatal[named(message.split)] = message.error.rebuilt()
                case SplitRead():
                    self.lines[named(message.split)] = message.lines
                    done[named(message.split)] = message.rows
        for split in sorted(done):
            for key in sorted(done[split]):
                self.counts[key] = self.counts.get(key, 0) + done[split][key]

    def _add(self, named: Callable[[int], SplitId], written: FragmentStaged) -> None:
        origins = tuple(RowOrigin(named(each.split), each.first, each.rows) for each in written.ranges)
        fragment = StagedFragment(written.fragment, written.rows, origins)
        self.fragments.setdefault(written.table_key, []).append(fragment)
        if not all(each.fresh_ids for each in written.ranges):
            self.stale.add(written.table_key)

    def settle(self) -> None:
        """Bring fragments into the order of the input, once all of them are known."""
        for key, fragments in self.fragments.items():
            fragments.sort(key=lambda each: (each.origins[0].split, each.origins[0].first))
            self._firsts[key] = list(accumulate((each.rows for each in fragments), initial=0))

    def refuse(self, request: LoadRequest) -> list[Violation]:
        """Raise what an embedded load of the same input raises while it reads; else the violations, in order."""
        most = request.reading.most
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

    def number_rows(self, part: int) -> None:
        """Number the violations of a DataFrame over all its partitions; until now each was numbered by itself."""
        for split, rows in self.found.items():
            before = self.lines_before(split)
            if split[0] == part and before:
                self.found[split] = [replace(each, line=each.line + before) for each in rows]

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
