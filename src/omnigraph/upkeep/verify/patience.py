"""Looks again before it speaks: some states are wrong only while a live writer passes through them."""

from __future__ import annotations

import time
from collections.abc import Callable

from omnigraph import limits
from omnigraph.upkeep.verify.report import Problem


def lasting(find: Callable[[], list[Problem]]) -> list[Problem]:
    """The problems that are still there after a while, as they were found at first and again each time."""
    found = find()
    for pause in limits.VERIFY_PATIENCE_SECONDS:
        if not found:
            break
        time.sleep(pause)
        again = set(find())
        found = [problem for problem in found if problem in again]
    return found
