"""Children that start quickly: Python in which pandas looks as if it were not installed.

pyarrow imports pandas with its first value whenever it can be found. That is a third of the start of a process, and
the suite starts hundreds that never make a data frame. Children that use Spark are started without this.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_CODE = "-c"


def run_module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module as ``python -m`` does; start it in the root of the repository."""
    return [sys.executable, "-m", __name__, name, *arguments]


def run_code(code: str, *arguments: str) -> list[str]:
    """The command that runs a text as ``python -c`` does; start it in the root of the repository."""
    return run_module(_CODE, code, *arguments)


class _WithoutPandas(PathFinder):
    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if fullname == "pandas" else super().find_spec(fullname, path, target)


def _main(name: str, *arguments: str) -> None:
    sys.meta_path[:] = [_WithoutPandas if finder is PathFinder else finder for finder in sys.meta_path]
    if name == _CODE:
        code, *arguments_of_code = arguments
        sys.argv[:] = [_CODE, *arguments_of_code]
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv[:] = [name, *arguments]
        runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main(*sys.argv[1:])
