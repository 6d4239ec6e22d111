"""Processes that a test starts and never leaves behind."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.support.source_tree import ROOT


@contextmanager
def running(
    command: Sequence[str], env: Mapping[str, str], *, reads_output: bool = True, takes_input: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """A child in the root of the repository; whatever happens in the block, it is gone afterwards."""
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, **env},
        stdin=subprocess.PIPE if takes_input else None,
        stdout=subprocess.PIPE if reads_output else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
