"""The executable `omnigraph`. Prints the version by itself; everything else is built and run by `app.py`."""

import sys


def main() -> None:
    """Run one command and leave with its exit code."""
    words = sys.argv[1:]
    if words[:1] in (["-v"], ["--version"]) or words == ["version"]:
        from omnigraph.cli.version import version_text

        sys.stdout.write(version_text(long=words[0] == "version"))
        return
    try:
        from omnigraph.cli.app import run
    except KeyboardInterrupt:
        sys.exit(130)
    run(words)
