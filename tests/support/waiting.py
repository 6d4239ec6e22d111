"""Bounded waiting for something another process or thread does.

This is the only file under tests/ that may sleep. A test that has to wait says for what and how long at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, timeout: float, what: str, pause: float = 0.02) -> None:
    """Return as soon as the condition holds.

    Raises:
        TimeoutError: it did not hold within ``timeout`` seconds; the message says what was awaited.
    """
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            raise TimeoutError(f"waited {timeout:g} s for {what}")
        time.sleep(pause)
