"""What a run of `embed` did."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """What `Graph.embed` did.

    Attributes:
        embedded: rows whose vector the provider made in this run.
        reused: rows whose vector an interrupted run had made already.
        cleared: rows whose text is gone, and their vector with it.
        failed: rows whose text the provider refused; `stats(embeddings=True)` counts them by reason.
        skipped: rows that were changed or removed while they were embedded; the next run sees to them.
        characters: what was sent to the provider.
        commits: ids of the commits, oldest first.
        stopped: ``limit`` or ``budget`` when that ended the run, otherwise None.
        engine: ``spark`` when executors asked the provider.
    """

    branch: str
    model: str
    embedded: int
    reused: int
    cleared: int
    failed: int
    skipped: int
    characters: int
    commits: tuple[str, ...]
    stopped: str | None
    engine: str = "embedded"

    def __repr__(self) -> str:
        made = f"{self.embedded} rows embedded in {len(self.commits)} commits"
        ended = f"; stopped by the {self.stopped}" if self.stopped else ""
        return f"EmbedResult({made} on {self.branch}, {self.failed} failed{ended})"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {**asdict(self), "commits": list(self.commits)}
