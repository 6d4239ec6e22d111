"""What a load did."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa

from omnigraph.storage.metadata.manifest import Commit
from omnigraph.write.load.violations import write_rejects


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did.

    Attributes:
        commit: the one commit of the load; None when there was nothing to load.
        base_branch: branch that was named to fork from, if any.
        branch_created: the branch was made by this load.
        nodes, edges: records loaded by type name, before repeated ids are collapsed.
        rejects: records that were left out: ``file``, ``line``, ``type``, ``code``, ``reason`` and ``record``. The line
            is the row, from 1, where there are no lines: Parquet and rows in memory.
        left_out: files in directories that were passed over, because their suffix says nothing about what they hold.
        index_commit: the commit that brought the indexes up to date after a large load, if there was one.
        timings: seconds spent on ``read``, ``check``, ``commit`` and ``index``.
        engine: which engine did it: ``embedded`` or ``spark``.
    """

    commit: Commit | None
    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    nodes: dict[str, int]
    edges: dict[str, int]
    rejects: pa.Table = field(repr=False)
    actor: str | None = None
    index_commit: Commit | None = None
    timings: dict[str, float] = field(default_factory=dict)
    engine: str = "embedded"
    left_out: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Records loaded by ``node:<Type>`` and ``edge:<Type>``."""
        kinds = (("node", self.nodes), ("edge", self.edges))
        return {f"{kind}:{name}": count for kind, found in kinds for name, count in found.items()}

    @property
    def total(self) -> int:
        """Records loaded, of all types together."""
        return sum(self.nodes.values()) + sum(self.edges.values())

    def __repr__(self) -> str:
        rejected = f", {self.rejects.num_rows} rejected" if self.rejects.num_rows else ""
        types = f"{len(self.nodes)} node and {len(self.edges)} edge types"
        made = f"commit {self.commit.id}" if self.commit is not None else "no commit"
        return f"LoadResult({self.mode} on {self.branch}: {self.total} records of {types}{rejected}; {made})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that every interface shows."""
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "nodes": [{"name": name, "entities_loaded": count} for name, count in sorted(self.nodes.items())],
            "edges": [{"name": name, "entities_loaded": count} for name, count in sorted(self.edges.items())],
            "total_entities": self.total,
            "actor_id": self.actor,
            "commit": self.commit.to_dict() if self.commit else None,
        }

    def write_rejects(self, target: str | Path | TextIO) -> None:
        """Write the rejected records as JSON, one object a line."""
        if isinstance(target, str | Path):
            with open(target, "w", encoding="utf-8") as file:
                write_rejects(self.rejects, file)
        else:
            write_rejects(self.rejects, target)
