"""Keeps the storage libraries out of processes in which they cannot work, and within bounds where they can.

Threads do not survive a fork, and those behind Lance and obstore are waited for by whoever uses them next: forever.
So a process that was forked after they had been used is told so. One that was forked before may use them.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from omnigraph.errors import ForkedProcess

_ARENA_MAX = -8  # M_ARENA_MAX of malloc.h

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
    if not _used:
        _used = True
        _bound_arenas()


def _bound_arenas() -> None:
    """One region of the C library's memory per processor.

    By default it makes eight, one for each thread of the libraries as they come, and hardly returns anything from them:
    a process that commits all day grows by that. Whoever set a number is left alone.
    """
    mallopt = _of_the_c_library("mallopt")
    if mallopt is not None and not {"MALLOC_ARENA_MAX", "GLIBC_TUNABLES"} & os.environ.keys():
        mallopt(_ARENA_MAX, max(2, os.cpu_count() or 1))


def return_memory() -> None:
    """Give back to the system what the C library keeps of memory that nobody uses. Takes some milliseconds."""
    malloc_trim = _of_the_c_library("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


def _of_the_c_library(name: str) -> Any | None:
    """A function that only the GNU C library has; None elsewhere."""
    return getattr(ctypes.CDLL(None), name, None)


def is_forked() -> bool:
    """Whether the storage libraries were used before this process was forked."""
    return _is_forked


def _after_fork() -> None:
    global _is_forked
    _is_forked = _used


os.register_at_fork(after_in_child=_after_fork)
