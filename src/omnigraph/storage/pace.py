"""How many rows to read at a time when nobody knows how large they are: few at first, then as many as fit."""

from __future__ import annotations

from collections.abc import Iterator


class Pace:
    """Steps through a number of rows in batches of about as many bytes as allowed.

    Args:
        most: rows of a batch at most.
        bytes_: size of a batch at most, as far as the batches before allow to tell.
    """

    def __init__(self, most: int, bytes_: int) -> None:
        self._most = most
        self._bytes = bytes_
        self._step = max(1, most // 32)

    def steps(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Bounds of one batch after the other; say after each one with `took` how large it was."""
        while start < stop:
            end = min(start + self._step, stop)
            yield start, end
            start = end

    def took(self, rows: int, size: int) -> None:
        if rows:
            fitting = self._bytes * rows // max(size, 1)
            self._step = max(1, min(self._most, fitting, self._step * 8))
