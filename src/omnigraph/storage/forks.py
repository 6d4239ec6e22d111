"""Keeps the storage libraries out of processes in which they cannot work.

Threads do not survive a fork, and those behind Lance and obstore are waited for by whoever uses them next: forever.
So a process that was forked after they had been used is told so. One that was forked before may use them.
"""

from __future__ import annotations

import os

from omnigraph.errors import ForkedProcess

_used = False
_is_forked = False


def use_storage() -> None:
    """Call before the libraries are used.

    Raises:
        ForkedProcess: they were used before this process was forked.
    """
    global _used
    if _is_forked:
        raise ForkedProcess(
            "this process was forked from one that had used the storage libraries, whose threads do not survive a fork",
            hint="start a new process (spawn)",
        )
    _used = True


def is_forked() -> bool:
    """Whether the storage libraries were used before this process was forked."""
    return _is_forked


def _after_fork() -> None:
    global _is_forked
    _is_forked = _used


os.register_at_fork(after_in_child=_after_fork)
