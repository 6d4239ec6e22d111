"""From an error to what a person sees: one sentence, the place with a caret where there is one, a hint.

Never a stack trace, unless `--debug` asks for it. `UsageError` is for a command line that cannot be meant.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from omnigraph.cli.printing import compact
from omnigraph.errors import InternalError, MergeConflict, OmniGraphError, PreconditionFailed

FAILED = 1
MISUSED = 2
PRECONDITION = 4
INTERRUPTED = 130
PIPE_CLOSED = 141

_SHOWN_CONFLICTS = 20
_SHOWN_DECISIONS = 4
_RESOLVE = "settle each by one of its --resolve options, and other conflicts of rows by --resolve ours or theirs"

#: What goes wrong when nobody takes the output.
_LOST = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


class UsageError(Exception):
    """The command line cannot be meant; leaves with the exit code of a parse error."""

    code = "usage"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, Any] = {}


class Interrupted(Exception):
    """Ctrl-C, with what is known about the work that it stopped."""


def warn(text: str) -> None:
    sys.stderr.write(f"warning: {text}\n")


@contextlib.contextmanager
def reported(*, debug: bool, json: bool = False) -> Iterator[None]:
    """Turn whatever goes wrong inside into a message and an exit code.

    Args:
        json: the command prints JSON; then its error is a document on stdout as well.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is None and error.errno in _LOST:
            sys.exit(lost_output(error))
        _fail(error, debug, json)
    except (KeyboardInterrupt, Interrupted) as stop:
        sys.stderr.write(f"\ninterrupted{f': {stop}' if str(stop) else ''}\n")
        sys.exit(INTERRUPTED)
    except Exception as error:
        _fail(error, debug, json)


def _fail(error: Exception, debug: bool, json: bool) -> NoReturn:
    if debug:
        import traceback

        traceback.print_exc()
    if json:
        from omnigraph.cli.printing import print_json

        print_json(document(error))
    if json and isinstance(error, MergeConflict):  # the document has all of it
        sys.stderr.write(f"error: {error.message}\n")
    else:
        sys.stderr.write(described(error, debug=debug))
    sys.exit(exit_code(error))


def document(error: Exception) -> dict[str, Any]:
    """An error as ``--json`` prints it. ``error`` is the sentence, as in the answers of a server."""
    if not isinstance(error, OmniGraphError | UsageError):
        return {"error": _plain(error), "code": InternalError.code, "hint": None, "details": {}}
    hint = _hint(_place_and_hint(error)[1])
    shown = {"error": error.message, "code": error.code, "hint": hint, "details": error.details}
    if isinstance(error, PreconditionFailed):
        shown["precondition_failure"] = {key: error.details.get(key) for key in ("expected", "actual")}
    return shown


def misused(error: Any, *, json: bool) -> int:
    """Show what typer says about a command line, and how the graph is addressed if that went wrong; the exit code."""
    error.show()
    said = error.format_message()
    lost = said.startswith("Got unexpected extra argument") or "--uri" in said
    hint = "--store URI says which graph is meant" if lost else None
    if said.startswith("Option '--graph' requires"):
        hint = "--graph is for the graphs of a server; 'commit list --draw' draws a history"
    if json and said:
        from omnigraph.cli.printing import print_json

        print_json(document(UsageError(said, hint=hint)))
    sys.stderr.write(f"hint: {hint}\n" if hint else "")
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
    if isinstance(error, OmniGraphError | UsageError):
        return _described(error)
    is_bug = not (isinstance(error, OSError) and error.strerror)
    hint = "hint: --debug shows where it happened\n" if is_bug and not debug else ""
    return f"error: {_plain(error)}\n{hint}"


def _plain(error: Exception) -> str:
    """One sentence about an error that is none of ours."""
    if isinstance(error, OSError) and error.strerror:
        return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror}"
    return f"this should not have happened: {type(error).__name__}: {_first_line(str(error))}"


def _described(error: OmniGraphError | UsageError) -> str:
    details = error.details
    place, hint = _place_and_hint(error)
    lines = [f"error: {error.message}"]
    if details.get("excerpt") and details.get("line"):
        lines = [f"error: {place}: {error.message}", details["excerpt"]]
    elif place:
        said_twice = f"line {details.get('line')}: "
        lines = [f"error: {place}: {error.message.removeprefix(said_twice)}"]
    lines += [f"  {line}" for line in _further(error)]
    if hint:
        lines.append(f"hint: {_hint(hint)}")
    return "\n".join(lines) + "\n"


def _place_and_hint(error: OmniGraphError | UsageError) -> tuple[str | None, str | None]:
    """Where an error is, and what to do. A load says at the end of its hint where it failed."""
    details = error.details
    if getattr(error, "conflicts", ()):
        return None, _RESOLVE
    if details.get("excerpt") and details.get("line"):
        return f"{details.get('file') or '<text>'}:{details['line']}:{details['column']}", error.hint
    rest, _, place = (error.hint or "").rpartition("; ")
    return (place, rest) if details.get("file") and place.startswith(details["file"]) else (None, error.hint)


def _hint(hint: str | None) -> str | None:
    if not hint:
        return None
    from omnigraph.cli.hints import in_cli_words

    return in_cli_words(hint)


def _further(error: OmniGraphError | UsageError) -> list[str]:
    """What one error is made of: every conflict of a merge, the other kinds of bad records of a load."""
    conflicts = getattr(error, "conflicts", ())
    violations = list(error.details.get("violations") or ())[1:]
    return [
        *(line for each in conflicts[:_SHOWN_CONFLICTS] for line in conflict_lines(each)),
        *([f"… and {len(conflicts) - _SHOWN_CONFLICTS} more"] if len(conflicts) > _SHOWN_CONFLICTS else []),
        *(f"also: {each['message']} ({each['file']}:{each['line']})" for each in violations),
    ]


def conflict_lines(conflict: Any) -> list[str]:
    """A conflict, its rows as they were and as the two sides have them, and the options that settle it."""
    images = {name: getattr(conflict, name) for name in ("base", "ours", "theirs")}
    shown = conflict.to_dict()
    return [
        f"{conflict.kind}: {conflict.message}",
        *(f"  {name}: {compact(shown[name])}" for name in images if any(each is not None for each in images.values())),
        *(f"  --resolve {decision}" for decision in conflict.settled_by[:_SHOWN_DECISIONS]),
    ]


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no message"


def forget_stdout() -> None:
    """The reader is gone: let the interpreter end without trying to write to it again."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
