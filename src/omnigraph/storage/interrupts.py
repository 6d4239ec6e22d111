"""Gives Ctrl-C back.

A library that calls back into Python, or looks for signals while it streams rows, wraps the interrupt into an error of
its own. Whoever catches errors of the libraries asks here first.
"""

from __future__ import annotations

import re

_INTERRUPTED = re.compile(
    r"\A(?:External error: |LanceError\(\w+\): )*KeyboardInterrupt\b|Python exception: .*^KeyboardInterrupt\b",
    re.DOTALL | re.MULTILINE,
)


def raise_interrupt(error: BaseException) -> None:
    """Raise KeyboardInterrupt if an error is nothing else; do nothing otherwise."""
    if _INTERRUPTED.search(str(error)):
        raise KeyboardInterrupt from None
