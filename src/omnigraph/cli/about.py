"""`omnigraph version`, for command lines that the quick way in `main.py` does not recognise."""

from __future__ import annotations

import sys

import typer

from omnigraph.cli.flags import Accepts
from omnigraph.cli.verb import Scope, verb
from omnigraph.cli.version import version_text


def register(app: typer.Typer) -> None:
    @verb(app, "version", Accepts.NOTHING)
    def version(scope: Scope) -> None:
        """Print the version of the software and of the storage layout."""
        sys.stdout.write(version_text(long=True))
