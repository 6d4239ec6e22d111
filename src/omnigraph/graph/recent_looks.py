"""What the last look at the newest state found, for reads that were asked for before that look began.

A read shows a state that is no older than the moment at which it was asked for. Reads of a server wait in a line; a
look that begins while they wait finds such a state for all of them, so one look is enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar

from omnigraph.storage.metadata.manifest import ManifestSnapshot

#: When the read that runs here was asked for, by the monotonic clock; None is now.
ASKED: ContextVar[float | None] = ContextVar("omnigraph_asked", default=None)


class RecentLooks:
    """The last look, shared by the handles and threads of one open graph."""

    def __init__(self) -> None:
        self._last: tuple[str, float, ManifestSnapshot] | None = None

    def newest(self, branch: str, since: float | None, look: Callable[[], ManifestSnapshot]) -> ManifestSnapshot:
        """The newest state of a branch.

        Args:
            since: when it was asked for; None always looks.
            look: finds it in the storage.
        """
        last = self._last
        if since is not None and last is not None and last[1] >= since and last[0] == branch:
            return last[2]
        began = time.monotonic()
        found = look()
        if since is not None:
            self._last = branch, began, found
        return found
