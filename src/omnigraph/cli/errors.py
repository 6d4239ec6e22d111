"""From an error to what a person sees: one sentence, the place with a caret where there is one, a hint.

Never a stack trace, unless `--debug` asks for it. `UsageError` is for a command line that cannot be meant.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from omnigraph.errors import OmniGraphError, PreconditionFailed

FAILED = 1
MISUSED = 2
PRECONDITION = 4
INTERRUPTED = 130
PIPE_CLOSED = 141

_SHOWN_CONFLICTS = 20


class UsageError(Exception):
    """The command line cannot be meant; leaves with the exit code of a parse error."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Interrupted(Exception):
    """Ctrl-C, with what is known about the work that it stopped."""


def warn(text: str) -> None:
    sys.stderr.write(f"warning: {text}\n")


@contextlib.contextmanager
def reported(*, debug: bool) -> Iterator[None]:
    """Turn whatever goes wrong inside into a message and an exit code."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        forget_stdout()
        sys.exit(PIPE_CLOSED)
    except (KeyboardInterrupt, Interrupted) as stop:
        sys.stderr.write(f"\ninterrupted{f': {stop}' if str(stop) else ''}\n")
        sys.exit(INTERRUPTED)
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc()
        sys.stderr.write(described(error, debug=debug))
        sys.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    if isinstance(error, UsageError):
        return MISUSED
    return PRECONDITION if isinstance(error, PreconditionFailed) else FAILED


def described(error: Exception, *, debug: bool = False) -> str:
    """The lines for a person, each ended."""
    if isinstance(error, UsageError):
        return f"error: {error.message}\n" + (f"hint: {error.hint}\n" if error.hint else "")
    if isinstance(error, OmniGraphError):
        return _described(error)
    if isinstance(error, OSError) and error.strerror:
        return f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror}\n"
    hint = "" if debug else "hint: --debug shows where it happened\n"
    return f"error: this should not have happened: {type(error).__name__}: {_first_line(str(error))}\n{hint}"


def _described(error: OmniGraphError) -> str:
    details = error.details
    lines = [f"error: {error.message}"]
    if details.get("excerpt") and details.get("line"):
        place = f"{details.get('file') or '<text>'}:{details['line']}:{details['column']}"
        lines = [f"error: {place}: {error.message}", details["excerpt"]]
    lines += [f"  {line}" for line in _further(error)]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    return "\n".join(lines) + "\n"


def _further(error: OmniGraphError) -> list[str]:
    """What one error is made of: every conflict of a merge, the other kinds of bad records of a load."""
    conflicts = getattr(error, "conflicts", ())
    violations = list(error.details.get("violations") or ())[1:]
    return [
        *map(conflict_line, conflicts[:_SHOWN_CONFLICTS]),
        *([f"… and {len(conflicts) - _SHOWN_CONFLICTS} more"] if len(conflicts) > _SHOWN_CONFLICTS else []),
        *(f"also: {each['message']} ({each['file']}:{each['line']})" for each in violations),
    ]


def conflict_line(conflict: Any) -> str:
    return f"{conflict.kind}: {conflict.message}"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no message"


def forget_stdout() -> None:
    """The reader is gone: let the interpreter end without trying to write to it again."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
