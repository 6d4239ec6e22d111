"""Who carries the files of a copy that come as they are: this process, or Spark (`spark/copy_tasks.py`).

What is carried is compared with its source, wherever that runs. Nothing refers to these files before all of them are
there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias

from omnigraph.storage.objects.file_tree import FileTree
from omnigraph.storage.objects.object_store import Location


class Carried(StrEnum):
    """What became of a file."""

    COPIED = "copied"
    SAME = "same"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class CarriedFile:
    """A file that is to be in the copy.

    Attributes:
        is_there: the target has a file of this name and size; it is read, and copied when it differs.
    """

    path: str
    size: int
    is_there: bool


def carry_file(source: FileTree, target: FileTree, file: CarriedFile) -> Carried:
    """Bring one file; `FileTree.sync` makes it durable."""
    if file.is_there and target.is_same(source, file.path):
        return Carried.SAME
    return Carried.COPIED if target.copy(source, file.path, file.size) else Carried.GONE


class FileCarrier(Protocol):
    """Carries many files, and makes them durable."""

    def carry(self, files: Sequence[CarriedFile]) -> Sequence[Carried]:
        """What became of each, in their order."""


#: The carrier of so many files from one place to another; None when the process that asks does it itself.
FileCarriers: TypeAlias = Callable[[Location, Location, Sequence[CarriedFile]], FileCarrier | None]


def carried_here(source: Location, target: Location, files: Sequence[CarriedFile]) -> FileCarrier | None:
    """No other carrier, however many files there are."""
    return None
