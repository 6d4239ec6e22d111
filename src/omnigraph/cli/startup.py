"""Keeps the start of a command short, in processes that end with one command.

`benchmarks/cli.py` measures what each function here saves; one that saves less than a twentieth of a command goes.
"""

from __future__ import annotations

import sys
from enum import Enum
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

import typer

#: Spellings of the flag that shows help.
HELP = ["-h", "--help"]


class _WithoutPandas(PathFinder):
    """The path finder of Python, for which pandas does not exist."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None) -> ModuleSpec | None:  # type: ignore[no-untyped-def]
        return None if fullname == "pandas" else super().find_spec(fullname, path, target)


def leave_out_pandas() -> None:
    """Make pandas look as if it were not installed.

    pyarrow imports it with its first value whenever it can be found, a quarter of a second for conversions that no
    command without Spark ever makes.
    """
    sys.meta_path[:] = [_WithoutPandas if finder is PathFinder else finder for finder in sys.meta_path]


def leave_out_pydantic(command: Any) -> None:
    """Let the words of a command line be taken as they are.

    Typer hands every value to pydantic, also one that is missing, and importing that costs a tenth of a second. Text,
    choices and missing values need no help; whatever else there is goes typer's way. Where a later typer does not look
    for this attribute, everything works and is merely slower.
    """
    settings = typer.Context(command, help_option_names=HELP)
    for parameter in command.get_params(settings):
        parameter._runtime_param = _AsTyped()
    for each in getattr(command, "commands", {}).values():
        leave_out_pydantic(each)


def _choice(wanted: type[Enum], value: Any) -> Enum:
    known = [str(each.value) for each in wanted]
    if value not in known:
        raise typer.BadParameter(f"'{value}' is not one of {', '.join(map(repr, known))}")
    return wanted(value)


class _AsTyped:
    """Makes the value of a parameter from what was typed."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        wanted = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(value, Enum) or (wanted is str and isinstance(value, str)):
            return value
        if wanted == list[str] and isinstance(value, list | tuple):
            return list(value)
        if isinstance(wanted, type) and issubclass(wanted, Enum):
            return _choice(wanted, value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
