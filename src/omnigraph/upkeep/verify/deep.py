"""Every value of every data file against the digest that was recorded with its commit. A file is read once, however
many branches show it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from omnigraph.storage.inspect import DAMAGE, damage_of
from omnigraph.storage.inspect_values import DataFile, data_files, recorded_digests
from omnigraph.storage.manifest import Pin
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.store import GraphStore
from omnigraph.storage.value_process import ValueProcess
from omnigraph.upkeep.verify.report import Ledger

DIGESTS = "digests"

#: The checks of a deep look, by name.
CHECKS = {DIGESTS: "every value of every data file is the one that was written"}


class DeepCheck:
    """Checks branches one after the other, main first: branches may show its files, and it has their digests.

    Attributes:
        damaged: tables that hold something else than what was written. Nothing more can be said about their rows.
    """

    def __init__(self, store: GraphStore, ledger: Ledger) -> None:
        self._store = store
        self._ledger = ledger
        self._recorded: dict[str, str] = {}
        self._damage: dict[tuple[str, tuple[tuple[str, int], ...]], str | None] = {}
        self._process = ValueProcess(store.location)
        self.damaged: set[Pin] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.__exit__(kind, error, trace)

    def tables(self, snapshot: Snapshot) -> None:
        """Every table that a branch shows."""
        with self._ledger.looking_at(DIGESTS, 0):
            try:
                self._recorded |= recorded_digests(snapshot.handle)
            except DAMAGE as error:
                self._ledger.add(DIGESTS, snapshot.branch, None, f"its digests cannot be read: {damage_of(error)}")
        for pin in snapshot.pins.values():
            self._table(snapshot.branch, pin)

    def _table(self, branch: str, pin: Pin) -> None:
        try:
            files = data_files(self._store.tables.fresh(pin.location, pin.branch, pin.version))
        except DAMAGE:
            return  # the check of the pins says so
        new = [file for file in files if (file.name, file.columns) not in self._damage]
        for file in new:
            with self._ledger.looking_at(DIGESTS):
                damage = self._damage[file.name, file.columns] = self._damage_of(pin, file)
            if damage is not None:
                self._ledger.add(DIGESTS, branch, pin.table_key, f"the file {file.name} {damage}")
        if any(self._damage[file.name, file.columns] is not None for file in files):
            self.damaged.add(pin)
        uncovered = sum(file.recorded(self._recorded) is None for file in new)
        if uncovered:
            message = f"{uncovered} of {len(files)} data files are not covered: no digest was recorded for them"
            self._ledger.add(DIGESTS, branch, pin.table_key, message, harmless=True)

    def _damage_of(self, pin: Pin, file: DataFile) -> str | None:
        """Why the values of a file are not those that were written; without a digest, why they cannot be read."""
        try:
            found = self._process.digests(pin, file)
        except DAMAGE as error:
            return f"cannot be decoded: {damage_of(error)}"
        recorded = file.recorded(self._recorded)
        if recorded is None or found == recorded:
            return None
        wrong = [name for (name, _), *two in zip(file.columns, found, recorded, strict=True) if two[0] != two[1]]
        return f"does not hold what was written in {', '.join(map(repr, wrong))}"
