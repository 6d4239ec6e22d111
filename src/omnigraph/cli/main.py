"""The executable `omnigraph`. Prints the version by itself; every other command is built and run by `app.py`."""

import gc
import os
import sys

from omnigraph import __version__, limits


def main() -> None:
    """Run one command and leave with its exit code."""
    _open_closed_streams()
    words = sys.argv[1:]
    try:
        if words[:1] in (["-v"], ["--version"]) or words == ["version"]:
            sys.stdout.write(version_text(long=words[0] == "version"))
        else:
            collect_rarely()
            from omnigraph.cli.app import run

            run(words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        from omnigraph.cli.error_text import lost_output

        sys.exit(lost_output(error))
    finally:
        leave_garbage()


def collect_rarely() -> None:
    """Let the garbage collector of Python wait for more objects: what is imported is no garbage, and looking through it
    again and again takes a twelfth of a short command."""
    gc.set_threshold(100_000)


def leave_garbage() -> None:
    """Spare the end of the process its last looks through every object: the memory goes back as a whole."""
    gc.freeze()


def _open_closed_streams() -> None:
    """Give a process that was started with closed streams new ones that lead to the null device.

    Otherwise the next file that is opened takes the number of the closed one, and a message could end up inside it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def version_text(*, long: bool) -> str:
    """One line with the software; with ``long`` a second one with the stamp of the storage layout."""
    software = f"omnigraph {__version__}\n"
    return f"{software}internal-schema {limits.INTERNAL_SCHEMA_VERSION}\n" if long else software
