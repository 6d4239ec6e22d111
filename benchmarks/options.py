"""What one run measures, how large, and where its files go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: No engine may use more threads than this, so that nobody wins by taking the whole machine.
THREADS = 2

#: What the libraries behind OmniGraph read when they start their thread pools.
THREAD_VARIABLES = ("LANCE_CPU_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS", "TOKIO_WORKER_THREADS")


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of one run.

    Attributes:
        place: folder for everything a run writes.
        scale: 1.0 is the size that the goals are about; less is for trying things out.
        full: also measure what takes long, such as a history of 1,000 commits on S3.
    """

    place: Path
    scale: float = 1.0
    full: bool = False

    def size(self, whole: int, least: int) -> int:
        """A size at this scale, but never less than makes sense."""
        return max(least, round(whole * self.scale))


def limit_threads() -> None:
    """Hold this process and its children to `THREADS`. Call it before the engines are imported."""
    for name in THREAD_VARIABLES:
        os.environ[name] = str(THREADS)


def limit_arrow() -> None:
    """The same for Arrow, which is told by a call."""
    import pyarrow as pa

    pa.set_cpu_count(THREADS)
    pa.set_io_thread_count(THREADS)
