"""The words that arguments of public functions choose from, for type checkers. What they mean is said where they are
used."""

from __future__ import annotations

from typing import Literal, TypeAlias

#: How a graph is opened.
OpenMode: TypeAlias = Literal["rw", "ro"]

#: What a load does with ids that exist.
LoadMode: TypeAlias = Literal["append", "merge", "overwrite"]

#: Whether one bad row refuses a load, or is left out and reported.
OnBadRow: TypeAlias = Literal["fail", "reject"]

#: What a merging load does with properties that its input does not have.
AbsentColumns: TypeAlias = Literal["replace", "keep"]

#: What a load does with times finer than a millisecond.
TooFineTimes: TypeAlias = Literal["exact", "round"]

#: Formats of files that a load reads, and that an export writes.
LoadFormat: TypeAlias = Literal["jsonl", "json", "parquet", "csv"]
ExportFormat: TypeAlias = Literal["jsonl", "parquet", "csv"]

#: What a commit did.
CommitKind: TypeAlias = Literal[
    "init",
    "mutation",
    "load",
    "embed",
    "merge",
    "schema_change",
    "index_build",
    "optimize",
    "revert",
    "restore",
    "rename",
    "recovery",
    "repair",
    "cleanup",
]

#: What runs a load, a merge, upkeep or an embedding.
Engine: TypeAlias = Literal["auto", "embedded", "spark"]
