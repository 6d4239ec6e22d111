"""Errors of tasks → errors of this package. Spark tells the driver only the text of what a task raised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph import errors
from omnigraph.errors import InternalError, OmniGraphError

_OURS = re.compile(r"^(?:\w+\.)*omnigraph\.errors\.(\w+): (.*)$", re.MULTILINE)


@contextmanager
def job_errors(what: str) -> Iterator[None]:
    """Run a job; an error of ours that a task raised comes out as itself, any other as one sentence."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as failure:
        raise task_error(what, str(failure)) from failure


def task_error(what: str, text: str) -> OmniGraphError:
    """The error behind the text of a failed job."""
    for name, message in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, OmniGraphError):
            found = kind.__new__(kind)
            OmniGraphError.__init__(found, message)
            return found
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason was given")
    return InternalError(f"the Spark {what} failed: {first[:200]}")
