"""Keeps the start of a command short. Only for processes that end with one command."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder


class _WithoutPandas(PathFinder):
    """Finds everything but pandas."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None) -> ModuleSpec | None:  # type: ignore[no-untyped-def]
        return None if fullname == "pandas" else super().find_spec(fullname, path, target)


def leave_out_pandas() -> None:
    """Make pandas look as if it were not installed.

    pyarrow imports it with its first value whenever it can be found, a quarter of a second for conversions that no
    command without Spark ever makes.
    """
    sys.meta_path[:] = [_WithoutPandas if finder is PathFinder else finder for finder in sys.meta_path]
