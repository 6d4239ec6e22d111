"""From an error to what a person sees: one sentence, the place with a caret where there is one, a hint.

Never a stack trace, unless `--debug` asks for it. `UsageError` is for a command line that cannot be meant.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from omnigraph.errors import OmniGraphError, PreconditionFailed

FAILED = 1
MISUSED = 2
PRECONDITION = 4
INTERRUPTED = 130
PIPE_CLOSED = 141

_SHOWN_CONFLICTS = 20

#: What goes wrong when nobody takes the output.
_LOST = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})

#: Arguments of Python calls that options of the same name stand for.
_ARGUMENT = re.compile(
    r"\b(?P<name>type|format|engine|branch|on_error|max_rejects)=(?P<quote>'?)(?P<value>\w*)(?P=quote)"
)


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
    except OSError as error:
        if error.filename is None and error.errno in _LOST:
            sys.exit(lost_output(error))
        _fail(error, debug)
    except (KeyboardInterrupt, Interrupted) as stop:
        sys.stderr.write(f"\ninterrupted{f': {stop}' if str(stop) else ''}\n")
        sys.exit(INTERRUPTED)
    except Exception as error:
        _fail(error, debug)


def _fail(error: Exception, debug: bool) -> NoReturn:
    if debug:
        import traceback

        traceback.print_exc()
    sys.stderr.write(described(error, debug=debug))
    sys.exit(exit_code(error))


def misused(error: Any) -> int:
    """Show what typer says about a command line, and how the graph is addressed if that went wrong; the exit code."""
    error.show()
    said = error.format_message()
    if said.startswith("Got unexpected extra argument") or "--uri" in said:
        sys.stderr.write("hint: --store URI says which graph is meant\n")
    return int(error.exit_code)


def lost_output(error: OSError) -> int:
    """Say that the output could not be written, unless its reader simply went away; the exit code."""
    forget_stdout()
    if isinstance(error, BrokenPipeError):
        return PIPE_CLOSED
    with contextlib.suppress(OSError):
        sys.stderr.write(f"error: cannot write the output: {error.strerror or error}\n")
    return FAILED


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
    details, hint = error.details, error.hint
    lines = [f"error: {error.message}"]
    if details.get("excerpt") and details.get("line"):
        place = f"{details.get('file') or '<text>'}:{details['line']}:{details['column']}"
        lines = [f"error: {place}: {error.message}", details["excerpt"]]
    elif details.get("file") and details.get("line"):
        hint, _, place = (hint or "").rpartition("; ")  # a load says at the end of its hint where it failed
        said_twice = f"line {details['line']}: "
        lines = [f"error: {place}: {error.message.removeprefix(said_twice)}"]
    lines += [f"  {line}" for line in _further(error)]
    if hint:
        lines.append(f"hint: {_ARGUMENT.sub(_as_option, hint)}")
    return "\n".join(lines) + "\n"


def _as_option(argument: re.Match[str]) -> str:
    """A hint for callers in Python, in the words of the command line: ``engine='spark'`` → ``--engine spark``."""
    name, value = argument["name"].replace("_", "-"), argument["value"]
    return f"--{name} {value or name.upper()}"


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
